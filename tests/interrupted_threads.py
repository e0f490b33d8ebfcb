"""Raise KeyboardInterrupt at each place where Python can handle Ctrl-C while rows are read.

Usage: python interrupted_threads.py {dpcov,concurrent} {parquet,streamed,arrow,csv} FOLDER. Each
reading begins anew in a thread of its own. The script exits with 1 if a reading does not end, or
ends with another error. With "concurrent", the standard library provides the threads.
"""

import dis
import functools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcov.rows.schema import Schema
from dpcov.rows.sources import arrow, open_rows, rows, text

ENDS_WITHIN_SECONDS = 10
NUMBER = {"kind": "numeric", "lower": 0, "upper": 100}
SCHEMA = Schema.parse({"columns": {"age": NUMBER, "income": NUMBER}})
TABLE = pa.table({"age": np.full(200, 1.0), "income": np.full(200, 2.0)})
PARTS = 6
# Files in which the reading thread can be interrupted. Other code holds no lock of Python's.
TRACED = (
    "threads.py",
    "rows.py",
    "arrow.py",
    "text.py",
    "contextlib.py",
    "threading.py",
    "thread.py",
    "_base.py",
)


class FromLibrary(ThreadPoolExecutor):
    """Threads of the standard library, with the names that dpcov uses: what is to be rejected."""

    stopped = False

    def map(self, function, items):
        return list(super().map(function, items))


@functools.cache
def instructions(code):
    return {one.offset: one.opname for one in dis.get_instructions(code)}


class Interrupt:
    """Trace function that raises KeyboardInterrupt at the given place of all possible ones."""

    def __init__(self, place):
        self.place, self.seen, self.last, self.where = place, 0, {}, None

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(TRACED):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, argument):
        if event != "opcode":
            return self.step
        names = instructions(frame.f_code)
        before = names.get(self.last.get(id(frame)), "")
        self.last[id(frame)] = frame.f_lasti
        # After a call, a loop or the start of a function, Python handles signals.
        if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
            self.seen += 1
            if self.seen == self.place:
                self.where = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return self.step


def source(kind, folder):
    if kind == "arrow":
        return pa.Table.from_batches(TABLE.to_batches() * PARTS)
    path = folder / f"table.{kind}"
    if kind == "csv":
        path.write_text("age,income\n" + "1.0,2.0\n" * 200)
        text.READ_BYTES = 400
        return path
    if kind == "streamed":
        arrow.SMALL_GROUP_ROWS = 0
        path = folder / "table.parquet"
    with pq.ParquetWriter(path, TABLE.schema) as writer:
        for _part in range(PARTS):
            writer.write_table(TABLE)
    return path


def read(data, interrupt, outcome):
    opened = open_rows(data, SCHEMA, threads=2)
    sys.settrace(interrupt)
    try:
        opened.second_moments()
        outcome.append("read to the end")
    except BaseException as error:
        outcome.append(type(error).__name__)
    finally:
        sys.settrace(None)


def main():
    library, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if library == "concurrent":
        rows.Threads = text.Threads = FromLibrary
    data, place = source(kind, folder), 0
    while True:
        place += 1
        interrupt, outcome = Interrupt(place), []
        reader = threading.Thread(target=read, args=(data, interrupt, outcome), daemon=True)
        reader.start()
        reader.join(ENDS_WITHIN_SECONDS)
        if interrupt.where is None and outcome == ["read to the end"]:
            print("interrupted at", place - 1, "places")
            os._exit(0)
        if outcome != ["KeyboardInterrupt"]:
            print(outcome or "does not end", "at", interrupt.where, flush=True)
            os._exit(1)


if __name__ == "__main__":
    main()
