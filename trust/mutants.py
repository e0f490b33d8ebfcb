"""Plant small faults in the modules that carry the guarantee: `make mutants`.

    python trust/mutants.py [--jobs 2] [--sample 100] [src/dpcov/core/privacy.py ...]

A test must notice every fault. The exceptions are the faults in `trust/equivalent-mutants.md`,
which change only texts, speed or accuracy; the file gives a reason for each. The run fails for any
other fault that no test notices. It also fails if a listed fault is noticed, or is not planted.

`planting.py` plants the faults. mutmut 3 changes no constants and defaults outside of functions,
and cosmic-ray starts an interpreter for every fault.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass

from forks import KILLED, SURVIVED, TIMED_OUT
from mutant_tests import TESTS
from mutations import Key, Mutant, argument, mutants
from planting import ROOT, verdicts_of
from results import show, write

NOTES = ROOT / "trust/equivalent-mutants.md"
CODE = "`[^`]*`"
LINE = re.compile(
    rf"- (?:`(?P<function>[^`]*)`, )?`(?P<line>[^`]*)`: (?P<changes>{CODE}(, {CODE})*): (?P<why>.+)"
)
HEAVY = ("numpy", "scipy.optimize", "scipy.special", "scipy.linalg", "scipy.stats", "pyarrow")
HEAVY += ("pyarrow.csv", "pyarrow.parquet", "pyarrow.compute", "pydantic", "hypothesis", "flint")
HEAVY += ("cryptography.hazmat.primitives.ciphers", "typer", "rich.console", "sklearn.base")


def argued() -> dict[str, set[Key]]:
    """Return the mutants of each module that the notes list as equivalent."""
    found: dict[str, set[Key]] = {}
    module = ""
    if not NOTES.exists():
        return found
    for line in NOTES.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            module = line.removeprefix("## ").strip("`")
        elif line.startswith("- "):
            read = LINE.fullmatch(line)
            if read is None:
                raise SystemExit(f"not an argument for an equivalent mutant: {line}")
            for change in re.findall(r"`([^`]*)`", read["changes"]):
                key = read["function"] or "", read["line"], change
                found.setdefault(module, set()).add(key)
    return found


@dataclass(frozen=True)
class Counts:
    """Mutants of a module, by what became of them."""

    module: str
    mutants: int
    judged: int
    killed: int
    timed_out: int
    equivalent: int
    survived: int
    stale: int


def _counts(module: str, planted: int, verdicts: dict[Mutant, str], argued: set[Key]) -> Counts:
    """Count and print; what is wrong with the survivors and their arguments."""
    counts = Counter(verdicts.values())
    if len(verdicts) < planted:  # nothing is said of those that are not in the sample
        argued = argued & {mutant.key for mutant in verdicts}
    survivors = {mutant.key for mutant, verdict in verdicts.items() if verdict == SURVIVED}
    found = Counts(
        module=module,
        mutants=planted,
        judged=len(verdicts),
        killed=counts[KILLED],
        timed_out=counts[TIMED_OUT],
        equivalent=len(survivors & argued),
        survived=len(survivors - argued),
        stale=len(argued - survivors),
    )
    for name, keys in (("survived", survivors - argued), ("stale argument", argued - survivors)):
        for found_key in sorted(keys):
            print(f"{name}: {argument(found_key)}")
    print(" ".join(f"{name}={value}" for name, value in vars(found).items()), flush=True)
    return found


def sampled(every: list[Mutant], size: int | None) -> list[Mutant]:
    """Return a fixed random sample in the original order, or all mutants if there is no size."""
    if size is None or size >= len(every):
        return every
    chosen = set(random.Random(1).sample(range(len(every)), size))  # noqa: S311
    return [mutant for at, mutant in enumerate(every) if at in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="paths of modules; default, all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run at a time")
    parser.add_argument(
        "--sample", type=int, help="plant only so many mutants of each module, at random"
    )
    asked = parser.parse_args()
    if unknown := set(asked.modules) - set(TESTS):
        parser.error(f"no tests are chosen for {sorted(unknown)} in trust/mutant_tests.py")
    for name in HEAVY:
        importlib.import_module(name)
    notes = argued()
    rows = []
    for module in asked.modules or TESTS:
        every = list(mutants((ROOT / module).read_text(encoding="utf-8"), str(ROOT / module)))
        some = sampled(every, asked.sample)
        verdicts = verdicts_of(ROOT / module, some, asked.jobs)
        rows.append(_counts(module, len(every), verdicts, notes.get(module, set())))
    if not asked.modules:
        write("mutants.json", "make mutants", [vars(row) for row in rows])
        show("Mutants", [vars(row) for row in rows])
    return int(any(row.survived or row.stale for row in rows))


if __name__ == "__main__":
    sys.exit(main())
