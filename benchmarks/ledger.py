"""Check the count of a ledger against dp-accounting and against an exact adversary.

`make bench NAME=ledger` runs the script (ARGS="1000 300" for the numbers of mixes). The mixes are
in `ledger_mixes`, the adversary is in `ledger_adversary`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from dpcov.core.accounting import drawn_mu_squared, root_up
from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import ApproxDP
from ledger_adversary import (
    BUDGET,
    best_excess,
    by_request,
    gaussian,
    leaking,
    lesser,
    pure,
    rest_of,
)
from ledger_mixes import gaussian_mix, pure_mix
from results import Kept, show

GAUSSIAN_MIXES, PURE_MIXES = 1000, 300
LARGEST_RATIO = 1.10  # median of the count over the tight value
RESERVE = 0.5  # of the adversary's ledger, a multiple of its smallest release
Row = dict[str, Any]


def row(what: str, wanted: str, found: float, ok: bool) -> Row:
    """Return a row of the result."""
    return {"what": what, "wanted": wanted, "found": f"{found:.4g}", "ok": ok}


def gaussian_rows(mixes: int) -> Iterator[Row]:
    """Yield what the ledger counts for mixes of Gaussian releases."""
    found = [gaussian_mix(random.Random(seed)) for seed in range(mixes)]  # noqa: S311
    ratios = [one.count / one.tight for one in found]
    label = f"{mixes} mixes of Gaussian releases: "
    middle, least = median(ratios), min(ratios)
    yield row(f"{label}count / tight, median", "<= 1.1", middle, middle <= LARGEST_RATIO)
    yield row(f"{label}count / tight, smallest", ">= 1", least, least >= 1)
    yield row(f"{label}count / tight, largest", "", max(ratios), True)
    above = sum(one.count > one.plain for one in found)
    yield row(f"{label}counts above plain addition", "0", above, above == 0)
    plain = median(one.plain / one.count for one in found)
    yield row(f"{label}plain addition / count, median", "", plain, True)
    unequal = sum(one.orders != {one.count} for one in found)
    yield row(f"{label}counts that depend on the order", "0", unequal, unequal == 0)


def pure_rows(mixes: int) -> Iterator[Row]:
    """Yield what mixes with pure releases spend."""
    found = [pure_mix(random.Random(seed)) for seed in range(mixes)]  # noqa: S311
    worst = max(one.used for one in found)
    label = f"{mixes} mixes with pure releases: "
    yield row(f"{label}delta / budget, largest", "<= 1", worst, worst <= 1)
    control = sum(one.without_reserve > 1 for one in found)
    yield row(f"{label}overdrawn without a reserve (control)", "> 0", control, control > 0)


def adversary_rows() -> Iterator[Row]:
    """Yield the delta of the best adversary, as a fraction of the budget."""
    responses = [gaussian(1, BUDGET.delta / 20), gaussian(3, BUDGET.delta / 20)]
    leaks = [*responses, leaking(0.001, BUDGET.delta / 5)]
    rule = Rule(BUDGET, Count.GAUSSIAN)
    reserve = Rule(BUDGET, Count.GAUSSIAN, RESERVE)
    one = best_excess(rule.admits, responses, rest_of()) / BUDGET.delta
    yield row("adversary: count gaussian", "0.999 to 1", one, 0.999 <= one <= 1)
    mixed = [*responses, pure(1), pure(2)]
    two = best_excess(reserve.admits, mixed, rest_of(RESERVE)) / BUDGET.delta
    yield row("adversary: count gaussian with a reserve", "<= 1", two, two <= 1)
    worse = best_excess(lesser, leaks, rest_of()) / BUDGET.delta
    yield row("adversary: the lesser of two filters (control)", "> 1", worse, worse > 1)

    def rest(spends: list[Spend]) -> float:
        return rest_of()([spend for spend in spends if spend.mu is not None])

    split = best_excess(by_request, leaks, rest) / BUDGET.delta
    yield row("adversary: a filter for each request (control)", "> 1", split, split > 1)
    true = leaks_with_mu() / BUDGET.delta
    yield row("leaks counted by a mu (control): delta / budget", "> 1", true, true > 1)


def leaks_with_mu() -> float:
    """Return the delta of leaking releases that a ledger admits if each has a false mu."""
    stated = ApproxDP(0.1, 0.01)
    false = Spend(stated, root_up(drawn_mu_squared(stated.epsilon, stated.delta)))
    rule, number = Rule(BUDGET, Count.GAUSSIAN), 0
    while rule.admits([false] * (number + 1)):
        number += 1
    return 1 - (1 - stated.delta) ** number  # each discloses everything with this probability


def main(numbers: list[str]) -> None:
    """Run all checks and keep their rows."""
    first, second = map(int, numbers) if numbers else (GAUSSIAN_MIXES, PURE_MIXES)
    kept = Kept("ledger.json", "make bench NAME=ledger")
    kept.part("gaussian", lambda: gaussian_rows(first))
    kept.part("pure", lambda: pure_rows(second))
    kept.part("adversary", adversary_rows)
    show("The count of a ledger", kept.rows)
    sys.exit(not (kept.done() and all(one["ok"] for one in kept.rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
