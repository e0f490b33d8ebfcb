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
from dpcov.published.costs import cost
from dpcov.published.kinds import (
    DIRECTIONS,
    EstimatedMatrix,
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Published,
    Query,
    Round,
    RowTransform,
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

MAX_BINS = 2**12  # bins of a norm histogram
SMALLEST_RATIO = 1e-15  # of the singular values of a linear map
SURE = 4.0  # deviations of its noise from which on a trace is more than noise
LARGEST = 2.0**63 - 2**10  # of float64, that 64 bits hold
SMALLEST_SPREAD = 1e-100  # of a noise law; its inverse is the largest

Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Parameter = bool | int | FiniteFloat | str | None


class GuaranteeDocument(DocumentModel):
    """What the release guarantees; `unit` is null for rows, else the person's column."""

    budget: BudgetDocument
    neighbors: Neighbors
    unit: str | None
    max_rows: int = Field(ge=1)
    in_words: str


class LatticeDocument(DocumentModel):
    """Grid of the encoded rows: they are integers times `step`, exactly.

    `side` is the radius in steps, rounded up. Format 1 has neither: a step is `radius` * 2^-20.
    """

    radius: Annotated[float, Field(gt=1e-100, lt=1e100)]
    step: Annotated[float, Field(gt=0)] | None = None
    side: int | None = Field(None, ge=1, lt=2**27)
    units_per_radius: Literal[1048576] | None = Field(None, description="Of format 1.")
    intercept_units: int = Field(ge=0, lt=2**28)
    features: tuple[str, ...]

    def grid(self) -> tuple[int, float]:
        """Side and step."""
        if self.step is None or self.side is None:
            return UNITS, self.radius / UNITS
        return self.side, self.step


class NormHistogramDocument(DocumentModel):
    """Noisy counts of (mapped) rows by squared length, in squared units of an encoded row."""

    ends: list[PositiveFloat] = Field(min_length=1, max_length=MAX_BINS)
    counts: list[Integer64]
    noise: ScalarLawDocument

    @model_validator(mode="after")
    def _consistent(self) -> NormHistogramDocument:
        if len(self.counts) != len(self.ends):
            raise ValueError("there is not one count for each bin of lengths")
        if sorted(set(self.ends)) != self.ends:
            raise ValueError("the ends of bins of lengths do not ascend")
        return self


LongInteger = Annotated[int, Field(ge=-(2**256), le=2**256)]


class SumsDocument(DocumentModel):
    """Noisy sums over rows, in squared steps of the schema's lattice, before any map.

    Of each feature's square, of each times the constant, and of the squared constant.
    """

    values: list[LongInteger]
    noise: ScalarLawDocument


class FormerDocument(DocumentModel):
    """A dpcov release. Matrices are symmetric; lower triangles are listed row by row.

    `published` * 2^`shift` * step^2 is the noisy second moment of the encoded rows (z, t);
    `denoised` is the estimate made from it, in squared units of an encoded row. This format is not
    stable yet; files of format 1 are read as well.
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
        default=None, description="(p, p) map, row by row, applied before the clip, or null."
    )
    center: list[FiniteFloat] | None = Field(
        default=None, description="(p,) what is taken from the features before the map, or null."
    )
    denoise: Literal["none", "project", "shrink"]
    denoised: list[FiniteFloat] | None
    provenance: dict[str, str]
    group: GroupDocument | None = None
    rungs: list[list[Integer64]] | None = Field(
        default=None,
        description="Of old files: noisy moments by length of rows, times 2^`shift`, whose sum "
        "weighted by those of `noise` is `published`; put together where they are read.",
    )
    published_count: Annotated[int, Field(ge=-(2**128), le=2**128)] | None = Field(
        default=None,
        description="Number of rows plus noise; with weights the sum of their shares of the "
        "largest, times the squared `intercept_units` of the schema. Null where not published.",
    )
    count_noise: ScalarLawDocument | None = None
    lengths: NormHistogramDocument | None = None
    sums: SumsDocument | None = None
    directions: FormerDocument | None = Field(
        default=None, description="A moment that was published to learn the directions of rows."
    )
    table: Schema = Field(alias="schema")

    @model_validator(mode="after")
    def _consistent(self) -> FormerDocument:
        declared = tuple(feature.name for feature in self.table.features)
        if self.lattice.features != declared:
            raise ValueError("the lattice's features are not those of the schema")
        grid, old = self.lattice, self.format == "dpcov.release/1"
        if [old, not old, not old] != [
            it is not None for it in (grid.units_per_radius, grid.step, grid.side)
        ]:
            raise ValueError("the lattice has not the fields of the file's format")
        side, step = grid.grid()
        if not abs(grid.radius / step - side) < 1 + 1e-6:
            raise ValueError("the lattice's side is not its radius in steps")
        d = len(declared) + (self.lattice.intercept_units > 0)
        if self.noise is not None and self.noise.dimension != d:
            raise ValueError("the noise law's dimension is not the matrix's")
        if self.noise is not None and self.published is None:
            raise ValueError("a noise law comes with a published matrix")
        if self.noise is None and None not in (self.published, self.trace_noise):
            raise ValueError("a matrix that is published beside a trace comes with its noise law")
        if (self.trace_noise is None) != (self.published_trace is None):
            raise ValueError("a published trace and its noise law go together")
        if (self.count_noise is None) != (self.published_count is None):
            raise ValueError("a published count and its noise law go together")
        if self.count_noise is not None:
            if self.guarantee.neighbors == Neighbors.REPLACE_ONE:
                raise ValueError("a count has noise under add-remove only")
            if not units_per_row(self.table):
                raise ValueError("without an intercept weighted rows have no count")
        weighted = self.noise if isinstance(self.noise, WeightedSumDocument) else None
        if weighted is not None and len(weighted.weights) != len(weighted.terms):
            raise ValueError("there is not one weight for each noise law")
        if self.rungs is not None:
            if weighted is None:
                raise ValueError("moments by length of rows come with a weighted sum of noise laws")
            if len(self.rungs) != len(weighted.terms):
                raise ValueError("there is not one noise law for each rung")
            if self.trace_noise is None:
                raise ValueError("moments by length of rows come with a trace")
        if self.published is None and self.published_trace is None:
            raise ValueError("neither a matrix nor a trace is published")
        parts = [(f"rungs.{at}", rung) for at, rung in enumerate(self.rungs or ())]
        for name, values in (
            ("published", self.published),
            ("denoised", self.denoised),
            *parts,
        ):
            if values is not None and len(values) != d * (d + 1) // 2:
                raise ValueError(
                    f"{name} does not have the {d * (d + 1) // 2} entries of its order"
                )
        if self.linear_map is not None:
            matrix = np.array(self.linear_map)
            if matrix.size != len(declared) ** 2:
                raise ValueError("the linear map is not one of the features")
            if not 1 / np.linalg.cond(matrix.reshape(len(declared), -1)) > SMALLEST_RATIO:
                raise ValueError("the linear map can't be undone")
        if self.group is not None and self.guarantee.unit is not None:
            raise ValueError("releases by the levels of a column protect rows")
        if self.center is not None:
            if self.linear_map is None or self.lattice.intercept_units == 0:
                raise ValueError("a center needs a linear map and an intercept")
            if len(self.center) != len(declared):
                raise ValueError("the center is not one of the features")
        if self.sums is not None and len(self.sums.values) != 2 * len(declared) + 1:
            raise ValueError("the sums of a look are not those of the features")
        look = self.directions
        if look is not None:
            if (look.table, look.unit_count) != (self.table, self.unit_count):
                raise ValueError("the look at directions is not at the same table")
            if (look.sums, look.directions, look.lengths) != (None, None, None):
                raise ValueError("a look at directions has no looks of its own")
        if (self.guarantee.neighbors == Neighbors.REPLACE_ONE) != (self.unit_count is not None):
            raise ValueError("unit_count is public under replace-one, and only there")
        return self


def converted(document: FormerDocument) -> Release:
    """Return the release that a document of an earlier format describes."""
    schema, stated = document.table, document.guarantee
    unit = schema.privacy_unit
    if (stated.unit, stated.max_rows) != (unit.column, unit.max_rows):
        raise ValueError("guarantee: its unit is not its schema's")
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


def rounds_of(
    answers: Sequence[tuple[Query, Published]], schema: Schema, guarantee: Guarantee
) -> tuple[Round, ...]:
    """Return the rounds with their costs. A round without a known cost states the whole budget."""
    rounds, last = [], None
    for query, answer in answers:
        found = cost(answer, schema, guarantee, last)
        rounds.append(Round(query, answer, guarantee.budget if found is None else found))
        last = answer if isinstance(answer, NoisyMatrix) else None
    return tuple(rounds)


class _Moment(NamedTuple):
    """Second moment of a former document: its lattice, its map, and its integers if there are."""

    lattice: Lattice
    transform: RowTransform | None
    units: Integers | None
    noise: MatrixLaw | None


def _moment(document: FormerDocument) -> _Moment:
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
            raise ValueError("lattice: its intercept is not its schema's")
        lattice = lattice.with_intercept(units)  # of mapped rows it may be a smaller one
    noise = None if document.noise is None else matrix_law(document.noise.model_dump())
    published = full(document.published, lattice.dimension, np.int64)
    if document.rungs is not None and isinstance(noise, WeightedSum):
        rungs = np.array([full(rung, lattice.dimension, np.int64) for rung in document.rungs])
        published, noise = put_together(rungs, noise, document.shift, has_intercept=units > 0)
    return _Moment(lattice, _transform(document), published, noise)


def _transform(document: FormerDocument) -> RowTransform | None:
    matrix = square(document.linear_map)
    if matrix is None:
        return None
    center = np.zeros(len(matrix)) if document.center is None else np.array(document.center)
    return RowTransform(matrix, center)


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
        told = document.lengths
        law = scalar_law(told.noise.model_dump())
        yield "norms", NormHistogram(tuple(told.ends), tuple(told.counts), law)
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
    """Refuse noise whose size float64 cannot hold."""
    spreads: list[float] = []
    for answer in answers:
        match answer:
            case NoisyMatrix(noise=noise):
                spreads += [noise.spread, math.sqrt(noise.diagonal_variance)]
            case NoisyTrace() | NoisyCount():
                spreads.append(answer.noise.standard_deviation)
    if not all(SMALLEST_SPREAD < spread < 1 / SMALLEST_SPREAD for spread in spreads):
        raise OverflowError


def put_together(
    rungs: Integers, noise: WeightedSum, shift: int, *, has_intercept: bool
) -> tuple[Integers, WeightedSum]:
    """One noisy moment, and the law of its noise, from those by length of rows of old files.

    `rungs` are (K, d, d) integers, in units of 2^`shift` times those of the terms of `noise`; the
    moment of all rows is their weighted sum. Most of its noise is that of lengths which hardly a
    row has. So those are left out whose trace is not above `SURE` deviations of its noise; but not
    the last where it is the intercept's, which every row has, and none where all would be.
    """
    traces = np.trace(rungs.astype(np.float64), axis1=1, axis2=2) * 2.0**shift
    deviations = [math.sqrt(term.dimension * term.diagonal_variance) for term in noise.terms]
    kept = traces > SURE * np.array(deviations)
    kept[-1] |= has_intercept
    at = np.flatnonzero(kept) if kept.any() else np.arange(len(rungs))
    weights = np.array(noise.weights)[at]
    law = WeightedSum(tuple(weights.tolist()), tuple(noise.terms[i] for i in at))
    with np.errstate(all="ignore"):
        total = np.rint(np.sum(weights[:, None, None] * rungs[at], axis=0))
    if np.isnan(total).any():
        raise OverflowError
    return np.clip(total, -LARGEST, LARGEST).astype(np.int64), law


def _group(document: GroupDocument) -> Group:
    together = Guarantee(budget(document.budget), document.neighbors)
    return Group(document.column, document.level, together)
