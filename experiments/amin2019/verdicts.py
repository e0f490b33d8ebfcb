"""Compare Figure 1's cells with the paper's claims and with our claims."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from amin2019 import figure1
from amin2019.figure1 import ENTRIES, Cell, Figure
from amin2019.methods import DELTAS, OURS
from amin2019.tables import NAMES
from claims import Finding

EXCEPTED = ("wine", 0.01)
PAPERS = ("AD", "IT-U", "KT", "L")
RIVALS = ("L", "KT", "G-16", "G-10", "G-3")
CLOSE = 1.25  # ratio of errors within which two methods count as the same
CLEARLY = 1.05
SURE = 5.0  # standard errors of what counts as a counterexample
BAR = 4.0
# Last tick on each vertical axis of Figure 1, and the distance between ticks. Our copy of the paper
# contains only these ticks. The largest mean error in the figure is near the last tick.
TICKS = {
    ("1a", "wine"): (3.0, 0.5),
    ("1a", "airfoil"): (1.2, 0.2),
    ("1a", "adult"): (4.0, 0.5),
    ("1b", "wine"): (2.5, 0.5),
    ("1b", "airfoil"): (1.2, 0.2),
    ("1b", "adult"): (1.8, 0.2),
}
MARGIN = 0.05  # an axis ends about this part of the data's range beyond the data


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Measure Figure 1, write it, and compare it with the claims."""
    figure = figure1.measure(small)
    figure1.write(figure, folder)
    return {
        "ad-beats-all": ad_beats(figure, RIVALS),
        "ad-beats-gaussian": ad_beats(figure, ("G-3",)),
        "splitting-little-effect": splitting(figure),
        "splitting-helps-somewhere": splitting_helps(figure),
        "gap-largest-on-adult": gap_largest(figure),
        "figures-from-text": axes(figure, ""),
        "figures-from-published-code": axes(figure, " published"),
        "default-beats-paper": default_beats(figure),
        "ad-over-default": ad_over_default(figure),
        "default-is-best": default_is_best(figure),
    }


def ad_beats(figure: Figure, rivals: tuple[str, ...]) -> Finding:
    """Check whether AD is best, to 2 standard errors, in all cells that the paper claims."""
    places = [place for place in figure.places if place != EXCEPTED]
    won = _won(figure, "AD", rivals, places)
    named = {name: len(_won(figure, "AD", (name,), places)) for name in rivals}
    code = tuple(f"{name} published" for name in rivals)
    by_code = _won(figure, "AD published", code, places)
    loose = tuple(f"{name} classical" if name in DELTAS else name for name in rivals)
    by_classical = _won(figure, "AD", loose, places)
    beaten = ", ".join(f"{name} {count}" for name, count in named.items())
    return Finding(
        f"best on {len(won)} of {len(places)} cells (against each: {beaten}); with sqrt(2 "
        f"ln(1.25/delta)) for G on {len(by_classical)}; with the published code's constants on "
        f"{len(by_code)}",
        len(won) == len(places),
        exact=any(
            _better(figure.at(*place, rival), figure.at(*place, "AD"), SURE)
            for place in places
            for rival in rivals
        ),
    )


def splitting(figure: Figure) -> Finding:
    """Compare AD's error with IT-U's error."""
    ratios = _ratios(figure, "AD", "IT-U")
    close = [ratio for ratio in ratios.values() if 1 / CLOSE <= ratio <= CLOSE]
    return Finding(
        f"AD/IT-U within {CLOSE} on {len(close)} of {len(ratios)} cells; least "
        f"{min(ratios.values()):.2f} at {_name(min(ratios, key=lambda p: ratios[p]))}",
        len(close) >= 0.8 * len(ratios),
    )


def splitting_helps(figure: Figure) -> Finding:
    """Find cells where AD is clearly better than IT-U."""
    better = [
        place
        for place, ratio in _ratios(figure, "AD", "IT-U").items()
        if ratio < 1 / CLEARLY and _better(figure.at(*place, "AD"), figure.at(*place, "IT-U"))
    ]
    return Finding(f"better by over 5% on {len(better)} cells: {_names(better)}", bool(better))


def gap_largest(figure: Figure) -> Finding:
    """Check for which epsilons KT's error less AD's is largest on adult."""

    def gap(name: str, epsilon: float) -> float:
        return figure.error(name, epsilon, "KT") - figure.error(name, epsilon, "AD")

    largest = [
        epsilon
        for epsilon in figure.epsilons
        if gap("adult", epsilon) == max(gap(name, epsilon) for name in NAMES)
    ]
    means = {name: np.mean([gap(name, epsilon) for epsilon in figure.epsilons]) for name in NAMES}
    return Finding(
        f"largest on adult at {len(largest)} of {len(figure.epsilons)} epsilons "
        f"({', '.join(f'{epsilon:g}' for epsilon in largest)}); mean "
        f"of KT - AD: {', '.join(f'{name} {mean:.3f}' for name, mean in means.items())}",
        largest == figure.epsilons,
    )


def axes(figure: Figure, kind: str) -> Finding:
    """Check whether the largest mean error of each panel is at the end of the printed axis."""
    reported, matched = [], 0
    for (panel, name), (tick, step) in TICKS.items():
        shown = [f"{method}{kind}" for method in figure1.PANELS[panel] if method != OURS]
        top = max((figure.at(name, e, m) for e in figure.epsilons for m in shown), key=_mean)
        slack = 2 * top.error_se
        low, high = tick / (1 + MARGIN), (tick + step) / (1 + MARGIN)
        fits = low <= top.error_mean + slack and top.error_mean - slack < high
        matched += fits
        reported.append(
            f"{panel} {name} {top.error_mean:.2f} by {top.method} for {tick:g}"
            + ("" if fits else " (no)")
        )
    return Finding(f"{matched} of {len(TICKS)} axes: " + "; ".join(reported), matched == len(TICKS))


def default_beats(figure: Figure) -> Finding:
    """Find cells where one of the paper's methods has at most the default's mean error."""
    lost = [
        f"{_name(place)} ({method})"
        for place in figure.places
        for method in PAPERS
        if figure.error(*place, method) <= figure.error(*place, OURS)
    ]
    return Finding(f"lost on: {', '.join(lost) or 'no cell'}", not lost)


def ad_over_default(figure: Figure) -> Finding:
    """Compute geometric means of AD's error over the default's."""
    ratios = _ratios(figure, "AD", OURS)
    logs = {name: [np.log(r) for (n, _), r in ratios.items() if n == name] for name in NAMES}
    whole = float(np.exp(np.mean([x for group in logs.values() for x in group])))
    each = ", ".join(f"{name} {np.exp(np.mean(logs[name])):.2f}" for name in NAMES)
    return Finding(f"{whole:.2f} over {len(ratios)} cells ({each})", whole >= BAR)


def default_is_best(figure: Figure) -> Finding:
    """Find cells where a pure-DP method of the library beats the default by over 5%."""
    rivals = [name for name, e in ENTRIES.items() if e.pure and e.family in ("paper", "tight")]
    lost = {
        method: [
            place
            for place in figure.places
            if figure.has(*place, method)
            and figure.error(*place, method) * CLEARLY < figure.error(*place, OURS)
            and _better(figure.at(*place, method), figure.at(*place, OURS))
        ]
        for method in rivals
    }
    worst = max(len(places) for places in lost.values())
    reported = "; ".join(
        f"{method} on {_names(places)}" for method, places in lost.items() if places
    )
    return Finding(
        f"{worst} of {len(figure.places)} cells at most, of {len(rivals)} methods: "
        f"{reported or 'none anywhere'}",
        worst <= max(1, 0.05 * len(figure.places)),
    )


def _won(
    figure: Figure, method: str, rivals: tuple[str, ...], places: list[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Return the cells in which no rival is better by more than 2 standard errors."""
    return [
        place
        for place in places
        if not any(_better(figure.at(*place, r), figure.at(*place, method)) for r in rivals)
    ]


def _better(one: Cell, other: Cell, errors: float = 2.0) -> bool:
    slack = errors * np.hypot(one.error_se, other.error_se)
    return bool(one.error_mean < other.error_mean - slack)


def _ratios(figure: Figure, one: str, other: str) -> dict[tuple[str, float], float]:
    return {
        place: figure.error(*place, one) / figure.error(*place, other) for place in figure.places
    }


def _mean(cell: Cell) -> float:
    return cell.error_mean


def _name(place: tuple[str, float]) -> str:
    return f"{place[0]} {place[1]:g}"


def _names(places: list[tuple[str, float]]) -> str:
    return ", ".join(_name(place) for place in places) or "none"
