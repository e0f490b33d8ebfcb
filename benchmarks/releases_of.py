"""Make releases with the first dpcov on the import path, and print their results.

The script `before_and_now.py` runs this program. Standard input has three parts:

- a table with its schema;
- requests: keywords of `dpcov.release`, and `out` (the path of the release file);
- a flag that requests the errors of means.

For each request, standard output has the count, the means, the covariance, the seconds, and the
errors of means on request. A refused request gives a word instead. The program uses only names that
are public in every version.
"""

from __future__ import annotations

import pickle
import sys
import time
from typing import Any

import numpy as np

import dpcov

ONE_DEVIATION = 0.6826895  # level of an interval that is as wide to either side


def answer(frame: Any, schema: dict[str, Any], asked: dict[str, Any], stating: bool) -> Any:
    try:
        began, out = time.perf_counter(), asked.pop("out", None)
        made = dpcov.release(frame, schema=dpcov.Schema.parse(schema), **asked)
        if out is not None:
            made.save(out)
        reported = made.count(), made.mean(), made.covariance(), time.perf_counter() - began
        return (*reported, stated(made, asked["seed"])) if stating else reported
    except Exception as error:  # of any version; a refusal is an outcome
        return f"{type(error).__name__}: {error}"


def stated(made: dpcov.Release, seed: int) -> Any:
    """Return the (p,) standard errors of the means."""
    draws = np.random.default_rng(seed)
    found = dpcov.intervals(made, "mean", ONE_DEVIATION, sampling=False, generator=draws)
    return (found.high - found.low) / 2


if __name__ == "__main__":
    frame, schema, requests, stating = pickle.load(sys.stdin.buffer)  # noqa: S301 (the caller's)
    answers = [answer(frame, schema, asked, stating) for asked in requests]
    pickle.dump(answers, sys.stdout.buffer)
