"""Warnings about the number of rows and the means, if they are below the noise level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.analysis.intervals import CONFIDENCE_LEVEL, means_below, tailed, too_uncertain
from dpcov.core.printable import listed
from dpcov.estimate import Estimate

if TYPE_CHECKING:
    from dpcov.releases import Release

# Largest number of columns that a warning names.
MAX_WARNED_NAMES = 3
TAIL_WARNING = (
    "No private release can show whether a few rows lie far from all others. Such rows in one "
    "column can put the variances of {names} outside their intervals. {limits}"
)


def noise_warnings(release: Release) -> tuple[str, ...]:
    """Return warnings about a row count or means that are below the noise level.

    A row count is below the noise level if the standard deviation of its noise exceeds a tenth of
    the count. A mean is below the noise level in either of two cases:

    - The standard deviation of its noise exceeds a tenth of the width of its bounds.
    - The noise hides the norms of most rows, so the clipping bias is unknown.

    Parameters
    ----------
    release : Release
        Release to check.

    Returns
    -------
    tuple of str
        One sentence for each warning. If the release contains no means, one sentence gives the
        reason. If the noise distribution is unknown, the only possible warning is that no rows
        remain.

    See Also
    --------
    dpcov.intervals : Intervals for means and covariances.
    dpcov.correlation_standard_errors : Standard errors of the correlations.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.linspace(0, 1, 5000)[:, None]
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.noise_warnings(release)
    ()

    """
    if release.sums_alone is None and (reason := release.reasons.directions):
        return (reason,)
    if not release.has_intercept:
        return ()
    count = release.count()
    if count <= 0:
        return (
            "The number of rows is below the noise level: none is left, so means and covariances "
            "say nothing.",
        )
    if not release.knows_noise:
        return ()
    estimate = Estimate.of(release)
    of_count, of_means = estimate.noise_deviations
    found = []
    if too_uncertain(of_count, count):
        found.append(
            f"The number of rows is below the noise level: it is stated as {count:.0f}, with a "
            f"standard deviation of {of_count:.0f}. Covariances are per row; correlations don't "
            "need it."
        )
    blind = release.clipped and estimate.hides_norms
    below = means_below(estimate, of_means)
    names = [name for name, flagged in zip(release.columns, below, strict=True) if flagged]
    if names:
        why = (
            "the noise hides the norms of most rows, so the clipping bias is unknown."
            if blind
            else "the standard deviation of the noise is above a tenth of the width of the bounds."
        )
        found.append(
            f"The means of {listed(names, MAX_WARNED_NAMES)} are below the noise level: {why}"
        )
    return (*found, *tail_warnings(release))


def tail_warnings(release: Release) -> tuple[str, ...]:
    """Return a warning with the variances that depend on a tail that no release can show.

    There is no warning if the noise hides the norms of most rows.
    """
    estimate = Estimate.of(release)
    if release.lengths is None or estimate.hides_norms:
        return ()
    names = [name for name, tail in zip(release.columns, tailed(release), strict=True) if tail]
    limits = estimate.clipping.limits_in_words(CONFIDENCE_LEVEL)
    return (
        (TAIL_WARNING.format(names=listed(names, MAX_WARNED_NAMES), limits=limits),)
        if names
        else ()
    )
