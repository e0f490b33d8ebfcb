"""Read the papers' claims and compare them with the findings."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from faults import Fault

HERE = Path(__file__).parent


class Verdict(StrEnum):
    """Result of the comparison of a claim with the findings."""

    REPRODUCED = "reproduced"
    """The finding is within the claim's tolerance, and outside it under the claim's faults."""
    LOOSE = "loose"
    """The finding is within the claim's tolerance, and no fault below a factor of 8 is named."""
    NOT_REPRODUCED = "not reproduced"
    """The finding is outside the claim's tolerance."""
    REFUTED = "refuted"
    """The claim is false, by a counterexample or a proof."""
    MISPRINT = "misprint"
    """The claim is false as printed in our copy, and the paper means something else."""
    MEASURED = "measured"
    """The claim is a figure of ours and does not say whether a mechanism is right."""
    DERIVED = "derived"
    """The claim follows from formulas that we computed."""


@dataclass(frozen=True)
class Finding:
    """Finding for a claim: a text with numbers, and whether the claim holds.

    `exact` is True if a failed claim is refuted, by a counterexample or a proof.
    """

    measured: str
    holds: bool
    exact: bool = False

    @property
    def came(self) -> Verdict:
        """Verdict that follows from the finding alone."""
        if self.holds:
            return Verdict.REPRODUCED
        return Verdict.REFUTED if self.exact else Verdict.NOT_REPRODUCED


# Verdicts against a paper.
WRONG = {Verdict.NOT_REPRODUCED, Verdict.REFUTED, Verdict.MISPRINT}
Part = Callable[[bool, Path], dict[str, Finding]]
ALLOWED = {
    Verdict.REPRODUCED: {Verdict.REPRODUCED},
    Verdict.LOOSE: {Verdict.REPRODUCED},
    Verdict.NOT_REPRODUCED: {Verdict.NOT_REPRODUCED},
    Verdict.REFUTED: {Verdict.REFUTED},
    Verdict.MISPRINT: {Verdict.REFUTED},
    Verdict.MEASURED: {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.REFUTED},
    Verdict.DERIVED: {Verdict.REPRODUCED},
}


@dataclass(frozen=True)
class Claim:
    """A claim of `claims.toml`: `faults` are what it must notice, named before it is run.

    `sentence` is the exact sentence of our copy of the paper.
    """

    id: str
    claim: str
    where: str
    expected: str
    tolerance: str
    verdict: Verdict
    why: str = ""
    sentence: str = ""
    faults: tuple[Fault, ...] = ()

    @property
    def ours(self) -> bool:
        """True if no sentence of the paper makes this claim. Such claims are not counted."""
        return self.where.startswith("ours")

    def stands(self, finding: Finding) -> bool:
        """Return True if a finding allows the stated verdict."""
        return finding.came in ALLOWED[self.verdict]


def papers() -> list[str]:
    """Return the folders with claims."""
    return sorted(path.parent.name for path in HERE.glob("*/claims.toml"))


def claims_of(paper: str) -> dict[str, Claim]:
    """Return the claims of a paper, by their ids.

    Raises
    ------
    ValueError : a claim is reproduced without a fault that it notices, or the paper is wrong
        without its sentence.

    """
    document = tomllib.loads((HERE / paper / "claims.toml").read_text(encoding="utf-8"))
    claims = {}
    for fields in document["claim"]:
        faults = tuple(map(Fault.parse, fields.pop("faults", [])))
        made = Claim(**fields | {"verdict": Verdict(fields["verdict"]), "faults": faults})
        if made.verdict == Verdict.REPRODUCED and not faults:
            raise ValueError(f"{paper}: {made.id} is reproduced, and names no fault")
        if made.verdict in WRONG and not made.ours and not made.sentence:
            raise ValueError(f"{paper}: {made.id} is {made.verdict}, without the paper's sentence")
        claims[made.id] = made
    return claims


def statements() -> dict[str, dict[str, list[str] | str]]:
    """Return the papers' numbered statements, each with its claims or the reason for no claim."""
    return tomllib.loads((HERE / "statements.toml").read_text(encoding="utf-8"))


def alone(name: str, measure: Callable[[bool, Path], Finding]) -> Part:
    """Return a part that measures one claim."""
    return lambda small, folder: {name: measure(small, folder)}
