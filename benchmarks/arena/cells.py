"""Define the grid of the comparison and measure its cells.

A cell is a table, a neighbouring relation and a budget. All methods of a cell use the same seeds,
so the ratios of their errors come from one run.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from arena_tables import TABLES, contest_named, target
from entrants import DEFAULT, FEW, Entrant, entrants
from matrix_errors import KINDS, errors
from paper_methods import peers

from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP
from dpcov.errors import MechanismError, MechanismRefused

Definition = Literal["pure", "zcdp", "approximate"]
DEFINITIONS: tuple[Definition, ...] = ("pure", "zcdp", "approximate")
EPSILONS = (1.0, 0.1, 4.0, 0.5, 0.01, 8.0)  # in the order of measuring
DELTA = 1e-6
REPEATS = ((10, 20), (15, 12), (30, 6), (110, 4), (math.inf, 3))  # columns up to, repeats
QUICK_TABLES = ("iris", "tiny, 30 x 8", "airfoil, public bounds")
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One cell; `epsilon` stands for rho = epsilon^2 / 2 under zCDP."""

    table: str
    neighbors: Neighbors
    definition: Definition
    epsilon: float

    @property
    def key(self) -> tuple[str, str, str, float]:
        return self.table, str(self.neighbors), self.definition, self.epsilon

    @property
    def budget(self) -> Budget:
        if self.definition == "pure":
            return PureDP(self.epsilon)
        if self.definition == "zcdp":
            return ZCDP(self.epsilon**2 / 2)
        return ApproxDP(self.epsilon, DELTA)

    @property
    def seed(self) -> int:
        return zlib.crc32(repr(self.key).encode())


def grid(
    tables: Sequence[str] = tuple(TABLES), epsilons: Sequence[float] = EPSILONS
) -> Iterator[Cell]:
    """Yield all cells, one epsilon after the other, so that an unfinished grid has every table."""
    for epsilon, table, definition, neighbors in product(epsilons, tables, DEFINITIONS, Neighbors):
        yield Cell(table, neighbors, definition, epsilon)


def quick_grid() -> Iterator[Cell]:
    """Return a few small cells of every definition and relation."""
    return grid(QUICK_TABLES, (1.0,))


def everyone() -> list[Entrant]:
    return [*entrants(), *peers()]


def repeats_for(columns: int) -> int:
    """Return the repeats of a cell: with few columns, errors vary more and cost less."""
    return next(repeats for most, repeats in REPEATS if columns <= most)


def measured(cell: Cell, repeats: int | None = None) -> list[Row]:
    """Measure all methods in a cell; return one row for each method and kind of error."""
    contest = contest_named(cell.table)
    repeats = repeats or repeats_for(contest.features)
    field = [entrant for entrant in everyone() if entrant.enters(contest)]
    found: dict[str, list[dict[str, float]]] = {entrant.name: [] for entrant in field}
    refusals = dict.fromkeys(found, 0)
    truth = target(contest, contest.truth)
    for repeat in range(repeats):
        for entrant in field:
            if entrant.costly and repeat >= FEW:
                continue
            try:
                made = entrant.estimate(contest, cell.budget, cell.neighbors, cell.seed + repeat)
            except MechanismError:
                found.pop(entrant.name, None)
                continue
            except MechanismRefused:
                refusals[entrant.name] += 1
                made = np.zeros_like(contest.truth)
            found[entrant.name].append(errors(target(contest, contest.per_row(made)), truth))
        field = [entrant for entrant in field if entrant.name in found]
    rows = []
    for entrant in field:
        for kind in KINDS:
            own = np.array([draw[kind] for draw in found[entrant.name]])
            reference = np.array([draw[kind] for draw in found[DEFAULT][: len(own)]])
            rows.append(
                {
                    "table": cell.table,
                    "family": contest.family,
                    "rows": contest.rows,
                    "columns": contest.features,
                    "trace": float(np.trace(contest.truth)),
                    "neighbors": str(cell.neighbors),
                    "definition": cell.definition,
                    "epsilon": cell.epsilon,
                    "method": entrant.name,
                    "role": entrant.role,
                    "error": kind,
                    "mean": float(own.mean()),
                    "se": float(own.std(ddof=1) / math.sqrt(len(own))),
                    "repeats": len(own),
                    "refused": refusals[entrant.name],
                    **against(reference, own),
                }
            )
    return rows


def against(reference: Any, own: Any) -> dict[str, float]:
    """Return the ratio of the default's mean error to a method's, and its standard error.

    Draws are paired by their seeds. The standard error of the ratio r is the standard error of
    mean(reference - r own) / mean.
    """
    if own.mean() <= 0:
        return {"default_over": math.nan, "default_over_se": math.nan}
    ratio = reference.mean() / own.mean()
    spread = np.std(reference - ratio * own, ddof=1) / math.sqrt(len(own))
    return {"default_over": float(ratio), "default_over_se": float(spread / own.mean())}
