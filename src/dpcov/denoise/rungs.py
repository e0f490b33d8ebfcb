"""Putting second moments by length of rows together, so that the error is least.

Their plain sum S_1 + ... + S_K is unbiased, and nearly all of its noise is that of the longest
rungs, which may hold few rows or none. Rows of all lengths tend to share directions, so a
sum b_1 M_1 + ... + b_K M_K of the noisy moments can be nearer: its error is (b - 1)' Q (b - 1) +
sum b_k^2 D_k, where D_k is the expected squared norm of the noise of M_k, and Q_jk = <S_j, S_k>.
Of that tr M_j M_k, less D_k on the diagonal, is an unbiased estimate; where noise drowns it, rows
of all lengths are taken to share directions alike: Q_jk = theta tr S_j tr S_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from dpcov.denoise.shrinkage import james_stein, nothing_shows, shrink
from dpcov.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpcov.samplers import MatrixLaw

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]


APART = 1.0  # standard deviation of Q_jk about theta tr S_j tr S_k, as a share of it
# With these, errors are about what is expected of them (tests/test_expected).
OWN = 0.6
DROWNS = 4
ALONE = 3.0  # how strongly traces are shrunk one by one; their sum: 2
SURE = 4.0  # standard deviations from which on a long rung's trace is more than noise


@dataclass(frozen=True, slots=True)
class Combined:
    """A noisy matrix of known law about a second moment, and an estimate of its trace."""

    matrix: Matrix
    law: MatrixLaw
    trace: float


def combined(
    parts: Matrix,
    laws: Sequence[MatrixLaw],
    trace: float,
    deviation: float,
    left: float,
    *,
    mapped: bool = False,
) -> Combined:
    """The combination of noisy parts of a second moment with the least error that can be expected.

    Parameters
    ----------
    parts : (K, d, d) noisy moments that add up to that of all rows, with noise.
    laws : their laws.
    trace : noisy trace of the sum.
    deviation : standard deviation of its noise.
    left : share of more squared noise that further denoising would leave.
    mapped : whether a look has made rows of like length, so that long ones are few.

    """
    noises = np.array([law.frobenius_squared for law in laws])
    of_traces = np.sqrt([law.dimension * law.diagonal_variance for law in laws])
    traces = _traces(np.trace(parts, axis1=1, axis2=2), of_traces, trace, deviation, mapped)
    weights = _least_error(_overlaps(parts, noises, traces)[0], noises, left)
    kept = float(weights @ traces)
    # With all of the trace, or else the parts that drown would take it along.
    weights = weights * (traces.sum() / kept) if kept > 0 else np.ones(len(parts))
    matrix: Matrix = np.tensordot(weights, parts, 1)
    law = WeightedSum(tuple(weights.tolist()), tuple(laws))
    return Combined(matrix, law, float(traces.sum()))


def parts_of(
    rungs: NDArray[np.int64], law: WeightedSum, shift: int
) -> tuple[Matrix, list[MatrixLaw]]:
    """Noisy moments that add up to the published one, with the laws of their noise.

    From the integers of a release, in units of 2^-`shift` times those of `law`.
    """
    weights = np.array(law.weights)
    laws = [term.rescaled(w) for w, term in zip(law.weights, law.terms, strict=True)]
    parts: Matrix = rungs * (2.0**shift * weights[:, None, None])
    return parts, laws


def split(
    parts: Matrix, laws: Sequence[MatrixLaw], whole: Matrix, generator: np.random.Generator
) -> Matrix:
    """(K, d, d) what each part of `whole` may have been: its share, and its own directions.

    For simulations that take an estimate of the whole for the truth. By how much the parts differ
    from their shares is a part of what is left of it when each is denoised alone, the less the more
    its noise hides: there is noise in that still.
    """
    traces = np.maximum(np.trace(parts, axis1=1, axis2=2), 0.0)
    if traces.sum() <= 0:
        return np.stack([whole, *np.zeros((len(parts) - 1, *whole.shape))])
    shares = (traces / traces.sum())[:, None, None]
    noises = np.array([law.frobenius_squared for law in laws])
    known = np.diag(_overlaps(parts, noises, traces)[1])
    own = (OWN * known**DROWNS)[:, None, None]
    estimates = np.zeros_like(parts)
    for estimate, part, law, trace in zip(estimates, parts, laws, traces, strict=True):
        if not nothing_shows(law, trace):
            estimate[:] = shrink(part, law, float(trace), generator)
    found: Matrix = shares * (whole - np.sum(own * estimates, axis=0)) + own * estimates
    return found


def _traces(
    found: Vector, deviations: Vector, trace: float, deviation: float, mapped: bool
) -> Vector:
    """(K,) traces of the parts, none below 0: by least squares, then shrunk.

    Either one by one, or with their sum, whichever keeps more: most of the sum's noise is often
    that of parts that hold next to nothing. So always of mapped rows, where one by one keeps any.
    """
    sizes = np.append(deviations, deviation)
    design = np.vstack([np.eye(len(found)), np.ones(len(found))]) / sizes[:, None]
    fitted: Vector = nnls(design, np.append(found, trace) / sizes)[0]
    covariance = np.linalg.inv(design.T @ design)
    of_fitted = np.sqrt(np.diag(covariance))
    alone = james_stein(fitted, of_fitted, ALONE)
    if mapped and alone.any():
        return _falling(alone, fitted / of_fitted)
    whole = float(fitted.sum())
    kept = float(james_stein(whole, np.sqrt(covariance.sum())))
    return alone if alone.sum() >= kept else fitted * (kept / whole)


def _falling(traces: Vector, seen: Vector) -> Vector:
    """(K,) traces, of rows longer than those that show most none above that of the next shorter.

    Unless it is sure: noise grows with length, so a long rung without rows often has the trace of
    many. `seen` are the traces over their standard deviations.
    """
    for at in range(int(np.argmax(seen)) - 1, -1, -1):
        if seen[at] < SURE:
            traces[at] = min(traces[at], traces[at + 1])
    return traces


def _least_error(overlaps: Matrix, noises: Vector, left: float) -> Vector:
    """(K,) weights b = (Q + left D)^-1 Q 1."""
    weights: Vector = np.linalg.solve(overlaps + left * np.diag(noises), overlaps.sum(axis=1))
    return weights


def _overlaps(parts: Matrix, noises: Vector, traces: Vector) -> tuple[Matrix, Matrix]:
    """(K, K) estimates of Q, and how much of each is what is seen of it; the rest is theta.

    The variances of what is seen are those of Gaussian noise with all its entries alike.
    """
    d, count = parts.shape[-1], len(parts)
    flat = parts.reshape(count, -1)
    seen = flat @ flat.T - np.diag(noises)
    squares = np.outer(np.maximum(np.diag(seen), 0.0) + noises / 2, noises)
    variances = (squares + squares.T) * (1 + np.eye(count)) / (d * (d + 1) / 2)
    alike = np.outer(traces, traces)
    known = float(np.sum(alike**2 / variances))
    theta = float(np.sum(seen * alike / variances)) / known if known > 0 else 0.0
    alike = np.clip(theta, 1 / d, 1) * alike
    spread = (APART * alike) ** 2
    shares = spread / (spread + variances)
    values, vectors = np.linalg.eigh(shares * seen + (1 - shares) * alike)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, shares
