"""Checks shared by the statistical tests; each is also fed a wrong law, which it must reject."""

import numpy as np
from scipy import stats

PASSES, REJECTED = 1e-3, 1e-9  # p-values; seeds are fixed, so a verdict never changes


def variance_p_value(draws, variance):
    """Two-sided p-value for independent centred normals of this variance."""
    statistic = float(np.sum(np.square(draws, dtype=float))) / float(variance)
    tail = stats.chi2.cdf(statistic, np.size(draws))
    return 2 * min(tail, 1 - tail)


def mean_p_value(draws, mean):
    """Two-sided p-value for independent draws with this mean, of any law (central limit)."""
    draws = np.asarray(draws, dtype=float)
    z = (draws.mean() - mean) / (draws.std(ddof=1) / np.sqrt(draws.size))
    return 2 * stats.norm.sf(abs(z))


def equal_shares_p_value(first, second):
    """Two-sided p-value for two samples of bits having the same probability of a 1."""
    table = [[np.sum(bits), np.size(bits) - np.sum(bits)] for bits in (first, second)]
    return stats.chi2_contingency(table).pvalue


def correlation_p_value(draws):
    """P-value for (n, p) draws having independent columns: the largest correlation of all."""
    n, p = draws.shape
    correlations = np.corrcoef(draws, rowvar=False)[np.tril_indices(p, -1)]
    pairs = len(correlations)
    return min(1.0, 2 * pairs * stats.norm.sf(np.abs(correlations).max() * np.sqrt(n)))
