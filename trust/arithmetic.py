"""Low bits, floating-point sums, the law of samplers, and bounds from data."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

import dpcov
from dpcov import estimators
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, PureDP
from dpcov.core.samplers.discrete import discrete_gaussian, discrete_laplace
from dpcov.core.samplers.normal import standard_exponentials, standard_normals
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import DpcovError
from dpcov.mechanisms import MECHANISMS
from dpcov.mechanisms.additive import Calibration, coarse
from dpcov.papers.samplers.bingham import Bingham, envelope_parameter
from dpcov.papers.samplers.nuclear import NuclearLaplace
from dpcov.published.consistency import shift_for
from dpcov.rows.encoder import Encoder
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from figure import Figure

sys.path.append(str(Path(__file__).parents[1] / "tests" / "conformance"))
from cases import NAMES, SOURCES, as_arrow

LOW_BITS = "low bits of floating-point noise"
SUMS = "sensitivity of floating-point sums"
LAW = "wrong sampler law"
BOUNDS = "bounds from data"
THREADS, BATCHES = (1, 2, 3, 4, 8, 16), (1, 7, 100, 4096)
REJECTED, PASSES = 1e-9, 1e-4


def measure(quick: bool) -> list[Figure]:
    """Return all figures of this module."""
    return [
        *low_bits(20_000 if quick else 1_000_000),
        *sums(100 if quick else 1000),
        *neighbors(50_000 if quick else 1_000_000),
        *laws(20_000 if quick else 400_000),
        *bounds(),
    ]


def low_bits(draws: int) -> list[Figure]:
    """Count published numbers off the public lattice, for two neighbouring tables."""
    values = np.random.default_rng(0).random((40, 3))
    schema = Schema.from_bounds(0, 1, NAMES)
    lattice = open_rows(values, schema).lattice()
    additive: list[tuple[str, Calibration]] = []
    for name, kind in MECHANISMS.items():
        for budget in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
            try:
                found = kind().calibrate(lattice, budget, Neighbors.ADD_REMOVE)
            except DpcovError:
                continue
            if isinstance(found, Calibration) and found.counts is None:
                additive.append((name, found))
                break
    off = naive = 0
    each = draws // (2 * len(additive))
    entropy, generator = Entropy.system(), np.random.default_rng(1)
    for rows in (values, values[1:]):
        moment = open_rows(rows, schema).second_moments()[0]
        for _, laws in additive:
            shift = shift_for(laws.matrix.spread)
            unit = 2.0**shift * lattice.step**2
            for _ in range(0, each, 10_000):
                noise = laws.matrix.samples(min(each, 10_000), entropy)
                published = coarse(moment.units + noise, shift) * unit
                off += int((published != np.rint(published / unit) * unit).sum())
        exact = moment.units.astype(float) * lattice.step**2
        noisy = exact + generator.normal(size=(1000, *exact.shape))
        naive += int((noisy != np.rint(noisy / lattice.step**2) * lattice.step**2).sum())
    names = ", ".join(name for name, _ in additive)
    return [
        Figure(
            LOW_BITS, f"off-lattice among {draws:,} releases of {names}", "0", str(off), off == 0
        ),
        Figure(
            LOW_BITS,
            "control: float noise on a float moment, off the lattice of 32,000 numbers",
            "> 0",
            f"{naive:,}",
            naive > 0,
        ),
    ]


def sums(permutations: int) -> list[Figure]:
    """Compare moments of one table in any order, from any engine, in any batches, by threads."""
    generator = np.random.default_rng(2)
    values = generator.random((3000, 3)) * generator.choice([1, 1e-9, 1e5], (3000, 3))
    values[:9] = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0, -0.0, 5e-324, 1])[:, None]
    schema = Schema.from_bounds(0, 1, NAMES)
    engines = {**SOURCES, "batches": _in_batches, "row groups": _in_row_groups}
    distinct, floats = set(), set()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(permutations):
            table = values[generator.permutation(len(values))]
            source = list(engines.values())[i % len(engines)](table, Path(folder))
            threads = THREADS[i % len(THREADS)]
            moment = open_rows(source, schema, threads=threads).second_moments()[0]
            distinct.add(tuple(moment.units.ravel().tolist()))
            clipped = np.clip(np.nan_to_num(table), 0, 1)
            floats.add(np.einsum("ni,nj->ij", clipped, clipped).tobytes())
    how = f"{len(engines)} sources, 1 to 16 threads, batches of 1 to 4096 rows"
    return [
        Figure(
            SUMS,
            f"distinct moments of one table in {permutations:,} orders, {how}",
            "1",
            str(len(distinct)),
            len(distinct) == 1,
        ),
        Figure(
            SUMS,
            "control: distinct sums of the same rows in float64",
            "> 1",
            str(len(floats)),
            len(floats) > 1,
        ),
    ]


def _in_batches(values: Any, _: Path) -> pa.RecordBatchReader:
    table = as_arrow(values)
    size = BATCHES[int(values[0, 0] > 0.5) * 2 + int(values[1, 0] > 0.5)]
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))


def _in_row_groups(values: Any, folder: Path) -> Path:
    pq.write_table(as_arrow(values), folder / "groups.parquet", row_group_size=513)
    return folder / "groups.parquet"


def neighbors(count: int) -> list[Figure]:
    """Compare the largest changes by random rows with the stated sensitivity, in exact integers."""
    names = [f"x{i}" for i in range(5)]
    schema = Schema.from_bounds(-1, 1, names, radius=1.0)
    rows = open_rows(np.zeros((1, 5)), schema)
    lattice, encoder = rows.lattice(), Encoder(schema, rows.lattice())
    generator = np.random.default_rng(3)
    largest = dict.fromkeys(Neighbors, (0, 0))
    before: Any = None
    for _ in range(0, count, 50_000):
        length = generator.choice([1, 1, 1 + 1e-12, 0.1, 3], (50_000, 1))
        values = generator.standard_normal((50_000, 5))
        values *= length / np.linalg.norm(values, axis=1)[:, None]
        batch = pa.record_batch(list(values.T), names=names)
        encoded = np.concatenate([block.copy() for block in encoder.blocks(batch)], axis=1)
        here = encoded.T.astype(np.int64)
        before = here[::-1] if before is None else before
        for relation, (nuclear, frobenius) in largest.items():
            found = squared_changes(here, before if relation is Neighbors.REPLACE_ONE else 0 * here)
            largest[relation] = max(nuclear, found[0]), max(frobenius, found[1])
        before = here
    figures = []
    for relation, (nuclear, frobenius) in largest.items():
        stated = lattice.nuclear(relation) ** 2, lattice.frobenius_squared(relation)
        ratios = (nuclear / stated[0]) ** 0.5, (frobenius / stated[1]) ** 0.5
        figures.append(
            Figure(
                SUMS,
                f"largest change by {count:,} random neighbours over the sensitivity, {relation}",
                "<= 1",
                f"nuclear {ratios[0]:.9f}, Frobenius {ratios[1]:.9f}",
                nuclear <= stated[0] and frobenius <= stated[1],
            )
        )
    sum_before = 2.0**53 + 2
    change = (sum_before + 1.0) - sum_before
    control = "control: change of a float64 sum near 2^53 by a row of size 1, over 1"
    return [*figures, Figure(SUMS, control, "> 1", f"{change:g}", change > 1)]


def squared_changes(one: Any, other: Any) -> tuple[int, int]:
    """Return the largest squared nuclear and Frobenius norms of ww' - vv' for pairs of rows."""
    a, b, c = (
        np.einsum("ni,ni->n", *sides).astype(object)
        for sides in ((one, one), (other, other), (one, other))
    )
    return int(((a + b) ** 2 - 4 * c * c).max()), int((a * a + b * b - 2 * c * c).max())


def laws(draws: int) -> list[Figure]:
    """Test draws against their distribution, and draws that are scaled by 2/3 and 3/2."""
    entropy, wide = Entropy.seeded(4), 2.0**40
    nuclear = NuclearLaplace(2, wide).samples(draws // 4, entropy) / wide
    difference = WishartDifference(2, wide).samples(draws // 5, entropy) / wide
    gammas = np.random.default_rng(5).gamma(3, 2, (2, 10**6))
    samples: dict[str, tuple[Any, Any]] = {
        "discrete Laplace": (discrete_laplace(Fraction(2**40), draws, entropy) / wide, "laplace"),
        "discrete Gaussian": (discrete_gaussian(Fraction(2**80), draws, entropy) / wide, "norm"),
        "normal": (standard_normals(draws, entropy), "norm"),
        "exponential": (standard_exponentials(draws, entropy), "expon"),
        "nuclear norm of nuclear noise": (
            np.abs(np.linalg.eigvalsh(nuclear)).sum(axis=1),
            stats.gamma(3).cdf,
        ),
        "trace of matrix Laplace noise": (
            np.trace(difference, axis1=1, axis2=2),
            gammas[0] - gammas[1],
        ),
    }
    figures = []
    for name, (values, law) in samples.items():
        p, low, high = (stats.kstest(values * scale, law).pvalue for scale in (1, 2 / 3, 3 / 2))
        figures.append(
            Figure(
                LAW,
                f"{name}: p-values of {len(values):,} draws; scaled by 2/3 and by 3/2",
                f"> {PASSES:g}; < {REJECTED:g}",
                f"{p:.2g}; {low:.1g}, {high:.1g}",
                bool(p > PASSES and max(low, high) < REJECTED),
            )
        )
    return [*figures, _bingham(draws)]


def _bingham(draws: int) -> Figure:
    """Estimate E u_2^2 for exponents (3, 0), also with the fault that two libraries published."""
    exponents, entropy = np.array([3.0, 0.0]), Entropy.seeded(6)
    truth = 0.2019
    law = Bingham(exponents)
    vectors, accepted = law.accepted(draws, entropy)
    proposals = law.propose(draws, entropy)
    s, b = proposals**2 @ (3.0 - exponents), envelope_parameter(3.0 - exponents)
    faulty = standard_exponentials(draws, entropy) >= s + np.log1p(2 * s / b)
    right, wrong = (
        float((drawn[:, 1] ** 2).mean()) for drawn in (vectors[accepted], proposals[faulty])
    )
    error = 5 / np.sqrt(accepted.sum())
    return Figure(
        LAW,
        f"Bingham: mean square of the short axis in {draws:,} proposals; with the wrong sign",
        f"{truth} +- {error:.2g}; not so",
        f"{right:.4f}; {wrong:.4f}",
        bool(abs(right - truth) < error < abs(wrong - truth)),
    )


SUSPECT = re.compile(r"bound|norm|range|clip|limit|infer|auto|max|scale")
DATA_MODES = ("auto", "data", "infer", "max", "private")


def bounds() -> list[Figure]:
    """Check that no public callable takes a bound from the data."""
    names = dpcov.__all__  # type: ignore[attr-defined] # not in the stub
    public = {name: getattr(dpcov, name) for name in names}
    public |= {name: getattr(estimators, name) for name in estimators.__all__}
    public |= {kind.__name__: kind for kind in MECHANISMS.values()}
    signatures = {}
    for name, item in public.items():
        if callable(item) and not (isinstance(item, type) and issubclass(item, Warning)):
            signatures[name] = inspect.signature(item).parameters
    suspect = sorted(
        f"{name}({parameter})"
        for name, parameters in signatures.items()
        for parameter in parameters
        if SUSPECT.search(parameter) and parameter not in EXPLAINED
    )
    taken = [
        f"{name}={mode!r}"
        for name in ("lower", "upper", "radius")
        for mode in (None, *DATA_MODES)
        if not (name == "radius" and mode in (None, "private")) and _accepted(name, mode)
    ]
    named = [getattr(estimators, name) for name in estimators.__all__]
    kinds = [kind for kind in named if hasattr(kind, "fit")]
    fitted = [kind.__name__ for kind in kinds if _fits(kind)]
    able = [kind for kind in kinds if _fits(kind, bounds=(0, 1))]
    return [
        Figure(
            BOUNDS,
            "estimators that fit without public bounds; control: with them",
            f"0; {len(kinds)}",
            f"{len(fitted)}; {len(able)}",
            not fitted and len(able) == len(kinds),
        ),
        Figure(
            BOUNDS,
            f"parameters of {len(signatures)} public signatures that could take a bound from data",
            "0",
            ", ".join(suspect) or "0",
            not suspect,
        ),
        Figure(
            BOUNDS,
            "ways to ask dpcov.release for bounds from the data that are not refused",
            "0",
            ", ".join(taken) or "0",
            not taken,
        ),
    ]


# Parameters whose names resemble names of bounds, with their meanings.
EXPLAINED: dict[str, str] = {
    "for_clipped_rows": "which rows intervals are for; True or False",
    "boundary": "of the enumeration Neighbors",
    "scale_share": "a share of the budget",
    "max_rows": "declared rows of a person",
    "bounds": "public bounds of the columns, required",
    "target_bounds": "public bounds of the target, required",
    "eigenvalue_bound": "of heavy-tailed: an assumption about the population, public",
}


def _fits(estimator: Any, **bounds: Any) -> bool:
    values = np.random.default_rng(0).random((5000, 2))
    if bounds and "target_bounds" in inspect.signature(estimator).parameters:
        bounds["target_bounds"] = (0, 1)
    try:
        estimator(epsilon=10.0, **bounds).fit(values, values[:, 0])
    except (DpcovError, TypeError, ValueError):
        return False
    return True


def _accepted(name: str, mode: Any) -> bool:
    asked = {"lower": 0.0, "upper": 1.0, "epsilon": 1.0, name: mode}
    try:
        dpcov.release(np.random.default_rng(0).random((50, 2)), **asked)
    except (DpcovError, TypeError, ValueError):
        return False
    return True
