"""Compute the outcome of a release: everything visible except the noisy numbers themselves."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcov.api.ledger import Ledger
from dpcov.core.privacy import ApproxDP
from dpcov.releases import Release

WRITTEN = ("r.json", "sums.json", "draft.toml")
ENTRIES = 40  # of a ledger: each spend reads it all


@dataclass(frozen=True)
class Outcome:
    """How a call ended, what it printed, what it spent, and which files there are."""

    ended: str
    printed: str
    spent: tuple[str, ...]
    files: tuple[tuple[str, int, str], ...] = ()

    @property
    def happened(self) -> bool:
        """Whether something was spent, or written beside what was there."""
        return bool(self.spent or any(name in WRITTEN for name, *_ in self.files))


def shape(document: Any) -> Any:
    """Return the parts of a document that are not noisy: names, texts and lengths.

    The number of units is exact or None. Noise distributions contribute only their names, and row
    transforms contribute nothing. The number of bins of the norm histogram is omitted, because a
    mechanism chooses the bins from its earlier published results. The hash of private sums is
    omitted, because nobody else sees these sums.
    """
    if isinstance(document, dict):
        return {name: _SHAPES.get(name, shape)(value) for name, value in document.items()}
    if isinstance(document, list):
        return [len(document), *map(shape, document[:1])]
    number = isinstance(document, int | float) and not isinstance(document, bool)
    return "number" if number else document


def _law(law: Any) -> Any:
    return law and law["law"]


def _directions(document: Any) -> Any:
    """Return the shape of a directions query. Its part of the budget follows from the pilot."""
    if document is None:
        return None
    return shape({name: value for name, value in document.items() if name != "guarantee"})


def _lengths(lengths: Any) -> Any:
    """Return True if each count has an end; the noisy pilot determines their number."""
    if lengths is None:
        return None
    alike = len(lengths["ends"]) == len(lengths["counts"])
    return {**shape(lengths), "ends": "noisy", "counts": "as many" if alike else "others"}


_SHAPES: dict[str, Callable[[Any], Any]] = {
    "directions": _directions,
    "unit_count": repr,
    "noise": _law,
    "trace_noise": _law,
    "linear_map": lambda _: "noisy",
    "center": lambda _: "noisy",
    "lengths": _lengths,
    "parts": len,
}


def shape_of(made: Any) -> str:
    """Return the shape of a release, or of one release for each level."""
    if isinstance(made, Release):
        return json.dumps(shape(json.loads(made.to_text())))
    if isinstance(made, dict):
        return json.dumps({level: shape_of(one) for level, one in made.items()})
    return type(made).__name__


@contextlib.contextmanager
def printed() -> Iterator[Callable[[], str]]:
    """Capture the standard streams, including the output of compiled libraries."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(stream) for stream in (1, 2)]
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)

            def read() -> str:
                file.seek(0)
                return file.read().decode(errors="replace")

            yield read
        finally:
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)


class Book:
    """Ledgers that are never used up: one for each unit and relation, a new one now and then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._open: dict[str, tuple[Path, Ledger]] = {}
        self._seen: dict[str, int] = {}
        self._now = ""

    def ledger(self, kind: str) -> tuple[Path, Ledger]:
        """Return the ledger of this kind of charges, which later calls use."""
        self._now = kind
        if self._seen.get(kind, ENTRIES) >= ENTRIES:
            self._number += 1
            path = self._folder / f"{self._number}.ledger"
            self._open[kind] = path, Ledger.create(path, ApproxDP(1e9, 0.5), count="sums")
            self._seen[kind] = 0
        return self._open[kind]

    def spent(self) -> tuple[str, ...]:
        """Return the charges since the last call, from the ledger in use."""
        entries = self._open[self._now][1].account().entries
        new = tuple(f"{one.guarantee} {one.note}" for one in entries[self._seen[self._now] :])
        self._seen[self._now] = len(entries)
        return new


def outcome_of(call: Callable[[], Any], book: Book, hidden: str = "") -> Outcome:
    """Return the outcome of a call; `hidden` is a name that differs between tables by design.

    The caller must have asked `book.ledger` for the ledger that the call uses.
    """
    with printed() as read, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            ended = shape_of(call())
        except BaseException as error:
            chained = error.__cause__ is not None or error.__context__ is not None
            ended = f"{type(error).__name__} {error} {'chained' if chained else ''}"
        text = read()
    lines = [text, *(f"{one.category.__name__}: {one.message}" for one in warned)]
    everything = "\n".join(lines)
    if hidden:
        ended, everything = ended.replace(hidden, "DATA"), everything.replace(hidden, "DATA")
    return Outcome(ended, everything, book.spent())


def files_in(folder: Path) -> tuple[tuple[str, int, str], ...]:
    """Return the names and modes of the files, the shape of documents and the text of a draft."""
    found = []
    for path in sorted(folder.iterdir()):
        content = ""
        if path.suffix == ".json":
            text = path.read_text()
            content = json.dumps(shape(json.loads(text))) if text else "empty"
        elif path.name in WRITTEN:
            content = path.read_text()
        found.append((path.name, path.stat().st_mode, content))
    return tuple(found)
