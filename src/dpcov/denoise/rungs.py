"""Putting second moments by length of rows together, so that the error is least.

Their plain sum S_1 + ... + S_K is unbiased, and nearly all of its noise is that of the longest
rungs, which may hold few rows or none. Rows of all lengths tend to share directions, so a
sum b_1 M_1 + ... + b_K M_K of the noisy moments can be nearer: its error is (b - 1)' Q (b - 1) +
sum b_k^2 D_k, where D_k is the expected squared norm of the noise of M_k, and Q_jk = <S_j, S_k>.
Of that tr M_j M_k, less D_k on the diagonal, is an unbiased estimate; where noise drowns it, rows
of all lengths are taken to share directions alike: Q_jk = theta tr S_j tr S_k. Q_kk is never below
(tr S_k)^2 / d, its value for a flat spectrum.

The traces tr S_k count twice: in Q, and as the trace of the result. Those of the M_k have the noise
of d entries of a diagonal. The overlaps tell them too, since the noise in tr M_j M_k is that along
the directions of S_j, of which there are often few: one factor, t_j t_k, is fitted to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.shrinkage import james_stein, nothing_shows, shrink
from dpcov.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.samplers import MatrixLaw


# Standard deviation of Q_jk about theta tr S_j tr S_k, as a share of it: APART (1 - theta), as it
# can't be above tr S_j tr S_k, within these limits.
APART, LEAST_APART, MOST_APART = 2.0, 0.2, 1.0
CAUTION = 2.0  # by which variances of overlaps are larger where they tell traces
HALF_STEPS = 12  # of Newton's method, to traces that overlaps fit
ALONE = 3.0  # how strongly traces are shrunk one by one; their sum: 2
SURE = 4.0  # standard deviations from which on a long rung's trace is more than noise


@dataclass(frozen=True, slots=True)
class Combined:
    """A noisy matrix of known law about a second moment, and estimates of its trace.

    `law` has the weights of the parts, and `traces` are the parts' own.
    """

    matrix: Matrix
    law: WeightedSum
    trace: float
    traces: Vector


def combiner(
    parts: Matrix,
    laws: Sequence[MatrixLaw],
    trace: float,
    deviation: float,
    *,
    mapped: bool = False,
) -> Callable[[float], Combined]:
    """How to combine noisy parts of a second moment with the least error that can be expected.

    Parameters
    ----------
    parts : (K, d, d) noisy moments that add up to that of all rows, with noise.
    laws : their laws.
    trace : noisy trace of the sum.
    deviation : standard deviation of its noise.
    mapped : whether a look has made rows of like length, so that long ones are few.

    Returns
    -------
    The combination, of the share of more squared noise that further denoising would leave.

    """
    shared = _Shared.of(parts, laws)
    of_traces = np.sqrt([law.dimension * law.diagonal_variance for law in laws])
    found = np.append(np.trace(parts, axis1=1, axis2=2), trace)
    traces = _traces(shared, found, np.append(of_traces, deviation), mapped)
    overlaps, _ = shared.overlaps(traces)

    def combined(left: float) -> Combined:
        weights = np.linalg.solve(overlaps + left * np.diag(shared.noises), overlaps.sum(axis=1))
        kept = float(weights @ traces)
        # With all of the trace, or else the parts that drown would take it along.
        weights = weights * (traces.sum() / kept) if kept > 0 else np.ones(len(parts))
        matrix: Matrix = np.tensordot(weights, parts, 1)
        law = WeightedSum(tuple(weights.tolist()), tuple(laws))
        return Combined(matrix, law, float(traces.sum()), traces)

    return combined


def parts_of(rungs: Integers, law: WeightedSum, shift: int) -> tuple[Matrix, list[MatrixLaw]]:
    """Noisy moments that add up to the published one, with the laws of their noise.

    From the integers of a release, in units of 2^-`shift` times those of `law`.
    """
    weights = np.array(law.weights)
    laws = [term.rescaled(w) for w, term in zip(law.weights, law.terms, strict=True)]
    parts: Matrix = rungs * (2.0**shift * weights[:, None, None])
    return parts, laws


def split(
    parts: Matrix,
    laws: Sequence[MatrixLaw],
    traces: Vector,
    whole: Matrix,
    generator: np.random.Generator,
) -> Matrix:
    """(K, d, d) what each part of `whole` may have been; they add up to it.

    For simulations that take an estimate of the whole for the truth: each part is what is seen of
    it by itself, if it has the trace that is given, and its share of what is then missing.
    Directions of the whole in place of its own would be too sure: put together again, no part would
    have anything that others lack.
    """
    if traces.sum() <= 0:
        return np.stack([whole, *np.zeros((len(parts) - 1, *whole.shape))])
    estimates = np.zeros_like(parts)
    for estimate, part, law, trace in zip(estimates, parts, laws, traces, strict=True):
        if not nothing_shows(law, trace):
            estimate[:] = shrink(part, law, float(trace), generator)
    shares = (traces / traces.sum())[:, None, None]
    return estimates + shares * (whole - np.sum(estimates, axis=0))


@dataclass(frozen=True, slots=True)
class _Shared:
    """(K, K) estimates of Q from noisy parts without bias, and their variances.

    Variances are those of Gaussian noise with all its entries alike; `noises` are the D_k.
    """

    seen: Matrix
    variances: Matrix
    noises: Vector
    dimension: int

    @classmethod
    def of(cls, parts: Matrix, laws: Sequence[MatrixLaw]) -> _Shared:
        d, count = parts.shape[-1], len(parts)
        noises = np.array([law.frobenius_squared for law in laws])
        flat = parts.reshape(count, -1)
        seen = flat @ flat.T - np.diag(noises)
        squares = np.outer(np.maximum(np.diag(seen), 0.0) + noises / 2, noises)
        variances = (squares + squares.T) * (1 + np.eye(count)) / (d * (d + 1) / 2)
        return cls(seen, variances, noises, d)

    def alike(self, traces: Vector) -> tuple[float, float]:
        """Theta, and the standard deviation of Q_jk about theta tr S_j tr S_k as a share of it."""
        products = np.outer(traces, traces)
        known = float(np.sum(products**2 / self.variances))
        fitted = float(np.sum(self.seen * products / self.variances)) / known if known > 0 else 0.0
        theta = float(np.clip(fitted, 1 / self.dimension, 1))
        return theta, float(np.clip(APART * (1 - theta), LEAST_APART, MOST_APART))

    def overlaps(self, traces: Vector) -> tuple[Matrix, Matrix]:
        """(K, K) estimates of Q, and how much of each is what is seen of it; the rest is theta."""
        theta, apart = self.alike(traces)
        alike = theta * np.outer(traces, traces)
        spread = (apart * alike) ** 2
        shares = spread / (spread + self.variances)
        known = shares * self.seen + (1 - shares) * alike
        np.fill_diagonal(known, np.maximum(np.diag(known), traces**2 / self.dimension))
        values, vectors = np.linalg.eigh(known)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T, shares

    def equations(self, traces: Vector) -> tuple[Matrix, Vector]:
        """What overlaps of two parts tell of traces near these: rows of design, and their goals.

        theta t_j t_k = seen_jk, to the first order, over its standard deviation. Not those of a
        part with itself: the noise of a long one's squared norm can look like many rows.
        """
        theta, apart = self.alike(traces)
        first, second = np.triu_indices(len(traces), 1)
        rows = np.arange(len(first))
        alike = theta * traces[first] * traces[second]
        sizes = np.sqrt(CAUTION * self.variances[first, second] + (apart * alike) ** 2)
        design = np.zeros((len(first), len(traces)))
        design[rows, first] = theta * traces[second] / sizes
        design[rows, second] = theta * traces[first] / sizes
        return design, (self.seen[first, second] + alike) / sizes


def _traces(shared: _Shared, found: Vector, deviations: Vector, mapped: bool) -> Vector:
    """(K,) traces of the parts, none below 0: by least squares, then shrunk.

    `found` and `deviations` are those of the K parts and of their sum. Where they show nothing, nor
    do overlaps.
    """
    count = len(found) - 1
    plain = np.vstack([np.eye(count), np.ones(count)]) / deviations[:, None]
    goals = found / deviations
    traces: Vector = scipy.optimize.nnls(plain, goals)[0]
    shrunk = _shrunk_traces(traces, plain, mapped)
    if not shrunk.any():
        return shrunk
    for _ in range(HALF_STEPS):
        rows, told = shared.equations(traces)
        design = np.vstack([plain, rows])
        traces = (traces + scipy.optimize.nnls(design, np.append(goals, told))[0]) / 2
    return _shrunk_traces(traces, design, mapped)


def _shrunk_traces(fitted: Vector, design: Matrix, mapped: bool) -> Vector:
    """Shrunk either one by one, or with their sum, whichever keeps more.

    Most of the sum's noise is often that of parts that hold next to nothing. So always one by one
    where rows are mapped, if that keeps any.
    """
    covariance = np.linalg.inv(design.T @ design)
    deviations = np.sqrt(np.diag(covariance))
    alone = james_stein(fitted, deviations, ALONE)
    if mapped and alone.any():
        return _falling(alone, fitted / deviations)
    whole = float(fitted.sum())
    kept = float(james_stein(whole, np.sqrt(covariance.sum())))
    return alone if alone.sum() >= kept else fitted * (kept / whole)


def _falling(traces: Vector, seen: Vector) -> Vector:
    """(K,) traces, of rows longer than those that show most none above that of the next shorter.

    Unless it is sure: noise grows with length, so a long rung without rows often has the trace of
    many. `seen` are the traces over their standard deviations.
    """
    for at in unsure(seen):
        traces[at] = min(traces[at], traces[at + 1])
    return traces


def unsure(seen: Vector) -> list[int]:
    """Parts of longer rows than those that show most, the longest last, that may be noise.

    `seen` are (K,) traces over their standard deviations, by descending length of rows.
    """
    return [at for at in range(int(np.argmax(seen)) - 1, -1, -1) if seen[at] < SURE]
