"""The guarantee of a release for three readers: everybody, an officer, a statistician."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, zcdp_epsilon

if TYPE_CHECKING:
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release

ALMOST = 0.999
STRONG, USUAL, WEAK = 1.0, 3.0, 10.0
READ_AT = 1e-6  # delta at which rho is read as an epsilon


def epsilon_of(guarantee: Guarantee) -> float:
    """The epsilon of the budget; of rho, that at a delta of one in a million."""
    budget = guarantee.budget
    return zcdp_epsilon(budget.rho, READ_AT) if isinstance(budget, ZCDP) else budget.epsilon


def strength(guarantee: Guarantee) -> str:
    """How strong the guarantee is, by common judgement."""
    epsilon = epsilon_of(guarantee)
    if epsilon <= STRONG:
        return "strong protection"
    if epsilon <= USUAL:
        return "a usual, moderate protection"
    return "a weak protection" if epsilon <= WEAK else "hardly any protection"


def for_everybody(release: Release) -> list[str]:
    """What the guarantee means for somebody whose data may be in the table."""
    guarantee = release.whole_guarantee
    one = "one row (often one person)" if guarantee.unit.column is None else "one person"
    subject = (
        f"whether any {one} is in the table at all"
        if guarantee.neighbors == Neighbors.ADD_REMOVE
        else f"what the table holds of any {one}"
    )
    words = [
        "The figures on this page are not exact. Random noise was added to them on purpose, to "
        f"hide {subject}. How well it hides that is a number, epsilon = "
        f"{epsilon_of(guarantee):.3g}: the smaller, the better. By common judgement this is "
        f"{strength(guarantee)}.",
        "The guarantee holds whatever else somebody knows, and whatever is computed from these "
        "figures later. It does not keep anybody from learning facts about the group as a whole: "
        "that is what the figures are for.",
    ]
    budget = guarantee.budget
    if isinstance(budget, PureDP):
        after = 1 / (1 + math.exp(-min(budget.epsilon, 700)))
        words.append(
            "As a bet: somebody who thinks that two such possibilities are equally likely (50 %) "
            f"can be at most {percent(after)} sure of one of them after reading this page."
        )
    else:
        rare = budget.delta if isinstance(budget, ApproxDP) else READ_AT
        words.append(f"There is a small chance, {rare:g}, that it protects less than that.")
    return words


def percent(share: float) -> str:
    """A share in per cent, rounded up."""
    return f"{math.ceil(share * 1000) / 10:g} %" if share <= ALMOST else "almost 100 %"


def sentence(text: str) -> str:
    """Text with a capital at the front and a full stop at the end."""
    return f"{text[:1].upper()}{text[1:]}."


def for_the_officer(release: Release) -> list[tuple[str, str]]:
    """Facts that a record of processing or an impact assessment asks for."""
    guarantee = release.whole_guarantee
    facts = [
        ("Definition", sentence(str(guarantee.budget))),
        ("Who is protected", sentence(f"any {guarantee.unit}")),
        ("In one sentence", release.guarantee_in_words()),
        ("Not protected", sentence(release.not_protected())),
        (
            "Other releases",
            "Every further release from the same data adds to what is spent, for the same people. "
            "A ledger keeps account. What is computed from this release alone, such as everything "
            "on this page, adds nothing.",
        ),
        (
            "In law",
            "The guarantee is mathematical and holds against any other source of information. "
            "Whether it makes these figures anonymous in the sense of a law is for you to judge.",
        ),
        ("Made by", f"{release.made_by()}."),
    ]
    if release.group is not None:
        group = f"Rows with {release.group.column} = {release.group.level} only."
        facts.insert(0, ("Which rows", group))
    if guarantee.unit.column is not None:
        text = f"Of each person at most {guarantee.unit.max_rows} rows count."
        facts.insert(3, ("Rows per person", text))
    return facts


def for_the_statistician(release: Release) -> list[str]:
    """What the figures are, and what may be done with them."""
    words = [
        f"The release is a noisy matrix of second moments of the encoded rows ({release.mechanism}"
        f"), with {release.lattice.dimension} rows and columns. Means, covariances, "
        "correlations and regressions are functions of it.",
    ]
    if release.not_released is not None:
        words = [f"{release.not_released} The mechanism is {release.mechanism}."]
    if release.noise is not None:
        deviation = math.sqrt(release.noise.diagonal_variance) * release.lattice.step**2
        words.append(
            "As published it is unbiased: S + Z, where the law of Z is known and does not depend "
            "on the data. An entry on the diagonal of Z has a standard deviation of "
            f"{deviation:.4g}; half the width of a column's bounds is 1, and values outside "
            "them were moved to the nearer bound."
        )
        words.append(
            "Intervals on this page come from simulating Z, and cover sampling error too where "
            "they say so. They are about single figures: of 20 intervals at 95 % one may miss."
        )
    elif release.published is not None:
        words.append(
            "This mechanism does not add noise of a known law, so no interval can be given for it."
        )
    if release.denoise not in ("none", "exact") and release.published is not None:
        words.append(
            f"Point estimates are from the denoised matrix (by “{release.denoise}”): nearer to the "
            "truth on average, but pulled towards 0 where noise is large. "
            "Release.noisy() is the matrix as published."
        )
    budget = release.whole_guarantee.budget
    if isinstance(budget, ApproxDP | ZCDP):
        words.append(f"The budget is {budget}.")
    return words
