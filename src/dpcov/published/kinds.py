"""Kinds of answers that a mechanism can publish.

A release consists of rounds. A round asks one query, and publishes the answer as one of these
kinds. Each kind states the distribution of its noise. The exception is `EstimatedMatrix`: some
mechanisms from papers sample their answer, so the error has no known distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.published.norm_histogram import NormHistogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.rows.moment import Lattice

Query = Literal[
    "pilot", "directions", "directions trace", "norms", "matrix", "trace", "sums", "count"
]
# Names of the queries for a second moment whose directions determine the map of the last round.
DIRECTIONS: dict[Query, Query] = {"matrix": "directions", "trace": "directions trace"}
# Version of the rule that chooses the map, the bins and the clipping radius from earlier answers.
MAP_RULE = 5


class _ByValue:
    """Base class with equality by all fields. Arrays are compared entry by entry."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = self.__dataclass_fields__  # type: ignore[attr-defined]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class RowMap(_ByValue):
    """Affine map A (z - c) that a mechanism applied to the encoded features z.

    Attributes
    ----------
    matrix : ndarray, shape (p, p)
        Matrix A.

    center : ndarray, shape (p,)
        Center c.

    rule : int or None
        Version of the rule that chose the map, the bins and the clipping radius. None if the
        version is not known.

    seed : int or None
        Seed of the simulations that the rule used. None if the rule used no simulations.

    """

    matrix: Matrix
    center: Vector
    rule: int | None = field(default=None, hash=False)
    seed: int | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMatrix(_ByValue):
    """Second moment of the rows plus noise with a known distribution.

    Attributes
    ----------
    lattice : Lattice
        Lattice of the transformed rows, with the clipping radius.

    transform : RowMap or None
        Map that the mechanism applied before it clipped the rows. None if there is no map.

    shift : int
        Binary exponent of the unit: one unit is 2^shift squared lattice steps.

    units : ndarray of int, shape (d, d)
        Second moment plus noise.

    noise : MatrixLaw
        Distribution of the noise, in squared lattice steps.

    """

    lattice: Lattice
    transform: RowMap | None
    shift: int
    units: Integers
    noise: MatrixLaw


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedMatrix(_ByValue):
    """Second moment that a mechanism estimated without noise of a known distribution.

    Attributes
    ----------
    lattice : Lattice
        Lattice of the rows, with the clipping radius.

    shift : int
        Binary exponent of the unit: one unit is 2^shift squared lattice steps.

    units : ndarray of int, shape (d, d)
        Estimate.

    directions : int
        Number of directions (eigenvectors) that the estimate contains, from 1 to d.

    """

    lattice: Lattice
    shift: int
    units: Integers
    directions: int


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTrace(_ByValue):
    """Trace of the second moment plus noise.

    Attributes
    ----------
    lattice : Lattice
        Lattice of the transformed rows, with the clipping radius.

    transform : RowMap or None
        Map that the mechanism applied before it clipped the rows. None if there is no map.

    value : int
        Trace plus noise, in squared lattice steps.

    noise : ScalarLaw
        Distribution of the noise.

    """

    lattice: Lattice
    transform: RowMap | None
    value: int
    noise: ScalarLaw


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """Number of rows plus noise.

    Attributes
    ----------
    value : int
        Number of rows plus noise, in units of 1 / `units_per_row`. With survey weights, each row
        counts as its weight divided by the largest weight.

    noise : ScalarLaw
        Distribution of the noise.

    """

    value: int
    noise: ScalarLaw


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Noisy sums, which estimate the means and variances of the features.

    The query ``pilot`` publishes sums to determine the map of later rounds. The query ``sums``
    publishes sums in place of a second moment.

    Attributes
    ----------
    values : tuple of int, length 2 p + 1
        Sums over the rows, each plus noise. The first p sums are of the squared features. The next
        p sums are of the features times the intercept. The last sum is of the squared intercept.
        All sums are in squared lattice steps of the schema, before any linear map.

    noise : ScalarLaw
        Distribution of the noise in each sum.

    """

    values: tuple[int, ...]
    noise: ScalarLaw


def content(value: Any) -> Any:
    """Return the content of an answer as nested tuples of numbers and bytes, for a hash.

    Fields that only describe how the mechanism chose a map are not part of the content.
    """
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype == object else value.tobytes()
    if is_dataclass(value):
        parts = [
            content(getattr(value, part.name)) for part in fields(value) if part.hash is not False
        ]
        return type(value).__name__, *parts
    return value


Published = NoisyMatrix | EstimatedMatrix | NoisyTrace | NoisyCount | NoisySums | NormHistogram


@dataclass(frozen=True, slots=True)
class Round:
    """One query of a mechanism, its published answer and its cost.

    Attributes
    ----------
    query : str
        Name of the query.

    published : Published
        Answer of the query.

    spent : Fraction or Budget
        Cost in epsilon for Laplace noise, and in rho = mu^2 / 2 for Gaussian noise. The whole
        budget of the mechanism if its noise has no known distribution.

    """

    query: Query
    published: Published
    spent: Fraction | Budget


def with_rule(rounds: Iterable[Round], seed: int | None) -> Iterator[Round]:
    """Yield the rounds, with the version of the rule and the seed of the draw in their maps.

    Parameters
    ----------
    rounds : iterable of Round
        Rounds of a mechanism whose maps follow `MAP_RULE`.

    seed : int or None
        Seed that the map of the last query used. The map of the directions query uses no draw.

    Yields
    ------
    Round
        Round with these facts in its map, if it has a map.

    """
    for one in rounds:
        answer = one.published
        if not isinstance(answer, NoisyMatrix | NoisyTrace) or answer.transform is None:
            yield one
            continue
        drawn = None if one.query in DIRECTIONS.values() else seed
        named = replace(answer.transform, rule=MAP_RULE, seed=drawn)
        yield replace(one, published=replace(answer, transform=named))
