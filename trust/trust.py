"""Attack the library and print the figures: `make trust`.

Each module of MODULES measures attacks of the threat model and has

    measure(quick: bool) -> list[Figure]

The run fails where a figure is not what it must be. `--quick` takes about five minutes in all.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from figure import Figure
from results import show, write

MODULES: tuple[str, ...] = (
    "arithmetic",
    "randomness",
    "exact_losses",
    "person_means",
    "coupling",
    "audits",
    "ledger_attacks",
    "power_loss",
    "malformed",
    "sources_attack",
    "stored_cells",
    "records",
    "workbooks",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help=f"which of {', '.join(MODULES)}; default, all")
    parser.add_argument("--quick", action="store_true", help="a smaller version, for the tests")
    asked = parser.parse_args()
    unknown = set(asked.modules) - set(MODULES)
    if unknown:
        parser.error(f"no such module: {sorted(unknown)}; there are {MODULES}")
    figures: list[Figure] = []
    for name in asked.modules or MODULES:
        figures += importlib.import_module(name).measure(asked.quick)
    rows = [vars(figure) for figure in figures]
    show("Trust", rows)
    if not asked.modules:
        command = "make trust" + (" (quick)" if asked.quick else "")
        write("trust-quick.json" if asked.quick else "trust.json", command, rows)
    return int(not all(figure.ok for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
