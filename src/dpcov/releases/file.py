"""Release files of format 3: conversion of a release to a JSON document, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, StringConstraints, ValidationError, model_validator

from dpcov.core import faults
from dpcov.core.envelope import unsigned
from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers import matrix_law, scalar_law
from dpcov.errors import ReleaseError
from dpcov.published.consistency import check_consistency
from dpcov.published.kinds import (
    EstimatedMatrix,
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Published,
    Query,
    Round,
    RowMap,
)
from dpcov.published.norm_histogram import NormHistogram
from dpcov.published.recomputed import check_guarantee, is_gaussian
from dpcov.published.record import NOT_PRIVATE, Group
from dpcov.releases import Release
from dpcov.releases.documents import (
    BudgetDocument,
    DocumentModel,
    GroupDocument,
    MatrixLawDocument,
    PositiveFloat,
    ScalarLawDocument,
    budget,
    budget_document,
    full,
    lower,
    square,
)
from dpcov.releases.former_files import (
    MAX_BINS,
    MIN_NOISE_SPREAD,
    MIN_SINGULAR_VALUE_RATIO,
    FormerDocument,
    converted,
)
from dpcov.rows.moment import UNITS, Lattice, power_above, units_per_row
from dpcov.rows.schema import Schema

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray

FORMAT = "dpcov.release/3"
FORMER = ("dpcov.release/1", "dpcov.release/2")
ESTIMATOR_VERSION = 4  # Version of the rules that compute the denoised matrix from the rounds.
MAX_KEY_CHARACTERS = 200  # Largest length of a key that a message repeats.
Cost = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,4000})(/[1-9][0-9]{0,4000})?$")]
LongInteger = Annotated[int, Field(ge=-(2**256), le=2**256)]
Parameter = bool | int | FiniteFloat | str | None
# Queries of a release in order, with the possible kinds of their answers.
ORDER: dict[Query, tuple[type[Published], ...]] = {
    "pilot": (NoisySums,),
    "directions": (NoisyMatrix,),
    "directions trace": (NoisyTrace,),
    "norms": (NormHistogram,),
    "matrix": (NoisyMatrix, EstimatedMatrix),
    "trace": (NoisyTrace,),
    "sums": (NoisySums,),
    "count": (NoisyCount,),
}


class GuaranteeDocument(DocumentModel):
    """Guarantee of the release. The privacy unit is in the schema."""

    budget: BudgetDocument
    neighbors: Neighbors


class LatticeDocument(DocumentModel):
    """Lattice of the rows. Rows are integers times `step`, and `side` is the radius in steps."""

    radius: Annotated[float, Field(gt=1e-100, lt=1e100)]
    step: Annotated[float, Field(gt=0)]
    side: int = Field(ge=1, lt=2**27)
    intercept_units: int = Field(ge=0, lt=2**28)


class TransformDocument(DocumentModel):
    """Map A (z - c) of the encoded features z: `matrix` is A row by row, `center` is c.

    `rule` is the version of the rule that chose the map, the bins and the clipping radius from
    earlier answers. `seed` is the seed of the simulations that the rule used.
    """

    matrix: list[FiniteFloat]
    center: list[FiniteFloat]
    rule: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0, lt=2**64)


class RowsDocument(DocumentModel):
    """Lattice of the rows of a second moment, and the map of the rows or null."""

    lattice: LatticeDocument
    transform: TransformDocument | None


class MatrixDocument(DocumentModel):
    """Second moment plus noise.

    `entries` is the lower triangle, row by row, in units of 2^`shift` squared lattice steps.
    """

    kind: Literal["noisy matrix"]
    rows: RowsDocument
    shift: int = Field(ge=0, le=128)
    entries: list[LongInteger]
    noise: MatrixLawDocument


class EstimateDocument(DocumentModel):
    """Second moment that a mechanism estimated, without a known noise distribution.

    `directions` is the number of directions that the estimate contains.
    """

    kind: Literal["estimated matrix"]
    rows: RowsDocument
    shift: int = Field(ge=0, le=128)
    entries: list[LongInteger]
    directions: int = Field(ge=1)


class TraceDocument(DocumentModel):
    """Trace plus noise, in squared lattice steps.

    `rows` is null if the matrix of the same rows precedes the trace.
    """

    kind: Literal["noisy trace"]
    rows: RowsDocument | None
    value: LongInteger
    noise: ScalarLawDocument


class CountDocument(DocumentModel):
    """Number of rows plus noise, in units of the squared intercept if rows have weights."""

    kind: Literal["noisy count"]
    value: LongInteger
    noise: ScalarLawDocument


class SumsDocument(DocumentModel):
    """Noisy sums over the rows, in squared lattice steps of the schema, before any map.

    The query ``pilot`` determines the map of later rounds. The query ``sums`` publishes means and
    variances in place of a second moment. The sums are of each squared feature, of each feature
    times the intercept, and of the squared intercept.
    """

    kind: Literal["noisy sums"]
    values: list[LongInteger]
    noise: ScalarLawDocument


class HistogramDocument(DocumentModel):
    """Noisy counts of transformed rows by squared norm. `ends` are the upper ends of the bins."""

    kind: Literal["norm histogram"]
    ends: list[PositiveFloat] = Field(min_length=1, max_length=MAX_BINS)
    counts: list[LongInteger]
    noise: ScalarLawDocument


class EpsilonDocument(DocumentModel):
    """Cost of a query with Laplace noise."""

    epsilon: Cost


class RhoDocument(DocumentModel):
    """Cost of a query with Gaussian noise: rho of zCDP, or mu^2 / 2 for (epsilon, delta)."""

    rho: Cost


class WholeDocument(DocumentModel):
    """Cost of a mechanism whose queries have no known costs: its whole budget."""

    budget: BudgetDocument


class RoundDocument(DocumentModel):
    """One query with its cost and its answer."""

    query: Query
    spent: EpsilonDocument | RhoDocument | WholeDocument
    answer: Annotated[
        MatrixDocument
        | EstimateDocument
        | TraceDocument
        | CountDocument
        | SumsDocument
        | HistogramDocument,
        Field(discriminator="kind"),
    ]


class ReleaseDocument(DocumentModel):
    """Release file of format 3. The format becomes stable with version 0.3.0.

    The estimates are not in the file. They follow from the rounds and the schema, by the rules of
    the version `estimator`. The file contains `denoised` only if an earlier version computed it.
    """

    format: Literal["dpcov.release/3"] = "dpcov.release/3"
    status: Literal["private", "reproducible: NOT PRIVATE"]
    guarantee: GuaranteeDocument
    mechanism: str
    parameters: dict[str, Parameter]
    unit_count: int | None = Field(
        ge=0, lt=2**63, description="Number of rows or persons under replace-one, else null."
    )
    rounds: list[RoundDocument] = Field(min_length=1, max_length=len(ORDER))
    denoise: Literal["none", "project", "shrink"]
    estimator: int = Field(ge=1)
    denoised: list[FiniteFloat] | None = None
    provenance: dict[str, str]
    group: GroupDocument | None = None
    table: Schema = Field(alias="schema")

    @model_validator(mode="after")
    def _consistent(self) -> ReleaseDocument:
        names = [one.query for one in self.rounds]
        if names != sorted(set(names), key=list(ORDER).index):
            raise ValueError("the queries of the rounds are out of order, or one occurs twice")
        replaces = self.guarantee.neighbors == Neighbors.REPLACE_ONE
        if replaces != (self.unit_count is not None):
            raise ValueError(
                "unit_count is required under replace-one, and forbidden under add-remove"
            )
        if self.estimator > ESTIMATOR_VERSION:
            raise ValueError(
                f"estimator is {self.estimator}, but this version of dpcov knows at most "
                f"{ESTIMATOR_VERSION}; install the version of dpcov that wrote the file"
            )
        if self.group is not None and self.table.privacy_unit.column is not None:
            raise ValueError("a release with a group cannot have a privacy unit of persons")
        return self


def to_document(release: Release) -> dict[str, Any]:
    """Return the JSON document of a release, validated.

    Parameters
    ----------
    release : Release
        Release.

    Returns
    -------
    dict
        Document of format 3.

    """
    group = release.group
    document = {
        "format": FORMAT,
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": {
            "budget": budget_document(release.guarantee.budget),
            "neighbors": release.guarantee.neighbors.value,
        },
        "mechanism": release.mechanism,
        "parameters": dict(release.parameters),
        "unit_count": release.unit_count,
        "rounds": list(_round_documents(release.rounds)),
        "denoise": release.denoise,
        "estimator": ESTIMATOR_VERSION,
        "denoised": None if release.denoised is None else lower(release.denoised),
        "provenance": dict(release.provenance),
        "group": None if group is None else _group_document(group),
        "schema": release.schema.model_dump(mode="json"),
    }
    _release(ReleaseDocument.model_validate(document, strict=False))  # a file that can be read
    return document


def _round_documents(rounds: Sequence[Round]) -> Iterator[dict[str, Any]]:
    """Yield the documents of the rounds in order."""
    before: Published | None = None
    for one in rounds:
        answer = one.published
        yield {
            "query": one.query,
            "spent": _spent_document(one),
            "answer": _answer_document(answer, before),
        }
        before = answer


def _spent_document(one: Round) -> dict[str, Any]:
    """Return the document of the cost of a round."""
    if not isinstance(one.spent, Fraction):
        return {"budget": budget_document(one.spent)}
    return {"rho" if is_gaussian(one.published) else "epsilon": str(one.spent)}


def _answer_document(answer: Published, before: Published | None) -> dict[str, Any]:
    """Return the document of an answer; `before` is the answer of the previous round."""
    match answer:
        case NoisyMatrix():
            return {
                "kind": "noisy matrix",
                "rows": _rows_document(answer.lattice, answer.transform),
                "shift": answer.shift,
                "entries": lower(answer.units),
                "noise": answer.noise.to_json(),
            }
        case EstimatedMatrix():
            return {
                "kind": "estimated matrix",
                "rows": _rows_document(answer.lattice, None),
                "shift": answer.shift,
                "entries": lower(answer.units),
                "directions": answer.directions,
            }
        case NoisyTrace():
            beside = isinstance(before, NoisyMatrix)
            rows = None if beside else _rows_document(answer.lattice, answer.transform)
            noise = answer.noise.to_json()
            return {"kind": "noisy trace", "rows": rows, "value": answer.value, "noise": noise}
        case NoisyCount():
            noise = answer.noise.to_json()
            return {"kind": "noisy count", "value": answer.value, "noise": noise}
        case NoisySums():
            noise = answer.noise.to_json()
            return {"kind": "noisy sums", "values": list(answer.values), "noise": noise}
        case NormHistogram():
            return {
                "kind": "norm histogram",
                "ends": list(answer.upper_ends),
                "counts": list(answer.counts),
                "noise": answer.noise.to_json(),
            }


def _rows_document(lattice: Lattice, transform: RowMap | None) -> dict[str, Any]:
    """Return the document of a lattice and a map."""
    return {
        "lattice": {
            "radius": lattice.radius,
            "step": lattice.step,
            "side": lattice.side,
            "intercept_units": lattice.intercept_units,
        },
        "transform": None if transform is None else _transform_document(transform),
    }


def _transform_document(transform: RowMap) -> dict[str, Any]:
    """Return the document of a map, without the rule and the seed if there are none."""
    document = {"matrix": transform.matrix.ravel().tolist(), "center": transform.center.tolist()}
    drawn = {"rule": transform.rule, "seed": transform.seed}
    return document | {name: value for name, value in drawn.items() if value is not None}


def _group_document(group: Group) -> dict[str, Any]:
    """Return the document of a group."""
    return {
        "column": group.column,
        "level": group.level,
        "budget": budget_document(group.together.budget),
        "neighbors": group.together.neighbors.value,
    }


def from_text(text: str, name: str) -> Release:
    """Return the release that a JSON text describes, after all checks.

    Parameters
    ----------
    text : str
        Content of a release file of any format.

    name : str
        Name of the file, for messages.

    Returns
    -------
    Release
        Release.

    Raises
    ------
    ReleaseError
        The text is not a valid release file, or it states more privacy than its noise gives.

    """
    try:
        release = _release_of(unsigned(text))
        check_guarantee(release)
        return release
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(_short(str(part)) for part in fault["loc"])
        wrong = faults.reason(fault)
        reason = f"{where}: {wrong}" if where else wrong
    except OverflowError:
        reason = "it contains a number that is out of range"
    except ValueError as error:
        reason = str(error)
    raise ReleaseError(f"{name!r} is not a valid release file: {reason}.")


def _release_of(text: str) -> Release:
    """Return the release of a text of any format, before its guarantee is checked."""
    if _format_of(text) in FORMER:
        return converted(FormerDocument.model_validate_json(text))
    release = _release(ReleaseDocument.model_validate_json(text))
    check_consistency(release)
    return release


def _format_of(text: str) -> object:
    """Return the format that a text names, or None. A quote inside a text has a backslash."""
    found = re.search(r'"format"\s*:\s*"([^"]*)"', text)
    return None if found is None else found[1]


def _short(part: str) -> str:
    """Return one part of a position in the file, or a placeholder for an unusual key."""
    usual = len(part) <= MAX_KEY_CHARACTERS and part.isprintable()
    return part if usual else "(an unusual key)"


def _release(document: ReleaseDocument) -> Release:
    """Return the release that a document of format 3 describes."""
    schema = document.table
    guarantee = Guarantee(
        budget(document.guarantee.budget), document.guarantee.neighbors, schema.privacy_unit
    )
    rounds = tuple(_rounds(document.rounds, schema))
    order = next(_orders(rounds), 0)
    if document.denoised is not None and len(document.denoised) != order * (order + 1) // 2:
        raise ValueError(f"denoised does not have {order * (order + 1) // 2} entries")
    group = document.group
    release = Release(
        schema=schema,
        guarantee=guarantee,
        mechanism=document.mechanism,
        parameters=document.parameters,
        rounds=rounds,
        unit_count=document.unit_count,
        reproducible=document.status == NOT_PRIVATE,
        denoise=document.denoise,
        denoised=full(document.denoised, order, np.float64),
        provenance=document.provenance,
        group=None
        if group is None
        else Group(group.column, group.level, Guarantee(budget(group.budget), group.neighbors)),
    )
    _require_possible_count(release)
    return release


def _orders(rounds: Sequence[Round]) -> Iterator[int]:
    """Yield the orders of the second moments of the rounds."""
    for one in rounds:
        if isinstance(one.published, NoisyMatrix | EstimatedMatrix | NoisyTrace):
            yield one.published.lattice.dimension


def _rounds(documents: Sequence[RoundDocument], schema: Schema) -> Iterator[Round]:
    """Yield the rounds of a release in order."""
    before: Published | None = None
    for document in documents:
        answer = _answer(document.answer, schema, before)
        if not isinstance(answer, ORDER[document.query]):
            raise ValueError(f"the query {document.query!r} has an answer of the wrong kind")
        match document.spent:
            case EpsilonDocument(epsilon=spent) if not is_gaussian(answer):
                yield Round(document.query, answer, Fraction(spent))
            case RhoDocument(rho=spent) if is_gaussian(answer):
                yield Round(document.query, answer, Fraction(spent))
            case WholeDocument(budget=whole):
                yield Round(document.query, answer, budget(whole))
            case _:
                raise ValueError(f"the query {document.query!r} has a cost of the wrong kind")
        before = answer


def _answer(document: Any, schema: Schema, before: Published | None) -> Published:
    """Return an answer; `before` is the answer of the previous round."""
    features = len(schema.features)
    match document:
        case MatrixDocument():
            lattice, transform = _rows(document.rows, schema)
            noise = matrix_law(document.noise.model_dump())
            if noise.dimension != lattice.dimension:
                raise ValueError("the noise and the matrix have different dimensions")
            _require_size(noise.spread, math.sqrt(noise.diagonal_variance))
            units = _integers(document.entries, lattice.dimension)
            return NoisyMatrix(lattice, transform, document.shift, units, noise)
        case EstimateDocument():
            lattice, _ = _rows(document.rows, schema)
            units = _integers(document.entries, lattice.dimension)
            if document.directions > lattice.dimension:
                raise ValueError("the matrix has more directions than its order")
            return EstimatedMatrix(lattice, document.shift, units, document.directions)
        case TraceDocument(rows=None):
            if not isinstance(before, NoisyMatrix):
                raise ValueError("a trace without rows must follow a matrix")
            return NoisyTrace(
                before.lattice, before.transform, document.value, _scalar(document.noise)
            )
        case TraceDocument(rows=RowsDocument() as rows):
            lattice, transform = _rows(rows, schema)
            return NoisyTrace(lattice, transform, document.value, _scalar(document.noise))
        case CountDocument():
            return NoisyCount(document.value, _scalar(document.noise))
        case SumsDocument():
            if len(document.values) != 2 * features + 1:
                raise ValueError(f"a query of sums does not have {2 * features + 1} sums")
            return NoisySums(tuple(document.values), _scalar(document.noise))
        case HistogramDocument():
            if len(document.counts) != len(document.ends):
                raise ValueError("the histogram does not have one count for each bin")
            if sorted(set(document.ends)) != document.ends:
                raise ValueError("the ends of the bins are not in ascending order")
            noise = _scalar(document.noise)
            return NormHistogram(tuple(document.ends), tuple(document.counts), noise)
    raise ValueError("unknown kind of answer")


def _scalar(document: Any) -> Any:
    """Return the noise distribution of a number."""
    noise = scalar_law(document.model_dump())
    _require_size(noise.standard_deviation)
    return noise


def _require_size(*spreads: float) -> None:
    """Raise an error if float64 cannot represent the size of the noise."""
    if not all(MIN_NOISE_SPREAD < spread < 1 / MIN_NOISE_SPREAD for spread in spreads):
        raise OverflowError


def _integers(entries: list[LongInteger], order: int) -> AnyArray:
    """Return the symmetric integer matrix of a lower triangle.

    Parameters
    ----------
    entries : list of int
        Lower triangle, row by row.

    order : int
        Order d of the matrix.

    Returns
    -------
    ndarray, shape (d, d)
        Matrix of int64, or of Python integers if an entry needs more than 64 bits.

    """
    if len(entries) != order * (order + 1) // 2:
        raise ValueError(f"the matrix does not have {order * (order + 1) // 2} entries")
    small = max(map(abs, entries)) < 2**63
    matrix = full(entries, order, np.int64 if small else object)
    assert matrix is not None  # noqa: S101  for type checkers: there are entries
    return matrix


def _rows(document: RowsDocument, schema: Schema) -> tuple[Lattice, RowMap | None]:
    """Return the lattice and the map of the rows.

    Parameters
    ----------
    document : RowsDocument
        Document of the rows.

    schema : Schema
        Schema of the release.

    Returns
    -------
    tuple
        Lattice, and map or None.

    Raises
    ------
    ValueError
        dpcov does not make such a lattice or such a map.

    """
    transform = _transform(document.transform, schema)
    stated = document.lattice
    plain = Lattice.of(schema)
    lattice = Lattice(
        len(schema.features),
        stated.radius,
        schema.intercept,
        schema.privacy_unit,
        side=stated.side,
        step=stated.step,
        equal_intercepts=schema.weight is None,
    )
    if not abs(stated.radius / stated.step - stated.side) < 1 + 1e-6:
        raise ValueError("the side of the lattice is not its radius in steps")
    steps = {stated.radius / UNITS, power_above(stated.radius) / UNITS}
    if transform is None:
        steps |= {plain.step}
        if stated.radius > plain.radius * (1 + 1e-9):
            raise ValueError("the radius of the lattice is larger than the radius of the schema")
    if stated.step not in steps:
        raise ValueError("the step of the lattice does not fit its radius")
    if lattice.intercept_units != stated.intercept_units:
        if transform is None or not 0 < stated.intercept_units <= lattice.intercept_units:
            raise ValueError("the intercept of the lattice does not fit the schema")
        lattice = lattice.with_intercept(stated.intercept_units)
    if transform is not None and transform.center.any() and lattice.intercept_units == 0:
        raise ValueError("a center needs an intercept")
    return lattice, transform


def _transform(document: TransformDocument | None, schema: Schema) -> RowMap | None:
    """Return the map of the rows, or None."""
    if document is None:
        return None
    features = len(schema.features)
    if len(document.matrix) != features**2 or len(document.center) != features:
        raise ValueError("the linear map or its center does not fit the number of features")
    matrix = square(document.matrix)
    assert matrix is not None  # noqa: S101  for type checkers: there are entries
    if not 1 / np.linalg.cond(matrix) > MIN_SINGULAR_VALUE_RATIO:
        raise ValueError("the linear map is not invertible")
    return RowMap(matrix, np.array(document.center), document.rule, document.seed)


def _require_possible_count(release: Release) -> None:
    """Raise an error if the release has a noisy count that dpcov never publishes."""
    if release.find(NoisyCount) is None:
        return
    if release.guarantee.neighbors == Neighbors.REPLACE_ONE:
        raise ValueError("a noisy count is possible under add-remove only")
    if not units_per_row(release.schema):
        raise ValueError("a noisy count of weighted rows needs an intercept")
