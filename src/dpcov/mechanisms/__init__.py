"""Mechanisms: algorithms that turn a table into a release with a stated privacy guarantee.

The registry `MECHANISMS` maps each name to its class. The command line, the documentation and the
conformance tests use this registry. Mechanisms from papers are imported at their first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any, Literal, TypedDict

from dpcov.core import registry
from dpcov.core.parameters import did_you_mean
from dpcov.core.registry import REFUTED_MECHANISMS
from dpcov.errors import MechanismError
from dpcov.mechanisms.base import Calibrated, Mechanism
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.matrix_laplace import MatrixLaplace
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION, Standardized


class _Registry(Mapping[str, type[Mechanism]]):
    """Map from names to mechanism classes. Mechanisms from papers are imported at first use."""

    def __init__(self, *product: type[Mechanism]) -> None:
        self._product = {mechanism.name: mechanism for mechanism in product}

    def __getitem__(self, name: str) -> type[Mechanism]:
        if name in self._product:
            return self._product[name]
        return registry.loaded(registry.PAPER_MECHANISMS[name])

    def __contains__(self, name: object) -> bool:
        return name in self._product or name in registry.PAPER_MECHANISMS

    def __iter__(self) -> Iterator[str]:
        yield from self._product
        yield from registry.PAPER_MECHANISMS

    def __len__(self) -> int:
        return len(self._product) + len(registry.PAPER_MECHANISMS)


MECHANISMS: Mapping[str, type[Mechanism]] = _Registry(
    Standardized,
    MatrixLaplace,
    Gaussian,
)


class MechanismOptions(TypedDict, total=False):
    """Options of all mechanisms, for the signatures of functions that pass them on.

    A test compares the options with the fields of the mechanism classes. Functions have a parameter
    `radius` of their own, so the option `radius` is not listed here.
    """

    # options of the core mechanisms
    directions_most: float
    directions_share: float
    look_share: float
    radius_share: float
    trace_share: float
    # former options, which the goal sets; version 0.5 removes them
    directions_power: float
    loss_weight: float
    power: float
    # options of mechanisms from papers only
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
    """Return the class of a mechanism from a paper."""
    if name not in registry.PAPER_CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MECHANISMS[registry.PAPER_CLASSES[name]]


def __dir__() -> list[str]:
    return sorted([*globals(), *registry.PAPER_CLASSES])


# Mechanism names of earlier versions, with the mechanisms that replace them.
RETIRED_MECHANISMS = {
    "ladder": BY_COLUMN,
    "shaped-ladder": BY_DIRECTION,
    "standardized-ladder": BY_COLUMN,
}
MAX_OPTION = 2**53  # float64 does not represent every integer above this limit


def mechanism_named(name: str, **fields: Any) -> Mechanism:
    """Return the mechanism with this name and these options.

    Parameters
    ----------
    name : str
        Name of a registered mechanism.

    **fields : object
        Options of the mechanism.

    Returns
    -------
    Mechanism
        Mechanism with these options.

    Raises
    ------
    MechanismError
        The name or an option does not exist, or an option has an invalid value.

    """
    if name in REFUTED_MECHANISMS:
        raise MechanismError(REFUTED_MECHANISMS[name])
    if name in RETIRED_MECHANISMS:
        instead = RETIRED_MECHANISMS[name]
        return mechanism_named(instead.name, **asdict(instead) | fields)
    if name not in MECHANISMS:
        raise MechanismError(
            f"The mechanism {name!r} does not exist{did_you_mean(name, MECHANISMS)} "
            f"Choose one of: {', '.join(MECHANISMS)}, auto."
        )
    kind, options = MECHANISMS[name], options_of(name)
    if any(isinstance(value, int) and abs(value) > MAX_OPTION for value in fields.values()):
        raise MechanismError(
            f"An option of the mechanism {name!r} is larger than 2^53. Choose a smaller value."
        )
    for field in fields.keys() - options.keys() - kind.set_by_goal:
        raise MechanismError(
            f"The mechanism {name!r} has no option {field!r}{did_you_mean(field, options)} "
            f"Its options are: {', '.join(options)}."
        )
    return kind(**fields)


def options_of(name: str) -> dict[str, Any]:
    """Return the options of a registered mechanism with their defaults."""
    kind = MECHANISMS[name]
    fields = fields_of(kind)  # type: ignore[arg-type]
    return {one.name: one.default for one in fields if one.name not in kind.set_by_goal}


__all__ = [
    "MECHANISMS",
    "REFUTED_MECHANISMS",
    "Calibrated",
    "Gaussian",
    "MatrixLaplace",
    "Mechanism",
    "MechanismOptions",
    "Standardized",
    "mechanism_named",
    "options_of",
]
