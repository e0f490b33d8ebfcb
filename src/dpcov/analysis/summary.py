"""What a release is, what it guarantees and what it does not, and how accurate it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.drowned import deviations, drowned, means_below_noise
from dpcov.analysis.expected import (
    NO_LAW,
    NOTHING_SHOWS,
    correlation_errors,
    correlations_below_noise,
    half_widths,
)
from dpcov.analysis.rounding import keeps_declared
from dpcov.core.show.result import Found
from dpcov.core.show.table import Table, sentences
from dpcov.releases import NoisyCount
from dpcov.releases.carried import carried
from dpcov.releases.pairwise import missing_shares

if TYPE_CHECKING:
    from dpcov.releases import Release


def summary(release: Release) -> Found:
    """What `dpcov show` says."""
    whole = release.not_released is None
    found = correlation_errors(release) if whole else None
    below = correlations_below_noise(release, found) if whole else None
    pairs = np.tril_indices(len(release.columns), -1)
    error, reached, accuracy = None, None, []
    if whole and pairs[0].size:
        accuracy = [NOTHING_SHOWS if release.uninformative else NO_LAW]
    if accuracy and found is not None:
        errors = found.errors
        error = {"mean": float(errors[pairs].mean()), "worst": float(errors[pairs].max())}
        reach = half_widths(errors[pairs])
        reached = {"mean": float(reach.mean()), "worst": float(reach.max())}
        accuracy = [
            "95% intervals of correlations, for the privacy noise: "
            f"± {reach.mean():.3f} on average, ± {reach.max():.3f} at worst",
            *found.sentence(),
        ]
    told = [sentence for sentence in drowned(release) if sentence != release.not_released]
    notes = [*told, *accuracy]
    means = None
    if whole:
        flagged = means_below_noise(release)
        means = [name for name, below in zip(release.columns, flagged, strict=True) if below]
    document = {
        **carried(release),
        "columns": release.columns,
        "not_released": release.not_released,
        "public_count": release.unit_count,
        "count": release.count() if release.tells_count else None,
        "correlation_standard_error": error,
        "correlation_half_width": reached,
        "correlations_below_noise": None if below is None else int(below[pairs].sum()),
        "means_below_noise": means,
        "notes": notes,
        **({"missing": shares} if (shares := missing_shares(release)) else {}),
    }
    return Found([facts(release), sentences(*notes)], document)


def facts(release: Release) -> Table:
    """What a release is, what it guarantees and what it does not."""
    features = len(release.columns)
    stated = release.whole_guarantee
    found = {
        "columns": f"{len(release.schema.encoded_columns)} ({features} features)",
        **_size(release),
        **_gaps(release),
        "guarantee": f"{stated.budget}, {stated.neighbors.value}, unit: {stated.unit}",
        "in words": release.guarantee_in_words(),
        "not protected": release.not_protected(),
        "mechanism": f"{release.mechanism}, denoised by {release.denoise}",
        "resolution": _resolution(release),
        "made by": release.made_by(),
    }
    if release.not_released is not None:
        found["not released"] = release.not_released
    if release.group is not None:
        group = f"the rows with {release.group.column} = {release.group.level}"
        found = {"group": group} | found
    if release.reproducible:
        found |= {"guarantee": "none", "not protected": "everything"}
    return Table(("", ""), [(name, [fact]) for name, fact in found.items()], words=True)


def _resolution(release: Release) -> str:
    """What the lattice tells apart, in words."""
    of_what = "half the width of a column's bounds"
    if release.linear_map is not None:
        of_what = "a unit of the mapped rows"
    exact = "bounds, midpoints and levels are exact"
    rounded = exact if keeps_declared(release) else "every value is rounded to it"
    return f"{release.lattice.step:.3g} of {of_what}; {rounded}"


def _size(release: Release) -> dict[str, str]:
    """How many rows or persons there are, as far as it is known."""
    units = "rows" if release.guarantee.unit.column is None else "persons"
    public = {} if release.unit_count is None else {units: f"{release.unit_count} (public)"}
    if release.schema.weight is not None and release.tells_count:
        total, times = release.total_weight(), release.count()
        weighed = f"about {total:.6g}, {times:.0f} times the largest (private)"
        return public | {"sum of weights": weighed}
    return public or {"rows": _private_count(release)}


def _gaps(release: Release) -> dict[str, str]:
    """How many rows each column has, where cells may be missing."""
    told = [
        f"{name} {(1 - share) * release.count():.0f} ({share:.1%} missing)"
        for name, share in missing_shares(release).items()
    ]
    return {"rows by column": ", ".join(told)} if told else {}


def _private_count(release: Release) -> str:
    if not release.tells_count:
        return "private, not released"
    about, best = f"about {release.count():.0f}", NoisyCount.of(release)
    if best is None and release.noise is None:
        return f"{about} (private)"
    deviation = deviations(release)[0] if best is None else best.deviation
    return f"{about}, standard error {deviation:.0f} (private: with noise)"
