"""How a release file describes noise laws."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

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
