"""The release file: its published form (`ReleaseDocument`), and the way there and back."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, ValidationError, model_validator

from dpcov.core import faults
from dpcov.core.envelope import unsigned
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Guarantee, Neighbors, PureDP, budget_from
from dpcov.core.samplers import matrix_law, scalar_law
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.errors import ReleaseError
from dpcov.releases import NOT_PRIVATE, Group, Release, Sums
from dpcov.releases.laws import (
    DocumentModel,
    MatrixLawDocument,
    PositiveFloat,
    ScalarLawDocument,
    WeightedSumDocument,
)
from dpcov.releases.lengths import Lengths
from dpcov.rows.moment import UNITS, Lattice, units_per_row
from dpcov.rows.schema import Schema

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Integers, Matrix

FORMAT = "dpcov.release/2"
DEFINITIONS: dict[type[Budget], str] = {PureDP: "pure", ZCDP: "zcdp", ApproxDP: "approx"}
LONGEST_KEY = 200
MOST_BINS = 2**12  # of lengths of rows
SMALLEST_RATIO = 1e-15  # of the singular values of a linear map
SURE = 4.0  # deviations of its noise from which on a trace is more than noise
LARGEST = 2.0**63 - 2**10  # of float64, that 64 bits hold
SMALLEST_SPREAD = 1e-100  # of a noise law; its inverse is the largest

Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Parameter = bool | int | FiniteFloat | str | None


class PureDocument(DocumentModel):
    """Pure epsilon-differential privacy."""

    definition: Literal["pure"] = "pure"
    epsilon: PositiveFloat


class ZCDPDocument(DocumentModel):
    """rho-zero-concentrated differential privacy."""

    definition: Literal["zcdp"] = "zcdp"
    rho: PositiveFloat


class ApproxDocument(DocumentModel):
    """(epsilon, delta)-differential privacy."""

    definition: Literal["approx"] = "approx"
    epsilon: PositiveFloat
    delta: Annotated[float, Field(gt=0, lt=1)]


BudgetDocument = Annotated[
    PureDocument | ZCDPDocument | ApproxDocument, Field(discriminator="definition")
]


class GuaranteeDocument(DocumentModel):
    """What the release guarantees; `unit` is null for rows, else the person's column."""

    budget: BudgetDocument
    neighbors: Neighbors
    unit: str | None
    max_rows: int = Field(ge=1)
    in_words: str


class GroupDocument(DocumentModel):
    """The level of a column whose levels were released apart; they keep `budget` together."""

    column: str
    level: str
    budget: BudgetDocument
    neighbors: Neighbors


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


class LengthsDocument(DocumentModel):
    """Noisy counts of (mapped) rows by squared length, in squared units of an encoded row."""

    ends: list[PositiveFloat] = Field(min_length=1, max_length=MOST_BINS)
    counts: list[Integer64]
    noise: ScalarLawDocument

    @model_validator(mode="after")
    def _consistent(self) -> LengthsDocument:
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


class ReleaseDocument(DocumentModel):
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
    lengths: LengthsDocument | None = None
    sums: SumsDocument | None = None
    directions: ReleaseDocument | None = Field(
        default=None, description="A moment that was published to learn the directions of rows."
    )
    table: Schema = Field(alias="schema")

    @model_validator(mode="after")
    def _consistent(self) -> ReleaseDocument:
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


def to_document(release: Release) -> dict[str, Any]:
    """Return the JSON document of a release, which is validated first."""
    lattice, guarantee = release.lattice, release.guarantee
    document = {
        "format": FORMAT,
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": {
            "budget": _budget_document(guarantee.budget),
            "neighbors": guarantee.neighbors.value,
            "unit": guarantee.unit.column,
            "max_rows": guarantee.unit.max_rows,
            "in_words": release.guarantee_in_words(),
        },
        "mechanism": release.mechanism,
        "parameters": dict(release.parameters),
        "noise": None if release.noise is None else release.noise.to_json(),
        "trace_noise": None if release.trace_noise is None else release.trace_noise.to_json(),
        "lattice": {
            "radius": lattice.radius,
            "step": lattice.step,
            "side": lattice.side,
            "intercept_units": lattice.intercept_units,
            "features": tuple(feature.name for feature in release.schema.features),
        },
        "shift": release.shift,
        "published": _lower(release.published),
        "published_trace": release.published_trace,
        "unit_count": release.unit_count,
        "linear_map": None if release.linear_map is None else release.linear_map.ravel().tolist(),
        "center": None if release.center is None else release.center.tolist(),
        "denoise": release.denoise,
        "denoised": _lower(release.denoised),
        "provenance": dict(release.provenance),
        "group": None if release.group is None else _group_document(release.group),
        "rungs": None,
        "published_count": release.published_count,
        "count_noise": None if release.count_noise is None else release.count_noise.to_json(),
        "lengths": None if release.lengths is None else _lengths_document(release.lengths),
        "sums": None if release.sums is None else _sums_document(release.sums),
        "directions": None if release.directions is None else to_document(release.directions),
        "schema": release.schema.model_dump(mode="json"),
    }
    ReleaseDocument.model_validate(document, strict=False)
    return document


def from_text(text: str, name: str) -> Release:
    """Return the release that a JSON text, signed or not, describes; `name` is for messages."""
    try:
        document = ReleaseDocument.model_validate_json(unsigned(text))
        return _release(document)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(_short(str(part)) for part in fault["loc"])
        wrong = faults.reason(fault)
        reason = f"{where}: {wrong}" if where else wrong
    except OverflowError:
        reason = "a number in it is out of range"
    except ValueError as error:
        reason = str(error)
    raise ReleaseError(f"{name!r} is no valid release file: {reason}.")


def _short(part: str) -> str:
    """Part of a position in the file, which may be a key that a stranger wrote."""
    return part if len(part) <= LONGEST_KEY and part.isprintable() else "(a strange key)"


def _release(document: ReleaseDocument) -> Release:
    schema = document.table
    guarantee = document.guarantee
    unit = schema.privacy_unit
    if (guarantee.unit, guarantee.max_rows) != (unit.column, unit.max_rows):
        raise ValueError("guarantee: its unit is not its schema's")
    (side, step), features = document.lattice.grid(), len(schema.features)
    radius, units = document.lattice.radius, document.lattice.intercept_units
    lattice = Lattice(
        features,
        radius,
        schema.intercept,
        unit,
        side=side,
        step=step,
        equal_intercepts=schema.weight is None,
    )
    if lattice.intercept_units != units:
        if document.linear_map is None or not 0 < units <= lattice.intercept_units:
            raise ValueError("lattice: its intercept is not its schema's")
        lattice = lattice.with_intercept(units)  # of mapped rows it may be a smaller one
    d, noise = lattice.dimension, None
    published = _full(document.published, d, np.int64)
    if document.noise is not None:
        noise = matrix_law(document.noise.model_dump())
    if document.rungs is not None and isinstance(noise, WeightedSum):
        rungs = np.array([_full(rung, d, np.int64) for rung in document.rungs])
        published, noise = put_together(rungs, noise, document.shift, has_intercept=units > 0)
    trace_noise = (
        None if document.trace_noise is None else scalar_law(document.trace_noise.model_dump())
    )
    count_noise = (
        None if document.count_noise is None else scalar_law(document.count_noise.model_dump())
    )
    spreads = [] if noise is None else [noise.spread, math.sqrt(noise.diagonal_variance)]
    spreads += [law.standard_deviation for law in [trace_noise, count_noise] if law is not None]
    if not all(SMALLEST_SPREAD < spread < 1 / SMALLEST_SPREAD for spread in spreads):
        raise OverflowError
    return Release(
        schema=schema,
        lattice=lattice,
        guarantee=Guarantee(_budget(guarantee.budget), guarantee.neighbors, unit),
        mechanism=document.mechanism,
        parameters=document.parameters,
        noise=noise,
        trace_noise=trace_noise,
        shift=document.shift,
        published=published,
        published_trace=document.published_trace,
        unit_count=document.unit_count,
        reproducible=document.status == NOT_PRIVATE,
        linear_map=_square(document.linear_map),
        center=None if document.center is None else np.array(document.center),
        denoise=document.denoise,
        denoised=_full(document.denoised, d, np.float64),
        provenance=document.provenance,
        group=None if document.group is None else _group(document.group),
        published_count=document.published_count,
        count_noise=count_noise,
        lengths=None if document.lengths is None else _lengths(document.lengths),
        sums=None if document.sums is None else _sums(document.sums),
        directions=None if document.directions is None else _release(document.directions),
    )


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


def _lengths_document(lengths: Lengths) -> dict[str, Any]:
    return {
        "ends": list(lengths.ends),
        "counts": list(lengths.counts),
        "noise": lengths.law.to_json(),
    }


def _lengths(document: LengthsDocument) -> Lengths:
    law = scalar_law(document.noise.model_dump())
    return Lengths(tuple(document.ends), tuple(document.counts), law)


def _sums_document(sums: Sums) -> dict[str, Any]:
    return {"values": list(sums.values), "noise": sums.law.to_json()}


def _sums(document: SumsDocument) -> Sums:
    return Sums(tuple(document.values), scalar_law(document.noise.model_dump()))


def _group_document(group: Group) -> dict[str, Any]:
    return {
        "column": group.column,
        "level": group.level,
        "budget": _budget_document(group.together.budget),
        "neighbors": group.together.neighbors.value,
    }


def _group(document: GroupDocument) -> Group:
    together = Guarantee(_budget(document.budget), document.neighbors)
    return Group(document.column, document.level, together)


def _budget_document(budget: Budget) -> dict[str, Any]:
    return {"definition": DEFINITIONS[type(budget)], **asdict(budget)}


def _budget(document: PureDocument | ZCDPDocument | ApproxDocument) -> Budget:
    return budget_from(**document.model_dump(exclude={"definition"}))


def _lower(matrix: AnyArray | None) -> list[Any] | None:
    if matrix is None:
        return None
    return matrix[np.tril_indices(len(matrix))].tolist()


def _square(values: list[float] | None) -> Matrix | None:
    if values is None:
        return None
    order = math.isqrt(len(values))
    return np.array(values).reshape(order, order)


def _full(values: list[Any] | None, order: int, dtype: type) -> AnyArray | None:
    if values is None:
        return None
    matrix: AnyArray = np.zeros((order, order), dtype)
    matrix[np.tril_indices(order)] = values
    matrix += np.tril(matrix, -1).T
    return matrix
