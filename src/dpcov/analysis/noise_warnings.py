"""Warnings about the number of rows and the means, if they are below the noise level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.below_noise import too_uncertain
from dpcov.analysis.plausible_sums import plausible
from dpcov.core.entropy import reading_generator
from dpcov.denoise.clipped import ClippingBias
from dpcov.published import record
from dpcov.published.record import CountEstimate
from dpcov.releases.pairwise import completed, hidden, least_rows, moved

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Vector
    from dpcov.releases import Release

# Number of simulated errors of the count and of the means. Source: not recorded.
COUNT_ERROR_DRAWS = 50
# Largest number of columns that a warning names.
MAX_WARNED_NAMES = 3
TAIL_WARNING = (
    "Rows too few to be detected may hold much of what the columns vary by, and stated errors "
    "assume how much. `dpcov.intervals` states a bound on it."
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
    if record.sums_of(release) is None and (reason := record.directions_reason(release)):
        return (reason,)
    if not release.has_intercept:
        return ()
    count = release.count()
    if count <= 0:
        return (
            "The number of rows is below the noise level: none is left, so means and covariances "
            "say nothing.",
        )
    if release.noise is None and record.sums_of(release) is None:
        return ()
    of_count, of_means = deviations(release)
    found = []
    if too_uncertain(of_count, count):
        found.append(
            f"The number of rows is below the noise level: it is stated as {count:.0f}, with a "
            f"standard deviation of {of_count:.0f}. Covariances are per row; correlations don't "
            "need it."
        )
    blind = _blind(release)
    below = _means_below(release, of_means)
    names = [name for name, flagged in zip(release.columns, below, strict=True) if flagged]
    if names:
        more = f" and {len(names) - MAX_WARNED_NAMES} more" if len(names) > MAX_WARNED_NAMES else ""
        why = (
            "noise hides how long most rows are, and so what clipping took from them."
            if blind
            else "the noise's standard deviation is above a tenth of the width of the bounds."
        )
        named = f"{', '.join(names[:MAX_WARNED_NAMES])}{more}"
        found.append(f"The means of {named} are below the noise level: {why}")
    return (*found, *tail_warnings(release))


def means_below_noise(release: Release) -> Booleans | None:
    """Return (p,) flags of the means that are below the noise level.

    The result is None if the release has no noise distribution.
    """
    if release.noise is None and record.sums_of(release) is None:
        return None
    if release.count() <= 0:
        return np.ones(len(release.columns), np.bool_)
    return _means_below(release, deviations(release)[1])


def _means_below(release: Release, of_means: Vector) -> Booleans:
    width = np.array([1.0 if one.is_indicator else 2.0 for one in release.schema.variables])
    return too_uncertain(of_means, width) | hidden(release) | _blind(release)


def _blind(release: Release) -> bool:
    """Return True if rows might have been clipped and the noise hides the norms of most rows."""
    return release.clipped and release.lengths is not None and release.lengths.below_noise_level


def tail_warnings(release: Release) -> tuple[str, ...]:
    """Return a warning if the norm histogram is detectable but the tail is not."""
    if release.lengths is None or release.lengths.below_noise_level:
        return ()
    bias = ClippingBias.of(release, release.second_moment())
    return (TAIL_WARNING,) if bias.has_undetectable_tail else ()


def deviations(release: Release) -> tuple[float, Vector]:
    """Compute the standard deviations of the noise in the count and in the encoded means.

    The standard deviation of a separately published count is known. All other standard deviations
    are root mean square distances between the release and simulated plausible truths.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    Returns
    -------
    of_count : float
        Standard deviation in rows.

    of_means : ndarray, shape (p,)
        Standard deviations in the units of encoded features.

    """
    simulated = plausible(
        release, sampling=False, generator=reading_generator(), draws=COUNT_ERROR_DRAWS, alone=True
    )
    t, count = release.intercept(), release.count()
    encoded = (release.mean() - release.centers) / release.scales
    center = completed(release.schema, simulated.center, t, least=least_rows(release))
    away = count * t * np.append(encoded, t) - center[:, -1]
    batches = [moved(release, errors)[:, :, -1] + away for errors in simulated.errors()]
    errors = np.concatenate(batches) / t
    counts = errors[:, -1] / t
    means = (errors[:, :-1] - np.outer(counts, encoded)) / max(count, 1.0)
    best = CountEstimate.of(release)
    of_count = float(np.sqrt(np.mean(counts**2))) if best is None else best.deviation
    return of_count, np.sqrt(np.mean(means**2, axis=0))
