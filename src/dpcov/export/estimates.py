"""Contents of an export: estimates, their errors, names of columns, guarantee and cautions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.intervals import (
    Correlations,
    Covariances,
    Means,
    Variances,
    several_intervals,
    shown_unasked,
)
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.errors import NotReleasedError
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.error_covariance import MAX_FIGURES, figure_names, positions
from dpcov.published import record
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.releases.dates import units_of
from dpcov.report.documents import caveats
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Intervals
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release

LEVEL_KIND, MISSING_KIND = "level", "missing"
INTERVAL_LEVEL = 0.95  # Nominal coverage of the intervals.
TOO_MANY_COLUMNS = (
    "The error covariance is left out, because it would have {} rows. Use --columns to export "
    "fewer columns."
)


@dataclass(frozen=True)
class Estimates:
    """Estimates of p columns of a release.

    Attributes
    ----------
    release : Release
        Release that the estimates come from.

    columns : tuple of str, length p
        Names of the columns, in the order of all vectors and matrices.

    """

    release: Release
    columns: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, columns: Sequence[str] | None = None) -> Estimates:
        """Return the estimates of all columns or of the named columns."""
        names = release.columns if columns is None else tuple(columns)
        positions(release, names)
        return cls(release, names)

    @cached_property
    def _at(self) -> list[int]:
        return positions(self.release, self.columns)

    @property
    def status(self) -> str:
        """``private``, or the statement that the release is not private."""
        return NOT_PRIVATE if self.release.reproducible else "private"

    @cached_property
    def count(self) -> int:
        """Number of rows, rounded and at least 1."""
        return max(round(self.release.count()), 1)

    @cached_property
    def means(self) -> Vector | None:
        """Means, shape (p,), or None if the release contains no means."""
        if self.release.reasons.means is not None:
            return None
        return self.release.mean()[self._at]

    @cached_property
    def variances(self) -> Vector | None:
        """Variances, shape (p,), or None if the release contains no variances."""
        if self.release.reasons.means is not None:
            return None
        return self.release.variance()[self._at]

    @cached_property
    def covariance(self) -> Matrix | None:
        """Covariances, shape (p, p), or None if the release contains no covariances."""
        return self._matrix(self.release.covariance)

    @cached_property
    def correlation(self) -> Matrix | None:
        """Correlations, shape (p, p), or None if the release contains no correlations."""
        return self._matrix(self.release.correlation)

    def _matrix(self, of: Any) -> Matrix | None:
        if self.release.not_released is not None:
            return None
        found: Matrix = of()[np.ix_(self._at, self._at)]
        return found

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the rows of the error covariance, length k."""
        return figure_names(self.columns)

    @cached_property
    def has_errors(self) -> bool:
        """True if the export contains the error covariance."""
        known = self.release.reasons.law is None and self.release.not_released is None
        return known and len(self.figures) <= MAX_FIGURES

    def errors(self, *, sampling: bool) -> Matrix:
        """Return the error covariance, shape (k, k), with or without the sampling error."""
        found = self.release.error_covariance(sampling=sampling, columns=self.columns)
        return found.values

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of each column: the kind in the schema, ``level`` or ``missing``."""
        schema = self.release.schema
        declared = schema.encoded_columns
        owners = {one.name: one for one in schema.variables}
        found = {}
        for name in self.columns:
            column = declared[owners[name].column]
            kind = column.kind
            if owners[name].is_indicator:
                kind = LEVEL_KIND if isinstance(column, Categorical) else MISSING_KIND
            found[name] = kind
        return found

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Names of the level columns of each categorical column."""
        found: dict[str, list[str]] = {}
        owners = {one.name: one.column for one in self.release.schema.variables}
        for name, kind in self.kinds.items():
            if kind == LEVEL_KIND:
                found.setdefault(owners[name], []).append(name)
        return found

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns that are dates or times."""
        return {n: unit for n, unit in units_of(self.release.schema).items() if n in self.columns}

    @cached_property
    def cautions(self) -> list[str]:
        """Warnings that a reader needs before the estimates."""
        release = self.release
        found = [*caveats(release), *advisories(release), *noise_warnings(release)]
        found += [one for one in (release.not_released, dependent(release)) if one]
        found += Estimate.of(release).assumptions
        if release.not_released is None and (reason := release.reasons.law):
            found.append(reason)
        if len(self.figures) > MAX_FIGURES:
            found.append(TOO_MANY_COLUMNS.format(len(self.figures)))
        return list(dict.fromkeys(found))

    def require_covariance(self) -> None:
        """Raise `NotReleasedError` if there are no covariances or their errors are unknown."""
        record.refuse(self.release.not_released)
        record.refuse(self.release.reasons.law)
        if not self.has_errors:
            raise NotReleasedError(TOO_MANY_COLUMNS.format(len(self.figures)))

    def intervals(self) -> dict[str, Any] | None:
        """Return the intervals for all estimates, or None if the release has no intervals."""
        release = self.release
        if not shown_unasked(release) or self.means is None:
            return None
        statistics: dict[str, Any] = {"mean": Means(), "variance": Variances()}
        if self.covariance is not None:
            statistics |= {"covariance": Covariances(), "correlation": Correlations()}
        found = several_intervals(release, list(statistics.values()), INTERVAL_LEVEL)
        parts = ("low", "high", "sufficient_budget")
        ends = {
            name: {part: self._part(one, getattr(one, part)) for part in parts}
            for name, one in zip(statistics, found, strict=True)
        }
        return {"level": INTERVAL_LEVEL, "covers": found[0].covers, **ends}

    def _part(self, one: Intervals, ends: Any) -> Any:
        """Select the ends or the sufficient budgets of the exported columns."""
        at = self._at
        return ends[at] if one.low.ndim == 1 else ends[np.ix_(at, at)]
