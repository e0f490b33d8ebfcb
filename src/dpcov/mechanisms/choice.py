"""What can be said from public numbers alone, before anything is spent."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, MatrixLaplace, Mechanism, count
from dpcov.mechanisms.additive import Additive, Calibration
from dpcov.mechanisms.count import WithCount
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.schema import Categorical, Count, Flag
from dpcov.rows.sources.rows import IN_MEMORY

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.rows import Rows


CANDIDATES: tuple[type[Additive], ...] = (MatrixLaplace, Gaussian)
# At the schema's radius they ask for one sum over the rows and no more.
OF_SUMS = (*(kind.name for kind in CANDIDATES), "nuclear-laplace")


Goal = Literal["all", "frobenius", "relative", "correlation", "regression"]
GOALS: tuple[Goal, ...] = get_args(Goal)
# `Standardized.loss_weight`, by which errors of the goal are least on tables to tune.
CLIPS = {"all": 1.0, "frobenius": 2.0, "relative": 1.0, "correlation": 0.5, "regression": 0.35}


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism, the reason for it, in words, and its laws, once it is calibrated."""

    mechanism: Mechanism
    reason: str
    laws: WithCount | None = None


def calibrated(
    mechanism: Mechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors, per_row: int = 1
) -> WithCount:
    """What calibrating tells; options and budgets that float64 can't compute with are refused."""
    try:
        return count.calibrated(mechanism, lattice, budget, neighbors, per_row)
    except (ArithmeticError, ValueError):
        raise MechanismError(
            f"With these options and this budget a number of {mechanism.name} is out of range: "
            "change them."
        ) from None


def expected_noise(law: MatrixLaw, lattice: Lattice) -> float:
    """Root of the expected squared Frobenius norm of the noise, in units of the encoded sum."""
    return math.sqrt(law.frobenius_squared) * lattice.step**2


def choose(
    schema: Schema,
    budget: Budget,
    neighbors: Neighbors,
    *,
    goal: Goal = "all",
    rereadable: bool = True,
) -> Choice:
    """The mechanism to take, from public things alone.

    `Standardized`, as means, correlations and regressions are about rows less their means, which
    are much shorter. With a second look where more features are numbers than counts, flags or
    indicators of levels, so that noise is in proportion to the deviation of each direction; a row
    with a rare level or a large count is long then. `least_noise` without an intercept, which tells
    means; where all columns have levels, so that rows are about as long; and where rows can't be
    asked again (`rereadable`), as sums can't, which know no map and no clip. Where the second
    moment as a whole is the goal, noise is spread as evenly as it can be and hardly a row clipped;
    for correlations and regressions more are, as these do not miss what all directions lose alike.

    Raises
    ------
    MechanismError : the budget is too small for the noise.

    """
    lattice, columns = Lattice.of(schema), schema.encoded_columns.values()
    asked = lattice, budget, neighbors, units_per_row(schema)
    of_levels = sum(isinstance(column, Categorical) for column in columns)
    rare = sum(feature.is_indicator for feature in schema.features)
    rare += sum(isinstance(column, Flag | Count) for column in columns)
    if not (rereadable and lattice.intercept_units and of_levels < len(columns)):
        return least_noise(*asked)
    mechanism, reason = BY_COLUMN, "rows are taken about private means"
    # one column has one direction
    if max(1, 2 * rare) < lattice.features and not schema.gaps:
        mechanism = BY_DIRECTION
        reason += ", and each direction gets noise in proportion to its deviation"
    if goal == "frobenius":  # spread as evenly as it can be (`Images.by_direction`)
        mechanism = replace(mechanism, power=0.0, directions_power=0.5)
    mechanism = replace(mechanism, loss_weight=CLIPS[goal])
    with suppress(MechanismError):
        return Choice(mechanism, reason, calibrated(mechanism, *asked))
    return least_noise(*asked)


def least_noise(lattice: Lattice, budget: Budget, neighbors: Neighbors, per_row: int = 1) -> Choice:
    """Of those that add noise to the sum, the one that keeps the budget with the least of it.

    That is the least expected squared Frobenius norm, from closed forms.

    Raises
    ------
    MechanismError : the budget is too small for the noise.

    """
    found = []
    for kind in CANDIDATES:
        with suppress(MechanismError):
            made = count.calibrated(kind(), lattice, budget, neighbors, per_row)
            if isinstance(made.laws, Calibration):
                found.append((expected_noise(made.laws.matrix, lattice), kind(), made))
    if not found:
        raise MechanismError(
            "The privacy budget is too small (or far too large) for the noise. Use a larger one."
        )
    compared = ", ".join(f"{noise:.4g} with {one.name}" for noise, one, _ in found)
    _, best, laws = min(found, key=lambda one: one[0])
    return Choice(best, f"expected noise (Frobenius norm of the encoded sum): {compared}", laws)


def require_enough(mechanism: Mechanism, rows: Rows, laws: WithCount) -> None:
    """Refuse, before anything is spent, a public number of rows with which no release is likely."""
    known = rows.public_rows
    if laws.guarantee.neighbors == Neighbors.REPLACE_ONE and known is not None:
        require_rows(mechanism.name, known, laws.least_units)


def require_rows(name: str, rows: int, least: int) -> None:
    """Refuse fewer rows than a mechanism takes at least."""
    if rows < least:
        raise MechanismError(
            f"The mechanism {name} needs at least {least:,} rows with this budget and schema, and "
            f"there are {rows:,}. Choose standardized, or a larger budget. Nothing was spent."
        )


def require_answerable(mechanism: Mechanism, rows: Rows) -> None:
    """Refuse, before anything is spent, a mechanism that asks for what the rows can't tell."""
    private = getattr(mechanism, "radius", "public") == "private"
    if not rows.rereadable and (mechanism.name not in OF_SUMS or private):
        raise MechanismError(
            f"This mechanism asks for more than the sums that the file holds. Choose: "
            f"{', '.join(OF_SUMS)}, with the schema's radius; or release from the rows."
        )
    if not rows.has_rows and getattr(mechanism, "holds_rows", False):
        raise MechanismError(IN_MEMORY)
