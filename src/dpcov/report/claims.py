"""Sentences on what a release file says of its own guarantee.

The registry record, the answers for NIST and the officer's page share these sentences. They contain
plain text only, without a format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.printable import listed, shortened
from dpcov.core.privacy import LARGE_EPSILON, ZCDP, ApproxDP, Neighbors, PureDP, exact
from dpcov.mechanisms import MECHANISMS
from dpcov.mechanisms.replay import Replay
from dpcov.published.recomputed import Total, is_gaussian, is_recomputed
from dpcov.releases.unprotected import SHORT_QUERY_WORDS, float_answers, law
from dpcov.report.words import CONVERSION_DELTA, epsilon_of, sentence
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.core.privacy import Guarantee
    from dpcov.published.kinds import Published
    from dpcov.releases import Release
    from dpcov.rows.schema import Numeric

MAX_CLAIM_COLUMNS = 12  # largest number of columns that a claim names
SMALL_FACTOR = 1.5  # a smaller factor is stated in per cent
LAW_WORDS = {
    "wishart-difference": "the difference of two Wishart matrices",
    "nuclear-laplace": "Laplace noise for the nuclear norm",
    "nuclear-laplace-square": "Laplace noise for the nuclear norm",
    "discrete-gaussian-orthogonal": "discrete Gaussian noise",
    "discrete-laplace-entrywise": "discrete Laplace noise",
    "centered-wishart": "a centred Wishart matrix",
    "weighted-sum": "a weighted sum of noise matrices",
    "discrete-laplace": "discrete Laplace noise",
    "discrete-gaussian": "discrete Gaussian noise",
}
SEEDED_GUARANTEE = (
    "None. The release was made with a seed, for tests, so it protects nobody. Do not publish it."
)
RECOMPUTED = (
    "Recomputed. dpcov computed the guarantee again from the noise in the file, and the result "
    "agrees with the statement."
)
NOT_RECOMPUTABLE = (
    "Not recomputable. The file does not contain a noise distribution that gives the cost of each "
    "answer. The statement relies on a proof."
)
PARTLY_RECOMPUTED = (
    "Not recomputable as a whole. The costs of the published answers do not exceed the statement, "
    "but they do not account for all of it."
)

TRUST = (
    "The data holder has the whole table and runs dpcov. Everybody must trust the data holder, the "
    "machine and the declarations in the schema."
)
ACTORS = (
    "The data holder and the machine are trusted. Readers of the release file are not trusted. "
    "They may know the schema, the mechanism and the data of all other people."
)
ACCESS = (
    "Nobody can ask the table further questions through the release. Readers analyse the release "
    "file, and this costs no further privacy."
)
OTHER_RELEASES = (
    "The release file does not state whether there are other releases about the same people. Their "
    "privacy losses add up. A ledger of the data holder records the total."
)
BOUNDS = (
    "All bounds, categories and the privacy unit come from the public schema. The release computed "
    "none of them from the table."
)
SIDE_CHANNELS = (
    "The running time is not protected. Messages of dpcov contain no cell of the table. The "
    "release is not interactive."
)


def adjacent(guarantee: Guarantee) -> str:
    """Return a sentence that defines neighbouring tables."""
    rows = "one row" if guarantee.unit.column is None else "all rows of one person"
    units = "rows" if guarantee.unit.column is None else "persons"
    if guarantee.neighbors == Neighbors.ADD_REMOVE:
        return f"Two tables are neighbours if one of them has {rows} more (add-remove)."
    return (
        f"Two tables are neighbours if they differ in {rows}. The number of {units} is the same "
        "and public (replace-one)."
    )


def factor_in_words(epsilon: float) -> str:
    """Return how much the probability of a result changes, rounded up.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee.

    Returns
    -------
    str
        Phrase such as ``by a factor of at most 2.72``.

    """
    if epsilon > LARGE_EPSILON:
        return "without a useful limit"
    if math.exp(epsilon) < SMALL_FACTOR:
        return f"by at most {_rounded_up(100 * math.expm1(epsilon), 2)}%"
    return f"by a factor of at most {_rounded_up(math.exp(epsilon), 3)}"


def _rounded_up(value: float, digits: int) -> str:
    """Return a number above 0 with this many significant digits, rounded up."""
    step = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    above = math.ceil(Fraction(math.nextafter(value, math.inf)) / step)
    return f"{float(above * step):,.12g}"


def meaning(guarantee: Guarantee) -> str:
    """Return the guarantee as a sentence without technical terms."""
    one = "one row" if guarantee.unit.column is None else "one person"
    subject = (
        f"Whether any {one} is in the table"
        if guarantee.neighbors == Neighbors.ADD_REMOVE
        else f"What the table contains for any {one}"
    )
    change = factor_in_words(epsilon_of(guarantee))
    budget = guarantee.budget
    if isinstance(budget, PureDP):
        return f"{subject} changes the probability of any result {change}."
    rare = budget.delta if isinstance(budget, ApproxDP) else CONVERSION_DELTA
    return f"{subject} changes the probability of any result {change}, plus {_one_in(rare)}."


def _one_in(probability: float) -> str:
    """Return a small probability as a phrase, rounded up."""
    return f"at most 1 in {int(1 / exact(probability)):,}"


def verification(release: Release) -> str:
    """Return whether the noise in the file confirms the stated guarantee.

    A warning follows if the map or the clipping radius does not follow from the earlier answers.
    """
    if release.reproducible:
        return SEEDED_GUARANTEE
    found = PARTLY_RECOMPUTED if Total.of(release).complete else NOT_RECOMPUTABLE
    if is_recomputed(release):
        found = RECOMPUTED
    replay = Replay.of(release)
    warning = None if replay is None else replay.warning()
    return found if warning is None else f"{found} {warning}"


def mechanism(release: Release) -> str:
    """Return sentences on the mechanism, its answers and their noise."""
    found = MECHANISMS.get(release.mechanism)
    what = "" if found is None else f": {str(found.__doc__).splitlines()[0].rstrip('.')}"
    queries = "; ".join(
        f"{SHORT_QUERY_WORDS[one.query]} ({_noise(one.published)})" for one in release.rounds
    )
    return (
        f"The mechanism is {release.mechanism}{what}. It published these answers, each with its "
        f"noise: {queries}. The library is {release.provenance.get('library', 'not stated')}."
    )


def _noise(answer: Published) -> str:
    name = law(answer)
    return "noise without a known distribution" if name is None else LAW_WORDS.get(name, name)


def arithmetic(release: Release) -> str:
    """Return sentences on random numbers and floating-point arithmetic."""
    source = (
        "The random numbers come from a seed."
        if release.reproducible
        else "The random numbers come from the operating system, as a new key for each release."
    )
    inexact = float_answers(release.rounds)
    if not inexact:
        return f"{source} All published numbers are integers, and the noise is drawn exactly."
    return (
        f"{source} All published numbers are integers. Before rounding, dpcov computes this noise "
        f"in floating-point arithmetic: {', '.join(inexact)}. The proof assumes exact arithmetic "
        "for this step."
    )


def composition(release: Release) -> str:
    """Return sentences on how the costs of the answers add up."""
    costs = "; ".join(_costs(release))
    words = f"The costs of the answers add up to the guarantee (sequential composition): {costs}."
    if release.group is None:
        return words
    return (
        f"{words} Each level of the column {release.group.column!r} has a release of its own. The "
        f"guarantee is for these releases together: {release.group.together.budget}."
    )


def _costs(release: Release) -> Iterator[str]:
    parameter = "rho" if isinstance(release.guarantee.budget, ZCDP) else "mu^2 / 2"
    for one in release.rounds:
        name = SHORT_QUERY_WORDS[one.query]
        if isinstance(one.spent, Fraction):
            symbol = parameter if is_gaussian(one.published) else "epsilon"
            yield f"{name}, {symbol} = {float(one.spent):.4g}"
        else:
            yield f"{name}, the whole budget"


def table(release: Release) -> str:
    """Return sentences on the columns and the rows of the table."""
    names = [shortened(name) for name in release.schema.encoded_columns]
    words = f"The table has {len(names)} column{'s' * (len(names) > 1)}: {_named(names)}."
    chosen = selection(release)
    return f"{words} {chosen}" if chosen else words


def selection(release: Release) -> str:
    """Return a sentence on the rows that the release describes; empty if it describes all rows."""
    conditions = [release.provenance["rows"]] if "rows" in release.provenance else []
    if release.group is not None:
        conditions.append(f"rows where {release.group.column} = {release.group.level}")
    return f"The release describes only {' and '.join(conditions)}." if conditions else ""


def domain(release: Release) -> str:
    """Return a sentence on the tables that the guarantee covers, with the declared values."""
    columns = release.schema.encoded_columns.items()
    listed = _named(f"{shortened(name)} ({_values(one)})" for name, one in columns)
    return f"All tables with the columns of the public schema: {listed}."


def _values(column: Numeric | Categorical) -> str:
    if isinstance(column, Categorical):
        return f"{len(column.levels)} categories"
    return f"from {column.shown(column.lower)} to {column.shown(column.upper)}"


def _named(found: Iterable[str]) -> str:
    """Return the first texts of a list, and how many more there are."""
    return listed(list(found), MAX_CLAIM_COLUMNS)


def product(release: Release) -> str:
    """Return a sentence on the content of the release file."""
    if release.not_released is not None:
        return release.not_released
    return (
        "A table of sums of squares and products, with random noise. Means, covariances, "
        "correlations and regressions follow from it."
    )


def processing(release: Release) -> str:
    """Return a sentence on what dpcov computes after it added the noise."""
    if release.denoise == "none":
        return "dpcov did not change the noisy answers. All results are computed from the file."
    return (
        f"dpcov reduces the noise in the estimates (method {release.denoise}). This step and all "
        "results use only the file, so they cost no further privacy."
    )


def unprotected(release: Release) -> str:
    """Return a sentence on the facts that the guarantee does not protect."""
    return sentence(release.not_protected())


def bias(release: Release) -> str:
    """Return sentences on the errors that noise and clipping cause."""
    noise = (
        "The file does not state the distribution of the noise, so the errors are not known."
        if release.noise is None and release.sums_alone is None
        else "The distribution of the noise is public, so readers can compute intervals."
    )
    clipped = " Rows with a large norm are shortened, which can bias variances downwards."
    return (
        f"{noise} Values outside the bounds count as the nearer bound, which biases results."
        f"{clipped * release.clipped} The noise affects results about small groups most."
    )
