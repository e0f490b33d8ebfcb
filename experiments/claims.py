"""What papers claim, what was found, and the verdicts between the two."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from faults import Fault

HERE = Path(__file__).parent


class Verdict(StrEnum):
    """What we stand by."""

    REPRODUCED = "reproduced"
    """It came out within its tolerance, and doesn't under a fault that it names."""
    NOT_REPRODUCED = "not reproduced"
    """It did not come out within its tolerance."""
    REFUTED = "refuted"
    """It is false, by a counterexample or a proof."""
    MISPRINT = "misprint"
    """It is false as the copy at hand has it, and the paper means something else."""
    MEASURED = "measured"
    """A figure of ours, which says nothing on whether a mechanism is right."""
    DERIVED = "derived"
    """It follows from formulas, which we computed."""


@dataclass(frozen=True)
class Finding:
    """What was found for a claim, in words with numbers, and whether the claim holds.

    `exact` says that a claim that does not hold is refuted by it, by a counterexample or a proof.
    """

    measured: str
    holds: bool
    exact: bool = False

    @property
    def came(self) -> Verdict:
        """What came out, by itself."""
        if self.holds:
            return Verdict.REPRODUCED
        return Verdict.REFUTED if self.exact else Verdict.NOT_REPRODUCED


Part = Callable[[bool, Path], dict[str, Finding]]
ALLOWED = {
    Verdict.REPRODUCED: {Verdict.REPRODUCED},
    Verdict.NOT_REPRODUCED: {Verdict.NOT_REPRODUCED},
    Verdict.REFUTED: {Verdict.REFUTED},
    Verdict.MISPRINT: {Verdict.REFUTED},
    Verdict.MEASURED: {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.REFUTED},
    Verdict.DERIVED: {Verdict.REPRODUCED},
}


@dataclass(frozen=True)
class Claim:
    """A claim of `claims.toml`: `faults` are what it must notice, named before it is run."""

    id: str
    claim: str
    where: str
    expected: str
    tolerance: str
    verdict: Verdict
    why: str = ""
    faults: tuple[Fault, ...] = ()

    def stands(self, finding: Finding) -> bool:
        """Whether the stated verdict is one that a finding allows."""
        return finding.came in ALLOWED[self.verdict]


def papers() -> list[str]:
    """Folders with claims."""
    return sorted(path.parent.name for path in HERE.glob("*/claims.toml"))


def claims_of(paper: str) -> dict[str, Claim]:
    """The claims of a paper, by their ids.

    Raises
    ------
    ValueError : a claim is reproduced without a fault that it notices.

    """
    document = tomllib.loads((HERE / paper / "claims.toml").read_text(encoding="utf-8"))
    claims = {}
    for fields in document["claim"]:
        faults = tuple(map(Fault.parse, fields.pop("faults", [])))
        made = Claim(**fields | {"verdict": Verdict(fields["verdict"]), "faults": faults})
        if made.verdict == Verdict.REPRODUCED and not faults:
            raise ValueError(f"{paper}: {made.id} is reproduced, and names no fault")
        claims[made.id] = made
    return claims


def statements() -> dict[str, dict[str, list[str] | str]]:
    """What each paper states, by its number: the claims that judge it, or why none can."""
    return tomllib.loads((HERE / "statements.toml").read_text(encoding="utf-8"))


def alone(name: str, measure: Callable[[bool, Path], Finding]) -> Part:
    """A part that measures one claim."""
    return lambda small, folder: {name: measure(small, folder)}
