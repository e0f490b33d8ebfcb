"""How schemas, plans, releases and results look in a notebook.

Plain tables that take the notebook's own style; all text is escaped, since names of columns and
levels may come from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from dpcov.printable import printable
from dpcov.releases import NOT_PRIVATE, VOID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.analysis.correlation import NamedMatrix
    from dpcov.analysis.discriminant import LDA
    from dpcov.analysis.intervals import Intervals
    from dpcov.analysis.ols import OLS
    from dpcov.analysis.pca import PCA
    from dpcov.analysis.precision import SparsePrecision
    from dpcov.analysis.ridge import Ridge
    from dpcov.ledger import Account
    from dpcov.plans import Plan
    from dpcov.releases import Release
    from dpcov.schema import Schema

MOST_ROWS = 30
MOST_COLUMNS = 12
COMPONENTS = 6


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", *, more: int = 0
) -> str:
    """An HTML table; the first cell of each row is its head."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{text(caption)}</caption>")
    if heads:
        cells = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
        parts.append(f"<thead><tr>{cells}</tr></thead>")
    parts.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{text(cell)}</td>" for cell in others)
        parts.append(f'<tr><th scope="row">{text(first)}</th>{cells}</tr>')
    parts.append("</tbody></table>")
    return "".join(parts) + (f"<p>{more} more.</p>" if more > 0 else "")


def text(value: object) -> str:
    """Escaped text; a number in five digits, what is not printable as a question mark."""
    shown = f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
    return escape(printable(shown))


def schema_html(schema: Schema) -> str:
    """The columns of a schema, and what else it declares."""
    rows = []
    for name, column in schema.columns.items():
        if column.kind == "numeric":
            holds = f"{column.lower:g} to {column.upper:g}"
        elif column.kind == "categorical":
            labels = column.labels
            holds = ", ".join(labels[:MOST_COLUMNS])
            holds += f" and {len(labels) - MOST_COLUMNS} more" * (len(labels) > MOST_COLUMNS)
        else:
            holds = ""
        rows.append((name, column.kind, holds))
    facts = (
        f"{len(schema.features)} features, radius {schema.effective_radius:.4g}, "
        f"protects {schema.privacy_unit}"
    )
    heads = ("column", "kind", "holds")
    left = len(rows) - MOST_ROWS
    return table(heads, rows[:MOST_ROWS], f"Schema: {facts}", more=left)


def plan_html(plan: Plan) -> str:
    """What a plan supposes, its predictions by mechanism and by budget."""
    from dpcov.tables_plan import HEADS, LEGEND, amount, assumptions, cells, sampling_in_words

    heads = tuple(HEADS.values())
    by_mechanism = [(p.mechanism, *cells(p.errors)) for p in plan.predictions]
    by_budget = [(amount(p.budget), *cells(p.errors)) for p in plan.curve]
    words = [*assumptions(plan), *LEGEND, sampling_in_words(plan)]
    return (
        table(("mechanism", *heads), by_mechanism, f"Plan; auto takes {plan.recommended}")
        + table(("budget", *heads), by_budget)
        + "".join(f"<p>{text(line)}</p>" for line in words)
    )


def release_html(release: Release) -> str:
    """What a release is and guarantees, and its means and standard deviations."""
    facts = [
        ("guarantee", release.guarantee_in_words()),
        ("mechanism", f"{release.mechanism}, denoised by {release.denoise}"),
        ("features", len(release.columns)),
    ]
    if release.row_count is not None:
        facts.append(("rows", f"{release.row_count} (public)"))
    elif release.has_intercept:
        facts.append(("rows", f"about {release.count():.0f} (private: with noise)"))
    facts.append(("made by", release.made_by()))
    html = table((), facts, "Private release")
    if release.has_intercept:
        deviations = np.sqrt(np.maximum(np.diag(release.covariance()), 0.0))
        rows = list(zip(release.columns, release.mean(), deviations, strict=True))
        left = len(rows) - MOST_ROWS
        html += table(("", "mean", "std. deviation"), rows[:MOST_ROWS], more=left)
    warnings = [NOT_PRIVATE] * release.reproducible + [VOID] * release.may_be_void
    return "".join(f"<p><strong>{text(warning)}</strong></p>" for warning in warnings) + html


def matrix_html(found: NamedMatrix) -> str:
    """A named matrix, or its first rows and columns."""
    return _square(found.columns, found.matrix)


def _square(names: Sequence[str], matrix: NDArray[np.float64]) -> str:
    shown = min(len(names), MOST_COLUMNS)
    rows = [(name, *matrix[j, :shown]) for j, name in enumerate(names[:shown])]
    return table(("", *names[:shown]), rows, more=len(names) - shown)


def pca_html(found: PCA) -> str:
    """Variances and loadings of the leading components."""
    count = min(len(found.components), COMPONENTS)
    rows: list[Sequence[object]] = [
        ("variance", *found.explained_variance[:count]),
        ("share of variance", *(f"{r:.1%}" for r in found.explained_variance_ratio[:count])),
    ]
    strongest = np.argsort(-np.abs(found.components[:count]).max(axis=0), kind="stable")
    kept = sorted(strongest[:MOST_ROWS].tolist())
    rows += [(found.columns[j], *(f"{x:.3f}" for x in found.components[:count, j])) for j in kept]
    above = "" if found.significant is None else f"; {found.significant} dimensions above the noise"
    heads = ("", *(f"PC{j + 1}" for j in range(count)))
    return table(heads, rows, f"Principal components{above}", more=len(found.columns) - len(kept))


def ridge_html(found: Ridge) -> str:
    """Coefficients of a ridge regression, in order."""
    rows = [("(intercept)", found.intercept)]
    rows += list(zip(found.columns, found.coefficients.tolist(), strict=True))
    caption = (
        f"Ridge regression of {found.target}: R² {found.r_squared:.3f}, alpha {found.alpha:.4g}"
    )
    return table(("", "coefficient"), rows[:MOST_ROWS], caption, more=len(rows) - MOST_ROWS)


def ols_html(found: OLS) -> str:
    """Coefficients with errors and intervals, in order."""
    rows = [
        (
            name,
            found.coefficients[j],
            found.standard_errors[j],
            f"{found.p_values[j]:.3f}",
            f"{found.lower[j]:.4g} to {found.upper[j]:.4g}",
            "" if found.trusted[j] else "drowned by noise",
        )
        for j, name in enumerate(found.names)
    ]
    heads = ("", "coefficient", "std. error", "p", f"{found.level:.0%} interval", "")
    caption = (
        f"Least squares of {found.model.target}: R² {found.r_squared:.3f}, "
        f"about {found.count:.0f} rows"
    )
    return table(heads, rows[:MOST_ROWS], caption, more=len(rows) - MOST_ROWS)


def precision_html(found: SparsePrecision) -> str:
    """The edges of the graph, strongest first."""
    edges, p = found.edges, len(found.columns)
    stable = found.shares is not None
    heads = ("pair", "partial correlation", *(["stability"] if stable else []))
    rows = [
        (
            f"{edge.first} - {edge.second}",
            f"{edge.partial_correlation:+.3f}",
            *([] if edge.stability is None else [f"{edge.stability:.0%}"]),
        )
        for edge in edges[:MOST_ROWS]
    ]
    caption = f"{len(edges)} of {p * (p - 1) // 2} pairs are related given all others"
    return table(heads, rows, f"{caption}; alpha {found.alpha:.3g}", more=len(edges) - MOST_ROWS)


def lda_html(found: LDA) -> str:
    """Shares and means of the classes."""
    rows: list[Sequence[object]] = [("share of rows", *(f"{x:.3f}" for x in found.priors))]
    rows += [(name, *found.means[:, j]) for j, name in enumerate(found.columns[:MOST_ROWS])]
    heads = ("", *found.classes)
    more = len(found.columns) - MOST_ROWS
    return table(heads, rows, f"Means in the classes of {found.target}", more=more)


def intervals_html(found: Intervals) -> str:
    """Ends of the intervals; of many, the first."""
    from dpcov.analysis.intervals import CLIPPED

    low, high = np.atleast_1d(found.low), np.atleast_1d(found.high)
    trusted = np.atleast_1d(found.trusted)
    places = list(np.ndindex(low.shape))
    if low.ndim == 2 and low.shape[0] == low.shape[1]:
        places = [place for place in places if place[0] > place[1]]
    rows = [
        (
            ", ".join(str(at) for at in place),
            low[place],
            high[place],
            "" if trusted[place] else "drowned by noise",
        )
        for place in places[:MOST_ROWS]
    ]
    caption = f"{found.level:.0%} intervals for {found.covers}"
    if found.clipped:
        caption += f". {CLIPPED}"
    return table(("entry", "low", "high", ""), rows, caption, more=len(places) - MOST_ROWS)


def account_html(account: Account) -> str:
    """Budget, spent and left of a data set."""
    budget = account.to_json()["budget"]
    parts = (budget, account.spent, account.left)
    rows = [(name, *(part.get(name, 0.0) for part in parts)) for name in budget]
    caption = f"Data set {account.dataset}: {len(account.entries)} releases"
    return table(("", "budget", "spent", "left"), rows, caption)
