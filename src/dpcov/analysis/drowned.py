"""What the noise leaves of the count and the means of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.plausible import PlausibleMoments
from dpcov.core.entropy import reading_generator
from dpcov.denoise.clipped import Clip
from dpcov.releases import NoisyCount, held
from dpcov.releases.pairwise import completed, hidden, least_rows, moved

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.releases import Release

DRAWS = 50
MOST = 0.1  # of the count, or of the width of the bounds, that the noise's deviation may be
NAMED = 3  # columns, before the rest is counted
UNSEEN = (
    "Rows too few to show may hold much of what columns vary by, at which stated errors guess. "
    "`dpcov.intervals` gives what the noise law alone guarantees, and how much that may be at most."
)


def drowned(release: Release) -> tuple[str, ...]:
    """What noise drowns of `Release.count` and `Release.mean`, a sentence each.

    The count, where the noise's standard deviation in it is above a tenth of it, or none is left;
    means, where that in them is above a tenth of the width of the bounds, or where noise hides how
    long most rows are, and so what a clip took. Nothing is known of a mechanism without a noise
    law, but that none is left.
    """
    if reason := held.directions_reason(release):
        return (reason,)
    if not release.has_intercept:
        return ()
    count = release.count()
    if count <= 0:
        return (
            "The noise drowns the number of rows: none is left, so means and covariances tell "
            "nothing.",
        )
    if release.noise is None:
        return ()
    of_count, of_means = deviations(release)
    found = []
    if of_count > MOST * count:
        found.append(
            f"The noise drowns the number of rows: it is stated as {count:.0f}, with a standard "
            f"deviation of {of_count:.0f}. Covariances are per row; correlations don't need it."
        )
    width = np.array([1.0 if one.is_indicator else 2.0 for one in release.schema.variables])
    blind = release.clipped and release.lengths is not None and release.lengths.hidden
    high = (of_means > MOST * width) | hidden(release) | blind
    names = [name for name, drowns in zip(release.columns, high, strict=True) if drowns]
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        why = (
            "it hides how long most rows are, and so what clipping took from them."
            if blind
            else "its standard deviation is above a tenth of the width of their bounds."
        )
        found.append(f"The noise drowns the means of {', '.join(names[:NAMED])}{more}: {why}")
    return (*found, *unseen(release))


def unseen(release: Release) -> tuple[str, ...]:
    """A sentence where rows show, but the tail of the table does not (`Clip.unseen`)."""
    if release.lengths is None or release.lengths.hidden:
        return ()
    return (UNSEEN,) if Clip.of(release).unseen else ()


def deviations(release: Release) -> tuple[float, Vector]:
    """Standard deviations of the noise in the count and in the (p,) encoded means.

    That in the best count is known. The others are root mean squares of how far the release is from
    truths that are plausible. The release has a noise law.
    """
    plausible = PlausibleMoments(
        release, sampling=False, generator=reading_generator(), draws=DRAWS, alone=True
    )
    t, count = release.intercept(), release.count()
    encoded = (release.mean() - release.centers) / release.scales
    center = completed(release.schema, plausible.center, t, least=least_rows(release))
    away = count * t * np.append(encoded, t) - center[:, -1]
    batches = [moved(release, errors)[:, :, -1] + away for errors in plausible.errors()]
    errors = np.concatenate(batches) / t
    counts = errors[:, -1] / t
    means = (errors[:, :-1] - np.outer(counts, encoded)) / max(count, 1.0)
    best = NoisyCount.of(release)
    of_count = float(np.sqrt(np.mean(counts**2))) if best is None else best.deviation
    return of_count, np.sqrt(np.mean(means**2, axis=0))
