"""Run dp-recorder (Re:cord-play, PETS 2026) on releases of dpcov.

The tool runs a program on one table and records every addition of noise. It then runs the program
on a neighbouring table, and each addition returns the recorded sum. All later queries and results
must then be the same. The tool finds a fault if

- a query, a noise distribution or the release file differs;
- exact answers differ by more than the sensitivity that dpcov states for their query;
- the losses of all rounds, composed by dp-accounting, exceed the claim.

Draws of noise record what they are added to, so the library needs no change.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import groupby, product
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters

import dpcov
from dpcov.api.auditing import MAX_RELATIVE_EXCESS
from dpcov.api.auditing.adversaries import CATEGORIES, Setting, Unit, base, settings, units
from dpcov.api.auditing.rounds import Question
from dpcov.core.accounting import gdp_epsilon
from dpcov.core.entropy import simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import MechanismError
from dpcov.mechanisms import standardized
from dpcov.mechanisms.standardized import BY_DIRECTION
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.published.costs import ROUNDING_VARIANCE
from dpcov.releases.file import to_document
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.schema import Schema
from dpcov.rows.sources.rows import Rows
from figure import Figure
from known_faults import FAULTS, Fault

ATTACK = "dp-recorder"
CONTROL = "dp-recorder: control that must be caught"
NUCLEAR = (NuclearLaplace, SquareNuclearLaplace)
LAPLACE = (ScalarLaplace, WishartDifference, *NUCLEAR)
GAUSSIAN = (ScalarGaussian, GaussianOrthogonal)
LAWS = (*LAPLACE, *GAUSSIAN, EntrywiseLaplace)
QUERIES = ("second_moments", "norm_counts", "total")
PURE, CONCENTRATED, APPROXIMATE = {"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}
# Releases of every mechanism of the product, by the name of the mechanism.
ASKED: dict[str, tuple[dict[str, Any], ...]] = {
    "auto": (PURE, CONCENTRATED, APPROXIMATE, PURE | {"goal": "frobenius"}),
    "standardized": (PURE, CONCENTRATED, APPROXIMATE, PURE | asdict(BY_DIRECTION)),
    "matrix-laplace": (PURE, PURE | {"radius": "private"}),
    "gaussian": (CONCENTRATED, APPROXIMATE, CONCENTRATED | {"radius": "private"}),
}
# Releases of the mechanisms from papers that only add noise to sums.
OF_PAPERS: dict[str, tuple[dict[str, Any], ...]] = {
    "nuclear-laplace": (PURE, PURE | {"form": "square"}),
    "laplace": (PURE, PURE | {"paper_constants": True}),
    "adaptive-laplace": (PURE,),
    "adaptive-gaussian": (CONCENTRATED, APPROXIMATE),
}
# Numbers of rows. In the small table, noise hides all answers of the pilot query.
SIZES = (1, 2_000)
# Largest number of neighbours of a large table.
MAX_NEIGHBORS = 16
# Kinds of noisy answers in a release.
KINDS = {"count", "entries", "matrix", "norms", "pilot", "trace", "trace beside a matrix"}
QUICK_STEP = 5  # every so many of the releases in the smaller version
COLUMNS = 4
# Name of a row of `adversaries.units` that is orthogonal to another row.
FIRST_OF_PAIR = "first row of an orthogonal pair"
# Largest epsilon of one round that the tool composes. More would exceed every claim.
MAX_EPSILON = 100.0
# The delta at which the composed losses are compared with a claim in rho.
DELTA_OF_RHO = 1e-6
# Step of the discretised losses of dp-accounting, which it rounds up.
LOSS_STEP = 1e-4


@dataclass
class Run:
    """What a run of `dpcov.release` has drawn, asked and added.

    Attributes
    ----------
    neighbors : Neighbors
        Relation between the tables.
    schema : Schema
        Schema of the tables.
    extra : int
        Variance of Gaussian noise that its rounding needs (`gaussian.concentration`).
    tool : module
        Module `dp_recorder.auditing.audit_primitives`.
    noises : list
        Noise in the order of the draws, with its distribution.
    sums : dict
        Sums by the number of the noise and the exact answer.
    questions : list of Question
        Queries to the rows.
    lattice : Lattice or None
        Lattice of the last second moment.
    added : list of str
        Kinds of the additions.
    depth : int
        Number of sampling methods at work, which call each other.

    """

    neighbors: Neighbors
    schema: Schema
    extra: int
    tool: ModuleType
    noises: list[tuple[Any, Any]] = field(default_factory=list)
    sums: dict[tuple[int, str], Any] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    lattice: Lattice | None = None
    added: list[str] = field(default_factory=list)
    depth: int = 0

    def drawn(self, law: Any, noise: Any) -> Any:
        """Return the noise in a form that records what it is added to."""
        self.noises.append((law, noise))
        kept = noise.view(NoiseArray) if isinstance(noise, np.ndarray) else NoiseNumber(noise)
        kept.run, kept.number = self, len(self.noises) - 1
        return kept

    def noisy(self, exact: Any, number: int) -> Any:
        """Return an exact answer plus a noise. The tool sees each addition once."""
        answer = np.atleast_1d(np.asarray(exact, object))
        key = number, str(answer.tolist())
        if key not in self.sums:
            law, noise = self.noises[number]
            assert np.shape(exact) == np.shape(noise), "only a part of the noise was added"
            kind, stated = self.sensitivity(law, np.ndim(exact))
            self.added.append(kind)
            ratio = law.diagonal / law.off_diagonal if kind == "entries" else None
            addition = primitive(self.tool, law.law, ratio)
            self.sums[key] = addition(answer, stated, law, kind, self.extra, noise)
        return self.sums[key]

    def sensitivity(self, law: Any, order: int) -> tuple[str, float]:
        """Return the kind of an addition, and the sensitivity that dpcov states for its query.

        Parameters
        ----------
        law : MatrixLaw or ScalarLaw
            Distribution of the noise.
        order : int
            0 for a number, 1 for a vector, 2 for a matrix.

        Returns
        -------
        tuple of str and float
            Kind of the addition, and sensitivity in the norm of the noise.

        """
        lattice, rows = self.lattice, self.schema.privacy_unit.max_rows
        absolute, squared = 0.0, 0.0
        match self.questions[-1].name, order:
            case "total", _:
                kind, absolute = "count", float(rows * units_per_row(self.schema))
                squared = absolute**2
            case "norm_counts", _:
                kind, sides = "norms", self.neighbors.sides
                absolute, squared = float(rows * sides), float(rows**2 * sides)
            case _, 0:
                after = "matrix" in self.added[-1:] and self.neighbors == Neighbors.REPLACE_ONE
                kind = "trace beside a matrix" if after else "trace"
                absolute = float(lattice.unit_bound)
                squared = absolute**2
            case _, 1:
                of_pilot = standardized.pilot_sensitivities(lattice, self.neighbors)
                kind, squared, absolute = "pilot", *map(float, of_pilot)
            case _ if isinstance(law, EntrywiseLaplace):
                return "entries", entries_sensitivity(lattice, law, self.neighbors)
            case _:
                kind = "matrix"
                squared = float(lattice.frobenius_squared(self.neighbors))
                absolute = float(lattice.nuclear(self.neighbors))
        return kind, absolute if isinstance(law, LAPLACE) else math.sqrt(squared)


class NoiseNumber(int):
    """A number of noise that records what it is added to."""

    run: Run
    number: int

    def __add__(self, other: Any) -> Any:
        return self.run.noisy(other, self.number)

    __radd__ = __add__


class NoiseArray(np.ndarray):  # type: ignore[type-arg]
    """An array of noise that records what it is added to."""

    run: Run
    number: int

    def __array_finalize__(self, of: Any) -> None:
        self.run, self.number = getattr(of, "run", None), getattr(of, "number", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        exact = [one for one in given if one is not self]
        if ufunc is np.add and method == "__call__" and len(exact) == 1:
            return self.run.noisy(exact[0], self.number)
        plain = [np.asarray(one) if isinstance(one, NoiseArray) else one for one in given]
        return getattr(ufunc, method)(*plain, **more)


def entries_sensitivity(lattice: Lattice, law: EntrywiseLaplace, neighbors: Neighbors) -> float:
    """Return the sensitivity of a weighted l1 norm, by the proof of `dpcov.papers.laplace`."""
    d, ratio = lattice.dimension, float(law.diagonal / law.off_diagonal)
    if d == 1:
        return float(lattice.unit_bound)
    if neighbors == Neighbors.ADD_REMOVE:
        return float(lattice.unit_bound) * (1 + ratio * (d - 1) / 2)
    return float(lattice.unit_bound) * math.sqrt(2 * d + ratio**2 * d * (d - 1) / 2)


# What the tool sees


def add(values: Any, sensitivity: float, law: Any, kind: str, extra: int, noise: Any) -> Any:
    """Return exact values plus noise. The tool compares all arguments but the values."""
    return values + noise if isinstance(noise, np.ndarray) else int(values[0]) + noise


def absolute(one: Any, other: Any) -> float:
    """Return the l1 norm of a difference, without the error of float64."""
    return float(np.abs(one - other).sum()) * (1 - MAX_RELATIVE_EXCESS)


def euclidean(one: Any, other: Any) -> float:
    """Return the l2 norm of a difference, without the error of float64."""
    return math.sqrt(((one - other) ** 2).sum()) * (1 - MAX_RELATIVE_EXCESS)


def nuclear(one: Any, other: Any) -> float:
    """Return the nuclear norm of a difference, without the error of float64."""
    values = np.linalg.eigvalsh((one - other).astype(float))
    return float(np.abs(values).sum()) * (1 - MAX_RELATIVE_EXCESS)


def weighted(ratio: Fraction) -> Callable[[Any, Any], float]:
    """Return an l1 norm of the upper triangle, with a weight of the entries off the diagonal."""

    def norm(one: Any, other: Any) -> float:
        change = np.abs(one - other)
        above = np.triu(change, 1).sum() * float(ratio)
        return float(np.trace(change) + above) * (1 - MAX_RELATIVE_EXCESS)

    return norm


NORMS: dict[str, Callable[[Any, Any], float]] = {
    ScalarLaplace.law: absolute,
    WishartDifference.law: nuclear,
    NuclearLaplace.law: nuclear,
    SquareNuclearLaplace.law: nuclear,
    ScalarGaussian.law: euclidean,
    GaussianOrthogonal.law: euclidean,
}


def loss(sensitivity: float, law: Any, kind: str, extra: int, noise: Any) -> Any:
    """Return the losses of one addition of noise, from dp-accounting.

    Under replace-one the trace beside a matrix costs nothing, because the noise of the matrix hides
    the change of both (docs/proofs/release.md, section 8). `dpcov audit` compares both at once.
    """
    if kind == "trace beside a matrix":
        return pld.identity(value_discretization_interval=LOSS_STEP)
    if isinstance(law, EntrywiseLaplace):
        return pure_losses(min(sensitivity / float(law.diagonal), MAX_EPSILON))
    if isinstance(law, LAPLACE):
        scale = 2 * law.scale if isinstance(law, WishartDifference) else law.scale
        return pure_losses(min(sensitivity / float(scale), MAX_EPSILON))
    return gaussian_losses(math.sqrt(law.variance - extra) / sensitivity)


@cache
def pure_losses(epsilon: float) -> Any:
    """Return the worst losses of a mechanism that is epsilon-DP."""
    claim = DifferentialPrivacyParameters(epsilon, 0.0)
    return pld.from_privacy_parameters(claim, value_discretization_interval=LOSS_STEP)


@cache
def gaussian_losses(deviation: float) -> Any:
    """Return the losses of Gaussian noise whose deviation is in units of the sensitivity."""
    return pld.from_gaussian_mechanism(deviation, value_discretization_interval=LOSS_STEP)


@cache
def primitive(tool: ModuleType, law: str, ratio: Fraction | None) -> Callable[..., Any]:
    """Return the addition of noise of a distribution as the tool records it."""
    norm = NORMS[law] if ratio is None else weighted(ratio)
    made: Callable[..., Any] = tool.audit_spec(law, "values", "sensitivity", norm, loss)(add)
    return made


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Record the draws and the queries of a run, and compare the queries."""
    with ExitStack() as stack:
        for law, name in product(LAWS, ("sample", "samples")):
            stack.enter_context(patch.object(law, name, drawing(run, getattr(law, name))))
        for name in QUERIES:
            stack.enter_context(patch.object(Rows, name, asking(run, name, vars(Rows)[name])))
        yield


def drawing(run: Run, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a sampling method whose draws record what they are added to."""

    def draw(law: Any, *asked: Any) -> Any:
        run.depth += 1
        try:
            noise = method(law, *asked)
        finally:
            run.depth -= 1
        return noise if run.depth else run.drawn(law, noise)

    return draw


def asking(run: Run, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a query that the tool compares with the query to the other table."""

    def query(rows: Any, *positions: Any, **keywords: Any) -> Any:
        run.tool.ensure_equality(query=[name, *map(plain, positions), plain(keywords)])
        run.questions.append(Question(name, positions, keywords))
        answer = method(rows, *positions, **keywords)
        if name == "second_moments":
            run.lattice = answer[0].lattice
        return answer

    return query


def plain(asked: Any) -> Any:
    """Return a part of a query as text, with all digits of its numbers."""
    if isinstance(asked, dict):
        return sorted((key, plain(value)) for key, value in asked.items())
    if isinstance(asked, np.ndarray):
        return str(asked.tolist())
    return plain(asked.matrix()) + plain(asked.center) if hasattr(asked, "center") else repr(asked)


class Auditor:
    """One release that the tool recorded, to be repeated on other tables.

    Parameters
    ----------
    tool : module
        Module `dp_recorder.auditing.audit_primitives`.
    asked : dict
        Arguments of `dpcov.release`, with the schema and the relation.

    """

    def __init__(self, tool: ModuleType, asked: dict[str, Any]) -> None:
        self.tool, self.asked, self.auditor = tool, asked, tool.Auditor()
        self.questions: list[Question] = []
        self.budget: Budget | None = None

    def run(self, table: Any) -> None:
        """Make the release of a table. The first run records and the other runs repeat."""
        extra = ROUNDING_VARIANCE if "delta" in self.asked else 0
        run = Run(Neighbors(self.asked["neighbors"]), self.asked["schema"], extra, self.tool)
        if self.questions:
            self.auditor.set_replay()
        with self.auditor, recorded(run):
            made = dpcov.release(table, seed=5, threads=1, denoise="none", **self.asked)
            document = to_document(made)
            document.pop("provenance")  # dates and the source
            self.tool.ensure_equality(release_file=json.dumps(document, sort_keys=True))
        if self.questions:
            assert self.auditor._cursor == len(self.auditor.log), "the other run has fewer steps"
        self.questions = self.questions or run.questions
        self.budget = made.guarantee.budget

    def require_claim(self) -> None:
        """Raise an error if the composed losses of the recorded release exceed its claim."""
        lost = [entry.pld_trusted is not None for entry in self.auditor.log if entry.kind != "EQ"]
        assert all(lost), "the losses of a round are unknown"
        self.auditor.compute_overall_pld()
        match self.budget:
            case PureDP(epsilon):
                delta = 0.0
            case ApproxDP(epsilon, delta):
                pass
            case ZCDP(rho):
                epsilon, delta = gdp_epsilon(math.sqrt(2 * rho), DELTA_OF_RHO), DELTA_OF_RHO
        found = self.auditor.get_overall_current_guarantee(delta)
        slack = LOSS_STEP * len(self.auditor.log)
        assert found <= epsilon + slack, f"losses of {found:.4f} exceed {epsilon:.4f}"

    def compare(self, table: Any) -> None:
        """Repeat the release on a neighbouring table and compare the exact answers."""
        self.run(table)
        self.auditor.validate_records()


# Pairs of tables


@dataclass(frozen=True)
class Recording:
    """A release of one table, which the tool compares with releases of other tables.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism, or ``auto``.
    options : dict
        Budget and options.
    neighbors : Neighbors
        Relation between the tables.
    setting : Setting
        Schema of the tables.
    size : int
        Number of rows.

    """

    mechanism: str
    options: dict[str, Any]
    neighbors: Neighbors
    setting: Setting
    size: int

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        where = f"{self.neighbors}, {self.setting.name}, {self.size:,} rows"
        return f"{self.mechanism}, {options}, {where}"

    def asked(self) -> dict[str, Any]:
        """Return the arguments of `dpcov.release`."""
        own = {"mechanism": self.mechanism, "neighbors": self.neighbors}
        return own | {"schema": self.setting.schema()} | self.options

    def tables(self, questions: list[Question]) -> tuple[Any, list[Any], Any]:
        """Return a table, its neighbours and a very different table.

        Under replace-one the table has one of two rows that change the sums most together.
        """
        generator = simulation_generator(1)
        common = base(self.setting, self.size, generator)
        others = [*units(self.setting, questions, 0, generator), *self.malformed()]
        own = []
        if self.neighbors == Neighbors.REPLACE_ONE:
            own = [next((one for one in others if FIRST_OF_PAIR in one.name), others[0])]
        rows = self.size + 1 if own else self.size // 10
        far = [replace(one, numbers=-one.numbers) for one in base(self.setting, rows, generator)]
        table = self.setting.table
        return table(common + own), [table([*common, other]) for other in others], table(far)

    def malformed(self) -> Iterator[Unit]:
        """Yield rows whose cells are no numbers, or far outside of the bounds."""
        for cell, level in ((np.nan, "z"), (np.inf, CATEGORIES[-1]), (-1e300, ""), (1e3, None)):
            yield Unit(f"cells {cell:g}", np.full((1, self.setting.columns), cell), level=level)


def recordings() -> Iterator[Recording]:
    """Yield a recording for each mechanism, budget, relation, schema and number of rows."""
    every = ASKED | OF_PAPERS
    for (name, budgets), neighbors, size in product(every.items(), Neighbors, SIZES):
        for budget, setting in product(budgets, settings(COLUMNS)):
            yield Recording(name, budget, neighbors, setting, size)


def pairs_of(tool: ModuleType, recording: Recording, most: int | None = None) -> Counter[str]:
    """Record a release, compare it with other tables and return what was compared.

    Parameters
    ----------
    tool : module
        Module `dp_recorder.auditing.audit_primitives`.
    recording : Recording
        Release and its tables.
    most : int or None
        Largest number of neighbours. None for all.

    Returns
    -------
    Counter
        Number of pairs of tables, by the kinds of noisy answers in the release.

    Raises
    ------
    AssertionError or other error
        The tool found a fault, or only one of two releases failed.

    """
    asked, questions = recording.asked(), list[Question]()
    for _ in range(2):  # the first release shows the questions, and so the rows that matter
        auditor = Auditor(tool, asked)
        table, others, far = recording.tables(questions)
        try:
            auditor.run(table)
        except MechanismError:  # the mechanism refuses the schema, whatever the rows are
            return Counter()
        questions = auditor.questions
    auditor.require_claim()
    chosen = others[:: math.ceil(len(others) / (most or len(others)))]
    for other in chosen:
        auditor.compare(other)
    auditor.run(far)
    kinds = {entry.params["kind"] for entry in auditor.auditor.log if entry.kind != "EQ"}
    return Counter(dict.fromkeys(("pairs", *kinds), len(chosen) + 1))


# Figures


def measure(tool: ModuleType, quick: bool) -> Iterator[Figure]:
    """Yield the faults of each mechanism and relation, and whether planted faults are found."""
    chosen, every = list(recordings())[:: QUICK_STEP if quick else 1], Counter[str]()
    for place, own in groupby(chosen, lambda one: (one.mechanism, str(one.neighbors))):
        compared, faults = Counter[str](), 0
        for recording in own:
            try:
                most = None if recording.size == SIZES[0] else MAX_NEIGHBORS
                compared += pairs_of(tool, recording, most)
            except Exception as error:  # the tool reports faults by errors of several kinds
                print(f"{recording}: {error}", flush=True)
                faults += 1
        pairs, every = compared["pairs"], every + compared
        measured = f"{', '.join(place)}: {pairs:,} pairs of tables"
        yield Figure(ATTACK, measured, "0 faults", f"{faults} faults", pairs > 0 and not faults)
    seen = {kind: count for kind, count in sorted(every.items()) if kind != "pairs"}
    shown = ", ".join(f"{kind} {count:,}" for kind, count in seen.items())
    measured = "pairs of tables by the kind of noisy answer"
    yield Figure(ATTACK, measured, f"{len(KINDS)} kinds", shown, seen.keys() == KINDS)
    for fault in FAULTS:
        if fault.release is not None:
            yield control(tool, fault)


def control(tool: ModuleType, fault: Fault) -> Figure:
    """Return if the tool finds a planted fault, and nothing without it."""
    mechanism, options, neighbors, name, size = fault.release
    (setting,) = (one for one in settings(COLUMNS) if one.name == name)
    recording = Recording(mechanism, options, neighbors, setting, size)
    pairs, found = pairs_of(tool, recording)["pairs"], "not found"
    try:
        with fault.plant():
            pairs_of(tool, recording)
    except Exception as error:
        found = f"found: {type(error).__name__}"
    return Figure(CONTROL, fault.kind, "found", found, pairs > 0 and found != "not found")
