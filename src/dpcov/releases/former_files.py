"""Release files of the formats 1 and 2, which versions before 0.3 wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers import matrix_law, scalar_law
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import (
    DIRECTIONS,
    EstimatedMatrix,
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Published,
    Query,
    RowMap,
)
from dpcov.published.norm_histogram import NormHistogram
from dpcov.published.record import NOT_PRIVATE, Group
from dpcov.releases import Release
from dpcov.releases.documents import (
    BudgetDocument,
    DocumentModel,
    GroupDocument,
    MatrixLawDocument,
    PositiveFloat,
    ScalarLawDocument,
    WeightedSumDocument,
    budget,
    full,
    square,
)
from dpcov.rows.moment import UNITS, Lattice, units_per_row
from dpcov.rows.schema import Schema

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers
    from dpcov.core.samplers import MatrixLaw

MAX_BINS = 2**12  # Largest number of bins of a norm histogram.
# Smallest ratio of two singular values of a linear map. A smaller ratio is a rounding error.
MIN_SINGULAR_VALUE_RATIO = 1e-15
# Smallest trace above the noise level, in standard deviations of its noise. Source: not recorded.
MIN_TRACE_SNR = 4.0
MAX_INT64_FLOAT = 2.0**63 - 2**10  # Largest float64 that an integer of 64 bits can represent.
MIN_NOISE_SPREAD = 1e-100  # Smallest size of the noise. The largest size is the inverse.

Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Parameter = bool | int | FiniteFloat | str | None


class GuaranteeDocument(DocumentModel):
    """Guarantee of the release. `unit` is the id column of the persons, or null for rows."""

    budget: BudgetDocument
    neighbors: Neighbors
    unit: str | None
    max_rows: int = Field(ge=1)
    in_words: str


class LatticeDocument(DocumentModel):
    """Lattice of the encoded rows. Rows are integers times `step`.

    `side` is the radius in steps, rounded up. Format 1 has no `step` and no `side`: its step is
    2^-20 times the radius.
    """

    radius: Annotated[float, Field(gt=1e-100, lt=1e100)]
    step: Annotated[float, Field(gt=0)] | None = None
    side: int | None = Field(None, ge=1, lt=2**27)
    units_per_radius: Literal[1048576] | None = Field(None, description="Only in format 1.")
    intercept_units: int = Field(ge=0, lt=2**28)
    features: tuple[str, ...]

    def grid(self) -> tuple[int, float]:
        """Return the side and the step of the lattice."""
        if self.step is None or self.side is None:
            return UNITS, self.radius / UNITS
        return self.side, self.step


class NormHistogramDocument(DocumentModel):
    """Noisy counts of the transformed rows by squared norm.

    `ends` are the upper ends of the bins, in squared units of an encoded row.
    """

    ends: list[PositiveFloat] = Field(min_length=1, max_length=MAX_BINS)
    counts: list[Integer64]
    noise: ScalarLawDocument

    @model_validator(mode="after")
    def _consistent(self) -> NormHistogramDocument:
        if len(self.counts) != len(self.ends):
            raise ValueError("the histogram does not have one count for each bin")
        if sorted(set(self.ends)) != self.ends:
            raise ValueError("the ends of the bins are not in ascending order")
        return self


LongInteger = Annotated[int, Field(ge=-(2**256), le=2**256)]


class SumsDocument(DocumentModel):
    """Noisy sums over the rows, in squared lattice steps of the schema, before any map.

    The sums are of each squared feature, of each feature times the intercept, and of the squared
    intercept.
    """

    values: list[LongInteger]
    noise: ScalarLawDocument


class FormerDocument(DocumentModel):
    """Release file of format 1 or 2. Lower triangles of symmetric matrices are listed row by row.

    `published` times 2^`shift` step^2 is the noisy second moment of the transformed rows.
    `denoised` is the estimate from it for the encoded rows, in squared units of an encoded row.
    """

    format: Literal["dpcov.release/1", "dpcov.release/2"] = "dpcov.release/2"
    status: Literal["private", "reproducible: NOT PRIVATE"]
    guarantee: GuaranteeDocument
    mechanism: str
    parameters: dict[str, Parameter]
    noise: MatrixLawDocument | None
    trace_noise: ScalarLawDocument | None
    lattice: LatticeDocument
    shift: int = Field(ge=0, le=128)
    published: list[Integer64] | None
    published_trace: LongInteger | None
    unit_count: int | None = Field(
        ge=0, lt=2**63, description="Public under replace-one, else null."
    )
    linear_map: list[FiniteFloat] | None = Field(
        default=None, description="Linear map before clipping, shape (p, p), row by row, or null."
    )
    center: list[FiniteFloat] | None = Field(
        default=None, description="Center that is subtracted before the map, shape (p,), or null."
    )
    denoise: Literal["none", "project", "shrink"]
    denoised: list[FiniteFloat] | None
    provenance: dict[str, str]
    group: GroupDocument | None = None
    rungs: list[list[Integer64]] | None = Field(
        default=None,
        description="Only in old files: noisy second moments for ranges of row norms, in units of "
        "2^`shift`. Their sum, with the weights of `noise`, is `published`.",
    )
    published_count: Annotated[int, Field(ge=-(2**128), le=2**128)] | None = Field(
        default=None,
        description="Number of rows plus noise. With survey weights, each row counts as its weight "
        "divided by the largest weight, times the squared `intercept_units` of the schema. Null if "
        "the count is not published.",
    )
    count_noise: ScalarLawDocument | None = None
    lengths: NormHistogramDocument | None = None
    sums: SumsDocument | None = None
    directions: FormerDocument | None = Field(
        default=None, description="Second moment that the directions query published, or null."
    )
    table: Schema = Field(alias="schema")

    @model_validator(mode="after")
    def _consistent(self) -> FormerDocument:
        _check_lattice(self)
        _check_noise(self)
        _check_rungs(self)
        _check_sizes(self)
        _check_map(self)
        _check_queries(self)
        return self


def _check_lattice(document: FormerDocument) -> None:
    """Raise an error if the lattice does not fit the schema or the format."""
    grid, old = document.lattice, document.format == "dpcov.release/1"
    if grid.features != tuple(feature.name for feature in document.table.features):
        raise ValueError("the lattice and the schema have different features")
    if [old, not old, not old] != [
        it is not None for it in (grid.units_per_radius, grid.step, grid.side)
    ]:
        raise ValueError("the lattice has fields that do not belong to this format, or lacks some")
    side, step = grid.grid()
    if not abs(grid.radius / step - side) < 1 + 1e-6:
        raise ValueError("the side of the lattice is not its radius in steps")


def _check_noise(document: FormerDocument) -> None:
    """Raise an error if a noise distribution does not fit its answer, or is missing."""
    noise, matrix = document.noise, document.published
    if noise is not None and noise.dimension != _order(document):
        raise ValueError("the noise and the matrix have different dimensions")
    if noise is not None and matrix is None:
        raise ValueError("the file has noise of a matrix, but no matrix")
    if noise is None and None not in (matrix, document.trace_noise):
        raise ValueError("the file has a matrix and a trace, but no noise of the matrix")
    if (document.trace_noise is None) != (document.published_trace is None):
        raise ValueError("the trace or its noise is missing")
    if (document.count_noise is None) != (document.published_count is None):
        raise ValueError("the count or its noise is missing")
    if document.count_noise is not None:
        if document.guarantee.neighbors == Neighbors.REPLACE_ONE:
            raise ValueError("a noisy count is possible under add-remove only")
        if not units_per_row(document.table):
            raise ValueError("a noisy count of weighted rows needs an intercept")


def _check_rungs(document: FormerDocument) -> None:
    """Raise an error if the second moments for ranges of norms do not fit their noise."""
    weighted = document.noise if isinstance(document.noise, WeightedSumDocument) else None
    if weighted is not None and len(weighted.weights) != len(weighted.terms):
        raise ValueError("the noise does not have one weight for each term")
    if document.rungs is None:
        return
    if weighted is None:
        raise ValueError("second moments in rungs need a weighted sum as noise")
    if len(document.rungs) != len(weighted.terms):
        raise ValueError("the noise does not have one term for each rung")
    if document.trace_noise is None:
        raise ValueError("second moments in rungs need a trace")


def _check_sizes(document: FormerDocument) -> None:
    """Raise an error if an answer is missing or has the wrong number of entries."""
    if document.published is None and document.published_trace is None:
        raise ValueError("the file has neither a matrix nor a trace")
    entries = _order(document) * (_order(document) + 1) // 2
    parts = [(f"rungs.{at}", rung) for at, rung in enumerate(document.rungs or ())]
    for name, values in (
        ("published", document.published),
        ("denoised", document.denoised),
        *parts,
    ):
        if values is not None and len(values) != entries:
            raise ValueError(f"{name} does not have {entries} entries")


def _check_map(document: FormerDocument) -> None:
    """Raise an error if the map or its center does not fit the rows."""
    features = len(document.table.features)
    if document.linear_map is not None:
        matrix = np.array(document.linear_map)
        if matrix.size != features**2:
            raise ValueError("the linear map does not fit the number of features")
        if not 1 / np.linalg.cond(matrix.reshape(features, -1)) > MIN_SINGULAR_VALUE_RATIO:
            raise ValueError("the linear map is not invertible")
    if document.group is not None and document.guarantee.unit is not None:
        raise ValueError("a release with a group cannot have a privacy unit of persons")
    if document.center is not None:
        if document.linear_map is None or document.lattice.intercept_units == 0:
            raise ValueError("a center needs a linear map and an intercept")
        if len(document.center) != features:
            raise ValueError("the center does not fit the number of features")


def _check_queries(document: FormerDocument) -> None:
    """Raise an error if the pilot query or the directions query does not fit the release."""
    sums = 2 * len(document.table.features) + 1
    if document.sums is not None and len(document.sums.values) != sums:
        raise ValueError(f"the pilot query does not have {sums} sums")
    pilot = document.directions
    if pilot is not None:
        if (pilot.table, pilot.unit_count) != (document.table, document.unit_count):
            raise ValueError("the directions query has another schema or another unit_count")
        if (pilot.sums, pilot.directions, pilot.lengths) != (None, None, None):
            raise ValueError("the directions query has queries of its own")
    replaces = document.guarantee.neighbors == Neighbors.REPLACE_ONE
    if replaces != (document.unit_count is not None):
        raise ValueError("unit_count is required under replace-one, and forbidden under add-remove")


def _order(document: FormerDocument) -> int:
    """Return the order of the second moment."""
    return len(document.table.features) + (document.lattice.intercept_units > 0)


def converted(document: FormerDocument) -> Release:
    """Return the release that a document of an earlier format describes."""
    schema, stated = document.table, document.guarantee
    unit = schema.privacy_unit
    if (stated.unit, stated.max_rows) != (unit.column, unit.max_rows):
        raise ValueError("the guarantee and the schema have different privacy units")
    guarantee = Guarantee(budget(stated.budget), stated.neighbors, unit)
    moment = _moment(document)
    answers = list(_answers(document, moment))
    _require_usable([answer for _, answer in answers])
    return Release(
        schema=schema,
        guarantee=guarantee,
        mechanism=document.mechanism,
        parameters=document.parameters,
        rounds=rounds_of(answers, schema, guarantee),
        unit_count=document.unit_count,
        reproducible=document.status == NOT_PRIVATE,
        denoise=document.denoise,
        denoised=full(document.denoised, moment.lattice.dimension, np.float64),
        provenance=document.provenance,
        group=None if document.group is None else _group(document.group),
    )


class _Moment(NamedTuple):
    """Second moment of a document, with its lattice and its map.

    `units` and `noise` are None if the document contains the trace only.
    """

    lattice: Lattice
    transform: RowMap | None
    units: Integers | None
    noise: MatrixLaw | None


def _moment(document: FormerDocument) -> _Moment:
    """Return the second moment of a document."""
    schema = document.table
    (side, step), features = document.lattice.grid(), len(schema.features)
    radius, units = document.lattice.radius, document.lattice.intercept_units
    lattice = Lattice(
        features,
        radius,
        schema.intercept,
        schema.privacy_unit,
        side=side,
        step=step,
        equal_intercepts=schema.weight is None,
    )
    if lattice.intercept_units != units:
        if document.linear_map is None or not 0 < units <= lattice.intercept_units:
            raise ValueError("the intercept of the lattice does not fit the schema")
        lattice = lattice.with_intercept(units)  # a map allows a smaller one
    noise = None if document.noise is None else matrix_law(document.noise.model_dump())
    published = full(document.published, lattice.dimension, np.int64)
    if document.rungs is not None and isinstance(noise, WeightedSum):
        rungs = np.array([full(rung, lattice.dimension, np.int64) for rung in document.rungs])
        published, noise = put_together(rungs, noise, document.shift, has_intercept=units > 0)
    return _Moment(lattice, _transform(document), published, noise)


def _transform(document: FormerDocument) -> RowMap | None:
    """Return the map of the rows, or None."""
    matrix = square(document.linear_map)
    if matrix is None:
        return None
    center = np.zeros(len(matrix)) if document.center is None else np.array(document.center)
    return RowMap(matrix, center)


def _answers(document: FormerDocument, moment: _Moment) -> Iterator[tuple[Query, Published]]:
    """Yield the answers of all rounds in order."""
    if document.sums is not None:
        law = scalar_law(document.sums.noise.model_dump())
        yield "pilot", NoisySums(tuple(document.sums.values), law)
    if document.directions is not None:
        before = document.directions
        for query, answer in _answers(before, _moment(before)):
            yield DIRECTIONS[query], answer
    if document.lengths is not None:
        bins = document.lengths
        law = scalar_law(bins.noise.model_dump())
        yield "norms", NormHistogram(tuple(bins.ends), tuple(bins.counts), law)
    lattice, transform, units, noise = moment
    if units is not None and noise is not None:
        yield "matrix", NoisyMatrix(lattice, transform, document.shift, units, noise)
    elif units is not None:
        held = [document.parameters.get(option) for option in ("components", "rank")]
        directions = min([lattice.dimension, *(one for one in held if type(one) is int)])
        yield "matrix", EstimatedMatrix(lattice, document.shift, units, directions)
    if document.published_trace is not None and document.trace_noise is not None:
        law = scalar_law(document.trace_noise.model_dump())
        yield "trace", NoisyTrace(lattice, transform, document.published_trace, law)
    if document.published_count is not None and document.count_noise is not None:
        law = scalar_law(document.count_noise.model_dump())
        yield "count", NoisyCount(document.published_count, law)


def _require_usable(answers: Sequence[Published]) -> None:
    """Raise an error if float64 cannot represent the size of the noise."""
    spreads: list[float] = []
    for answer in answers:
        match answer:
            case NoisyMatrix(noise=noise):
                spreads += [noise.spread, math.sqrt(noise.diagonal_variance)]
            case NoisyTrace() | NoisyCount():
                spreads.append(answer.noise.standard_deviation)
    if not all(MIN_NOISE_SPREAD < spread < 1 / MIN_NOISE_SPREAD for spread in spreads):
        raise OverflowError


def put_together(
    rungs: Integers, noise: WeightedSum, shift: int, *, has_intercept: bool
) -> tuple[Integers, WeightedSum]:
    """Add up the second moments that an old file contains for ranges of row norms.

    Most of the noise is in ranges that contain almost no rows. So the sum omits a range whose trace
    is below `MIN_TRACE_SNR` standard deviations of its noise. There are two exceptions:

    - If the rows have an intercept, the sum contains the last range, which has the intercept of all
      rows.
    - If all ranges are below the noise level, the sum contains all of them.

    Parameters
    ----------
    rungs : ndarray of int, shape (K, d, d)
        Noisy second moments, in units of 2^`shift` times the units of the terms of `noise`.

    noise : WeightedSum
        Noise of the weighted sum of all second moments.

    shift : int
        Binary exponent of the units.

    has_intercept : bool
        True if the rows have an intercept.

    Returns
    -------
    units : ndarray of int, shape (d, d)
        Weighted sum.

    noise : WeightedSum
        Noise of this sum.

    Raises
    ------
    OverflowError
        An entry is too large for float64.

    """
    traces = np.trace(rungs.astype(np.float64), axis1=1, axis2=2) * 2.0**shift
    deviations = [math.sqrt(term.dimension * term.diagonal_variance) for term in noise.terms]
    kept = traces > MIN_TRACE_SNR * np.array(deviations)
    kept[-1] |= has_intercept
    at = np.flatnonzero(kept) if kept.any() else np.arange(len(rungs))
    weights = np.array(noise.weights)[at]
    law = WeightedSum(tuple(weights.tolist()), tuple(noise.terms[i] for i in at))
    with np.errstate(all="ignore"):
        total = np.rint(np.sum(weights[:, None, None] * rungs[at], axis=0))
    if np.isnan(total).any():
        raise OverflowError
    return np.clip(total, -MAX_INT64_FLOAT, MAX_INT64_FLOAT).astype(np.int64), law


def _group(document: GroupDocument) -> Group:
    """Return the group of a release."""
    together = Guarantee(budget(document.budget), document.neighbors)
    return Group(document.column, document.level, together)
