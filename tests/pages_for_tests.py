"""Releases whose pages are tested, some with names that mean harm."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import dpcov
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from tables_for_tests import correlated

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=http://evil.example/x onerror=document.body.dataset.harmed=1>',
    "{{ 7 * 7 }}{% for x in y %}",
    r"$\frac{1}{",
    "&lt;b&gt; &amp; [31m",
    "=HYPERLINK(1)",
    "名前 ✓ é",
    ("long " * 60).strip(),
    "</title></style></svg><b>bold</b>",
    "'; DROP TABLE people; --",
)


def hostile() -> Release:
    """Return a release whose columns and levels have the names above."""
    table = correlated(3000, len(HOSTILE), seed=2)
    columns: dict[str, dict[str, object]] = {
        name: {"kind": "numeric", "lower": -1, "upper": 1} for name in HOSTILE
    }
    levels = ["<b>level</b>", "&amp;"]
    columns["kind & <i>sort</i>"] = {"kind": "categorical", "levels": levels}
    cells = {name: table[:, j] for j, name in enumerate(HOSTILE)}
    chosen = [levels[int(value > 0)] for value in table[:, 0]]
    data = pa.table([*cells.values(), chosen], names=list(columns))
    schema = Schema.parse({"columns": columns})
    return dpcov.release(data, schema=schema, epsilon=20.0, mechanism="matrix-laplace")


def numeric(columns: int, rows: int = 4000, epsilon: float = 10.0, **options: object) -> Release:
    """Return a release of columns with a common part."""
    names = [f"column {j}" for j in range(columns)]
    schema = Schema.from_bounds(-1, 1, names, intercept=options.pop("intercept", 0.3))
    table = pa.table(list(correlated(rows, columns).T), names=names)
    asked = {"mechanism": "matrix-laplace", "epsilon": epsilon} | options
    return dpcov.release(table, schema=schema, **asked)


def wide() -> Release:
    """Return a release of 108 features: 8 numeric columns and 10 columns of 10 levels each."""
    generator = np.random.default_rng(5)
    table = correlated(20_000, 18, seed=4)
    columns: dict[str, dict[str, object]] = {}
    cells: list[object] = []
    for j in range(18):
        if j < 8:
            columns[f"measure {j}"] = {"kind": "numeric", "lower": -1, "upper": 1}
            cells.append(table[:, j])
        else:
            levels = [f"answer number {k}" for k in range(10)]
            columns[f"question {j}"] = {"kind": "categorical", "levels": levels}
            ranks = table[:, j].argsort().argsort() + generator.uniform(-1, 1, 20_000)
            place = np.clip(ranks / 20_000, 0, 0.999) ** 2 * 10
            cells.append([levels[int(k)] for k in place])
    data = pa.table(cells, names=list(columns))
    return dpcov.release(data, schema=Schema.parse({"columns": columns}), epsilon=2.0)
