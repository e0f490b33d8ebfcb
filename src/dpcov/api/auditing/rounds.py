r"""The rounds of a mechanism, and the exact privacy loss of each round.

In each round, a core mechanism queries its rows for exact integers, adds noise and publishes the
sum. The next query depends only on the published results. Let two tables differ by one privacy
unit, and let D be the difference of their integers in one round. The exact loss of the round is:

- Discrete Laplace noise of scale s: sum \|D_i\| / s, in epsilon. The loss has this value for all
  noise with the sign of D.
- Noise with density exp(-\|\|Z\|\|_* / s): \|\|D\|\|_* / s, in epsilon, for noise Z = t D
  (docs/proofs/release.md, section 6a).
- Wishart noise W1 - W2 with s = 2 c: \|\|D\|\|_* / s, in epsilon, in the limit of large noise
  (docs/proofs/release.md, section 6b).
- Discrete Gaussian noise of variance v: sum D_i^2 / 2 v, in rho. For the orthogonal ensemble the
  loss is \|\|D\|\|_F^2 / 2 v. For (epsilon, delta) budgets, v - 8 replaces v and the loss is
  mu^2 / 2.

The losses of independent noise add up, and so do the losses of the rounds. The audit ignores the
rounding of the published numbers, because rounding cannot increase a loss.

All losses are exact fractions, except losses from nuclear norms. A nuclear norm comes from
eigenvalues in float64, with a relative error below 2^-45 at order 50.
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
from dpcov.published.kinds import NoisyTrace
from dpcov.rows.moment import units_per_row
from dpcov.rows.sources.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment

NO_EXACT_LOSS_MESSAGE = (
    "An audit has no exact loss for this mechanism. Choose standardized, matrix-laplace, "
    "nuclear-laplace or gaussian."
)
Law = Any  # a MatrixLaw or a ScalarLaw
Integers = tuple[Any, ...]  # an integer or an array of integers for each noise distribution


@dataclass(frozen=True, slots=True)
class Question:
    """Query of a mechanism to its rows, which an audit can repeat on any other table."""

    name: str
    positions: tuple[Any, ...]
    keywords: dict[str, Any]

    def asked(self, rows: Rows) -> Any:
        return getattr(rows, self.name)(*self.positions, **self.keywords)


@dataclass(frozen=True, slots=True)
class Round:
    """Round of a mechanism: a query and the noise of its answer.

    Attributes
    ----------
    name : str
        Name of the round.

    question : Question
        Query to the rows.

    integers : callable
        Function from the answer to the integers that the round publishes with noise.

    laws : tuple of Law
        Noise distributions of the integers.

    spends : Fraction
        Claimed cost of the round, in epsilon or rho.

    extra : int
        Additional variance of discrete Gaussian noise (see `gaussian.concentration`).

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
        """Return the loss of the round for two tables with these integers."""
        differences = (a - b for a, b in zip(one, other, strict=True))
        found = zip(self.laws, differences, strict=True)
        return sum((loss(law, d, self.extra) for law, d in found), Fraction(0))


def loss(law: Law, difference: Any, extra: int = 0) -> Fraction:
    """Return the exact loss of noise that hides a difference, in epsilon or rho.

    Parameters
    ----------
    law : Law
        Noise distribution.

    difference : int or ndarray of int
        Difference of the integers of two tables.

    extra : int
        Additional variance of discrete Gaussian noise.

    Returns
    -------
    Fraction
        Loss in epsilon for Laplace noise and in rho for Gaussian noise.

    Raises
    ------
    MechanismError
        The audit has no exact loss for this noise distribution.

    """
    match law:
        case ScalarLaplace():
            return Fraction(_total(abs(difference))) / law.scale
        case ScalarGaussian() | GaussianOrthogonal():
            return Fraction(_total(difference**2)) / (2 * (law.variance - extra))
        case WishartDifference():
            return _nuclear(difference) / (2 * Fraction(law.scale))
    if law.law.startswith("nuclear-laplace"):
        return _nuclear(difference) / Fraction(law.scale)
    raise MechanismError(NO_EXACT_LOSS_MESSAGE)


def _total(integers: Any) -> int:
    return int(np.sum(np.asarray(integers, object)))


def _nuclear(difference: NDArray[np.object_]) -> Fraction:
    """Return the nuclear norm of a symmetric integer matrix."""
    values = np.linalg.eigvalsh(difference.astype(np.float64))
    return Fraction(float(np.abs(values).sum()))


class RecordedRows(Rows):
    """Rows that record every query."""

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
    """Rounds of one release.

    Attributes
    ----------
    rounds : tuple of Round
        Rounds in their order.

    whole : Fraction
        Budget of the release, in rho for Gaussian noise and otherwise in epsilon.

    is_gaussian : bool
        True for Gaussian noise.

    """

    rounds: tuple[Round, ...]
    whole: Fraction
    is_gaussian: bool


def released(
    mechanism: Mechanism, rows: Rows, budget: Budget, neighbors: Neighbors, entropy: Entropy
) -> Published:
    """Make one release and return its rounds.

    The noise distributions of the last round come from the release. The noise distributions of the
    earlier rounds come from the calibration. The options of the mechanism set the cost of each
    round.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism of the release.

    rows : Rows
        Rows of the table.

    budget : Budget
        Budget of the release.

    neighbors : Neighbors
        Relation between neighbouring tables.

    entropy : Entropy
        Source of the noise.

    Returns
    -------
    Published
        Rounds of the release.

    Raises
    ------
    MechanismError
        The mechanism refuses the budget, or the audit has no exact loss for the mechanism.

    """
    planned = count.calibrated(
        mechanism, rows.lattice(), budget, neighbors, units_per_row(rows.schema)
    )
    laws, recorded = planned.laws, RecordedRows(rows)
    if (kind := is_gaussian(laws)) is None:
        raise MechanismError(NO_EXACT_LOSS_MESSAGE)
    made = count.run(mechanism, recorded, planned, entropy)
    counting = [recorded.questions.pop()] if planned.count is not None else []
    *asked, last = recorded.questions
    if kind:
        whole, extra = gaussian.concentration(mechanism.name, budget)
    else:
        whole, extra = pure_epsilon(mechanism.name, budget), 0
    kept = whole - planned.spends
    rounds = [
        Round(name, question, *noisy, share * kept, extra)
        for question, (name, share, noisy) in zip(
            asked, _earlier_rounds(mechanism, laws, asked, made), strict=True
        )
    ]
    left = kept - sum(one.spends for one in rounds)
    if (sums := made.sums_alone) is None:
        name, noisy = "second moment", _of_moment(made.noise, _trace_noise(made))
    else:
        name, noisy = "sums", (_sums, (sums.noise,))
    rounds.append(Round(name, last, *noisy, left, extra))
    for question in counting:
        rounds.append(
            Round("number of rows", question, _whole, (planned.count,), planned.spends, extra)
        )
    return Published(tuple(rounds), whole, kind)


# Function from an answer to its published integers, and their noise distributions.
Noisy = tuple[Callable[[Any], Integers], tuple[Law, ...]]


def _earlier_rounds(
    mechanism: Any, laws: Any, asked: Sequence[Question], made: Release
) -> list[tuple[str, Fraction, Noisy]]:
    """Return the rounds before the last one, with their fractions of the budget."""
    match laws:
        case additive.Calibration() if asked:
            return [("norm histogram", exact(mechanism.radius_share), (_whole, (laws.counts,)))]
        case standardized.Calibration():
            rounds: list[tuple[str, Fraction, Noisy]]
            rounds = [("pilot", exact(mechanism.look_share), (_sums, (laws.look,)))]
            share = made.parameters["directions_share"]
            taken = next(path for path in laws.paths if path.share == share)
            if taken.directions is not None:
                transformed = asked[1].keywords["lattice"]
                noisy = _directions(taken.directions.at(transformed), transformed, made)
                rounds.append(("directions", exact(share), noisy))
            counting = exact(mechanism.radius_share)
            return [*rounds, ("norm histogram", counting, (_whole, (laws.counts,)))]
    return []


def _directions(laws: additive.Calibration, lattice: Lattice, made: Release) -> Noisy:
    """Return the integers and the noise of the directions query.

    The query releases only the trace if the noise would hide all rows.
    """
    if additive.below_noise_threshold(lattice, made.unit_count, laws.matrix):
        return _of_moment(None, laws.trace_alone)
    return _of_moment(laws.matrix, laws.trace)


def _of_moment(matrix: Law | None, trace: Law | None) -> Noisy:
    """Return the integers and the noise of a second moment and of its trace.

    A part without a noise distribution is not released.
    """
    if matrix is None:
        return lambda answer: (answer[0].trace(),), (trace,)
    if trace is None:
        return lambda answer: (answer[0].units,), (matrix,)
    return lambda answer: (answer[0].units, answer[0].trace()), (matrix, trace)


def _trace_noise(made: Release) -> Law | None:
    """Return the noise distribution of the trace, or None if the release has no trace."""
    trace = made.find(NoisyTrace)
    return None if trace is None else trace.noise


def _whole(counts: NDArray[np.int64] | int) -> Integers:
    return (counts,)


def _sums(answer: list[SecondMoment]) -> Integers:
    """Return the sums of squares, of products with the intercept, and of squared intercepts."""
    units, p = answer[0].units, answer[0].lattice.features
    return (np.concatenate([np.diag(units)[:p], units[:, p]]),)
