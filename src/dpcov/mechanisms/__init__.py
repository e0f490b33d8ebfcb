"""Mechanisms: from a data set behind its door to a release, under a stated guarantee.

`MECHANISMS` is the registry: the command line, the documentation and the conformance battery are
driven by it. Those of the papers are loaded when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any, Literal, TypedDict

from dpcov.core import registry
from dpcov.core.parameters import did_you_mean
from dpcov.core.registry import REFUTED
from dpcov.errors import MechanismError
from dpcov.mechanisms.base import Calibrated, Mechanism
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.matrix_laplace import MatrixLaplace
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION, Standardized


class _Registry(Mapping[str, type[Mechanism]]):
    """Every mechanism by name; one of a paper is loaded when its class is asked for."""

    def __init__(self, *product: type[Mechanism]) -> None:
        self._product = {mechanism.name: mechanism for mechanism in product}

    def __getitem__(self, name: str) -> type[Mechanism]:
        if name in self._product:
            return self._product[name]
        return registry.loaded(registry.MECHANISMS[name])

    def __contains__(self, name: object) -> bool:
        return name in self._product or name in registry.MECHANISMS

    def __iter__(self) -> Iterator[str]:
        yield from self._product
        yield from registry.MECHANISMS

    def __len__(self) -> int:
        return len(self._product) + len(registry.MECHANISMS)


MECHANISMS: Mapping[str, type[Mechanism]] = _Registry(
    Standardized,
    MatrixLaplace,
    Gaussian,
)


class MechanismOptions(TypedDict, total=False):
    """The options of all mechanisms, for the signatures of functions that pass them on.

    A test compares them with the fields of the mechanisms, which say what each may be. `radius` is
    missing: functions have a parameter of that name.
    """

    # of the product's mechanisms
    directions_most: float
    directions_power: float
    directions_share: float
    look_share: float
    loss_weight: float
    power: float
    radius_share: float
    trace_share: float
    # of those of the papers alone
    agreement: float
    allocation: Literal["adaptive", "uniform"]
    alpha: float
    beta: float
    by: Literal["laplace", "separate-laplace", "gaussian", "separate-gaussian"]
    components: int
    condition: float
    constant: float
    count_share: float
    degrees: int | None
    eigenvalue_bound: float | None
    fine_share: float
    form: Literal["symmetric", "square"]
    group_size: int
    leverage: float | None
    looks: int | None
    map_share: float
    order: int
    paper_constants: bool
    radii: Literal["practical", "theory"]
    rank: int | None
    references: int | None
    samples: int
    scale_share: float
    slack: int
    space_share: float
    test_share: float
    value_share: float
    values: Literal["rayleigh", "eigenvalues"]
    variant: Literal["naive", "one-step", "full"]
    vector_share: float


def __getattr__(name: str) -> Any:
    """The class of a paper's mechanism, as those of the others are here too."""
    if name not in registry.CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MECHANISMS[registry.CLASSES[name]]


def __dir__() -> list[str]:
    return sorted([*globals(), *registry.CLASSES])


# Names of earlier versions, and what took their place.
RETIRED = {
    "ladder": BY_COLUMN,
    "shaped-ladder": BY_DIRECTION,
    "standardized-ladder": BY_COLUMN,
}
LARGEST_OPTION = 2**53  # of integers: beyond, float64 and 64-bit integers differ


def mechanism_named(name: str, **fields: Any) -> Mechanism:
    """The registered mechanism `name` with these public fields."""
    if name in REFUTED:
        raise MechanismError(REFUTED[name])
    if name in RETIRED:
        instead = RETIRED[name]
        return mechanism_named(instead.name, **asdict(instead) | fields)
    if name not in MECHANISMS:
        raise MechanismError(
            f"There is no mechanism {name!r}{did_you_mean(name, MECHANISMS)} "
            f"Choose one of: {', '.join(MECHANISMS)}, auto."
        )
    options = options_of(name)
    if any(isinstance(value, int) and abs(value) > LARGEST_OPTION for value in fields.values()):
        raise MechanismError(f"An option of the mechanism {name!r} is beyond 2^53.")
    for field in fields.keys() - options.keys():
        raise MechanismError(
            f"The mechanism {name!r} has no option {field!r}{did_you_mean(field, options)} "
            f"It has: {', '.join(options)}."
        )
    return MECHANISMS[name](**fields)


def options_of(name: str) -> dict[str, Any]:
    """The options of a registered mechanism and their defaults."""
    return {field.name: field.default for field in fields_of(MECHANISMS[name])}  # type: ignore[arg-type]


__all__ = [
    "MECHANISMS",
    "REFUTED",
    "Calibrated",
    "Gaussian",
    "MatrixLaplace",
    "Mechanism",
    "MechanismOptions",
    "Standardized",
    "mechanism_named",
    "options_of",
]
