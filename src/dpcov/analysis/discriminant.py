"""Linear discriminant analysis of a categorical column, from one release.

The second moment contains the class counts, the class means and the pooled covariance. The products
with the 0/1 feature of a level are sums over the rows of the level.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.declared import ALPHA_OPTION, FEATURES_OPTION, Option, command
from dpcov.analysis.features import chosen, names_of, new_rows, target_column
from dpcov.analysis.normal_equations import solve
from dpcov.analysis.penalty import least_risk
from dpcov.analysis.persons import refuse_means
from dpcov.core.parameters import AtLeast0, check
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import ALWAYS_SHOWN_STRENGTH, MAX_FIGURE_COLUMNS, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.published.pseudo_rows import positive
from dpcov.releases.dates import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema


@dataclass(frozen=True, slots=True)
class LDA(Result):
    """Linear classifier of a categorical column, in the units of the data.

    c is the number of classes, and k is the number of features.

    Attributes
    ----------
    target : str
        Name of the categorical column.

    classes : tuple of str
        Names of its levels. A level with less than one estimated row is left out.

    columns : tuple of str
        Names of the k features.

    priors : ndarray, shape (c,)
        Fractions of the rows in each class.

    means : ndarray, shape (c, k)
        Means of the features in each class.

    coefficients : ndarray, shape (c, k)
        Coefficients of the class scores. The score of a class is intercept + coefficients . x.

    intercepts : ndarray, shape (c,)
        Intercepts of the class scores.

    alpha : float
        Strength of the penalty; see `lda`.

    schema : Schema
        Schema of the release.

    spreads : ndarray, shape (k,)
        Standard deviations of the features.

    See Also
    --------
    dpcov.lda : Fit the classifier.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from dpcov import Schema
    >>> columns = {"x": {"kind": "number", "lower": 0, "upper": 1},
    ...            "group": {"kind": "categorical", "levels": ["a", "b"]}}
    >>> schema = Schema.parse({"version": 2, "columns": columns})
    >>> table = {"x": np.linspace(0, 1, 5000).tolist(), "group": ["a"] * 2500 + ["b"] * 2500}
    >>> import pyarrow as pa
    >>> release = dpcov.release(pa.table(table), schema=schema, epsilon=10.0)
    >>> dpcov.lda(release, "group", alpha=0.01).classes
    ('a', 'b')

    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    priors: Vector
    means: Matrix
    coefficients: Matrix
    intercepts: Vector
    alpha: float
    schema: Schema = field(metadata=OMITTED_FIELD)
    spreads: Vector = field(metadata=OMITTED_FIELD)

    def predict_proba(self, rows: Any) -> Matrix:
        """Compute the probabilities of the classes for new rows.

        Values outside the bounds count as the nearer bound, as in the release.

        Parameters
        ----------
        rows : array-like, shape (m, k), or table
            Features in the order of `columns`, with 0 or 1 for a level of a categorical column. A
            table has the original columns instead.

        Returns
        -------
        ndarray, shape (m, c)
            Probabilities of the classes.

        Raises
        ------
        ReleaseError
            The rows have a wrong number of columns, or a column is missing.

        See Also
        --------
        LDA.predict : Names of the most probable classes.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> columns = {"x": {"kind": "number", "lower": 0, "upper": 1},
        ...            "group": {"kind": "categorical", "levels": ["a", "b"]}}
        >>> schema = dpcov.Schema.parse({"version": 2, "columns": columns})
        >>> groups = ["a"] * 2500 + ["b"] * 2500
        >>> table = pa.table({"x": np.linspace(0, 1, 5000), "group": groups})
        >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
        >>> model = dpcov.lda(release, "group", alpha=0.01)
        >>> model.predict_proba([[0.1], [0.9]]).shape
        (2, 2)

        """
        values = new_rows(self.schema, self.columns, rows)
        return scipy.special.softmax(values @ self.coefficients.T + self.intercepts, axis=1)

    def predict(self, rows: Any) -> NDArray[np.str_]:
        """Return the most probable class of each new row.

        Parameters
        ----------
        rows : array-like, shape (m, k), or table
            New rows, as in `predict_proba`.

        Returns
        -------
        ndarray of str, shape (m,)
            Names of the classes.

        See Also
        --------
        LDA.predict_proba : Probabilities of the classes.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> columns = {"x": {"kind": "number", "lower": 0, "upper": 1},
        ...            "group": {"kind": "categorical", "levels": ["a", "b"]}}
        >>> schema = dpcov.Schema.parse({"version": 2, "columns": columns})
        >>> groups = ["a"] * 2500 + ["b"] * 2500
        >>> table = pa.table({"x": np.linspace(0, 1, 5000), "group": groups})
        >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
        >>> model = dpcov.lda(release, "group", alpha=0.01)
        >>> model.predict([[0.1], [0.9]]).tolist()
        ['a', 'b']

        """
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
                strengths=[
                    ALWAYS_SHOWN_STRENGTH,
                    *(np.ptp(means[:MAX_FIGURE_COLUMNS], axis=0) / spreads),
                ],
                rest="features that differ less",
                widest=MAX_FIGURE_COLUMNS,
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
    "Classify a categorical column by linear discriminant analysis.",
    "--target sex",
    target=Option("--target", "Column of categories to predict.", completes="categories"),
    alpha=ALPHA_OPTION,
    features=FEATURES_OPTION,
)
def lda(
    release: Release,
    target: str,
    alpha: float | None = None,
    features: Sequence[str] | None = None,
    *,
    generator: np.random.Generator | None = None,
) -> LDA:
    """Classify a categorical column by linear discriminant analysis.

    `lda` assumes normally distributed classes with the same covariance.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    target : str
        Name of a categorical column.

    alpha : float, optional
        Strength of the penalty, at least 0. By default, `lda` chooses the penalty as `ridge_alpha`
        does for the regressions of the 0/1 features of the levels.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    LDA
        Classifier in the units of the data.

    Raises
    ------
    NotReleasedError
        The release holds the trace only, or alpha is missing and the release has no noise
        distribution.
    ReleaseError
        A name is unknown, alpha is negative, or the target is among the features. The error also
        occurs if no level rises above the noise.

    See Also
    --------
    dpcov.ridge : Ridge regression of a numeric column or of one level.

    Notes
    -----
    Let W be the covariance within the classes, C the covariance of all rows, m_l the mean of class
    l and V = W + 2 alpha diag(C). The score of class l is x' V^-1 m_l - m_l' V^-1 m_l / 2 + log
    prior_l. This method is penalised discriminant analysis (Hastie, Buja and Tibshirani 1995). It
    equals ridge regression of the 0/1 features of the levels with the penalty ``standardized``.
    Rows with an undeclared level affect W only.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> columns = {"x": {"kind": "number", "lower": 0, "upper": 1},
    ...            "group": {"kind": "categorical", "levels": ["a", "b"]}}
    >>> schema = dpcov.Schema.parse({"version": 2, "columns": columns})
    >>> table = {"x": np.linspace(0, 1, 5000).tolist(), "group": ["a"] * 2500 + ["b"] * 2500}
    >>> release = dpcov.release(pa.table(table), schema=schema, epsilon=10.0)
    >>> dpcov.lda(release, "group", alpha=0.01).predict([[0.1], [0.9]]).tolist()
    ['a', 'b']

    """
    refuse_means(release, "Classification")
    estimate = Estimate.required(release)
    labels = target_column(release, target).labels
    at = chosen(release, features, without=target)
    columns = release.columns
    levels = [columns.index(f"{target}={label}") for label in labels]
    if alpha is None:
        alpha = least_risk(release, levels, at, "standardized", generator=generator)
    check("alpha", alpha, AtLeast0, ReleaseError)
    shares = np.maximum(estimate.means[levels], 0.0)
    present = np.flatnonzero(shares * estimate.count >= 1)
    if present.size == 0:
        raise ReleaseError(f"No level of {target!r} rises above the noise.")
    levels, shares = [levels[c] for c in present], shares[present]
    shifts = _shifts(release, estimate, levels, at, shares)
    total = estimate.covariance[np.ix_(at, at)]
    within = positive(total - (shifts.T * shares) @ shifts)
    means = estimate.means[at] / estimate.scales[at] + shifts
    weights = solve(within + 2 * alpha * np.diag(np.diag(total)), means.T)[0].T
    priors = shares / shares.sum()
    return LDA(
        target,
        tuple(labels[c] for c in present),
        names_of(release, at),
        priors,
        means * estimate.scales[at],
        weights / estimate.scales[at],
        np.log(priors) - np.einsum("ck,ck->c", weights, means) / 2,
        float(alpha),
        release.schema,
        estimate.deviations[at],
    )


def _shifts(
    release: Release, estimate: Estimate, levels: list[int], features: list[int], shares: Vector
) -> Matrix:
    """Return the (c, k) encoded class means minus the overall mean, within the bounds."""
    columns, declared = release.schema.encoded_columns, release.schema.variables
    lowest = [-1.0 if declared[j].name in columns else 0.0 for j in features]
    overall = estimate.encoded[features]
    means = overall + estimate.covariance[np.ix_(levels, features)] / shares[:, None]
    return np.clip(means, lowest, 1.0) - overall
