"""What a release is, what it guarantees and what it does not, and how accurate it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.drowned import deviations, drowned
from dpcov.analysis.expected import (
    NO_LAW,
    NOTHING_SHOWS,
    correlation_standard_errors,
    drowned_pairs,
    half_widths,
)
from dpcov.analysis.rounding import keeps_declared
from dpcov.core.privacy import delta_warning
from dpcov.core.show.result import Found
from dpcov.core.show.table import Table, sentences
from dpcov.releases import NoisyCount
from dpcov.releases.carried import carried
from dpcov.releases.pairwise import missing_shares

if TYPE_CHECKING:
    from dpcov.releases import Release


def summary(release: Release) -> Found:
    """What `dpcov show` says."""
    errors = correlation_standard_errors(release) if release.has_intercept else None
    below = np.tril_indices(len(release.columns), -1)
    error, accuracy = None, []
    if release.has_intercept and below[0].size:
        accuracy = [NOTHING_SHOWS if release.uninformative else NO_LAW]
    if accuracy and errors is not None:
        error = {"mean": float(errors[below].mean()), "worst": float(errors[below].max())}
        reach = half_widths(errors[below])
        accuracy = [
            "95 % intervals of correlations, for the privacy noise: "
            f"± {reach.mean():.3f} on average, ± {reach.max():.3f} at worst",
            *drowned_pairs(errors),
        ]
    document = {
        **carried(release),
        "columns": release.columns,
        "public_count": release.unit_count,
        "count": release.count() if release.tells_count else None,
        "correlation_standard_error": error,
        "budget_warnings": large_delta(release),
        **({"missing": shares} if (shares := missing_shares(release)) else {}),
    }
    notes = sentences(*large_delta(release), *drowned(release), *accuracy)
    return Found([facts(release), notes], document)


def large_delta(release: Release) -> list[str]:
    """Return what is to be said about a delta, beside the number of rows that was published.

    Under add/remove that is the noisy count: the exact one is private.
    """
    if not release.tells_count or release.schema.weight is not None:
        return []
    unit = release.guarantee.unit.column
    about = f"the number of {'rows' if unit is None else 'persons'} (about {release.count():.0f})"
    return delta_warning(release.whole_guarantee.budget, release.count(), about)


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
