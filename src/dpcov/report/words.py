"""Texts that explain a guarantee to the public, to an officer and to a statistician."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Neighbors,
    PureDP,
    rows_in_words,
    zcdp_epsilon,
)
from dpcov.estimate import dependent

if TYPE_CHECKING:
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release

# Largest probability that is stated as a number.
MAX_STATED_PROBABILITY = 0.999
# Epsilon above which the factor of the odds has no meaning, and is not stated as a number.
MAX_STATED_EPSILON = 10.0
# Factor from which two decimals say nothing.
MIN_ROUND_FACTOR = 100.0
# Delta for which rho is converted to an epsilon. Source: convention.
CONVERSION_DELTA = 1e-6


def epsilon_of(guarantee: Guarantee) -> float:
    """Return epsilon. A budget of rho is converted to epsilon at a delta of 1e-6."""
    budget = guarantee.budget
    return (
        zcdp_epsilon(budget.rho, CONVERSION_DELTA) if isinstance(budget, ZCDP) else budget.epsilon
    )


def odds_factor(guarantee: Guarantee) -> str:
    """Return e^epsilon, rounded up: the largest factor by which odds can change."""
    epsilon = epsilon_of(guarantee)
    if epsilon > MAX_STATED_EPSILON:
        return f"e^{epsilon:.3g}"
    size = math.exp(epsilon)
    digits = 2 if size < MIN_ROUND_FACTOR else 0
    return f"{math.ceil(size * 10**digits) / 10**digits:,.{digits}f}"


def odds(guarantee: Guarantee) -> str:
    """Return a phrase that says what epsilon bounds, as odds."""
    one = "one row" if guarantee.unit.column is None else "one person"
    subject = (
        f"the odds that any {one} is in the table"
        if guarantee.neighbors == Neighbors.ADD_REMOVE
        else f"the odds between any two values of {one}"
    )
    exact = isinstance(guarantee.budget, PureDP)
    exception = "" if exact else f", except with a probability of about {delta_of(guarantee):g}"
    return f"{subject} change by a factor of at most {odds_factor(guarantee)}{exception}"


def delta_of(guarantee: Guarantee) -> float:
    """Return delta. A budget of rho has the delta of its conversion to epsilon."""
    budget = guarantee.budget
    return budget.delta if isinstance(budget, ApproxDP) else CONVERSION_DELTA


def not_protected(release: Release) -> list[str]:
    """Return what the release discloses without protection, in five lines at most."""
    units = "rows" if release.guarantee.unit.column is None else "persons"
    count = release.unit_count
    known = "" if count is None else f", and the number of {units} ({count:,})"
    found = [
        "The schema (columns, bounds, levels), the budget and the settings of the release.",
        f"The running time of dpcov{known}.",
        "Facts about the group as a whole, even if they also hold for one person.",
        "Choices that somebody made after an inspection of the data.",
    ]
    conditional = "not_protected" in release.provenance
    return (
        [*found, "Rows that break the condition under the facts above."] if conditional else found
    )


def for_everybody(release: Release) -> list[str]:
    """Return sentences for a person whose data might be in the table."""
    guarantee = release.whole_guarantee
    one = "one row (often one person)" if guarantee.unit.column is None else "one person"
    subject = (
        f"whether any {one} is in the table"
        if guarantee.neighbors == Neighbors.ADD_REMOVE
        else f"which values the table contains for any {one}"
    )
    words = [
        f"The figures on this page contain random noise, which hides {subject}. The number "
        f"epsilon = {epsilon_of(guarantee):.3g} measures the protection; a smaller epsilon "
        f"protects more. For a reader of this page, {odds(guarantee)}.",
        "The guarantee holds whatever else a reader knows, and whatever anybody computes from "
        "these figures. The guarantee does not hide facts about the group as a whole, because the "
        "figures describe the group.",
    ]
    budget = guarantee.budget
    if isinstance(budget, PureDP):
        after = 1 / (1 + math.exp(-min(budget.epsilon, 700)))
        words.append(
            "An example: a reader considers two such possibilities equally likely (50%). After "
            f"reading this page, the reader can be at most {percent(after)} sure of either one."
        )
    else:
        words.append(
            "The guarantee has an exception: with a small probability, about "
            f"{delta_of(guarantee):g}, the protection can be weaker."
        )
    return words


def percent(share: float) -> str:
    """Return a fraction in per cent, rounded up."""
    return (
        f"{math.ceil(share * 1000) / 10:g}%" if share <= MAX_STATED_PROBABILITY else "almost 100%"
    )


def sentence(text: str) -> str:
    """Return a text with a capital letter first and a full stop at the end."""
    return f"{text[:1].upper()}{text[1:]}."


def for_the_officer(release: Release) -> list[tuple[str, str]]:
    """Return facts for a record of processing or an impact assessment."""
    guarantee = release.whole_guarantee
    facts = [
        ("Definition", sentence(str(guarantee.budget))),
        ("Who is protected", sentence(f"any {guarantee.unit}")),
        ("In one sentence", release.guarantee_in_words()),
        ("Not protected", sentence(release.not_protected())),
        (
            "Other releases",
            "Every further release from the same data adds to the privacy loss of the same people. "
            "A ledger records the total. Results that are computed only from this release, such as "
            "this page, add nothing.",
        ),
        (
            "In law",
            "The guarantee is mathematical and holds for any other information of a reader. You "
            "decide whether these figures are anonymous in the sense of a law.",
        ),
        ("Made by", f"{release.made_by()}."),
    ]
    if release.group is not None:
        group = f"Only rows with {release.group.column} = {release.group.level}."
        facts.insert(0, ("Which rows", group))
    if guarantee.unit.column is not None:
        text = f"dpcov uses at most {rows_in_words(guarantee.unit.max_rows)} of each person."
        text = dependent(release, sampling=False) or text
        facts.insert(3, ("Rows per person", text))
    return facts


def for_the_statistician(release: Release) -> list[str]:
    """Return sentences about the released matrix, its noise and its estimates."""
    words = [
        f"The mechanism {release.mechanism} released a noisy second moment matrix of the encoded "
        f"rows, with {release.lattice.dimension} rows and columns. Means, covariances, "
        "correlations and regressions are functions of this matrix.",
    ]
    if release.not_released is not None:
        words = [f"{release.not_released} The mechanism is {release.mechanism}."]
    if (sums := release.sums_alone) is not None:
        deviation = sums.noise.standard_deviation * release.lattice.step**2
        words.append(
            f"Each sum has noise with a public distribution and a standard deviation of "
            f"{deviation:.4g}, if half the width of a column's bounds counts as 1. Intervals on "
            "this page come from simulations of the noise and include the sampling error."
        )
    if release.noise is not None:
        deviation = math.sqrt(release.noise.diagonal_variance) * release.lattice.step**2
        rows, scale = "transformed and clipped rows", ""
        if release.linear_map is None:
            rows, scale = "encoded rows", ", if half the width of a column's bounds counts as 1"
        words.append(
            f"The published matrix is S + Z, where S is the exact second moment matrix of the "
            f"{rows} and Z is noise with a public distribution. An entry on the diagonal of Z has "
            f"a standard deviation of {deviation:.4g}{scale}. Values outside the bounds count as "
            "the nearer bound."
        )
        words.append(
            "Intervals on this page come from simulations of Z. They include the sampling error "
            "only if their section says so. Each interval is for one figure: of 20 intervals at "
            "95%, about one can miss its true value."
        )
    elif release.published is not None:
        words.append(
            "The noise of this mechanism has no known distribution, so the page contains no "
            "intervals."
        )
    if release.denoise not in ("none", "exact") and release.published is not None:
        words.append(
            f"Point estimates use the denoised matrix (method {release.denoise}). Denoising "
            "reduces the average error, but shrinks estimates towards 0 if the noise is large. "
            "Release.noisy() returns the published matrix."
        )
    budget = release.whole_guarantee.budget
    if isinstance(budget, ApproxDP | ZCDP):
        words.append(f"The budget is {budget}.")
    return words
