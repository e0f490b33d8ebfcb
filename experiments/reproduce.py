"""Run the papers' experiments and judge their claims: `make reproduce`.

Each folder beside this file is one paper. Its `claims.toml` lists what the paper says, where, the
tolerance, and the verdict that we stand by; its `run.py` has

    run(small: bool, folder: Path) -> dict[str, Finding]

which measures every claim (keys are the claims' ids) and writes figures and tables to `folder`.
The run fails where a verdict does not come out as stated.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from results import RESULTS, Kept, show

HERE = Path(__file__).parent
REPRODUCED, NOT_REPRODUCED, REFUTED = "reproduced", "not reproduced", "refuted"


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim, in words with numbers, and whether the claim holds."""

    measured: str
    holds: bool


def papers() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/claims.toml"))


def place(paper: str, *, small: bool) -> str:
    """Folder of a run's figures and tables, in `results`."""
    return f"reproduce{'-small' if small else ''}/{paper}"


def claims_of(paper: str) -> list[dict[str, Any]]:
    document = tomllib.loads((HERE / paper / "claims.toml").read_text(encoding="utf-8"))
    return document["claim"]


def judge(paper: str, *, small: bool) -> list[dict[str, Any]]:
    """One row for each claim; `ok` says whether the stated verdict is what was measured."""
    folder = RESULTS / place(paper, small=small)
    folder.mkdir(parents=True, exist_ok=True)
    found = importlib.import_module(f"{paper}.run").run(small, folder)
    claims = claims_of(paper)
    if set(found) != {claim["id"] for claim in claims}:
        raise ValueError(f"{paper}: the findings are not those of claims.toml")
    return [
        {
            "paper": paper,
            "claim": claim["claim"],
            "where": claim["where"],
            "expected": claim["expected"],
            "measured": found[claim["id"]].measured,
            "tolerance": claim["tolerance"],
            "verdict": claim["verdict"],
            "ok": found[claim["id"]].holds == (claim["verdict"] == REPRODUCED),
        }
        for claim in claims
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("papers", nargs="*", help="which papers; default, all")
    parser.add_argument("--small", action="store_true", help="few repeats, for the tests")
    asked = parser.parse_args()
    unknown = set(asked.papers) - set(papers())
    if unknown:
        parser.error(f"no such paper: {sorted(unknown)}; there are {papers()}")
    rows, unfinished = [], []
    for paper in asked.papers or papers():
        kept = Kept(f"{place(paper, small=asked.small)}/claims.json", "make reproduce")
        kept.part(paper, partial(judge, paper, small=asked.small))
        show(f"Claims of {paper}", kept.rows)
        rows += kept.rows
        unfinished += [] if kept.done() else [paper]
    if unfinished:
        print(f"papers whose experiments failed: {', '.join(unfinished)}")
    surprises = [f"{row['paper']}: {row['claim']}" for row in rows if not row["ok"]]
    print("claims that came out otherwise than stated: " + ("; ".join(surprises) or "none"))
    return int(bool(surprises or unfinished))


if __name__ == "__main__":
    sys.exit(main())
