"""Make releases with whichever dpcov is found first, and tell what users read of them.

Run by `before_and_now.py`: standard input is a table with its schema, requests (keywords of
`dpcov.release`, and `out`, where a file of it goes), and whether errors of means are stated;
standard output is the count, means and covariance of each, the seconds that these took, and these
errors, or a word where it is refused. Nothing but public names of any version.
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
        told = made.count(), made.mean(), made.covariance(), time.perf_counter() - began
        return (*told, stated(made, asked["seed"])) if stating else told
    except Exception as error:  # of any version; a refusal is an outcome
        return f"{type(error).__name__}: {error}"


def stated(made: dpcov.Release, seed: int) -> Any:
    """(p,) standard errors of the means."""
    draws = np.random.default_rng(seed)
    found = dpcov.intervals(made, "mean", ONE_DEVIATION, sampling=False, generator=draws)
    return (found.high - found.low) / 2


if __name__ == "__main__":
    frame, schema, requests, stating = pickle.load(sys.stdin.buffer)  # noqa: S301 (the caller's)
    answers = [answer(frame, schema, asked, stating) for asked in requests]
    pickle.dump(answers, sys.stdout.buffer)
