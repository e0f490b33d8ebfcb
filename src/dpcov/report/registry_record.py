"""Record of a release for the public registry of differential privacy deployments.

The registry is the "Differential Privacy Deployments Registry" of OpenDP. The models below state
its published fields in their order (repository opendp/deployments-registry-data, MIT licence, state
of July 2026). They are written from that description, and no file of the registry is copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dpcov.core.printable import printable
from dpcov.core.privacy import ZCDP, ApproxDP, PureDP
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.report import claims
from dpcov.report.statements import NOT_STATED, Sector, Statements, stated

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release

VARIANTS: dict[type[Budget], Literal["Pure DP", "Approximate DP", "Zero-concentrated DP"]] = {
    PureDP: "Pure DP",
    ApproxDP: "Approximate DP",
    ZCDP: "Zero-concentrated DP",
}
# The registry renders all texts as Markdown with formulas, and names in a file can be hostile.
MARKUP = str.maketrans({one: f"&#{ord(one)};" for one in "&<[$\\`"})
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", json_schema_extra={"format": "date"})]


class _Part(BaseModel):
    """Strict part of a record, without other fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=True)


class Basic(_Part):
    """Who published what, when, and for what use."""

    name: str
    data_curators: list[str] = Field(min_length=1)
    intended_use: str
    data_product_type: Literal["Summary statistics"] = "Summary statistics"
    data_product_region: str
    description: str
    publication_date: Day
    data_product_sector: Sector | None = None


class Variant(_Part):
    """Kind of the guarantee and its limits."""

    variant_name: Literal["Pure DP", "Approximate DP", "Zero-concentrated DP"]
    data_domain: str
    unprotected_quantities: str


class Parameters(_Part):
    """Parameters of the guarantee."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None


class Loss(_Part):
    """Privacy unit and parameters."""

    privacy_unit: str
    privacy_unit_details: str
    privacy_parameters: Parameters
    privacy_parameters_details: str


class Model(_Part):
    """Trust and access."""

    model_name: Literal["Central"] = "Central"
    model_name_details: str
    actors: str
    release_type: Literal["One release"] = "One release"
    release_type_details: str
    data_source_type: Literal["Static"] = "Static"
    data_source_type_details: str
    access_type: Literal["Non-interactive"] = "Non-interactive"
    access_type_details: str


class Accounting(_Part):
    """Post-processing and composition."""

    post_processing: str
    composition: str


class Implementation(_Part):
    """Choices, mechanism and reasons."""

    preprocessing_and_hyperparameter_tuning: str
    mechanisms: str
    justification: str


class Deployment(_Part):
    """Description of the release."""

    basic: Basic
    dp_variant: Variant | None = None
    privacy_loss: Loss | None = None
    deployment_model: Model | None = None
    accounting: Accounting | None = None
    implementation: Implementation | None = None


class RegistryRecord(_Part):
    """Draft of a record for the registry. A release with a seed has no guarantee in its record."""

    url_slug: str
    status: Literal["Draft"] = "Draft"
    tier: Literal[1, 2, 3]
    deployment: Deployment


def record(release: Release, statements: Statements) -> RegistryRecord:
    """Return the record of a release.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    Returns
    -------
    RegistryRecord
        Draft of the record. Facts that nobody stated are "Not stated.".

    Raises
    ------
    ReleaseError
        Neither the curator nor the file states a date.

    """
    basic = _basic(release, statements)
    if release.reproducible:
        deployment = Deployment(basic=basic)
    else:
        deployment = Deployment(
            basic=basic,
            dp_variant=_variant(release),
            privacy_loss=_loss(release),
            deployment_model=_model(),
            accounting=Accounting(
                post_processing=claims.processing(release),
                composition=harmless(claims.composition(release)),
            ),
            implementation=_implementation(release, statements),
        )
    named = "-".join(basic.data_curators), basic.publication_date[:4]
    slug = "-".join(re.sub(r"\W+", "-", part.lower()) for part in (basic.name, *named))
    return RegistryRecord(
        url_slug=slug.replace("_", "-"), tier=_tier(release, statements), deployment=deployment
    )


def _tier(release: Release, statements: Statements) -> Literal[1, 2, 3]:
    """Return how complete the record is: 3 if the curator also states the choices."""
    if release.reproducible:
        return 1
    whole = statements.justification and statements.data_seen is not None
    return 3 if whole and not statements.missing() else 2


def _basic(release: Release, statements: Statements) -> Basic:
    warned = [f"{NOT_PRIVATE}. {claims.SEEDED_GUARANTEE}"] * release.reproducible
    described = [*warned, *advisories(release), claims.product(release), claims.table(release)]
    title = printable(statements.title)
    return Basic(
        name=f"NOT PRIVATE: {title}" if release.reproducible else title,
        data_curators=[printable(name) for name in statements.curators] or [NOT_STATED],
        intended_use=stated(statements.use),
        data_product_region=stated(statements.region),
        description=harmless(" ".join(described)),
        publication_date=statements.date_of(release).isoformat(),
        data_product_sector=statements.sector,
    )


def _variant(release: Release) -> Variant:
    return Variant(
        variant_name=VARIANTS[type(release.whole_guarantee.budget)],
        data_domain=harmless(claims.domain(release)),
        unprotected_quantities=harmless(claims.unprotected(release)),
    )


def _loss(release: Release) -> Loss:
    guarantee = release.whole_guarantee
    details = f"{claims.meaning(guarantee)} {claims.verification(release)}"
    return Loss(
        privacy_unit=harmless(str(guarantee.unit)),
        privacy_unit_details=claims.adjacent(guarantee),
        privacy_parameters=Parameters(
            **{name: getattr(guarantee.budget, name) for name in guarantee.budget.__slots__}
        ),
        privacy_parameters_details=details,
    )


def _model() -> Model:
    return Model(
        model_name_details=claims.TRUST,
        actors=claims.ACTORS,
        release_type_details=claims.OTHER_RELEASES,
        data_source_type_details=(
            "dpcov read one state of the table. The release file does not state whether the table "
            "changes later."
        ),
        access_type_details=claims.ACCESS,
    )


def _implementation(release: Release, statements: Statements) -> Implementation:
    parts = claims.mechanism(release), claims.arithmetic(release), claims.SIDE_CHANNELS
    return Implementation(
        preprocessing_and_hyperparameter_tuning=f"{claims.BOUNDS} {statements.inspection}",
        mechanisms=harmless(" ".join(parts)),
        justification=stated(statements.justification),
    )


def harmless(text: str) -> str:
    """Return a printable text in which no character starts a link, an element or a formula."""
    return printable(text).translate(MARKUP)


def yaml_text(made: RegistryRecord, first: str = "") -> str:
    """Return a record as YAML text.

    Parameters
    ----------
    made : RegistryRecord
        Record.

    first : str, optional
        Comment for the first line.

    Returns
    -------
    str
        YAML text, with all texts in double quotes.

    """
    head = [f"# {first}"] if first else []
    document = made.model_dump(mode="json", exclude_none=True)
    return "\n".join([*head, *_yaml_lines(document)]) + "\n"


def _yaml_lines(node: dict[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml_lines(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_yaml_scalar(one)}" for one in value)
        else:
            yield f"{indent}{key}: {_yaml_scalar(value)}"


def _yaml_scalar(value: str | float) -> str:
    """Return a scalar. YAML 1.1 reads a number with an exponent only if it has a point."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text
