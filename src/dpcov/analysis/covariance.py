"""Means, standard deviations and covariances of a release, in the units of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.correlation import pairs
from dpcov.analysis.drowned import drowned
from dpcov.analysis.moments import require_matrix
from dpcov.declared import command
from dpcov.show.result import OMITTED, Result
from dpcov.show.table import Table, square, triangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Covariances(Result):
    """All moments of a release.

    Attributes
    ----------
    columns, count, mean, covariance, correlation : of the release.
    drowned : what noise drowns of count and mean, a sentence each.

    """

    columns: tuple[str, ...]
    count: float
    mean: Vector
    covariance: Matrix
    correlation: Matrix = field(metadata=OMITTED)
    drowned: tuple[str, ...] = field(metadata=OMITTED)

    def tables(self) -> list[Table]:
        heads, forms = ("covariance", "correlation"), ("{:.4g}", "{:.3f}")
        figures = (self.covariance, self.correlation)
        strongest = pairs(self.columns, self.correlation, heads, figures, forms)
        whole = triangle(
            "Private covariances",
            self.columns,
            self.covariance,
            "{:.4g}",
            diagonal=True,
            otherwise=strongest,
        )
        return [self.means(), strongest if whole is None else whole]

    def means(self) -> Table:
        """Mean and standard deviation of each feature."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        figures = np.column_stack([self.mean, deviations]).tolist()
        return Table(
            ("", "mean", "standard deviation"),
            list(zip(self.columns, figures, strict=True)),
            "Means and standard deviations",
            ("{:.5g}", "{:.4g}"),
            notes=self.drowned,
        )

    def data(self) -> Table:
        return square(self.columns, self.covariance)


@command(
    "covariance", "Print means, standard deviations and covariances, in the units of the data."
)
def covariances(release: Release) -> Covariances:
    """Everything that the second moment says, in the units of the data."""
    require_matrix(release)
    return Covariances(
        release.columns,
        release.count(),
        release.mean(),
        release.covariance(),
        release.correlation(),
        drowned(release),
    )
