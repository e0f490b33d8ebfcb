"""Parts of a release file: noise distributions, budgets and matrices."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP, budget_from

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Matrix

DEFINITIONS: dict[type[Budget], str] = {PureDP: "pure", ZCDP: "zcdp", ApproxDP: "approx"}
MAX_DIMENSION = 8192
MOST_TERMS = 8
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rational = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,2000}(/[1-9][0-9]{0,2000})?$")]
Dimension = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]


class DocumentModel(BaseModel):
    """Strict, without a quote of what it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=True)


class WishartDifferenceDocument(DocumentModel):
    """c (G1 G1' - G2 G2'), G of shape (d, d+1) standard normal."""

    law: Literal["wishart-difference"]
    dimension: Dimension
    scale: PositiveFloat


class NuclearLaplaceDocument(DocumentModel):
    """Density exp(-||Z||_* / scale) on symmetric matrices, or (Z + Z') / 2 of that on all."""

    law: Literal["nuclear-laplace", "nuclear-laplace-square"]
    dimension: Dimension
    scale: PositiveFloat


class GaussianOrthogonalDocument(DocumentModel):
    """Independent discrete Gaussians, half the variance off the diagonal."""

    law: Literal["discrete-gaussian-orthogonal"]
    dimension: Dimension
    variance: Rational


class EntrywiseLaplaceDocument(DocumentModel):
    """Independent discrete Laplace entries: P(k) proportional to exp(-|k| / scale)."""

    law: Literal["discrete-laplace-entrywise"]
    dimension: Dimension
    diagonal: Rational
    off_diagonal: Rational


class CenteredWishartDocument(DocumentModel):
    """c (G G' - m I), G of shape (d, m) standard normal, m = `degrees`."""

    law: Literal["centered-wishart"]
    dimension: Dimension
    degrees: int = Field(ge=1, lt=2**40)
    scale: PositiveFloat


class WeightedSumDocument(DocumentModel):
    """Sum of independent terms, times weights: noise of moments by length of rows, put together."""

    law: Literal["weighted-sum"]
    weights: list[FiniteFloat] = Field(min_length=1, max_length=MOST_TERMS)
    terms: list[
        Annotated[
            WishartDifferenceDocument | NuclearLaplaceDocument | GaussianOrthogonalDocument,
            Field(discriminator="law"),
        ]
    ] = Field(min_length=1, max_length=MOST_TERMS)

    @property
    def dimension(self) -> int:
        """Order of the terms; 0, which no matrix has, where they differ."""
        orders = {term.dimension for term in self.terms}
        return orders.pop() if len(orders) == 1 else 0


class ScalarLaplaceDocument(DocumentModel):
    """P(k) proportional to exp(-|k| / scale)."""

    law: Literal["discrete-laplace"]
    scale: Rational


class ScalarGaussianDocument(DocumentModel):
    """P(k) proportional to exp(-k^2 / (2 variance))."""

    law: Literal["discrete-gaussian"]
    variance: Rational


MatrixLawDocument = Annotated[
    WishartDifferenceDocument
    | NuclearLaplaceDocument
    | GaussianOrthogonalDocument
    | EntrywiseLaplaceDocument
    | CenteredWishartDocument
    | WeightedSumDocument,
    Field(discriminator="law"),
]
ScalarLawDocument = Annotated[
    ScalarLaplaceDocument | ScalarGaussianDocument, Field(discriminator="law")
]


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


class GroupDocument(DocumentModel):
    """The level of a column whose levels were released apart; they keep `budget` together."""

    column: str
    level: str
    budget: BudgetDocument
    neighbors: Neighbors


def budget_document(budget: Budget) -> dict[str, Any]:
    """Return the description of a budget."""
    return {"definition": DEFINITIONS[type(budget)], **asdict(budget)}


def budget(document: PureDocument | ZCDPDocument | ApproxDocument) -> Budget:
    """Return the budget that a document describes."""
    return budget_from(**document.model_dump(exclude={"definition"}))


def lower(matrix: AnyArray) -> list[Any]:
    """Return the lower triangle of a symmetric matrix, row by row."""
    return matrix[np.tril_indices(len(matrix))].tolist()


def square(values: list[float] | None) -> Matrix | None:
    """Return a square matrix of its entries, row by row."""
    if values is None:
        return None
    order = math.isqrt(len(values))
    return np.array(values).reshape(order, order)


def full(values: list[Any] | None, order: int, dtype: type) -> AnyArray | None:
    """Return the symmetric matrix of a lower triangle."""
    if values is None:
        return None
    matrix: AnyArray = np.zeros((order, order), dtype)
    matrix[np.tril_indices(order)] = values
    matrix += np.tril(matrix, -1).T
    return matrix
