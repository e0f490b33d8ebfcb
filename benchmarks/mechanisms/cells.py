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
from matrix_errors import KINDS, errors
from mechanism_tables import TABLES, prepared_named, target
from methods import DEFAULT, FEW, Method, methods
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


def everyone() -> list[Method]:
    return [*methods(), *peers()]


def repeats_for(columns: int) -> int:
    """Return the repeats of a cell: with few columns, errors vary more and cost less."""
    return next(repeats for most, repeats in REPEATS if columns <= most)


def measured(cell: Cell, repeats: int | None = None) -> list[Row]:
    """Measure all methods in a cell; return one row for each method and kind of error."""
    prepared = prepared_named(cell.table)
    repeats = repeats or repeats_for(prepared.features)
    field = [method for method in everyone() if method.enters(prepared)]
    found: dict[str, list[dict[str, float]]] = {method.name: [] for method in field}
    refusals = dict.fromkeys(found, 0)
    truth = target(prepared, prepared.truth)
    for repeat in range(repeats):
        for method in field:
            if method.costly and repeat >= FEW:
                continue
            try:
                made = method.estimate(prepared, cell.budget, cell.neighbors, cell.seed + repeat)
            except MechanismError:
                found.pop(method.name, None)
                continue
            except MechanismRefused:
                refusals[method.name] += 1
                made = np.zeros_like(prepared.truth)
            found[method.name].append(errors(target(prepared, prepared.per_row(made)), truth))
        field = [method for method in field if method.name in found]
    rows = []
    for method in field:
        for kind in KINDS:
            own = np.array([draw[kind] for draw in found[method.name]])
            reference = np.array([draw[kind] for draw in found[DEFAULT][: len(own)]])
            rows.append(
                {
                    "table": cell.table,
                    "family": prepared.family,
                    "rows": prepared.rows,
                    "columns": prepared.features,
                    "trace": float(np.trace(prepared.truth)),
                    "neighbors": str(cell.neighbors),
                    "definition": cell.definition,
                    "epsilon": cell.epsilon,
                    "method": method.name,
                    "role": method.role,
                    "error": kind,
                    "mean": float(own.mean()),
                    "se": float(own.std(ddof=1) / math.sqrt(len(own))),
                    "repeats": len(own),
                    "refused": refusals[method.name],
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
