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
MAX_DIMENSION = 8192  # Largest order of a matrix.
MAX_TERMS = 8  # Largest number of terms of a weighted sum.
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rational = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,2000}(/[1-9][0-9]{0,2000})?$")]
Dimension = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]


class DocumentModel(BaseModel):
    """Base of all documents. It forbids unknown keys, and its errors do not repeat the input."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
        defer_build=True,  # a command needs few of these models
    )


class WishartDifferenceDocument(DocumentModel):
    """Noise c (G1 G1' - G2 G2'). Both G have shape (d, d + 1) and standard normal entries."""

    law: Literal["wishart-difference"]
    dimension: Dimension
    scale: PositiveFloat


class NuclearLaplaceDocument(DocumentModel):
    """Noise with a density proportional to exp(-||Z||_* / scale) on symmetric matrices.

    For ``nuclear-laplace-square``, Z has this density on all square matrices, and the noise is
    (Z + Z') / 2.
    """

    law: Literal["nuclear-laplace", "nuclear-laplace-square"]
    dimension: Dimension
    scale: PositiveFloat


class GaussianOrthogonalDocument(DocumentModel):
    """Noise with independent discrete Gaussian entries. The variance off the diagonal is half."""

    law: Literal["discrete-gaussian-orthogonal"]
    dimension: Dimension
    variance: Rational


class EntrywiseLaplaceDocument(DocumentModel):
    """Noise with independent discrete Laplace entries: P(k) proportional to exp(-|k| / scale)."""

    law: Literal["discrete-laplace-entrywise"]
    dimension: Dimension
    diagonal: Rational
    off_diagonal: Rational


class CenteredWishartDocument(DocumentModel):
    """Noise c (G G' - m I). G has shape (d, m) and standard normal entries, and m is `degrees`."""

    law: Literal["centered-wishart"]
    dimension: Dimension
    degrees: int = Field(ge=1, lt=2**40)
    scale: PositiveFloat


class WeightedSumDocument(DocumentModel):
    """Noise that is a weighted sum of independent terms.

    Old mechanisms released a second moment for each range of row norms. This is the noise of the
    sum of these second moments.
    """

    law: Literal["weighted-sum"]
    weights: list[FiniteFloat] = Field(min_length=1, max_length=MAX_TERMS)
    terms: list[
        Annotated[
            WishartDifferenceDocument | NuclearLaplaceDocument | GaussianOrthogonalDocument,
            Field(discriminator="law"),
        ]
    ] = Field(min_length=1, max_length=MAX_TERMS)

    @property
    def dimension(self) -> int:
        """Order of the terms, or 0 if the orders differ. No matrix has the order 0."""
        orders = {term.dimension for term in self.terms}
        return orders.pop() if len(orders) == 1 else 0


class ScalarLaplaceDocument(DocumentModel):
    """Discrete Laplace noise: P(k) is proportional to exp(-|k| / scale)."""

    law: Literal["discrete-laplace"]
    scale: Rational


class ScalarGaussianDocument(DocumentModel):
    """Discrete Gaussian noise: P(k) is proportional to exp(-k^2 / (2 variance))."""

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
    """Budget of pure epsilon-differential privacy."""

    definition: Literal["pure"] = "pure"
    epsilon: PositiveFloat


class ZCDPDocument(DocumentModel):
    """Budget of rho-zero-concentrated differential privacy."""

    definition: Literal["zcdp"] = "zcdp"
    rho: PositiveFloat


class ApproxDocument(DocumentModel):
    """Budget of (epsilon, delta)-differential privacy."""

    definition: Literal["approx"] = "approx"
    epsilon: PositiveFloat
    delta: Annotated[float, Field(gt=0, lt=1)]


BudgetDocument = Annotated[
    PureDocument | ZCDPDocument | ApproxDocument, Field(discriminator="definition")
]


class GroupDocument(DocumentModel):
    """Level of a column, if each level has a release of its own. All releases share `budget`."""

    column: str
    level: str
    budget: BudgetDocument
    neighbors: Neighbors


def budget_document(budget: Budget) -> dict[str, Any]:
    """Return the JSON description of a budget."""
    return {"definition": DEFINITIONS[type(budget)], **asdict(budget)}


def budget(document: PureDocument | ZCDPDocument | ApproxDocument) -> Budget:
    """Return the budget that a document describes."""
    return budget_from(**document.model_dump(exclude={"definition"}))


def lower(matrix: AnyArray) -> list[Any]:
    """Return the lower triangle of a symmetric matrix as a list, row by row."""
    return matrix[np.tril_indices(len(matrix))].tolist()


def square(values: list[float] | None) -> Matrix | None:
    """Return a square matrix from a list of its entries, row by row."""
    if values is None:
        return None
    order = math.isqrt(len(values))
    return np.array(values).reshape(order, order)


def full(values: list[Any] | None, order: int, dtype: type) -> AnyArray | None:
    """Return a symmetric matrix from its lower triangle.

    Parameters
    ----------
    values : list or None
        Entries of the lower triangle, row by row.

    order : int
        Order d of the matrix.

    dtype : type
        Type of the entries.

    Returns
    -------
    ndarray, shape (d, d), or None
        Matrix; None if there are no values.

    """
    if values is None:
        return None
    matrix: AnyArray = np.zeros((order, order), dtype)
    matrix[np.tril_indices(order)] = values
    matrix += np.tril(matrix, -1).T
    return matrix
