"""Measure speed, memory and the accuracy of correlations as ratios within one run: `make bench`.

Both sides of a ratio run in turn, in separate processes. The printed ratio is the median over
rounds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from datasets import (
    ADULT_COLUMNS,
    ADULT_NUMERIC,
    RAND,
    RAND_SCHEMA,
    adult_levels,
    adult_lines,
    found,
)
from results import Kept, show
from workloads import NUMERIC_LEVELS, measure

ROUNDS = 5
SHORT_ROUNDS = 15  # of what takes a fraction of a second, where a neighbour's noise weighs most
SHORT = 2**29  # bytes of a file
SHAPES = {(1_000_000, 50): 600.0, (10_000_000, 20): 600.0, (200_000, 500): 1.1 * 1024}  # MiB
MIXED_ROWS = 5_000_000
FLOOR_SHAPES = {(100_000, 1000): 20_000}  # rows of a group
WIDE = (100_000, 2000)
FLOOR_BAR = 1.4
WORKERS_BAR = 0.65
MATRICES_BAR = 6
HELP_BAR, COMPLETION_BAR, DEMO_BAR, PLAN_BAR = 0.4, 0.3, 10.0, 3.0  # CPU seconds
CHUNK = 200_000
DPCOV = Path(sys.executable).with_name("dpcov")


def row(case: str, metric: str, ours: float, reference: float, bar: float, ok: bool) -> Any:
    ratio = ours / reference if reference else None
    return {
        "case": case,
        "metric": metric,
        "ours": float(ours),
        "reference": float(reference),
        "ratio": ratio,
        "bar": float(bar),
        "ok": bool(ok),
    }


def write_numeric(path: Path, n: int, d: int, group: int = CHUNK) -> None:
    """Write standard normals in row groups of at most this size."""
    generator = np.random.default_rng(0)
    names = [f"x{j}" for j in range(d)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, group):
            block = generator.standard_normal((d, min(group, n - start)))
            writer.write_table(pa.table(list(block), schema=schema))


def write_mixed(path: Path, n: int) -> None:
    """Write six numeric and eight categorical columns like Adult's, with 108 features."""
    generator = np.random.default_rng(0)
    writer = None
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        columns = {
            f"x{j}": pa.DictionaryArray.from_arrays(
                pa.array(generator.integers(0, levels, size, dtype=np.int32)),
                [f"level {k}" for k in range(levels)],
            ).dictionary_decode()
            if levels
            else pa.array(generator.standard_normal(size))
            for j, levels in enumerate(NUMERIC_LEVELS)
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def compare(
    path: Path, case: str, reference: str, cpu_bar: float, memory_bar: float
) -> Iterator[Any]:
    """Yield the CPU ratio of the exact moment over a reference, and its peak memory."""
    pairs = [(measure("exact", path), measure(reference, path)) for _ in range(ROUNDS)]
    ratios = [ours["cpu"] / plain["cpu"] for ours, plain in pairs]
    ours, plain = (float(np.median([pair[k]["cpu"] for pair in pairs])) for k in (0, 1))
    entry = row(case, f"CPU seconds against {reference}", ours, plain, cpu_bar, False)
    entry["ratio"] = float(np.median(ratios))
    entry["ok"] = entry["ratio"] <= cpu_bar
    yield entry
    peak = max(pair[0]["peak_mib"] for pair in pairs)
    other = max(pair[1]["peak_mib"] for pair in pairs)
    yield row(case, "peak memory, MiB", peak, other, memory_bar, peak <= memory_bar)


def best(path: Path, *jobs: str) -> list[dict[str, float]]:
    """Return the least CPU time and the least wall time of each job; the jobs run in turn.

    Other programs might use the machine, so the best of a few rounds counts.
    """
    rounds = SHORT_ROUNDS if path.stat().st_size < SHORT else ROUNDS
    runs = [[measure(job, path) for job in jobs] for _ in range(rounds)]
    return [
        {what: min(run[k][what] for run in runs) for what in ("cpu", "wall")}
        for k in range(len(jobs))
    ]


def against_floor(path: Path, case: str) -> Iterator[Any]:
    """Yield the CPU time over the floor, and the wall time of two workers over one worker.

    The floor is the CPU time of raw decoding and BLAS alone. The floor's ratio of two workers to
    one describes the machine, so it has no acceptance threshold.
    """
    one, two, floor, of_two = best(path, "exact", "exact_by_two", "floor", "floor_by_two")
    ok = one["cpu"] <= FLOOR_BAR * floor["cpu"]
    yield row(case, "CPU seconds against decode + syrk", one["cpu"], floor["cpu"], FLOOR_BAR, ok)
    ok = two["wall"] <= WORKERS_BAR * one["wall"]
    metric = "seconds of two workers against one"
    yield row(case, metric, two["wall"], one["wall"], WORKERS_BAR, ok)
    if pq.ParquetFile(path).num_row_groups > 1:  # which the floor's threads share out
        metric = "seconds of two workers of decode + syrk against one"
        yield row(case, metric, of_two["wall"], floor["wall"], WORKERS_BAR, True)


def least_between(path: Path, case: str) -> Any:
    """Measure the cost of one NumPy pass over the cells beside decoding and BLAS.

    No bar, but a measure of what is between the floor and us.
    """
    least, floor = (found["cpu"] for found in best(path, "floor_and_pass", "floor"))
    metric = "CPU seconds of decode + one rounding pass + syrk against decode + syrk"
    return row(case, metric, least, floor, FLOOR_BAR, True)


def parts(path: Path, case: str) -> list[dict[str, Any]]:
    """Measure CPU seconds of the parts of one worker's reading in the best of a few rounds."""
    spent = min((measure("parts_of_exact", path) for _ in range(3)), key=lambda run: run["cpu"])
    names = [name for name in spent if name not in ("cpu", "wall", "process_cpu", "peak_mib")]
    return [{"case": case, "part": name, "cpu": spent[name]} for name in names]


def numeric(path: Path, n: int, d: int, memory_bar: float, spent: list[Any]) -> Iterator[Any]:
    """Compare numeric tables with a plain loop and the floor, and one shape with pandas too."""
    write_numeric(path, n, d)
    case = f"Parquet {n:,} x {d}"
    yield from compare(path, case, "plain", 1.2, memory_bar)
    yield from against_floor(path, case)
    yield least_between(path, case)
    spent += parts(path, case)
    if d == 20:
        yield from against_pandas(path, case)


def mixed(path: Path, spent: list[Any]) -> Iterator[Any]:
    """Compare tables of numbers and levels."""
    write_mixed(path, MIXED_ROWS)
    case = f"Parquet mixed {MIXED_ROWS:,} x 108"
    yield from compare(path, case, "plain_mixed", 1.3, 600)
    yield from against_floor(path, case)
    spent += parts(path, case)


def many_columns(path: Path, n: int, d: int, group: int, spent: list[Any]) -> Iterator[Any]:
    write_numeric(path, n, d, group)
    case = f"Parquet {n:,} x {d}"
    yield from against_floor(path, case)
    spent += parts(path, case)


def wide(path: Path, spent: list[Any]) -> Iterator[Any]:
    """Measure 2000 columns, where the matrices of a worker exceed one row group."""
    import dpcov

    write_numeric(path, *WIDE, group=10_000)
    matrix = 8 * WIDE[1] ** 2 / 2**20
    group = 4 * WIDE[1] * 10_000 / 2**20  # encoded, in float32; the workers share it
    case = f"Parquet {WIDE[0]:,} x {WIDE[1]}"
    yield from against_floor(path, case)
    spent += parts(path, case)
    bare = measure("nothing", path)["peak_mib"]
    for workers, job in ((1, "exact"), (2, "exact_by_two")):
        beyond = measure(job, path)["peak_mib"] - bare - group
        held = beyond / workers / matrix
        metric = f"d x d matrices per worker, {workers} workers"
        yield row(case, metric, held, MATRICES_BAR, MATRICES_BAR, held <= MATRICES_BAR)
    rows = np.random.default_rng(0).uniform(-1, 1, (1000, WIDE[1]))
    for asked in ({"epsilon": 1.0}, {"rho": 0.1}):
        start = time.perf_counter()
        made = dpcov.release(rows, lower=-1, upper=1, **asked)
        took = time.perf_counter() - start
        case = f"{made.mechanism} at d = {WIDE[1]}"
        yield row(case, "seconds of noise, gate and denoising", took, 0, 60, took < 60)


def against_pandas(path: Path, case: str) -> Iterator[Any]:
    ours, theirs = measure("exact", path), measure("pandas_cov", path)
    cpu, memory = (theirs[key] / ours[key] for key in ("process_cpu", "peak_mib"))
    yield row(
        case,
        "process CPU seconds against pandas + numpy.cov (bar: ratio at most 1/2.5)",
        ours["process_cpu"],
        theirs["process_cpu"],
        1 / 2.5,
        cpu >= 2.5,
    )
    yield row(
        case,
        "peak MiB against pandas + numpy.cov (bar: ratio at most 1/3)",
        ours["peak_mib"],
        theirs["peak_mib"],
        1 / 3,
        memory >= 3,
    )


def seconds(command: list[str], **variables: str) -> float:
    """Measure the least CPU time of a command over a few runs.

    Each command uses one thread, so its wall time on an idle machine is about the same.
    """
    times = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | variables,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


def commands(folder: Path) -> Iterator[Any]:
    """Measure the wall time of whole commands."""
    table, schema = folder / "adult.csv", folder / "adult.toml"
    table.write_text("\n".join([",".join(ADULT_COLUMNS), *adult_lines()]) + "\n")
    levels = adult_levels()
    public = {"age": (0, 100), "fnlwgt": (0, 1.5e6), "education-num": (1, 16)}
    public |= {"capital-gain": (0, 1e5), "capital-loss": (0, 5000), "hours-per-week": (0, 100)}
    lines = []
    for j, name in enumerate(ADULT_COLUMNS[:-1]):
        lines += [f'[columns."{name}"]']
        if j in ADULT_NUMERIC:
            low, high = public[name]
            lines += ['kind = "numeric"', f"lower = {low}", f"upper = {high}"]
        else:
            lines += ['kind = "categorical"', f"levels = {levels[name]}"]
    schema.write_text("\n".join(lines) + "\n")
    out = str(folder / "adult.release.json")
    release = [str(DPCOV), "release", str(table), "--schema", str(schema), "--epsilon", "1"]
    took = seconds([*release, "--out", out, "--force"])
    yield row("dpcov release, Adult 48,842 x 108", "CPU seconds", took, 0, 6, took < 6)
    took = seconds([sys.executable, "-c", "import dpcov"])
    bare = seconds([sys.executable, "-c", "pass"])
    metric = "CPU seconds beyond bare python"
    yield row("import dpcov", metric, took - bare, 0, 0.3, took - bare < 0.3)
    took = seconds([str(DPCOV), "--help"])
    yield row("dpcov --help", "CPU seconds", took, 0, HELP_BAR, took <= HELP_BAR)
    completing = {"_DPCOV_COMPLETE": "complete_bash", "COMP_WORDS": "dpcov re", "COMP_CWORD": "1"}
    took = seconds([str(DPCOV)], **completing)
    case = "completion of a command in a shell"
    yield row(case, "CPU seconds", took, 0, COMPLETION_BAR, took <= COMPLETION_BAR)
    demo = folder / "demo"
    took = seconds([str(DPCOV), "demo", "--folder", str(demo)])
    yield row("dpcov demo", "CPU seconds", took, 0, DEMO_BAR, took <= DEMO_BAR)
    asked = ["--rows", "25000", "--pair", "age", "systolic", "--half-width", "0.05", "--quick"]
    took = seconds([str(DPCOV), "plan", str(demo / "visits.toml"), *asked])
    case = "first answer of dpcov plan, 10 columns"
    yield row(case, "CPU seconds", took, 0, PLAN_BAR, took <= PLAN_BAR)


def core_size() -> Iterator[Any]:
    """Measure the installed size of dpcov and its dependencies, without extras."""
    sizes: dict[str, float] = {}
    waiting = ["dpcov"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in sizes:
            continue
        package = distribution(name)
        paths = [Path(str(file.locate())) for file in package.files or []]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
        needs = [Requirement(need) for need in package.requires or []]
        waiting += [n.name for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})]
    total = sum(sizes.values())
    yield row("core and its dependencies, installed", "MB", total, 0, 500, total < 500)


def demo_accuracy() -> Iterator[Any]:
    """Measure the error of 45 correlations of the RAND table, the demo until version 0.2."""
    import dpcov

    table, schema = found(RAND), RAND_SCHEMA
    truth = np.corrcoef(np.loadtxt(table, delimiter=",", skiprows=1), rowvar=False)
    pairs = np.tril_indices(len(truth), -1)
    for epsilon, bar in ((1.0, 0.016), (0.5, 0.03)):
        errors = [
            np.abs(dpcov.release(table, schema=schema, epsilon=epsilon).correlation() - truth)[
                pairs
            ]
            for _ in range(20)
        ]
        mean = float(np.mean(errors))
        case = f"demo correlations, epsilon = {epsilon:g}, 20 repeats"
        yield row(case, "mean absolute error", mean, 0, bar, mean <= bar)
        print(f"{case}: largest {np.max(errors):.3f}")


def main() -> int:
    kept, spent = Kept("bench.json", "make bench"), Kept("bench-parts.json", "make bench")
    works: dict[str, Callable[[Path], Iterator[Any]]] = {
        f"Parquet {n:,} x {d}": partial(numeric, n=n, d=d, memory_bar=bar, spent=spent.rows)
        for (n, d), bar in SHAPES.items()
    }
    works["mixed"] = partial(mixed, spent=spent.rows)
    for (n, d), group in FLOOR_SHAPES.items():
        works[f"Parquet {n:,} x {d}"] = partial(
            many_columns, n=n, d=d, group=group, spent=spent.rows
        )
    works["wide"] = partial(wide, spent=spent.rows)
    works["commands"] = lambda path: commands(path.parent)
    works["installed size"] = lambda _: core_size()
    works["demo"] = lambda _: demo_accuracy()
    for label, work in works.items():
        with tempfile.TemporaryDirectory(prefix="dpcov-bench-") as name:
            kept.part(label, partial(work, Path(name) / "table.parquet"))
            spent.part(label, list)  # what the work has put there
    show("Benchmarks", kept.rows)
    show("CPU seconds of one worker, part by part", spent.rows)
    done = [kept.done(), not kept.failed and spent.done()]
    return int(not (all(done) and all(entry["ok"] for entry in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
