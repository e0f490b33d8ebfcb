"""Quantities whose interval a plan predicts: a correlation, a coefficient or a share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.special

from dpcov.analysis.features import position
from dpcov.analysis.intervals import OneCorrelation, Stated, Statistic, stated, statistic_named
from dpcov.analysis.ols import ols
from dpcov.core.entropy import reading_generator
from dpcov.errors import ReleaseError, SchemaError

if TYPE_CHECKING:
    from dpcov.core.arrays import Array
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Nominal coverage of the intervals.
LEVEL = 0.95
Kind = Literal["typical", "pair", "coefficient", "share"]


@dataclass(frozen=True, slots=True)
class Widths:
    """Half widths of the 95% interval for one quantity.

    Attributes
    ----------
    total : float
        Half width of the interval for privacy noise and sampling.

    noise : float
        Half width of the interval for privacy noise alone.

    """

    total: float
    noise: float

    @property
    def sampling(self) -> float:
        """Half width of the interval for sampling alone."""
        return math.sqrt(max(self.total**2 - self.noise**2, 0.0))


@dataclass(frozen=True, slots=True)
class Quantity:
    """Correlation, regression coefficient or share.

    Attributes
    ----------
    kind : {"typical", "pair", "coefficient", "share"}
        Kind of the quantity. ``typical`` is the median over the correlations of all pairs.

    names : tuple of str
        Names of the features.

    """

    kind: Kind = "typical"
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Name of the quantity for a sentence."""
        if self.kind == "pair":
            return f"the correlation of {self.names[0]} and {self.names[1]}"
        if self.kind == "coefficient":
            return f"the coefficient of {self.names[1]} in a regression of {self.names[0]}"
        if self.kind == "share":
            return f"the share of {self.names[0]}"
        return "a typical correlation"

    def check(self, schema: Schema) -> None:
        """Raise an error if the schema does not contain the features."""
        names = [feature.name for feature in schema.variables]
        for name in self.names:
            if name not in names:
                raise SchemaError(
                    f"The schema has no feature {name!r}. Choose one of: {', '.join(names)}."
                )
        if len(set(self.names)) < len(self.names):
            raise SchemaError(f"Both features are {self.names[0]!r}. Choose two features.")
        if self.kind == "typical" and len(names) < 2:
            raise SchemaError("A schema with one feature has no correlation. Choose --share.")
        if self.kind == "share" and self.names[0] not in shares(schema):
            raise SchemaError(
                f"{self.names[0]} is no flag and no level of a categorical column, so it has no "
                f"share. Choose one of: {', '.join(shares(schema)) or 'none'}."
            )

    def widths(self, release: Release) -> Widths:
        """Return the half widths of the interval that a release states.

        Parameters
        ----------
        release : Release
            Release with a noise distribution.

        Returns
        -------
        Widths
            Half widths in the units of the data. They are infinite if the interval is undefined.

        """
        if self.kind == "coefficient":
            return _of_coefficient(release, *self.names)
        if self.kind == "pair":
            first, second = (position(release, name) for name in self.names)
            return Widths(
                *(_finite(w.item()) for w in _both(release, OneCorrelation(first, second)))
            )
        if self.kind == "share":
            at = position(release, self.names[0])
            return Widths(*(_finite(w[at]) for w in _both(release, statistic_named("mean"))))
        matrices = _both(release, statistic_named("correlation"))
        below = np.tril_indices(len(release.columns), -1)
        return Widths(*(float(np.median(_infinite(w[below]))) for w in matrices))


def shares(schema: Schema) -> list[str]:
    """Return the names of the flags and of the levels of categorical columns."""
    return [
        feature.name
        for feature in schema.variables
        if feature.is_indicator or schema.encoded_columns[feature.column].kind == "flag"
    ]


def _of_coefficient(release: Release, target: str, feature: str) -> Widths:
    try:
        fit = ols(release, target, level=LEVEL)
    except ReleaseError:
        return Widths(math.inf, math.inf)
    if feature not in fit.names:
        raise SchemaError(
            f"{feature} is not among the features of a regression of {target}. Choose one of: "
            f"{', '.join(fit.names[1:])}."
        )
    if fit.privacy_errors is None:
        return Widths(math.inf, math.inf)
    at = fit.names.index(feature)
    reach = float(scipy.special.stdtrit(fit.degrees, (1 + LEVEL) / 2))
    total = (fit.upper[at] - fit.lower[at]) / 2
    return Widths(_finite(total), _finite(reach * fit.privacy_errors[at]))


def _both(release: Release, statistic: Statistic) -> tuple[Array, Array]:
    """Return half widths with and without sampling, each in the shape of the statistic."""
    (found,) = stated(release, [statistic], True, reading_generator(None))
    return tuple(  # type: ignore[return-value]
        statistic.shaped(release, _half(one))
        for one in (found, replace(found, deviations=found.of_noise))
    )


def _half(found: Stated) -> Array:
    low, high, _ = found.interval(LEVEL)
    return (high - low) / 2


def _infinite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.inf)


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else math.inf
