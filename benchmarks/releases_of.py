"""Make releases with whichever dpcov is found first, and tell what users read of them.

Run by `before_and_now.py`: standard input is a table with its columns and requests (keywords of
`dpcov.release`), standard output the count, means and covariance of each, or None where it is
refused. Nothing but public names of any version.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import dpcov


def answer(frame: Any, columns: dict[str, Any], asked: dict[str, Any]) -> Any:
    try:
        made = dpcov.release(frame, schema=dpcov.Schema.parse({"columns": columns}), **asked)
    except Exception as error:  # of any version; a refusal is an outcome
        return f"{type(error).__name__}: {error}"
    return made.count(), made.mean(), made.covariance()


if __name__ == "__main__":
    frame, columns, requests = pickle.load(sys.stdin.buffer)  # noqa: S301 (written by the caller)
    pickle.dump([answer(frame, columns, asked) for asked in requests], sys.stdout.buffer)
