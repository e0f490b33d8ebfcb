"""Checks shared by the statistical tests; each is also fed a wrong law, which it must reject."""

import numpy as np
from scipy import stats

PASSES, REJECTED = 1e-3, 1e-9  # p-values; seeds are fixed, so a verdict never changes


def variance_p_value(draws, variance):
    """Return the two-sided p-value for independent centred normals of this variance."""
    statistic = float(np.sum(np.square(draws, dtype=float))) / float(variance)
    tail = stats.chi2.cdf(statistic, np.size(draws))
    return 2 * min(tail, 1 - tail)


def mean_p_value(draws, mean):
    """Return the two-sided p-value for independent draws with this mean (central limit theorem)."""
    draws = np.asarray(draws, dtype=float)
    z = (draws.mean() - mean) / (draws.std(ddof=1) / np.sqrt(draws.size))
    return 2 * stats.norm.sf(abs(z))


def equal_shares_p_value(first, second):
    """Return the two-sided p-value for two samples of bits with the same probability of a 1."""
    table = [[np.sum(bits), np.size(bits) - np.sum(bits)] for bits in (first, second)]
    return stats.chi2_contingency(table).pvalue


def correlation_p_value(draws):
    """Return the p-value for (n, p) draws with independent columns: the largest correlation."""
    n, p = draws.shape
    correlations = np.corrcoef(draws, rowvar=False)[np.tril_indices(p, -1)]
    pairs = len(correlations)
    return min(1.0, 2 * pairs * stats.norm.sf(np.abs(correlations).max() * np.sqrt(n)))
