"""Run the papers' experiments and check their claims: `make reproduce`, `make reproduce-controls`.

Each folder beside this file belongs to one paper. Its `claims.toml` lists the paper's claims. Each
claim has its place in the paper, a tolerance, a verdict, and faults of mechanisms that the claim
must detect. The folder's `run.py` has `PARTS`, a list of functions

    part(small: bool, folder: Path) -> dict[str, Finding]

Together these functions measure every claim. The keys of a result are the ids of claims. The
functions write figures and tables to `folder`. With controls, each part runs again, with few
repeats, under each fault. The run fails if a verdict differs from the stated verdict, or if a fault
does not change it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faults
import seeds
from claims import Claim, Finding, Part, Verdict, claims_of, papers
from results import RESULTS, Kept, show

COLUMNS = ("claim", "verdict", "measured", "faults", "under them", "ok")


def place(paper: str, *, small: bool, run: int = 0, controls: bool = True) -> str:
    """Return the folder of a run's figures and tables, in `results`."""
    kind = f"{'-small' if small else ''}{f'-run{run}' if run else ''}"
    return f"reproduce{kind}{'' if controls or run else '-alone'}/{paper}"


def checked(paper: str, where: str, *, small: bool, controls: bool) -> Iterator[dict[str, Any]]:
    """Return a row for each claim; `ok` is True if the finding agrees with the stated verdict.

    `seconds` is the CPU time of the claim without faults. The claims of a part share its time.
    """
    folder = RESULTS / where
    folder.mkdir(parents=True, exist_ok=True)
    claims, met = claims_of(paper), set()
    for part in importlib.import_module(f"{paper}.run").PARTS:
        began = time.process_time()
        found = part(small, folder)
        spent = (time.process_time() - began) / len(found)
        own = {name: claims[name] for name in found}
        wrong, few = {}, found
        if controls and any(claim.faults for claim in own.values()):
            few = found if small else aside(part)
            wrong = under_faults(part, own)
        for name, claim in own.items():
            made = row(paper, claim, found[name], wrong.get(name, []), few[name])
            yield made | {"seconds": round(spent, 2)}
        met |= set(found)
    if met != set(claims):
        raise ValueError(f"{paper}: never measured: {', '.join(sorted(set(claims) - met))}")


def aside(part: Part) -> dict[str, Finding]:
    """Measure with few repeats, which suffice for a fault; drop figures and tables."""
    with TemporaryDirectory() as folder:
        return part(True, Path(folder))


def under_faults(part: Part, claims: dict[str, Claim]) -> dict[str, list[Finding]]:
    """Measure each claim under each of its faults; run each fault once."""
    again = {}
    for fault in dict.fromkeys(fault for claim in claims.values() for fault in claim.faults):
        with faults.in_force(fault):
            again[fault] = aside(part)
    return {name: [again[fault][name] for fault in claim.faults] for name, claim in claims.items()}


def row(
    paper: str, claim: Claim, finding: Finding, wrong: list[Finding], few: Finding
) -> dict[str, Any]:
    """Return the row of a claim, with its finding and its findings under faults.

    They are noticed if the verdict stands without them, with as `few` repeats, and with none.
    """
    noticed = not wrong or (claim.stands(few) and not any(map(claim.stands, wrong)))
    return {
        "paper": paper,
        "id": claim.id,
        "claim": claim.claim,
        "where": claim.where,
        "ours": claim.ours,
        "expected": claim.expected,
        "tolerance": claim.tolerance,
        "verdict": claim.verdict,
        "came": finding.came,
        "measured": finding.measured,
        "faults": [str(fault) for fault in claim.faults],
        "under them": [f"{found.came}: {found.measured}" for found in wrong],
        "noticed": noticed,
        "ok": noticed and claim.stands(finding),
    }


def seconds_of(rows: list[dict[str, Any]]) -> float:
    """Return the CPU time of the claims, without their faults."""
    return float(sum(row["seconds"] for row in rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("papers", nargs="*", help="which papers; default, all")
    parser.add_argument("--small", action="store_true", help="few repeats, for the tests")
    parser.add_argument("--run", type=int, default=0, help="other seeds, for 1, 2, ..")
    parser.add_argument("--no-controls", action="store_true", help="not under the faults")
    asked = parser.parse_args()
    unknown = set(asked.papers) - set(papers())
    if unknown:
        parser.error(f"no such paper: {sorted(unknown)}; there are {papers()}")
    seeds.begin(asked.run)
    rows, unfinished = [], []
    for paper in asked.papers or papers():
        controls = not asked.no_controls
        where = place(paper, small=asked.small, run=asked.run, controls=controls)
        target = "reproduce-controls" if controls else "reproduce"
        kept = Kept(f"{where}/claims.json", f"make {target} PAPER={paper}")
        work = partial(checked, paper, where, small=asked.small, controls=controls)
        kept.part(paper, work)
        show(f"Claims of {paper}", [{name: row[name] for name in COLUMNS} for row in kept.rows])
        print(f"{paper}: {seconds_of(kept.rows):.0f} s of CPU without faults", flush=True)
        rows += kept.rows
        unfinished += [] if kept.done() else [paper]
    if unfinished:
        print(f"papers whose experiments failed: {', '.join(unfinished)}")
    print(f"all papers: {seconds_of(rows) / 60:.1f} minutes of CPU without faults")
    stated = [row["verdict"] for row in rows if not row["ours"]]
    counts = ", ".join(f"{stated.count(kind)} {kind}" for kind in Verdict)
    print(f"claims of the papers: {counts}; claims of our own: {len(rows) - len(stated)}")
    asleep = [f"{row['paper']}: {row['claim']}" for row in rows if not row["noticed"]]
    print("claims that did not notice a fault: " + ("; ".join(asleep) or "none"))
    surprises = [f"{row['paper']}: {row['claim']}" for row in rows if not row["ok"]]
    print("claims that came out otherwise than stated: " + ("; ".join(surprises) or "none"))
    return int(bool(surprises or unfinished))


if __name__ == "__main__":
    sys.exit(main())
