"""Means, standard deviations and covariances of a release, in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.correlation import facts_of, pairs
from dpcov.analysis.declared import command
from dpcov.analysis.drowned import drowned
from dpcov.analysis.moments import require_matrix
from dpcov.core.show.result import Found
from dpcov.core.show.table import Row, Table, rows_of, square, triangle
from dpcov.releases.pairwise import assumed
from dpcov.rows.schema import Date, Time

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.releases import Release


def _told(release: Release, deviations: Vector) -> list[Row]:
    """Means and standard deviations; a mean date as a date."""
    rows = rows_of(release.columns, release.mean(), deviations)
    columns = release.schema.encoded_columns
    for at, (name, mean) in enumerate(zip(release.columns, release.mean(), strict=True)):
        if isinstance(column := columns.get(name), Date | Time):
            rows[at] = name, [column.shown(mean), float(deviations[at])]
    return rows


@command(
    "covariance", "Print means, standard deviations and covariances, in the units of the data."
)
def covariances(release: Release) -> Found:
    """Everything that the second moment says, in the units of the data."""
    require_matrix(release)
    names, covariance = release.columns, release.covariance()
    means = Table(
        ("", "mean", "standard deviation"),
        _told(release, np.sqrt(np.diag(covariance))),
        "Means and standard deviations",
        ("{:.5g}", "{:.4g}"),
        notes=(*drowned(release), *assumed(release)),
    )
    kinds = {
        "covariance": (covariance, "{:.4g}"),
        "correlation": (release.correlation(), "{:.3f}"),
    }
    strongest = pairs(names, release.correlation(), kinds)
    title = "Private covariances"
    whole = triangle(title, names, covariance, "{:.4g}", diagonal=True, otherwise=strongest)
    facts = facts_of(release) | {"covariance": covariance}
    return Found([means, whole or strongest], facts, square(names, covariance))
