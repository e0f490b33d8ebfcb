"""Facts that a release discloses without protection, which depend on its mechanism.

A release file can come from any mechanism, so this module knows the mechanisms by name only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.published import record
from dpcov.published.kinds import EstimatedMatrix, Published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.published.kinds import Round

# Noise distributions with an exact sampler. Source: docs/proofs/release.md, sections 6 and 7.
EXACT_LAWS = (
    "discrete-gaussian-orthogonal",
    "discrete-laplace-entrywise",
    "discrete-laplace",
    "discrete-gaussian",
)
# Short names of the queries, for lists.
SHORT_QUERY_WORDS = {query: words.removeprefix("a ") for query, words in record.QUERY_WORDS.items()}

FLOAT_DIRECTIONS = (
    "The running time depends on the data. The proof assumes exact arithmetic, but the directions "
    "are computed in float64"
)
VALUES = (
    "The noise of the eigenvalues is drawn after the data are read, so the running time can depend "
    "on the data. The eigenvalues are computed in float64, with an allowance for about 2^32 / d "
    "rows"
)
RADIUS = (
    "The chosen clipping radius is part of the release. If the eigenvalues are released "
    "separately, their noise is drawn after the data are read"
)
PILOTS = "The number of pilot queries is public"
NEEDED_MEMORY = "The required memory, and whether the table fits into the memory, are not hidden"
# Facts of each mechanism. Source: section *Not protected* of its class.
BY_MECHANISM = {
    "separate-laplace": VALUES,
    "separate-gaussian": VALUES,
    "adaptive-laplace": RADIUS,
    "adaptive-gaussian": RADIUS,
    "eigenvector-sampling": FLOAT_DIRECTIONS,
    "kapralov-talwar": FLOAT_DIRECTIONS,
    "exponential-pca": FLOAT_DIRECTIONS,
    "preconditioned": PILOTS,
    "heavy-tailed": PILOTS,
    "unbounded-gaussian": PILOTS,
    "stable-covariance": NEEDED_MEMORY,
    "whitened": NEEDED_MEMORY,
}


def law(answer: Published) -> str | None:
    """Return the name of the noise distribution of an answer.

    Parameters
    ----------
    answer : Published
        Answer of a query.

    Returns
    -------
    str or None
        Name of the distribution. None if the answer has no known distribution.

    """
    return None if isinstance(answer, EstimatedMatrix) else str(answer.noise.to_json()["law"])


def float_answers(rounds: Sequence[Round]) -> list[str]:
    """Return the short names of the queries whose noise is computed in floating-point arithmetic.

    Parameters
    ----------
    rounds : sequence of Round
        Rounds of a release.

    Returns
    -------
    list of str
        One name for each of these queries.

    """
    return [SHORT_QUERY_WORDS[one.query] for one in rounds if law(one.published) not in EXACT_LAWS]


def of_mechanism(name: str, rounds: Sequence[Round]) -> list[str]:
    """Return sentences on the facts that a mechanism does not protect.

    Parameters
    ----------
    name : str
        Name of the mechanism.

    rounds : sequence of Round
        Rounds of the release.

    Returns
    -------
    list of str
        Sentences without their last full stop. Empty if the schema, the budget and the running
        time are everything.

    """
    found = [BY_MECHANISM[name]] if name in BY_MECHANISM else []
    if answers := [] if FLOAT_DIRECTIONS in found else float_answers(rounds):
        found.append(
            f"The proof assumes exact arithmetic, but dpcov computes this noise in float64 before "
            f"rounding: {', '.join(answers)}"
        )
    return found
