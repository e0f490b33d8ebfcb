"""Summarise the cells: where the default is best, where it loses to which method, and the ranks.

`summed_up` returns the rows of `results/mechanism_benchmark.json`. The field `part` of each row
names the comparison that the row belongs to.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from cells import DEFINITIONS, DELTA, Definition, Row
from lower_bounds import approximate, pure, zcdp
from matrix_errors import KINDS
from methods import DEFAULT
from numpy.polynomial.hermite_e import hermegauss
from ranking import critical_difference, mean_ranks
from scipy.stats import norm

from dpcov.core.privacy import Neighbors

BAR = 1.02
FORCE = 1.0  # Epsilon above which the bounds are weak, as one row's exchange is detectable.
ERRORS = 2.0  # Standard errors by which a ratio must differ to count as different.
EQUALS = 3  # Methods as good as the default, to estimate the effect of chance on the threshold.
QUADRATURE = 40  # Points of the integral over the default's random error
OTHERS = ("mechanism", "variant", "simple")  # Roles that the default must not be worse than
GOALS = ("frobenius", "correlation", "relative", "ridge")
PEER_BARS = {"pure": 2.5, "zcdp": 1.5}
ALL = ("default", "peer", *OTHERS)
SHOWS = 0.5  # of the error of the simple answers, up to which something shows
USES = {
    "private radius": "tables with few rows as long as the bound",
    "standardized": "rows that are short about their mean, in units of their columns' spread",
    "projected": "spectra for which the simulation is worse than the projection",
    "zero matrix": "where not even the trace rises above the noise",
    "scaled identity": "where nothing but the trace rises above the noise",
    "nuclear-laplace": "pure noise at few columns",
    "matrix-laplace": "pure noise at any number of columns",
    "separate-gaussian": "a few directions that hold nearly everything",
    "separate-laplace": "a few directions that hold nearly everything",
    "exponential-pca": "a few directions that hold nearly everything",
    "eigenvector-sampling": "a few directions that hold nearly everything",
    "kapralov-talwar": "a few directions that hold nearly everything",
    "adaptive": "tables with few rows as long as the bound",
    "gaussian": "Gaussian definitions",
    "laplace": "noise entry by entry",
    "preconditioned": "columns of very different sizes",
    "heavy-tailed": "rows with bounded moments",
    "wishart": "one-sided noise",
}  # purpose of a method whose name contains the key; the first matching key counts
Group = dict[str, Row]
Key = tuple[Any, ...]  # table, neighbors, definition, epsilon


def grouped(rows: list[Row], kind: str) -> dict[Key, Group]:
    """Group the methods' rows of one kind of error by cell and by name."""
    found: dict[Key, Group] = {}
    for row in rows:
        if row["error"] == kind:
            key = (row["table"], row["neighbors"], row["definition"], row["epsilon"])
            found.setdefault(key, {})[row["method"]] = row
    return found


def standing(row: Row) -> float:
    """Return a method's error over the default's error, from the draws that both have made."""
    if row["method"] == DEFAULT:
        return 1.0
    over = row["default_over"]
    if math.isnan(over):
        return 0.0  # it has no error at all
    return 1 / over if over > 0 else math.inf


def best(group: Group, *roles: str) -> Any:
    """Return the row of the method with the least error among these roles, or None."""
    fit = [row for row in group.values() if row["role"] in roles]
    return min(fit, key=standing) if fit else None


def compared(other: Any) -> dict[str, Any]:
    """Return the default's error over a method's.

    `worse` is True if the ratio exceeds the threshold by more than chance.
    """
    ratio = 1.0 if other is None else 1 / standing(other) if standing(other) > 0 else math.inf
    se = float(other["default_over_se"]) if ratio > 1 else 0.0
    return {"ratio": ratio, "se": se, "worse": bool(ratio - ERRORS * se > BAR)}


def regimes(rows: list[Row]) -> Iterator[Row]:
    """Check the thresholds by definition and relation, in all cells and in detectable cells."""
    cells = grouped(rows, "frobenius")
    yield from _by_relation("regime", cells)
    yield from _by_relation("showing", {key: at for key, at in cells.items() if shows(at)})


def _by_relation(part: str, cells: dict[Key, Group]) -> Iterator[Row]:
    for definition, neighbors in product(DEFINITIONS, [*map(str, Neighbors), "both"]):
        groups = [
            group
            for key, group in cells.items()
            if key[2] == definition and neighbors in (key[1], "both")
        ]
        if groups:
            yield {
                "part": part,
                "definition": definition,
                "neighbors": neighbors,
                **_shares(groups),
                "peer bar": PEER_BARS.get(definition),
            }


def shows(group: Group) -> bool:
    """Return True if any method, peers included, at least halves the error of the simple answers.

    Otherwise the budget reveals almost nothing, and all methods have similar errors.
    """
    simple = best(group, "simple")
    return simple is not None and standing(best(group, *ALL)) <= SHOWS * standing(simple)


def _shares(groups: list[Group]) -> Row:
    """Compare the default with the best other method and with the best peer.

    The field `in hindsight` compares the best of the library's methods with the best peer.
    """
    others = [compared(best(g, *OTHERS)) for g in groups]
    peer = [best(g, "peer") for g in groups]
    own = [standing(best(g, "default", *OTHERS)) for g in groups]
    leads = [standing(row) for row in peer]
    return {
        "cells": len(groups),
        "within": float(np.mean([found["ratio"] <= BAR for found in others])),
        "of equals": float(np.mean([within_of_equals(group[DEFAULT]) for group in groups])),
        "not worse": float(np.mean([not found["worse"] for found in others])),
        "advantage": geometric(leads),
        "in hindsight": geometric([a / b for a, b in zip(leads, own, strict=True) if b > 0]),
        "worse than a peer": sum(compared(row)["worse"] for row in peer),
    }


def within_of_equals(default: Row) -> float:
    """Return the probability of meeting the threshold against `EQUALS` equally good methods.

    The methods have the default's distribution of errors. The computation assumes that means of
    repeats are normal, with the default's standard error.
    """
    if default["se"] == 0:
        return 1.0
    relative = default["se"] / default["mean"]
    points, weights = hermegauss(QUADRATURE)
    others_are_above = norm.sf(((1 + relative * points) / BAR - 1) / relative)
    return float(weights @ others_are_above**EQUALS / weights.sum())


def geometric(ratios: list[float]) -> float:
    finite = [ratio for ratio in ratios if 0 < ratio < math.inf]
    return float(np.exp(np.mean(np.log(finite)))) if finite else math.nan


def kinds(rows: list[Row]) -> Iterator[Row]:
    """Return the same fractions for every kind of error."""
    for kind, definition in product(KINDS, DEFINITIONS):
        groups = [g for key, g in grouped(rows, kind).items() if key[2] == definition]
        if groups:
            yield {"part": "kind", "error": kind, "definition": definition, **_shares(groups)}


def families(rows: list[Row]) -> Iterator[Row]:
    """Return the same fractions for every family of tables."""
    cells = grouped(rows, "frobenius")
    names = dict.fromkeys(group[DEFAULT]["family"] for group in cells.values())
    for family, definition in product(names, DEFINITIONS):
        groups = [
            group
            for key, group in cells.items()
            if key[2] == definition and group[DEFAULT]["family"] == family
        ]
        if groups:
            yield {"part": "family", "family": family, "definition": definition, **_shares(groups)}


def losses(rows: list[Row], kind: str = "frobenius") -> Iterator[Row]:
    """Return the cells where the default exceeds the threshold, with the winner and the ratio.

    The fields `standardized` and `private radius` hold the default's error over the error of the
    variant of that name.
    """
    found = []
    for key, group in grouped(rows, kind).items():
        winner = best(group, *OTHERS)
        against = compared(winner)
        if against["ratio"] <= BAR:
            continue
        private = [r for name, r in group.items() if "private radius" in name]
        found.append(
            {
                "part": "loss",
                **_named(key),
                "rows": winner["rows"],
                "columns": winner["columns"],
                "default": group[DEFAULT]["mean"],
                "winner": winner["method"],
                **against,
                "standardized": _over([group[n] for n in ("standardized",) if n in group]),
                "private radius": _over(private),
                "use": use(winner["method"]),
            }
        )
    yield from sorted(found, key=lambda row: (not row["worse"], -row["ratio"]))


def lost_to_peers(rows: list[Row]) -> Iterator[Row]:
    """Return the cells where a peer has a smaller error than the default, beyond chance."""
    for key, group in grouped(rows, "frobenius").items():
        peer = best(group, "peer")
        against = compared(peer)
        if against["worse"]:
            yield {"part": "lost to a peer", **_named(key), "peer": peer["method"], **against}


def _named(key: Key) -> Row:
    return dict(zip(("table", "neighbors", "definition", "epsilon"), key, strict=True))


def _over(others: list[Row]) -> float | None:
    """Return the default's error over the least error of these methods."""
    return max((compared(row)["ratio"] for row in others), default=None)


def use(winner: str) -> str:
    """Return the purpose of a method of this name."""
    return next((words for part, words in USES.items() if part in winner), "other tables")


def winners(rows: list[Row]) -> Iterator[Row]:
    """Count how often each method (peers excluded) is the best of a cell, for each definition."""
    cells = grouped(rows, "frobenius")
    for definition in DEFINITIONS:
        groups = [group for key, group in cells.items() if key[2] == definition]
        found = [best(g, DEFAULT, *OTHERS) for g in groups]
        for name, count in Counter(row["method"] for row in found).most_common():
            gains = [compared(row)["ratio"] for row in found if row["method"] == name]
            yield {
                "part": "winner",
                "definition": definition,
                "winner": name,
                "cells": count,
                "default over it": geometric(gains),
            }


def portfolios(rows: list[Row], kind: str = "frobenius", steps: int = 4) -> Iterator[Row]:
    """Estimate the gain if `auto` chose well among more methods, by adding methods greedily.

    The set starts with the default. Each step adds the method that brings the best of the set
    closest to the best of all, in geometric mean over the cells of a definition. `within` is the
    fraction of cells where the best of the set is within 5% of the best of all.
    """
    cells = grouped(rows, kind)
    for definition in DEFINITIONS:
        groups = [
            group
            for key, group in cells.items()
            if key[2] == definition and standing(best(group, DEFAULT, *OTHERS)) > 0
        ]
        names = {name for g in groups for name, row in g.items() if row["role"] != "peer"}
        errors = {
            name: np.array([standing(g[name]) if name in g else math.inf for g in groups])
            for name in names
        }
        goal = np.array([standing(best(g, DEFAULT, *OTHERS)) for g in groups])
        chosen, reached = [DEFAULT], errors.get(DEFAULT, goal)
        for _ in range(steps if groups else 0):
            ratios = {
                name: geometric(list(np.minimum(reached, own) / goal))
                for name, own in sorted(errors.items())
            }
            added = min(ratios, key=ratios.__getitem__)
            if added in chosen:
                break
            chosen, reached = [*chosen, added], np.minimum(reached, errors[added])
            yield {
                "part": "portfolio",
                "error": kind,
                "definition": definition,
                "set": " + ".join(chosen),
                "over the best": ratios[added],
                "within": float(np.mean(reached <= 1.05 * goal)),
            }


def singles(rows: list[Row]) -> Iterator[Row]:
    """Return each method's error over the default's, as a geometric mean over the method's cells.

    The library's own mechanisms are included only if they have an error in every cell.
    """
    cells = grouped(rows, "frobenius")
    for definition in DEFINITIONS:
        groups = [group for key, group in cells.items() if key[2] == definition]
        roles = {name: row["role"] for group in groups for name, row in group.items()}
        for name, role in roles.items():
            own = [group for group in groups if name in group]
            if role == "default" or (role != "peer" and len(own) < len(groups)):
                continue
            yield {
                "part": "peer" if role == "peer" else "single",
                "definition": definition,
                "method": name,
                "cells": len(own),
                "over the default": geometric([standing(group[name]) for group in own]),
            }


def ranks(rows: list[Row]) -> Iterator[Row]:
    """Return mean ranks of the methods that take part in every cell of a definition."""
    cells = grouped(rows, "frobenius")
    for definition in DEFINITIONS:
        groups = {key: group for key, group in cells.items() if key[2] == definition}
        if not groups:
            continue
        names = [
            name
            for name in next(iter(groups.values()))
            if all(name in group for group in groups.values())
        ]
        errors = np.array([[group[n]["mean"] for n in names] for group in groups.values()])
        blocks = [key[0] for key in groups]
        difference = critical_difference(len(names), len(set(blocks)))
        found = mean_ranks(errors, blocks)
        for at in np.argsort(found):
            yield {
                "part": "rank",
                "definition": definition,
                "method": names[at],
                "rank": float(found[at]),
                "tables": len(set(blocks)),
                "difference": difference,
            }


def bounds(rows: list[Row]) -> Iterator[Row]:
    """Compare the default's error with the lower bound for all tables of the same size."""
    for key, group in grouped(rows, "frobenius").items():
        own = group[DEFAULT]
        if own["family"] == "public bounds" or own["epsilon"] > FORCE:
            continue
        yield {
            "part": "bound",
            **dict(zip(("table", "neighbors", "definition", "epsilon"), key, strict=True)),
            "rows": own["rows"],
            "columns": own["columns"],
            "default": own["mean"],
            "lower bound": lower_bound(
                own["columns"], own["rows"], own["definition"], own["epsilon"],
                own["neighbors"], own["trace"],
            ),
        }  # fmt: skip


def lower_bound(
    p: int, n: int, definition: Definition, epsilon: float, neighbors: str, trace: float
) -> float:
    steps = 2 if neighbors == Neighbors.ADD_REMOVE else 1
    if definition == "pure":
        return pure(p, n, epsilon, steps, trace)
    if definition == "zcdp":
        return zcdp(p, n, epsilon**2 / 2, steps, trace)
    return approximate(p, n, epsilon, DELTA, steps, trace)


def optimality(found: list[Row]) -> Iterator[Row]:
    """Return the default's errors over the lower bound, from rows of `bounds`."""
    for definition, epsilon in product(DEFINITIONS, sorted({row["epsilon"] for row in found})):
        ratios = [
            row["default"] / row["lower bound"]
            for row in found
            if (row["definition"], row["epsilon"]) == (definition, epsilon) and row["lower bound"]
        ]
        if ratios:
            yield {
                "part": "optimality",
                "definition": definition,
                "epsilon": epsilon,
                "cells": len(ratios),
                "least": min(ratios),
                "typical": geometric(ratios),
                "largest": max(ratios),
            }


def summed_up(rows: list[Row]) -> list[Row]:
    """Return the rows of all parts of the page."""
    parts = (regimes, families, kinds, singles, lost_to_peers, winners, losses, ranks)
    goals = (row for kind in GOALS for row in portfolios(rows, kind))
    return [*(row for part in parts for row in part(rows)), *goals, *optimality(list(bounds(rows)))]
