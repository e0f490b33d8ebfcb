"""Couple two tables: a later question and a release may depend on exact answers through noise only.

A mechanism runs on a table D with a seed. It then runs on a very different table E with the same
seed, and each draw of noise is moved by answer(D) - answer(E). All published numbers, and so all
later questions, must then equal the numbers and questions of D. The release file must be identical
except for dates and provenance.

The exact-loss audit can't find such a leak. It takes the questions as given, and the noise of each
answer can be right although the question depends on an exact answer.

A draw records the number that it is added to. The moves are repeated until they settle, because a
later question depends on earlier published answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import dpcov
from dpcov.core.samplers import Law
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.mechanisms import additive, radius, standardized
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.papers import separate
from dpcov.papers.samplers.additive_wishart import CenteredWishart
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.published.kinds import NoisyMatrix
from dpcov.releases.file import to_document
from dpcov.rows.schema import Schema
from figure import Figure

ATTACK = "a question that depends on an exact answer"
CONTROL = "a question that depends on an exact answer: control that must be caught"
LAWS = (
    *(Law, WeightedSum, WishartDifference, ScalarLaplace, ScalarGaussian, GaussianOrthogonal),
    *(CenteredWishart, NuclearLaplace, SquareNuclearLaplace, EntrywiseLaplace),
)
MOST_MOVES = 8  # no mechanism has as many rounds
APART = ("provenance",)  # fields that hold dates and the source

# Mechanisms that only add noise to exact answers, with budgets and options that each accepts.
PURE, CONCENTRATED, APPROXIMATE = {"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}
ADDITIVE: dict[str, tuple[dict[str, Any], ...]] = {
    "auto": (PURE, CONCENTRATED, APPROXIMATE, PURE | {"goal": "frobenius"}),
    "standardized": (PURE, CONCENTRATED, APPROXIMATE),
    "matrix-laplace": (PURE, PURE | {"radius": "private"}),
    "gaussian": (CONCENTRATED, APPROXIMATE, CONCENTRATED | {"radius": "private"}),
    "nuclear-laplace": (PURE,),
    "laplace": (PURE,),
    "separate-laplace": (PURE,),
    "separate-gaussian": (CONCENTRATED, APPROXIMATE),
    "adaptive-laplace": (PURE,),
    "adaptive-gaussian": (CONCENTRATED,),
}
# Why the others can't be coupled by moving draws.
OTHERS = {
    "eigenvector-sampling": "samples directions from a density that the rows shape",
    "kapralov-talwar": "samples directions from a density that the rows shape",
    "exponential-pca": "samples directions from a density that the rows shape",
    "additive-wishart": "adds one positive semidefinite matrix, whose support moves with the rows",
    "preconditioned": "compares answers with noisy thresholds, and publishes the comparison alone",
    "heavy-tailed": "averages groups of rows, and publishes which of them agree",
    "stable-covariance": "tests stability, and then samples around an exact answer",
    "whitened": "tests stability, and then samples around an exact answer",
    "ashtiani-liaw": "tests stability, and then samples around an exact answer",
    "unbounded-gaussian": "compares answers with noisy thresholds, and publishes the comparison",
}


class Draw(int):
    """A number of noise that records what it is added to."""

    at: int
    seen: dict[int, Any]

    def __add__(self, other: Any) -> Any:
        self.seen[self.at] = other
        return int(self) + other

    def __radd__(self, other: Any) -> Any:
        self.seen[self.at] = other
        return other + int(self)


@dataclass
class Run:
    """A run of a mechanism with moved draws: its release file, and the answers that it used."""

    moves: dict[int, Any]
    seen: dict[int, Any] = field(default_factory=dict)
    drawn: int = 0
    depth: int = 0

    def taken(self, value: Any) -> Draw:
        """Return the next draw, moved, with its number."""
        draw = Draw(int(value) + self.moves.get(self.drawn, 0))
        draw.at, draw.seen = self.drawn, self.seen
        self.drawn += 1
        return draw

    def wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the sampling method with draws that record what they are added to."""

        def sample(law: Any, *asked: Any) -> Any:
            self.depth += 1
            try:
                noise = method(law, *asked)
            finally:
                self.depth -= 1
            if self.depth:
                return noise
            if not isinstance(noise, np.ndarray):
                return self.taken(noise)
            draws = np.empty(noise.shape, object)
            for at, value in np.ndenumerate(noise):
                draws[at] = self.taken(value)
            return draws

        return sample

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Replace the sampling methods of all noise distributions."""
        with ExitStack() as stack:
            for law, name in product(LAWS, ("sample", "samples")):
                if name in vars(law):
                    method = self.wrapped(vars(law)[name])
                    stack.enter_context(patch.object(law, name, method))
            # A plain int() would drop the record.
            stack.enter_context(patch.object(standardized, "int", as_it_is, create=True))
            yield


def as_it_is(value: Any) -> Any:
    """Return a draw as it is, anything else as an integer."""
    return value if isinstance(value, Draw) else int(value)


def released(table: Any, moves: dict[int, Any], asked: dict[str, Any]) -> tuple[str, Run]:
    """Return the release file of a run, without dates and provenance, and the run."""
    run = Run(moves)
    with run.at_work():
        made = dpcov.release(table, seed=5, threads=1, denoise="none", **asked)
    document = to_document(made)
    for name in APART:
        document.pop(name)
    return json.dumps(document, sort_keys=True), run


def coupled(one: Any, other: Any, **asked: Any) -> bool:
    """Return True if moved draws give the other table the release of the first one.

    Parameters
    ----------
    one, other : table
        Tables of one schema, with as many rows under replace-one.
    **asked
        Arguments of `dpcov.release`.

    """
    wanted, first = released(one, {}, asked)
    moves: dict[int, Any] = {}
    for _ in range(MOST_MOVES):
        found, run = released(other, moves, asked)
        settled = {at: first.seen[at] - run.seen[at] for at in first.seen if at in run.seen}
        if settled == moves:
            return found == wanted
        moves = settled
    return False


# Tables


NUMBER = {"kind": "number", "lower": -4.0, "upper": 4.0}
MISSING = ("midpoint", "pairwise", "level")


def _columns(missing: str) -> dict[str, dict[str, Any]]:
    """Return kinds of columns by name; numbers treat missing cells by this rule."""
    number = NUMBER if missing == "midpoint" else NUMBER | {"missing": missing}
    return {
        "numbers": {"a": number, "b": number, "c": number, "d": number},
        "one": {"a": number},
        "mixed": {
            "a": number,
            "b": number,
            "f": {"kind": "flag"},
            "n": {"kind": "count", "upper": 30},
        },
        "levels": {"g": {"kind": "categorical", "levels": ["u", "v", "w"]}, "a": number},
    }


MORE: dict[int, dict[str, Any]] = {  # by the position of the style
    1: {"weight": {"column": "w", "maximum": 1.0}},
    2: {"unit": {"column": "id", "max_rows": 3, "type": "integer"}},
    3: {"unit": {"column": "id", "max_rows": 2, "type": "integer"}},
}
SHAPES = tuple(_columns("midpoint"))
STYLES = ("near", "ends", "empty cells", "few", "none")


def schema(shape: str, missing: str = "midpoint", **more: Any) -> Schema:
    """Return a schema of the shape."""
    return Schema.parse({"version": 2, "columns": _columns(missing)[shape], **more})


def table(of: Schema, style: str, rows: int, seed: int) -> pa.Table:
    """Return a table of random cells.

    Parameters
    ----------
    of : Schema
        Its columns, with `id` and `w` beside them.
    style : str
        ``spread`` is ordinary. The other styles are very different. ``near`` is narrow and off the
        midpoint. ``ends`` has all numbers at a bound. In ``empty cells`` half of the cells are
        missing. ``few`` has a tenth of the rows, and ``none`` has no row.
    rows : int
        The number of rows of the ordinary style.
    seed : int
        Seed of the cells.

    """
    rng = np.random.default_rng(seed)
    rows = {"few": rows // 10, "none": 0}.get(style, rows)
    cells: dict[str, Any] = {}
    common = rng.normal(size=rows)
    for name, column in of.columns.items():
        values: Any
        match column.kind:
            case "number":
                values = 0.6 * (common + rng.normal(size=rows)) + 0.5
                values = values / 20 - 2 if style == "near" else values
                values = np.where(values > 0.5, 4.0, -4.0) if style == "ends" else values
            case "flag":
                values = (rng.random(rows) < (0.9 if style == "ends" else 0.1)).astype(float)
            case "count":
                values = rng.poisson(20 if style == "ends" else 2, rows).astype(float)
            case _:
                chances = (0, 0, 1) if style == "ends" else (0.6, 0.3, 0.1)
                values = rng.choice(["u", "v", "w"], rows, p=chances).astype(object)
        lost = rng.random(rows) < (0.5 if style == "empty cells" else 0.02)
        cells[name] = pa.array([None if gone else v for v, gone in zip(values, lost, strict=True)])
    cells["id"] = pa.array(np.arange(rows) // 2)  # as many persons in tables of as many rows
    cells["w"] = pa.array(rng.random(rows) * (0.2 if style == "near" else 1))
    return pa.table(cells)


@dataclass(frozen=True)
class Pair:
    """Two tables and what is asked of them."""

    name: str
    one: Any
    other: Any
    asked: dict[str, Any]

    def leaks(self) -> bool:
        """Return True if the releases differ although all draws were moved."""
        return not coupled(self.one, self.other, **self.asked)


def pairs(rows: int = 300) -> Iterator[Pair]:
    """Yield a pair for each mechanism, budget, relation, shape, missing rule and style."""
    for (name, budgets), neighbors in product(ADDITIVE.items(), ("add-remove", "replace-one")):
        for budget, shape in product(budgets, SHAPES):
            for at, style in enumerate(STYLES):
                if neighbors == "replace-one" and style in ("few", "none"):
                    continue
                missing = MISSING[at % 3]
                if name not in ("auto", "standardized") and missing == "pairwise":
                    missing = "midpoint"
                more = MORE.get(at, {})
                of = schema(shape, missing, **more)
                one, other = (
                    table(of, kind, rows, seed) for seed, kind in enumerate(("spread", style))
                )
                asked = budget | {"schema": of, "neighbors": neighbors, "mechanism": name}
                label = f"{name}, {budget}, {neighbors}, {shape}, {missing}, {style}, {list(more)}"
                yield Pair(label, one, other, asked)


# Planted leaks


def _exact_map() -> Any:
    """Make the map depend on the exact sums."""
    look = standardized.look

    def leak(moment: Any, law: Any, noise: Any, gaps: Any) -> Any:
        return look(moment, law, [0] * len(noise), gaps)

    return patch.object(standardized, "look", leak)


def _exact_counts() -> Any:
    """Make the clipping radius depend on the exact norm counts."""
    best = standardized.best_radius

    def leak(lengths: Any, *rest: Any) -> float:
        plain = replace(lengths, counts=tuple(ANSWERS[-1].tolist()))
        return best(plain, *rest)

    return patch.object(standardized, "best_radius", leak)


def _exact_center() -> Any:
    """Make the center of the map an exact mean."""
    by = standardized.Spread.images

    def leak(self: Any, *asked: Any, **more: Any) -> Any:
        exact = np.array([float(v) for v in MOMENTS[0].units[:-1, -1]])
        exact /= MOMENTS[0].lattice.intercept_units * max(MOMENTS[0].unit_count, 1)
        moved = np.clip(exact * MOMENTS[0].lattice.step, -1, 1)
        return by(replace(self, center=np.round(moved, 3)), *asked, **more)

    return patch.object(standardized.Spread, "images", leak)


def _exact_bins() -> Any:
    """Make the bins of the norm histogram depend on the exact number of rows."""
    ends = standardized.bin_upper_ends

    def leak(typical: float, longest: float) -> Any:
        return ends(typical * (1 + MOMENTS[0].unit_count / 1000), longest)

    return patch.object(standardized, "bin_upper_ends", leak)


def _exact_path() -> Any:
    """Make the branch depend on the exact number of rows."""
    choose = standardized.Calibration.path

    def leak(self: Any, seen: Any, p: int) -> Any:
        return choose(self, replace(seen, count=float(max(MOMENTS[0].unit_count, 1))), p)

    return patch.object(standardized.Calibration, "path", leak)


def _exact_directions() -> Any:
    """Make the whitening map depend on an exact trace."""
    by = RowTransform.by_direction.__func__  # type: ignore[attr-defined]

    def leak(kind: Any, release: Any, power: float, generator: Any) -> Any:
        trace = MOMENTS[-1].trace() / max(MOMENTS[-1].lattice.bound, 1)
        return by(kind, release, min(1.0, power * (0.5 + 1 / (1 + trace))), generator)

    return patch.object(RowTransform, "by_direction", classmethod(leak))


def _exact_grid() -> Any:
    """Make the published grid depend on the exact trace."""
    published = additive.published

    def leak(mechanism: Any, of: Any, laws: Any, draws: Any, moment: Any, shape: Any = None) -> Any:
        made = published(mechanism, of, laws, draws, moment, shape)
        finer = made.shift - int(moment.trace()).bit_length() % 5
        matrix = made.find(NoisyMatrix)
        assert matrix is not None
        return made.with_published("matrix", replace(matrix, shift=max(finer, 0)))

    return patch.object(additive, "published", leak)


def _exact_radius() -> Any:
    """Make a private radius depend on the exact norm counts."""

    def leak(counts: Any, _: Any) -> Any:
        return np.asarray(ANSWERS[-1], float)

    return patch.object(radius, "significant", leak)


def _exact_gate() -> Any:
    """Make the public gate depend on the exact number of rows, which is private."""
    gate = additive.below_noise_threshold

    def leak(lattice: Any, _: Any, law: Any) -> Any:
        return gate(lattice, MOMENTS[-1].unit_count, law)

    return patch.object(additive, "below_noise_threshold", leak)


def _exact_vectors() -> Any:
    """Make the directions eigenvectors of the exact second moment."""
    separated = separate.separated

    def leak(mechanism: Any, rows: Any, laws: Any, noise: Any, moment: Any, entropy: Any) -> Any:
        return separated(mechanism, rows, laws, None, moment, entropy)

    return patch.object(separate, "separated", leak)


MOMENTS: list[Any] = []  # exact answers of the run at work, for planted leaks
ANSWERS: list[Any] = []
LEAKS: dict[Callable[[], Any], dict[str, Any]] = {
    _exact_map: {"mechanism": "standardized", "epsilon": 1.0},
    _exact_counts: {"mechanism": "standardized", "rho": 0.5},
    _exact_center: {"mechanism": "standardized", "epsilon": 1.0, "delta": 1e-6},
    _exact_bins: {"mechanism": "standardized", "epsilon": 1.0},
    _exact_path: {"mechanism": "auto", "rho": 0.5},
    _exact_directions: {"mechanism": "auto", "epsilon": 3.0},
    _exact_grid: {"mechanism": "matrix-laplace", "epsilon": 1.0},
    _exact_radius: {"mechanism": "gaussian", "rho": 0.5, "radius": "private"},
    _exact_gate: {"mechanism": "gaussian", "rho": 3e-5},
    _exact_vectors: {"mechanism": "separate-laplace", "epsilon": 1.0},
}


@contextmanager
def answers_kept() -> Iterator[None]:
    """Keep exact answers where planted leaks find them."""
    from dpcov.rows.sources.rows import Rows

    moments, counts = Rows.second_moments, Rows.norm_counts

    def kept_moments(self: Any, *asked: Any, **more: Any) -> Any:
        found = moments(self, *asked, **more)
        MOMENTS.extend(found)
        return found

    def kept_counts(self: Any, *asked: Any, **more: Any) -> Any:
        ANSWERS.append(counts(self, *asked, **more))
        return ANSWERS[-1]

    def fresh(*asked: Any, **more: Any) -> Any:
        MOMENTS.clear()
        ANSWERS.clear()
        return prepare(*asked, **more)

    from dpcov import api

    prepare = api.prepare
    with (
        patch.object(Rows, "second_moments", kept_moments),
        patch.object(Rows, "norm_counts", kept_counts),
        patch.object(api, "prepare", fresh),
    ):
        yield


def leak_is_caught(leak: Callable[[], Any]) -> bool:
    """Return True if the coupling finds the planted leak, and nothing without it."""
    of = schema("numbers")
    one, other = table(of, "spread", 2000, 0), table(of, "few", 2000, 1)
    asked = {"schema": of, **LEAKS[leak]}
    with answers_kept():
        clean = coupled(one, other, **asked)
        with leak():
            return clean and not coupled(one, other, **asked)


def measure(quick: bool) -> list[Figure]:
    """Couple all pairs, then run the planted leaks."""
    every: Sequence[Pair] = list(pairs())
    chosen = every[:: max(1, math.ceil(len(every) / 60))] if quick else every
    differ = [pair.name for pair in chosen if pair.leaks()]
    for name in differ:
        print(name, flush=True)
    caught = sum(map(leak_is_caught, LEAKS))
    return [
        Figure(
            ATTACK,
            f"{len(chosen)} pairs of tables, {len(ADDITIVE)} mechanisms: releases that differ",
            "0",
            str(len(differ)),
            not differ,
        ),
        Figure(CONTROL, "planted leaks", str(len(LEAKS)), str(caught), caught == len(LEAKS)),
    ]
