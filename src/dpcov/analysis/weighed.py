"""What moments by length of rows leave plausible of their sum: where intervals start.

Nearly all noise of the plain sum S_1 + ... + S_K is that of long rungs, which hold few rows or
none. How large an entry of S_k can be is known better than its noise tells: S_k is positive
semidefinite, its trace is published, and rows of length P have the share t^2 / P along the
intercept t. So each entry is given the variance

    v = reach^2 D_a D_b (1 + [a = b]) + deviation^2 C_ab^2

about trace times C, the shape of the whole estimate, in its eigenvectors. That is the law of one
row's direction (Wishart, one degree of freedom), as wide as directions can be: a long rung may have
ones of its own, so half of D is the shape of a row anywhere within the public bounds. With noise of
variance s^2 in M_k, the entry is then g M_k + (1 - g) trace C, g = v / (v + s^2), give or take
g Z - (1 - g) (what v allows): the noise is that of the weighted sum, of its own law, and what
weighing a rung down takes is in the second term. Where a rung is seen, g is 1 and nothing is
assumed of it; where noise drowns it, its trace bounds what is lost.

Weights depend on published numbers alone. They are not independent of the noise in them: traces
are, nearly, of all other entries (the noise's law is that of any basis), and errors of a trace are
in `reach`. So intervals cover as far as v allows enough; `make stated-errors` measures it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise import denoise, noisy_trace
from dpcov.denoise.leading import noise_within
from dpcov.denoise.rungs import combiner, parts_of, unsure
from dpcov.mechanisms.ladder import squared_of

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.releases import Release

ANYWHERE = 0.5  # of the directions of a rung, that the public bounds alone know
TWICE = 2.0  # what a shorter rung may have, a longer one may at most, if it is not clear


@dataclass(frozen=True, slots=True)
class Weighed:
    """Moments by length of rows put together, and the law of what separates them from the truth.

    Attributes
    ----------
    release : that they are of.
    laws : (K,) of the noise in each rung, in units of the largest squared norm.
    basis : (d, d) orthonormal; the other matrices are in it.
    middle : (d, d) the sum of the weighed rungs.
    weights : (K, d, d) of the noise.
    spreads : (K, d, d) standard deviations of what is missing of each entry.
    shapes : (K, d, d) what is missing with a trace: of one standard deviation.

    """

    release: Release
    laws: list[MatrixLaw]
    basis: Matrix
    middle: Matrix
    weights: Matrix
    spreads: Matrix
    shapes: Matrix

    @classmethod
    def of(cls, release: Release) -> Weighed | None:
        """That of a release; None where there is one moment for all rows."""
        told, rungs, noise = noisy_trace(release), release.rungs, release.noise
        if told is None or rungs is None or not isinstance(noise, WeightedSum):
            return None
        parts, laws = parts_of(rungs, noise.rescaled(1 / release.lattice.bound), release.shift)
        traces, reaches = traces_of(release, parts, laws, told)
        basis, shapes, sizes = _directions(release, noise)
        seen = basis.T @ parts @ basis
        missing = np.sqrt(reaches**2 - traces**2)[:, None, None] * shapes
        own = reaches[:, None, None] ** 2 * sizes[:, :, None] * sizes[:, None, :]
        own *= 1 + np.eye(len(basis))
        variances = own + missing**2
        noises = np.stack([_variances(law) for law in laws])
        weights = variances / (variances + noises)
        middle = weights * seen + (1 - weights) * traces[:, None, None] * shapes
        return cls(
            release,
            laws,
            basis,
            middle.sum(axis=0),
            weights,
            (1 - weights) * np.sqrt(own),
            (1 - weights) * missing,
        )

    def moment(self) -> Matrix:
        """(d, d) second moment, in squared units of an encoded row."""
        return self._unmapped(self.middle)

    def error(self, generator: np.random.Generator) -> Matrix:
        """A draw of `moment` less the truth."""
        # the noise has the same law in any basis
        noise = np.stack([law.simulate(generator) for law in self.laws])
        own = np.tril(generator.standard_normal(noise.shape))
        own += np.swapaxes(np.tril(own, -1), 1, 2)
        common = generator.standard_normal((len(noise), 1, 1))
        drawn = self.weights * noise - self.spreads * own - self.shapes * common
        return self._unmapped(np.sum(drawn, axis=0))

    def _unmapped(self, matrix: Matrix) -> Matrix:
        lattice = self.release.lattice
        units = self.basis @ matrix @ self.basis.T * (lattice.bound * lattice.step**2)
        return self.release.unmapped(units)


def traces_of(
    release: Release, parts: Matrix, laws: list[MatrixLaw], told: tuple[float, float]
) -> tuple[Vector, Vector]:
    """(K,) traces of the rungs, and how large they may well be: roots of expected squares.

    The former as the estimate takes them; the latter from the published traces alone, by least
    squares: overlaps of rungs tell more, but of what is alike in them. Of rungs longer than those
    that show most, none has more than twice the next shorter, unless its own trace is clear.
    """
    traces = combiner(parts, laws, *told, mapped=release.has_mapped_rungs)(1.0).traces
    own = np.trace(parts, axis1=1, axis2=2)
    noises = np.sqrt([law.dimension * law.diagonal_variance for law in laws])
    design = np.vstack([np.diag(1 / noises), np.full(len(laws), 1 / told[1])])
    fitted = scipy.optimize.nnls(design, np.append(own / noises, told[0] / told[1]))[0]
    deviations = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    reaches: Vector = np.hypot(np.maximum(traces, fitted), deviations)
    for at in unsure(own / deviations):
        reaches[at] = min(reaches[at], TWICE * reaches[at + 1])
    return np.minimum(traces, reaches), reaches


def _directions(release: Release, noise: WeightedSum) -> tuple[Matrix, Matrix, Matrix]:
    """A basis, (K, d, d) shapes of trace 1 of the rungs in it, and (K, d) sizes of directions.

    The basis are the eigenvectors of the estimate's features, and the intercept.
    """
    lattice, count = release.lattice, len(noise.terms)
    p, d = lattice.features, lattice.dimension
    whole = release
    if release.denoise != "shrink":
        whole = denoise(release, "shrink", generator=simulation_generator(0))
    moment = release.mapped(whole.second_moment())
    features, alone = moment[:p, :p], bool(np.trace(moment[:p, :p]) > 0)
    values, vectors = np.linalg.eigh(features if alone else np.eye(p))
    values = np.maximum(values, 0.0) / np.sum(np.maximum(values, 0.0))
    basis = np.eye(d)
    basis[:p, :p] = vectors
    sizes, shapes = np.zeros((count, d)), np.zeros((count, d, d))
    sizes[:, :p] = (1 - ANYWHERE) * values + ANYWHERE * _anywhere(release, vectors)
    shapes[:, :p, :p] = np.diag(values)
    if d > p:
        shares = np.full(count, moment[-1, -1] / max(np.trace(moment), np.finfo(float).tiny))
        if release.schema.weight is None:  # it shortens rows with their intercept
            shares = np.minimum(lattice.intercept_units**2 / np.array(squared_of(noise)), 1.0)
        sizes[:, -1] = shares
        shapes *= (1 - shares)[:, None, None]
        shapes[:, -1, -1] = shares
        product = np.trace(features) * moment[-1, -1]
        if product > 0:
            cross = vectors.T @ moment[:p, -1] / np.sqrt(product)
            shapes[:, :p, -1] = np.sqrt(shares * (1 - shares))[:, None] * cross
            shapes[:, -1, :p] = shapes[:, :p, -1]
    return basis, shapes, sizes


def _anywhere(release: Release, vectors: Matrix) -> Vector:
    """(p,) shares of directions in the squared length of mapped rows uniform within the bounds."""
    p = len(vectors)
    image = np.eye(p) if release.linear_map is None else release.linear_map
    center = np.zeros(p) if release.center is None else release.center
    along = vectors.T @ image
    squares = np.sum(along**2, axis=1) / 3 + (along @ center) ** 2
    return squares / squares.sum()


def _variances(law: MatrixLaw) -> Matrix:
    """(d, d) variances of the entries of a law that is the same in every basis."""
    d, diagonal = law.dimension, law.diagonal_variance
    other = (noise_within(law, 2) - 2 * diagonal) / 2
    variances = np.full((d, d), other)
    np.fill_diagonal(variances, diagonal)
    return variances
