"""Linear discriminant analysis for a categorical column, from one release.

The class counts, means and pooled covariance are all in the second moment: products with the
level's 0/1 feature are sums over its rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.declared import ALPHA, FEATURES, Option, command
from dpcov.analysis.features import chosen, names_of, new_rows, target_column
from dpcov.analysis.moments import Moments, positive, require_matrix, solve, spreads
from dpcov.analysis.penalty import least_risk
from dpcov.core.parameters import AtLeast0, check
from dpcov.core.show.result import OMITTED, Result
from dpcov.core.show.table import ALWAYS, WIDEST, Table
from dpcov.errors import ReleaseError
from dpcov.releases.dates import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema


@dataclass(frozen=True, slots=True)
class LDA(Result):
    """A linear classifier, in the data's units.

    Attributes
    ----------
    target : the categorical column.
    classes : names of its c levels, as texts, those that are rarer than a row left out.
    columns : names of the k features.
    priors : (c,) shares of the rows.
    means : (c, k) means of the features in each class.
    coefficients, intercepts : (c, k), (c,) the score of a class is intercept + coefficients . x.
    alpha : strength of the penalty; see `lda`.
    spreads : (k,) standard deviations of the features.

    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    priors: Vector
    means: Matrix
    coefficients: Matrix
    intercepts: Vector
    alpha: float
    schema: Schema = field(metadata=OMITTED)
    spreads: Vector = field(metadata=OMITTED)

    def predict_proba(self, rows: Any) -> Matrix:
        """(m, c) probabilities of the classes for new rows.

        Parameters
        ----------
        rows : (m, k) array of the features in order (0 or 1 for a level of another categorical
            column), or a table with the original columns. Values outside the bounds are moved to
            the nearer bound, as in the release.

        """
        values = new_rows(self.schema, self.columns, rows)
        return scipy.special.softmax(values @ self.coefficients.T + self.intercepts, axis=1)

    def predict(self, rows: Any) -> NDArray[np.str_]:
        """(m,) names of the most probable classes."""
        best = self.predict_proba(rows).argmax(axis=1)
        return np.array(self.classes)[best]

    def tables(self) -> list[Table]:
        order = np.argsort(-self.priors, kind="stable")
        means = self.means[order]
        spreads = np.maximum(self.spreads, sys.float_info.min)
        rows = [
            (name, shown(self.schema, name, own))
            for name, own in zip(self.columns, means.T.tolist(), strict=True)
        ]
        return [
            Table(
                ("", *(self.classes[c] for c in order)),
                [("share of rows", self.priors[order].tolist()), *rows],
                f"Means in the classes of {self.target}",
                ("{:.4g}",),
                head_form="{:.3f}",
                strengths=[ALWAYS, *(np.ptp(means[:WIDEST], axis=0) / spreads)],
                rest="features that differ less",
                widest=WIDEST,
                other_columns="rarer classes",
                notes=(f"alpha = {self.alpha:.4g}; CSV has the coefficients of the scores.",),
            )
        ]

    def data(self) -> Table:
        nothing = [np.nan] * len(self.classes)
        figures = np.vstack([self.means, self.coefficients]).T.tolist()
        return Table(
            ("", *(f"{part} {name}" for part in ("mean", "score") for name in self.classes)),
            [
                ("(share)", [*self.priors.tolist(), *nothing]),
                ("(intercept)", [*nothing, *self.intercepts.tolist()]),
                *zip(self.columns, figures, strict=True),
            ],
        )


@command(
    "lda",
    "Tell the levels of a column apart by linear discriminant analysis.",
    "--target sex",
    target=Option("--target", "Column of categories to predict.", completes="categories"),
    alpha=ALPHA,
    features=FEATURES,
)
def lda(
    release: Release,
    target: str,
    alpha: float | None = None,
    features: Sequence[str] | None = None,
    *,
    generator: np.random.Generator | None = None,
) -> LDA:
    """Linear discriminant analysis of the categorical column `target`.

    Normal classes with one covariance W: the score of class l is
    x' V^-1 m_l - m_l' V^-1 m_l / 2 + log prior_l, V = W + 2 alpha diag(C), C the covariance of all
    rows: penalised discriminant analysis (Hastie, Buja and Tibshirani 1995), which is ridge
    regression of the levels' indicators with the penalty ``standardized``. Rows with a level that
    was not declared count towards W only.

    Parameters
    ----------
    release : a release with an intercept.
    target : a categorical column.
    alpha : strength of the penalty, at least 0; default, the one that is best for the regressions
        of the indicators, chosen from the release as in `ridge_alpha`.
    features : names of features or columns; default, all but the target.
    generator : for the simulations that choose alpha; default, the same each time.

    Raises
    ------
    ReleaseError : unknown names, alpha below 0, target among the features, nothing but the trace
        was released, or alpha has to be chosen and the release has no noise law.

    """
    require_matrix(release)
    labels = target_column(release, target).labels
    at = chosen(release, features, without=target)
    moments = Moments.of(release)
    columns = release.columns
    levels = [columns.index(f"{target}={label}") for label in labels]
    if alpha is None:
        alpha = least_risk(release, levels, at, "standardized", generator=generator)
    check("alpha", alpha, AtLeast0, ReleaseError)
    shares = np.maximum(moments.means[levels], 0.0)
    seen = np.flatnonzero(shares * moments.count >= 1)
    if seen.size == 0:
        raise ReleaseError(f"No level of {target!r} rises above the noise.")
    levels, shares = [levels[c] for c in seen], shares[seen]
    shifts = _shifts(release, moments, levels, at, shares)
    total = moments.covariance[np.ix_(at, at)]
    within = positive(total - (shifts.T * shares) @ shifts)
    means = moments.means[at] / moments.scales[at] + shifts
    weights = solve(within + 2 * alpha * np.diag(np.diag(total)), means.T)[0].T
    priors = shares / shares.sum()
    return LDA(
        target,
        tuple(labels[c] for c in seen),
        names_of(release, at),
        priors,
        means * moments.scales[at],
        weights / moments.scales[at],
        np.log(priors) - np.einsum("ck,ck->c", weights, means) / 2,
        float(alpha),
        release.schema,
        spreads(release, at),
    )


def _shifts(
    release: Release, moments: Moments, levels: list[int], features: list[int], shares: Vector
) -> Matrix:
    """(c, k) encoded class means less the overall mean, kept within the features' bounds."""
    columns, declared = release.schema.encoded_columns, release.schema.variables
    lowest = [-1.0 if declared[j].name in columns else 0.0 for j in features]
    overall = moments.encoded[features]
    means = overall + moments.covariance[np.ix_(levels, features)] / shares[:, None]
    return np.clip(means, lowest, 1.0) - overall
