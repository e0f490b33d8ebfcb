"""Summary of a release: size, guarantee, limits and accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.correlation import (
    correlation_errors,
    correlations_below_noise,
    half_widths,
)
from dpcov.analysis.intervals import NO_SIGNAL_MESSAGE, UNKNOWN_ERROR_MESSAGE, means_below_noise
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.core.privacy import delta_warning
from dpcov.core.show.result import Found
from dpcov.core.show.table import Table, sentences
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.errors import keeps_declared
from dpcov.published.norm_histogram import BINS_PER_OCTAVE
from dpcov.published.recomputed import Total, is_recomputed
from dpcov.releases.carried import carried

if TYPE_CHECKING:
    from dpcov.releases import Release


def summary(release: Release) -> Found:
    """Return the summary that `dpcov show` prints.

    Warns
    -----
    ReplayWarning
        The map or the clipping radius does not follow from the earlier answers.

    """
    from dpcov.mechanisms.replay import warn_of_mismatches

    warn_of_mismatches(release)
    accuracy, errors = _accuracy(release)
    below = [sentence for sentence in noise_warnings(release) if sentence != release.not_released]
    notes, described = [*large_delta(release), *below, *accuracy], facts(release)
    document = {
        **carried(release),
        "columns": release.columns,
        "not_released": release.not_released,
        "guarantee_recomputed": is_recomputed(release),
        "map_replayed": _replayed(release),
        "public_count": release.unit_count,
        "count": release.count() if release.tells_count else None,
        "count_standard_error": Estimate.of(release).count_deviation,
        **errors,
        "means_below_noise": _means_below(release),
        "facts": dict(described.texts()),
        "notes": notes,
        "budget_warnings": large_delta(release),
        **({"missing": shares} if (shares := Estimate.of(release).missing_shares) else {}),
    }
    return Found([described, sentences(*notes)], document)


def _accuracy(release: Release) -> tuple[list[str], dict[str, Any]]:
    """Return the errors of correlations as sentences and as figures."""
    stated = dict.fromkeys(
        ("correlation_standard_error", "correlation_half_width", "correlations_below_noise")
    )
    pairs = np.tril_indices(len(release.columns), -1)
    if release.not_released is not None or not pairs[0].size:
        return [], stated
    found = correlation_errors(release)
    below = correlations_below_noise(release, found)
    if below is not None:
        stated["correlations_below_noise"] = int(below[pairs].sum())
    if found is None:
        return [NO_SIGNAL_MESSAGE if release.uninformative else UNKNOWN_ERROR_MESSAGE], stated
    errors = found.errors[pairs]
    reach = half_widths(errors)
    for name, sizes in (("standard_error", errors), ("half_width", reach)):
        figures = {"mean": float(sizes.mean()), "worst": float(sizes.max())}
        stated[f"correlation_{name}"] = figures
    said = (
        "95% intervals of correlations, for the privacy noise: "
        f"± {reach.mean():.3f} on average, ± {reach.max():.3f} at worst"
    )
    return [said, *found.sentence()], stated


def _means_below(release: Release) -> list[str] | None:
    """Return the features whose means are below the noise level, or None if this is unknown."""
    flagged = None if release.reasons.means is not None else means_below_noise(release)
    if flagged is None:
        return None
    return [name for name, below in zip(release.columns, flagged, strict=True) if below]


def large_delta(release: Release) -> list[str]:
    """Return a warning if delta is large for the published number of rows.

    With add-remove, the published number is the noisy count, because the exact count is private.
    """
    if not release.tells_count or release.schema.weight is not None:
        return []
    unit = release.guarantee.unit.column
    about = f"the number of {'rows' if unit is None else 'persons'} (about {release.count():.0f})"
    return delta_warning(release.whole_guarantee.budget, release.count(), about)


def facts(release: Release) -> Table:
    """Return a table of the size, the guarantee and the limits of a release."""
    from dpcov.mechanisms.replay import Replay

    features = len(release.columns)
    stated = release.whole_guarantee
    found = {
        "columns": f"{len(release.schema.encoded_columns)} ({features} features)",
        **_size(release),
        **_rows_by_column(release),
        "guarantee": f"{stated.budget}, {stated.neighbors.value}, unit: {stated.unit}",
        "in words": release.guarantee_in_words(),
        "not protected": release.not_protected(),
        "recomputed": _recomputed(release),
        **({} if (replay := Replay.of(release)) is None else {"replayed": replay.in_words()}),
        "mechanism": f"{release.mechanism}, denoised by {release.denoise}",
        "resolution": _resolution(release),
        **_clipped(release),
        "made by": release.made_by(),
    }
    if sentence := dependent(release, sampling=False):
        found = {"each row": sentence} | found
    if release.not_released is not None:
        found["not released"] = release.not_released
    if release.group is not None:
        group = f"the rows with {release.group.column} = {release.group.level}"
        found = {"group": group} | found
    if release.reproducible:
        found |= {"guarantee": "none", "not protected": "everything"}
    return Table(("", ""), [(name, [fact]) for name, fact in found.items()], words=True)


def _recomputed(release: Release) -> str:
    """Return whether dpcov computed the guarantee again from the noise of the rounds."""
    if is_recomputed(release):
        return "yes, the guarantee follows from the noise of all queries in this file"
    if not Total.of(release).complete:
        return "not recomputable, because the noise of this mechanism has no known distribution"
    return (
        "not recomputable, because the queries in this file spend less than the guarantee states: "
        "the mechanism does not publish all queries, or a query is missing"
    )


def _replayed(release: Release) -> bool | None:
    """Return whether the map follows from the earlier answers, or None if this is unknown."""
    from dpcov.mechanisms.replay import Replay

    found = Replay.of(release)
    return None if found is None or not found.known else not found.mismatches


def _resolution(release: Release) -> str:
    """Return the rounding step of the encoding as a text."""
    of_what = "half the width of a column's bounds"
    if release.linear_map is not None:
        of_what = "a unit of the transformed rows"
    exact = "bounds, midpoints and levels are exact"
    rounded = exact if keeps_declared(release) else "values are rounded to multiples of it"
    return f"{release.lattice.step:.3g} of {of_what}; {rounded}"


def rows_beyond_radius(release: Release) -> tuple[float, float, float] | None:
    """Return about how many rows lie beyond the clipping radius, from the noisy norm histogram.

    The bin that contains the radius counts in part. Its norms are taken as uniform on a logarithmic
    scale.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    tuple of float, or None
        Number of rows, its fraction of all rows, and the standard deviation of its noise. None if
        the release has no norm histogram.

    """
    histogram, radius = release.lengths, release.lattice.radius
    if histogram is None:
        return None
    ends = np.log(histogram.upper_ends) / 2
    starts = np.append(ends[0] - np.log(2) / (2 * BINS_PER_OCTAVE), ends[:-1])
    parts = np.clip((ends - np.log(radius)) / (ends - starts), 0.0, 1.0)
    rows = max(float(parts @ np.array(histogram.counts)), 0.0)
    share = min(rows / max(sum(histogram.counts), 1), 1.0)
    return rows, share, histogram.noise.standard_deviation * float(np.linalg.norm(parts))


def _clipped(release: Release) -> dict[str, str]:
    """Return the number of rows beyond the clipping radius, if it is known."""
    found = rows_beyond_radius(release)
    if found is None:
        return {}
    rows, share, deviation = found
    about = f"about {rows:.0f} rows ({share:.1%}), standard error {deviation:.0f}"
    return {"clipped": f"{about}, are beyond the clipping radius {release.lattice.radius:.3g}"}


def _size(release: Release) -> dict[str, str]:
    """Return the number of rows or persons, if it is known."""
    units = "rows" if release.guarantee.unit.column is None else "persons"
    public = {} if release.unit_count is None else {units: f"{release.unit_count} (public)"}
    if release.schema.weight is not None and release.tells_count:
        total, times = release.total_weight(), release.count()
        weighed = f"about {total:.6g}, {times:.0f} times the largest weight (private)"
        return public | {"sum of weights": weighed}
    return public or {"rows": _private_count(release)}


def _rows_by_column(release: Release) -> dict[str, str]:
    """Return the number of rows without a missing cell, for each column with missing cells."""
    counts = [
        f"{name} {(1 - share) * release.count():.0f} ({share:.1%} missing)"
        for name, share in Estimate.of(release).missing_shares.items()
    ]
    return {"rows by column": ", ".join(counts)} if counts else {}


def _private_count(release: Release) -> str:
    if not release.tells_count:
        return "private, not released"
    about, deviation = f"about {release.count():.0f}", Estimate.of(release).count_deviation
    if deviation is None:
        return f"{about} (private)"
    return f"{about}, standard error {deviation:.0f} (private, with noise)"
