"""Privacy and accuracy of the registered mechanisms: `make reproduce-faults`.

Each verdict comes from the noise that the registered mechanism calibrates. The losses and the
errors are formulas of these modules, with d = 2 and rows of norm at most 1. Each verdict is found
again under faults of the library:

- the noise times 0.7 and times 1.4,
- the sensitivity divided by the root of two.

A privacy verdict must change if there is too little noise, and an accuracy verdict must change if
the noise has another size. The run fails otherwise.
"""

from __future__ import annotations

import sys

import calibrated
import default_case
import refusing
import transcripts
from results import show

CASES = (*default_case.CASES, *calibrated.CASES, *transcripts.CASES, *refusing.CASES)


def main() -> int:
    rows = [case.row() for case in CASES]
    show("Registered mechanisms, without and with faults of the library", rows)
    asleep = [str(found["mechanism"]) for found in rows if not found["ok"]]
    print("mechanisms with a wrong verdict: " + ("; ".join(asleep) or "none"))
    return int(bool(asleep))


if __name__ == "__main__":
    sys.exit(main())
