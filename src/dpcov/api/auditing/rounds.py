r"""What a mechanism publishes of a table, round by round, and what each tells of two tables.

A mechanism of the product asks its rows for exact integers, adds noise to them and publishes; what
it asks next depends on what it has published alone. Let two tables differ by a unit, and let D be
the difference of their integers in one round. Of the noise in it the loss is, exactly:

- discrete Laplace of scale s: sum \|D_i\| / s, in epsilon, wherever the noise has the sign of D.
- density exp(-\|\|Z\|\|_* / s), and W1 - W2 with s = 2 c: \|\|D\|\|_* / s, at Z = t D, in the limit
  for the second (docs/proofs/release.md 6a, 6b).
- discrete Gaussian of variance v: sum D_i^2 / 2 v in rho, reached at every order of zCDP; the
  orthogonal ensemble: \|\|D\|\|_F^2 / 2 v. Where it stands in for continuous noise, of variance
  v - 8, mu^2 / 2 is the same over that.

Independent noise adds up, and so do rounds given what was published. Publication on a coarser
lattice and everything after it is not looked at: it can only lose.

All is in rational numbers, but for the nuclear norm: eigenvalues in float64 of integers that it
holds exactly, good to 2^-45 at order 50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.privacy import exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, count, gaussian, standardized
from dpcov.mechanisms.count import is_gaussian
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.rows.moment import units_per_row
from dpcov.rows.sources.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment

UNKNOWN = (
    "No exact loss is known of this mechanism: those of papers are audited by sampling alone, in "
    "`make trust`. Choose one of the others."
)
Law = Any  # a MatrixLaw or a ScalarLaw: which of them, `loss` tells
Integers = tuple[Any, ...]  # an integer or an array of them for each law


@dataclass(frozen=True, slots=True)
class Question:
    """What a mechanism asked of its rows; any other table can be asked the same."""

    name: str
    positions: tuple[Any, ...]
    keywords: dict[str, Any]

    def asked(self, rows: Rows) -> Any:
        return getattr(rows, self.name)(*self.positions, **self.keywords)


@dataclass(frozen=True, slots=True)
class Round:
    """A question, the integers that are taken from its answer, and the noise of each.

    `spends` is what the round may cost, in epsilon or in rho; `extra` the variance that Gaussian
    noise has beyond that of the continuous one (`gaussian.concentration`).
    """

    name: str
    question: Question
    integers: Callable[[Any], Integers]
    laws: tuple[Law, ...]
    spends: Fraction
    extra: int

    def of(self, rows: Rows) -> Integers:
        return self.integers(self.question.asked(rows))

    def loss(self, one: Integers, other: Integers) -> Fraction:
        """What the round tells between tables with these integers."""
        differences = (a - b for a, b in zip(one, other, strict=True))
        found = zip(self.laws, differences, strict=True)
        return sum((loss(law, d, self.extra) for law, d in found), Fraction(0))


def loss(law: Law, difference: Any, extra: int = 0) -> Fraction:
    """Of a draw of this law that hides a difference; in epsilon, or in rho."""
    match law:
        case ScalarLaplace():
            return Fraction(_total(abs(difference))) / law.scale
        case ScalarGaussian() | GaussianOrthogonal():
            return Fraction(_total(difference**2)) / (2 * (law.variance - extra))
        case WishartDifference():
            return _nuclear(difference) / (2 * Fraction(law.scale))
    if law.law.startswith("nuclear-laplace"):
        return _nuclear(difference) / Fraction(law.scale)
    raise MechanismError(UNKNOWN)


def _total(integers: Any) -> int:
    return int(np.sum(np.asarray(integers, object)))


def _nuclear(difference: NDArray[np.object_]) -> Fraction:
    """Nuclear norm of a symmetric integer matrix; exactly the trace where that has its size."""
    values = np.linalg.eigvalsh(difference.astype(np.float64))
    return Fraction(float(np.abs(values).sum()))


class Watched(Rows):
    """Rows that note what they are asked."""

    def __init__(self, rows: Rows) -> None:
        self.schema = rows.schema
        self._rows = rows
        self.questions: list[Question] = []

    def require_rereadable(self) -> None:
        self._rows.require_rereadable()

    def second_moments(self, **asked: Any) -> list[SecondMoment]:
        answer: list[SecondMoment] = self._answer("second_moments", (), asked)
        return answer

    def norm_counts(self, edges: Any, **asked: Any) -> NDArray[np.int64]:
        answer: NDArray[np.int64] = self._answer("norm_counts", (edges,), asked)
        return answer

    def total(self) -> int:
        answer: int = self._answer("total", (), {})
        return answer

    def _answer(self, name: str, positions: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.questions.append(Question(name, positions, keywords))
        return self.questions[-1].asked(self._rows)


@dataclass(frozen=True, slots=True)
class Published:
    """The rounds of one release; `whole` is the budget in epsilon, with Gaussian noise in rho."""

    rounds: tuple[Round, ...]
    whole: Fraction
    is_gaussian: bool


def released(
    mechanism: Mechanism, rows: Rows, budget: Budget, neighbors: Neighbors, entropy: Entropy
) -> Published:
    """Release once, and say what was published in which rounds.

    The laws of the last are those that the release tells, of the rounds before those that the
    mechanism was calibrated to. What rounds spend is what the mechanism's options say.
    """
    planned = count.calibrated(
        mechanism, rows.lattice(), budget, neighbors, units_per_row(rows.schema)
    )
    laws, watched = planned.laws, Watched(rows)
    if (kind := is_gaussian(laws)) is None:
        raise MechanismError(UNKNOWN)
    made = count.run(mechanism, watched, planned, entropy)
    counting = [watched.questions.pop()] if planned.count is not None else []
    *asked, last = watched.questions
    if kind:
        whole, extra = gaussian.concentration(mechanism.name, budget)
    else:
        whole, extra = pure_epsilon(mechanism.name, budget), 0
    kept = whole - planned.spends
    rounds = [
        Round(name, question, *told, share * kept, extra)
        for question, (name, share, told) in zip(
            asked, _looks(mechanism, laws, rows.lattice(), asked, made), strict=True
        )
    ]
    left = kept - sum(one.spends for one in rounds)
    told = _of_moment(made.noise, made.trace_noise)
    rounds.append(Round("release", last, *told, left, extra))
    for question in counting:
        rounds.append(Round("rows", question, _whole, (made.count_noise,), planned.spends, extra))
    return Published(tuple(rounds), whole, kind)


Told = tuple[Callable[[Any], Integers], tuple[Law, ...]]  # what is taken of an answer, its noise


def _looks(
    mechanism: Any, laws: Any, lattice: Lattice, asked: Sequence[Question], made: Release
) -> list[tuple[str, Fraction, Told]]:
    """The rounds before the last, in their order, with their shares of the budget."""
    match laws:
        case additive.Calibration() if asked:
            return [("counts", exact(mechanism.radius_share), (_whole, (laws.counts,)))]
        case standardized.Calibration():
            looks: list[tuple[str, Fraction, Told]]
            looks = [("look", exact(mechanism.look_share), (_sums, (laws.look,)))]
            share = made.parameters["directions_share"]
            taken = next(path for path in laws.paths if path.share == share)
            if taken.directions is not None:
                images = asked[1].keywords["lattice"]
                told = _second(taken.directions.at(images), images, made)
                looks.append(("second look", exact(share), told))
            counting = exact(mechanism.radius_share)
            return [*looks, ("counts", counting, (_whole, (laws.counts,)))]
    return []


def _second(laws: additive.Calibration, lattice: Lattice, made: Release) -> Told:
    """Of a look with these laws, which is at the trace alone behind the public gate."""
    if additive.below_noise_threshold(lattice, made.unit_count, laws.matrix):
        return _of_moment(None, laws.trace_alone)
    return _of_moment(laws.matrix, laws.trace)


def _of_moment(matrix: Law | None, trace: Law | None) -> Told:
    """Of a second moment and its trace: of those that have noise, which the others have not."""
    if matrix is None:
        return lambda answer: (answer[0].trace(),), (trace,)
    if trace is None:
        return lambda answer: (answer[0].units,), (matrix,)
    return lambda answer: (answer[0].units, answer[0].trace()), (matrix, trace)


def _whole(counts: NDArray[np.int64] | int) -> Integers:
    return (counts,)


def _sums(answer: list[SecondMoment]) -> Integers:
    """Squares of the features, products with the intercept, and its own square."""
    units, p = answer[0].units, answer[0].lattice.features
    return (np.concatenate([np.diag(units)[:p], units[:, p]]),)
