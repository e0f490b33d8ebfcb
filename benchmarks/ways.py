"""Count the calls on the way of a cell and of an epsilon in a release: `make bench NAME=ways`.

The script runs `dpcov release` once on a CSV file with one thread, in this process. It records
every call of dpcov's own functions, except comprehensions and generated methods.

- The way of a cell starts where dpcov reads the table (`Rows.read`) or answers a query of a
  mechanism (`Rows.second_moments` and the like). Cells become numbers there, and numbers become
  sums. The depth of the way is the number of dpcov's frames between `cli.release` and the deepest
  call. The files of the way are the files of these calls.
- The way of an epsilon is the set of files in which a function has epsilon as an argument. An
  object that contains epsilon also counts: a budget, a guarantee or a request. The way ends when
  dpcov creates the last noise distribution.
- A noise distribution counts as built when dpcov creates an instance of it or of a calibration.
  The distributions that denoising simulates from do not count. A distribution counts as built twice
  if dpcov created an equal one earlier. Distributions that are built after the ledger records the
  budget are counted separately.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dpcov

SOURCE = Path(dpcov.__file__).parent
EPSILON = 0.7310585786
QUESTIONS = {"read", "second_moments", "norm_counts"}
BARS = {
    "frames between cli.release and a cell": 10,
    "files on the way of a cell": 8,
    "files on the way of an epsilon": 6,
    "laws built twice": 0,
    "mechanisms and pyarrow imported by dpcov.load": 0,
    "entries at the top of src/dpcov": 16,
}
IMPORTS = """
import sys, dpcov

dpcov.load(sys.argv[1])
names = [name for name in sys.modules if name.partition(".")[0] == "dpcov"]
heavy = [n for n in sys.modules if n == "pyarrow" or n.startswith("dpcov.mechanisms.")]
print(len(names), len(heavy), *sorted(heavy))
"""


class Watch:
    """What one release calls: stacks under questions, files that hold the budget, laws built."""

    def __init__(self) -> None:
        self.deepest: list[str] = []
        self.cell: Counter[str] = Counter()
        self.holding: Counter[str] = Counter()
        self.epsilon: Counter[str] = Counter()  # the same when the last law was made
        self.built: list[tuple[bool, Any]] = []  # after booking?, the law
        self.booked = False

    def laws(self, frame: FrameType, event: str, _: Any) -> None:
        """Note laws alone."""
        if event == "return" and frame.f_code.co_name == "__init__" and not denoises(frame):
            self.law(frame.f_locals.get("self"))

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_name
        self.laws(frame, event, _)
        if event == "return" and name == "book" and file_of(frame) == "api.py":
            self.booked = True
        if event != "call" or not (file := file_of(frame)):
            return
        if any(holds(value) for value in arguments(frame)):
            self.holding[file] += 1
        stack = stack_of(frame)
        asked = next((at for at, (_, name) in enumerate(stack) if name in QUESTIONS), None)
        if asked is None:
            return
        self.cell[file] += 1
        if len(stack) > len(self.deepest):
            self.deepest = [f"{file}:{name}" for file, name in stack]

    def law(self, made: Any) -> None:
        kind = type(made)
        if kind.__name__ == "Calibration" or (
            kind.__module__.startswith("dpcov.") and hasattr(kind, "require_drawable")
        ):
            self.built.append((self.booked, made))
            self.epsilon = self.holding.copy()


def file_of(frame: FrameType) -> str:
    """Return the file in the package if the frame belongs to a dpcov function, else nothing."""
    path = Path(frame.f_code.co_filename)
    ours = path.is_relative_to(SOURCE) and not frame.f_code.co_name.startswith("<")
    return path.relative_to(SOURCE).as_posix() if ours else ""


def stack_of(frame: FrameType | None) -> list[tuple[str, str]]:
    """Return the frames of dpcov beneath `cli.release`, outermost first."""
    found = []
    while frame is not None:
        if file := file_of(frame):
            found.append((file, frame.f_code.co_name))
            if found[-1][1] == "release" and "cli" in file:
                return found[-2::-1]
        frame = frame.f_back
    return []


def denoises(frame: FrameType | None) -> bool:
    while frame is not None and "dpcov/denoise/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def arguments(frame: FrameType) -> list[Any]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


def holds(value: Any) -> bool:
    """Return True for the stated epsilon, for a budget, and for an object with a budget."""
    value = getattr(value, "guarantee", value)
    value = getattr(value, "budget", value)
    value = getattr(value, "epsilon", value)
    return type(value).__name__ in ("float", "Fraction") and abs(float(value) - EPSILON) < 1e-12


def write_table(folder: Path) -> list[str]:
    """Write a table of numbers and levels with its schema; return the arguments of a release."""
    rng = np.random.default_rng(0)
    lines = ["a,b,c,d"]
    for a, b, c, d in zip(*rng.random((3, 3000)), rng.integers(0, 3, 3000), strict=True):
        lines.append(f"{a:.6f},{b:.6f},{c:.6f},{'uvw'[d]}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    numbers = "".join(
        f'[columns.{name}]\nkind = "numeric"\nlower = 0\nupper = 1\n' for name in "abc"
    )
    levels = '[columns.d]\nkind = "categorical"\nlevels = ["u", "v", "w"]\n'
    (folder / "t.toml").write_text(numbers + levels)
    data, schema, out = (str(folder / name) for name in ("t.csv", "t.toml", "t.json"))
    asked = ["--epsilon", str(EPSILON), "--threads", "1", "--out", out]
    return ["release", data, "--schema", schema, *asked]


def watched(arguments: list[str]) -> Watch:
    from dpcov.cli import app

    watch = Watch()
    sys.setprofile(watch)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    return watch


def twice(built: list[tuple[bool, Any]]) -> list[Any]:
    """Return the noise distributions that were built although an equal one existed."""
    seen: list[Any] = []
    again = []
    for _, law in built:
        (again if law in seen else seen).append(law)
    return again


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        watch = watched(write_table(folder))
        asked = [sys.executable, "-c", IMPORTS, str(folder / "t.json")]
        imported, heavy, *names = subprocess.run(
            asked, check=True, capture_output=True, text=True
        ).stdout.split()
    figures = {
        "frames between cli.release and a cell": len(watch.deepest),
        "files on the way of a cell": len(watch.cell),
        "files on the way of an epsilon": len(watch.epsilon),
        "laws built twice": len(twice(watch.built)),
        "mechanisms and pyarrow imported by dpcov.load": int(heavy),
        "entries at the top of src/dpcov": sum(
            path.name != "__pycache__" for path in SOURCE.iterdir()
        ),
    }
    for name, figure in figures.items():
        bar = BARS[name]
        print(f"{figure:5}  bar {bar:3}  {'kept' if figure <= bar else 'not yet':8} {name}")
    late = Counter(type(law).__name__ for booked, law in watch.built if booked)
    print(f"\n{len(watch.built)} laws and calibrations built, {sum(late.values())} after booking")
    print("  after booking:", ", ".join(f"{n} {kind}" for kind, n in late.items()) or "none")
    print("  twice:", ", ".join(f"{type(law).__name__}" for law in twice(watch.built)) or "none")
    print(f"{imported} modules of dpcov imported by dpcov.load", *names)
    print("deepest:", " > ".join(watch.deepest))
    print("cell:", ", ".join(sorted(watch.cell)))
    print("epsilon:", ", ".join(sorted(watch.epsilon)))


if __name__ == "__main__":
    main()
