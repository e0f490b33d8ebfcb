"""The options of all mechanisms, for the signatures of functions that pass them on.

A test compares them with the fields of the mechanisms, which say what each may be. `radius` and
`upper` are missing: functions have parameters of these names.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class MechanismOptions(TypedDict, total=False):
    """Options by name; which a mechanism has, and what they may be, `dpcov mechanisms` lists."""

    # of the product's mechanisms
    directions_share: float
    form: Literal["symmetric", "square"]
    look_share: float
    power: float
    radius_share: float
    shows: float
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
    fine_share: float
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
