"""Many outputs of one mechanism on one table, and statistics that distinguish two tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpcov.core.privacy import Neighbors
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import MechanismRefused
from dpcov.mechanisms.additive import Calibration, coarse
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.published.consistency import shift_for
from dpcov.published.kinds import NoisyTrace
from dpcov.rows.sources.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism
    from dpcov.rows.moment import SecondMoment

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

CHUNK = 50_000
MOST_ROWS = 1000  # at the origin, added to a table


@dataclass(frozen=True, slots=True)
class Outputs:
    """What n runs gave, in squared units of an encoded row.

    `matrices` (n, d, d) and `traces` (n,) are the published results, or 0 if there is no result.
    `refused` (n,) marks the runs that the mechanism refused. `moment` (d, d) is the exact moment.
    `calibration` belongs to an additive mechanism, in squared lattice units of size `unit`;
    otherwise it is None. Other mechanisms can choose a map and a radius for each run. For them,
    `relative` (n, d, d) has the matrices of the transformed rows in squared radii. In these units
    the noise is the same in all runs.
    """

    matrices: Matrix
    traces: Vector
    refused: NDArray[np.bool_]
    moment: Matrix
    unit: float
    calibration: Calibration | None
    relative: Matrix | None = None

    def __len__(self) -> int:
        return len(self.refused)

    def __getitem__(self, part: slice) -> Outputs:
        parts = self.matrices[part], self.traces[part], self.refused[part]
        relative = None if self.relative is None else self.relative[part]
        return Outputs(*parts, self.moment, self.unit, self.calibration, relative)


Statistic = Callable[[Outputs], "Vector"]


def outputs(
    mechanism: Mechanism,
    open_table: Callable[[Matrix], Rows],
    table: Matrix,
    *,
    budget: Budget,
    neighbors: Neighbors,
    runs: int,
    entropy: Entropy,
) -> Outputs:
    """Run a mechanism on a table.

    An additive mechanism adds draws of its own laws to the exact moment and publishes on its
    lattice, all runs at once. Any other one is called `runs` times. Under replace-one, where so few
    rows would get a release of the trace alone, both tables get rows at the origin.
    """
    rows = open_table(table)
    calibration = mechanism.calibrate(rows.lattice(), budget, neighbors)
    if neighbors == Neighbors.REPLACE_ONE and isinstance(calibration, Calibration):
        enough = math.ceil(calibration.matrix.detectable / rows.lattice().unit_bound) + 1
        missing = max(0, enough - len(table))
        rows = open_table(np.concatenate([table, np.zeros((missing, table.shape[1]))]))
    if isinstance(calibration, Calibration) and calibration.counts is None:
        return _additive(calibration, rows.second_moments()[0], runs, entropy)

    def call(answered: Rows) -> Any:
        try:
            return mechanism(answered, budget=budget, neighbors=neighbors, entropy=entropy)
        except MechanismRefused:
            return None

    missing = 1
    while neighbors == Neighbors.REPLACE_ONE and missing < MOST_ROWS and _is_trace(call(rows)):
        missing *= 2
        rows = open_table(np.concatenate([table, np.zeros((missing, table.shape[1]))]))
    answered = _Remembered(rows)
    return _called(lambda: call(answered), rows.second_moments()[0], runs)


def _is_trace(made: Any) -> bool:
    """Return True if a release has only the trace, which depends only on the number of rows."""
    return made is not None and made.published is None


def _additive(
    calibration: Calibration, moment: SecondMoment, runs: int, entropy: Entropy
) -> Outputs:
    d, shift = moment.lattice.dimension, shift_for(calibration.matrix.spread)
    units, trace, unit = moment.units, moment.trace(), moment.lattice.step**2
    matrices, traces = np.empty((runs, d, d)), np.zeros(runs)
    for start in range(0, runs, CHUNK):
        part = slice(start, min(start + CHUNK, runs))
        count = part.stop - start
        noise = calibration.matrix.samples(count, entropy)
        matrices[part] = coarse(units + noise, shift) * (2.0**shift * unit)
        if calibration.trace is not None:
            traces[part] = (trace + calibration.trace.samples(count, entropy)) * unit
    nowhere = np.zeros(runs, np.bool_)
    return Outputs(matrices, traces, nowhere, units.astype(float) * unit, unit, calibration)


def _called(call: Callable[[], Any], moment: SecondMoment, runs: int) -> Outputs:
    d, unit = moment.lattice.dimension, moment.lattice.step**2
    matrices, traces, refused = np.zeros((runs, d, d)), np.zeros(runs), np.zeros(runs, np.bool_)
    relative = np.zeros((runs, d, d))
    for i in range(runs):
        made = call()
        if made is None:
            refused[i] = True
            continue
        if made.published is not None:
            matrices[i] = made.noisy()
            relative[i] = made.noisy_mapped() / made.lattice.radius**2
        if (trace := made.find(NoisyTrace)) is not None:
            traces[i] = trace.value * made.lattice.step**2
    exact = moment.units.astype(float) * unit
    return Outputs(matrices, traces, refused, exact, unit, None, relative)


class _Remembered(Rows):
    """Rows that read their table once for each question; the answers are exact, so the same."""

    def __init__(self, rows: Rows) -> None:
        self.schema = rows.schema
        self._rows = rows
        self._answers: dict[Any, Any] = {}

    def require_rereadable(self) -> None:
        self._rows.require_rereadable()

    def second_moments(self, **asked: Any) -> list[SecondMoment]:
        if asked.get("labels") is not None or asked.get("transform") is not None:
            return self._rows.second_moments(**asked)
        return cast("list[SecondMoment]", self._answer("second_moments", asked))

    def norm_counts(self, edges: Any, **asked: Any) -> NDArray[np.int64]:
        if asked.get("transform") is not None:
            return self._rows.norm_counts(edges, **asked)
        exact = tuple(np.asarray(edges).tolist())
        return cast("NDArray[np.int64]", self._answer("norm_counts", asked, exact)).copy()

    def integer_rows(self) -> Any:
        return self._answer("integer_rows", {})

    def _answer(self, question: str, asked: dict[str, Any], *more: Any) -> Any:
        key = (question, tuple(sorted(asked.items())), more)
        if key not in self._answers:
            self._answers[key] = getattr(self._rows, question)(*more, **asked)
        return self._answers[key]


def statistics(one: Outputs, other: Outputs) -> dict[str, Statistic]:
    """Return statistics that distinguish the outputs on two tables; the last one is learned."""
    found = _general(one.moment - other.moment)
    if one.calibration is not None:
        found |= _of_law(one.calibration, one.unit, one.moment, other.moment)
    found["linear discriminant"] = _discriminant(one, other)
    if one.relative is not None:
        found |= {
            f"{name}, in radii": _in_radii(statistic)
            for name, statistic in (
                *_general(one.moment - other.moment).items(),
                ("linear discriminant", _discriminant(_scaled(one), _scaled(other))),
            )
            if name != "refusal"
        }
    return found


def _scaled(outputs: Outputs) -> Outputs:
    return outputs if outputs.relative is None else replace(outputs, matrices=outputs.relative)


def _in_radii(statistic: Statistic) -> Statistic:
    return lambda outputs: statistic(_scaled(outputs))


def _general(difference: Matrix) -> dict[str, Statistic]:
    """Return statistics of any output, given the difference of the two exact moments."""
    lead = _leading(difference)

    def along(outputs: Outputs) -> Vector:
        return _projected(outputs.matrices, np.outer(lead, lead))

    def share(outputs: Outputs) -> Vector:
        whole = np.trace(outputs.matrices, axis1=1, axis2=2)
        return along(outputs) / np.where(whole == 0, np.inf, whole)

    return {
        "projection on the difference": lambda o: _projected(o.matrices, difference),
        "along the leading direction": along,
        "share along the leading direction": share,
        "refusal": lambda o: o.refused.astype(np.float64),
    }


def _discriminant(one: Outputs, other: Outputs) -> Statistic:
    """Return Fisher's linear discriminant, which is the likelihood ratio of Gaussian noise."""

    def entries(outputs: Outputs) -> Matrix:
        lower = np.tril_indices(outputs.matrices.shape[1])
        columns: Matrix = np.column_stack([outputs.matrices[:, *lower], outputs.traces])
        return columns

    samples = entries(one), entries(other)
    pooled = sum(np.cov(sample, rowvar=False) for sample in samples)
    sizes = np.sqrt(np.diagonal(pooled))
    sizes = np.where(sizes > 0, sizes, np.inf)
    means = (samples[0].mean(axis=0) - samples[1].mean(axis=0)) / sizes
    direction = np.linalg.pinv(pooled / np.outer(sizes, sizes), hermitian=True) @ means / sizes

    def discriminant(outputs: Outputs) -> Vector:
        return np.asarray(entries(outputs) @ direction, np.float64)

    return discriminant


def _of_law(
    calibration: Calibration, unit: float, one: Matrix, other: Matrix
) -> dict[str, Statistic]:
    """Return likelihood ratios, or substitutes for them, of noise that is not Gaussian.

    Noise of density exp(-||Z||_* / s) has the logarithm (||Y - B||_* - ||Y - A||_*) / s, where the
    moment is A or B. The difference of two Wishart matrices, of scale c, has the same with s = 2c
    wherever the residuals are definite, which is where its loss is largest. Of one Wishart matrix W
    + v v', only v' W^-1 v is informative (`AdditiveWishart`). The least eigenvalue reveals its
    support.
    """
    matrix, trace = calibration.matrix, calibration.trace
    law: Any = matrix  # distributions of papers are identified by their names in release files
    name = law.law

    def of_trace(outputs: Outputs) -> Vector:
        if not isinstance(trace, ScalarLaplace):
            return np.zeros(len(outputs))
        gaps = np.abs(outputs.traces - np.trace(other)) - np.abs(outputs.traces - np.trace(one))
        return np.asarray(gaps / (float(trace.scale) * unit), np.float64)

    def ratio(size: Callable[[Matrix], Vector]) -> Statistic:
        return lambda o: size(o.matrices - other) - size(o.matrices - one) + of_trace(o)

    match matrix:
        case GaussianOrthogonal():
            return {}
        case _ if name == "discrete-laplace-entrywise":
            on, off = float(law.diagonal), 2 * float(law.off_diagonal)
            weights = 1 / (np.where(np.eye(len(one)), on, off) * unit)
            return {"likelihood ratio": ratio(lambda m: _projected(np.abs(m), weights))}
        case WishartDifference():
            scale = 2 * matrix.scale * unit
        case _ if name == "centered-wishart":
            floor = law.degrees * law.scale * unit * np.eye(len(one))
            lead = _leading(one - other)

            def form(outputs: Outputs) -> Vector:
                whole = outputs.matrices - other + floor
                inverses = np.linalg.pinv(whole, hermitian=True)
                return _projected(inverses.astype(np.float64), np.outer(lead, lead))

            return {"least eigenvalue": _least_eigenvalue(one), "inverse form": form}
        case NuclearLaplace() | SquareNuclearLaplace():
            scale = matrix.scale * unit
        case _:
            return {}
    nuclear = ratio(lambda m: np.abs(_spectra(m)).sum(axis=1) / scale)
    return {"likelihood ratio": nuclear, "least eigenvalue": _least_eigenvalue(one)}


def _least_eigenvalue(known: Matrix) -> Statistic:
    return lambda outputs: _spectra(outputs.matrices - known)[:, 0]


def _spectra(matrices: Matrix) -> Matrix:
    return np.linalg.eigvalsh(matrices).astype(np.float64)


def _leading(difference: Matrix) -> Vector:
    """Return the eigenvector of the eigenvalue with the largest absolute value."""
    values, vectors = np.linalg.eigh(difference)
    lead: Vector = vectors[:, np.argmax(np.abs(values))]
    return lead


def _projected(matrices: Matrix, direction: Matrix) -> Vector:
    values: Vector = np.einsum("nij,ij->n", matrices, direction)
    return values
