"""The choice of a mechanism from public information, before dpcov spends any budget."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dpcov.core.privacy import Neighbors
from dpcov.core.renamed import warn_of_former_name
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, MatrixLaplace, Mechanism, count, mechanism_named
from dpcov.mechanisms.additive import Additive, Calibration
from dpcov.mechanisms.count import WithCount
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION, Standardized
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.schema import Categorical, Count
from dpcov.rows.sources.rows import IN_MEMORY_MESSAGE

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.rows import Rows


CANDIDATES: tuple[type[Additive], ...] = (MatrixLaplace, Gaussian)
# Mechanisms that need only one sum over the rows if the schema sets the clipping radius.
SUM_MECHANISMS = (*(kind.name for kind in CANDIDATES), "nuclear-laplace")


Goal = Literal["all", "frobenius", "relative", "correlation", "regression"]
# Fields of `Standardized` that each goal changes (`Standardized.set_by_goal`). An experiment
# can replace an entry. The release file records the values. The powers make the noise
# nearly equal in all directions (`RowTransform.by_direction`). Source: tuned, that is, the values
# with the smallest error on the tables of the part `tune` in benchmarks/tables.toml.
SETTINGS: dict[Goal, dict[str, Any]] = {
    "all": {},
    "frobenius": {"power": 0.0, "directions_power": 0.5, "loss_weight": 2.0},
    "correlation": {"loss_weight": 0.5},
    "regression": {"loss_weight": 0.35},
}
GOALS = tuple(SETTINGS)


@dataclass(frozen=True, slots=True)
class Choice:
    """Mechanism with the reason for its choice and, after calibration, its noise distributions."""

    mechanism: Mechanism
    reason: str
    laws: WithCount | None = None


def calibrated(
    mechanism: Mechanism,
    lattice: Lattice,
    budget: Budget,
    neighbors: Neighbors,
    per_row: int = 1,
    *,
    with_mu: bool = False,
) -> WithCount:
    """Calibrate a mechanism, and refuse options or budgets that overflow float64."""
    try:
        return count.calibrated(mechanism, lattice, budget, neighbors, per_row, with_mu=with_mu)
    except (ArithmeticError, ValueError):
        raise MechanismError(
            f"The options of {mechanism.name} and this budget are outside the range of "
            "floating-point numbers. Change an option or the budget."
        ) from None


def settings_of(goal: Goal) -> dict[str, Any]:
    """Return the fields of `Standardized` that a goal changes. Warn of a former goal."""
    if goal == "relative":
        warn_of_former_name("goal relative", "goal all")
        goal = "all"
    return SETTINGS[goal]


def mechanism_for(name: str, goal: Goal, **fields: Any) -> Mechanism:
    """Return the mechanism with this name, the settings of a goal, and further options."""
    settings = settings_of(goal) if name == Standardized.name else {}
    return mechanism_named(name, **settings | fields)


def expected_noise(law: MatrixLaw, lattice: Lattice) -> float:
    """Return the root mean square Frobenius norm of the noise, in units of the encoded sum."""
    return math.sqrt(law.frobenius_squared) * lattice.step**2


def choose(
    schema: Schema,
    budget: Budget,
    neighbors: Neighbors,
    *,
    goal: Goal = "all",
    rereadable: bool = True,
    with_mu: bool = False,
) -> Choice:
    """Choose the mechanism of ``auto`` from public information.

    The function chooses the mechanism from `least_noise` in these cases:

    - dpcov can read the rows only once.
    - The schema has no intercept.
    - Every column is categorical.
    - The budget is too small for `Standardized`.

    Otherwise the function chooses `Standardized`.

    `Standardized` includes a directions query if more than half of the features are numbers (not
    counts, flags or categories) and no column uses ``missing = "pairwise"``.

    The goal sets how strongly `Standardized` clips. Correlations and regressions allow a smaller
    clipping radius, because an equal loss in all directions does not change them. For the goal
    ``frobenius``, the noise is nearly equal in all directions and the radius is large.

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    budget : Budget
        Budget of the release.

    neighbors : Neighbors
        Relation between neighbouring tables.

    goal : str
        Result that should be accurate, from `GOALS`.

    rereadable : bool
        True if dpcov can read the rows more than once.

    with_mu : bool
        True if all noise must be Gaussian with a known mu.

    Returns
    -------
    Choice
        Mechanism, reason and noise distributions.

    Raises
    ------
    MechanismError
        The budget is too small for the noise.

    """
    lattice, columns = Lattice.of(schema), schema.encoded_columns.values()
    asked = lattice, budget, neighbors, units_per_row(schema)
    of_levels = sum(isinstance(column, Categorical) for column in columns)
    rare = sum(
        schema.is_binary(feature) or isinstance(schema.encoded_columns[feature.column], Count)
        for feature in schema.features
    )
    if not (rereadable and lattice.intercept_units and of_levels < len(columns)):
        return least_noise(*asked, with_mu=with_mu)
    mechanism, reason = BY_COLUMN, "estimates means and variances first, then adds less noise"
    # A directions query needs at least two features.
    if max(1, 2 * rare) < lattice.features and not schema.missing_columns:
        mechanism = BY_DIRECTION
        reason = "estimates means and principal directions first, then adds less noise"
    mechanism = replace(mechanism, **settings_of(goal))
    with suppress(MechanismError):
        return Choice(mechanism, reason, calibrated(mechanism, *asked, with_mu=with_mu))
    return least_noise(*asked, with_mu=with_mu)


def least_noise(
    lattice: Lattice,
    budget: Budget,
    neighbors: Neighbors,
    per_row: int = 1,
    *,
    with_mu: bool = False,
) -> Choice:
    """Choose the mechanism with the least noise among those that add noise to one sum.

    The function compares the root mean square Frobenius norms of the noise, which have closed
    forms.

    Parameters
    ----------
    lattice : Lattice
        Quantised rows, with their bounds.

    budget : Budget
        Budget of the release.

    neighbors : Neighbors
        Relation between neighbouring tables.

    per_row : int
        Result of `units_per_row` for the schema.

    with_mu : bool
        True if all noise must be Gaussian with a known mu.

    Returns
    -------
    Choice
        Mechanism, reason and noise distributions.

    Raises
    ------
    MechanismError
        The budget is too small for the noise.

    """
    found = []
    for kind in CANDIDATES:
        with suppress(MechanismError):
            asked = lattice, budget, neighbors, per_row
            made = count.calibrated(kind(), *asked, with_mu=with_mu)
            if isinstance(made.laws, Calibration):
                found.append((expected_noise(made.laws.matrix, lattice), kind(), made))
    if not found:
        stated = ", ".join(f"{name} = {value:g}" for name, value in asdict(budget).items())
        raise MechanismError(
            f"dpcov cannot generate noise for {stated}. Choose a usual value: epsilon from 0.1 to "
            "3. Nothing was spent."
        )
    compared = ", ".join(f"{noise:.4g} with {one.name}" for noise, one, _ in found)
    _, best, laws = min(found, key=lambda one: one[0])
    return Choice(best, f"expected noise (Frobenius norm of the encoded sum): {compared}", laws)


def require_enough(mechanism: Mechanism, rows: Rows, laws: WithCount) -> None:
    """Refuse a public number of rows that is too small for the mechanism.

    The function raises an error before dpcov spends any budget.
    """
    known = rows.public_rows
    if laws.guarantee.neighbors == Neighbors.REPLACE_ONE and known is not None:
        require_rows(mechanism.name, known, laws.least_units)


def require_rows(name: str, rows: int, least: int) -> None:
    """Refuse a number of rows below the smallest number that a mechanism accepts."""
    if rows < least:
        raise MechanismError(
            f"The mechanism {name} needs at least {least:,} rows with this budget and schema, and "
            f"there are {rows:,}. Choose standardized, or a larger budget. Nothing was spent."
        )


def require_answerable(mechanism: Mechanism, rows: Rows) -> None:
    """Refuse a mechanism that needs more than the data source provides.

    The function raises an error before dpcov spends any budget.
    """
    private = getattr(mechanism, "radius", "public") == "private"
    if not rows.rereadable and (mechanism.name not in SUM_MECHANISMS or private):
        raise MechanismError(
            f"The mechanism {mechanism.name} needs more than the sums in the file. Choose "
            f"{', '.join(SUM_MECHANISMS)} with the radius of the schema, or release from the rows."
        )
    if not rows.has_rows and getattr(mechanism, "holds_rows", False):
        raise MechanismError(IN_MEMORY_MESSAGE)
