"""Display in a notebook: well-formed, complete, and harmless whatever the names."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.api.plans import plan
from dpcov.core.privacy import PureDP
from dpcov.core.show import html
from dpcov.core.show.table import Table
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from pages_for_tests import HOSTILE, hostile, numeric
from tables_for_tests import of

# Attributes of elements. Pages show the label beside a cell when rows become cards.
ATTRIBUTES = {"th": {"scope"}, "td": {"data-label"}}
UNSEEN = {"\x1b", "\n", "\u202e"}
HARMLESS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong"}
SHOWN: dict[str, Callable[[Release], Any]] = {
    "release": lambda release: release,
    "schema": lambda release: release.schema,
    "pca": lambda release: dpcov.pca(release),
    "ols": lambda release: dpcov.ols(release, HOSTILE[0]),
    "ridge": lambda release: dpcov.ridge(release, HOSTILE[2], 0.1),
    "precision": lambda release: dpcov.precision(release, 0.05),
    "intervals": lambda release: dpcov.intervals(release, "correlation", sampling=False),
    "nearest correlation": lambda release: dpcov.nearest_correlation(release),
    "lda": lambda release: dpcov.lda(release, "kind & <i>sort</i>", 0.1),
}


class Cells(HTMLParser):
    """The elements of a piece of HTML, its cells, and whether all is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.cells: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {key for key, _ in attrs} <= ATTRIBUTES.get(tag, set())
        self.labels += [value or "" for key, value in attrs if key == "data-label"]
        self.names.append(tag)
        self._open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def bad() -> Release:
    return hostile()


@pytest.mark.parametrize("kind", SHOWN)
def test_names_that_mean_harm_become_text(kind, bad):
    found = Cells(SHOWN[kind](bad)._repr_html_())
    assert set(found.names) <= HARMLESS
    assert not set(found.text).union(*found.labels) & UNSEEN
    assert set(found.labels) <= set(found.cells)
    if kind != "intervals":
        assert "<script>alert(1)</script>" in found.text
    assert len(found.cells) > 6


def test_heads_that_mean_harm_are_the_labels_of_their_cells():
    unseen = [f"a{mark}b" for mark in sorted(UNSEEN)]
    heads = [*HOSTILE, *unseen]
    found = Cells(html.tables([Table(("", *heads), [("row", [1.0] * len(heads))])]))
    assert set(found.names) <= HARMLESS
    assert found.labels == [*HOSTILE, *["a?b"] * len(unseen)]


def test_a_release_shows_its_guarantee_and_its_means():
    made = numeric(3)
    found = Cells(made._repr_html_())
    assert made.guarantee_in_words() in found.cells
    assert [f"{mean:.5g}" for mean in made.mean()] == found.cells[-8::3]
    assert NOT_PRIVATE not in found.text
    bare = numeric(3, intercept=0.0)
    assert bare.guarantee_in_words() in Cells(bare._repr_html_()).cells


def test_a_seeded_release_says_so_first():
    assert Cells(numeric(2, seed=1)._repr_html_()).text.startswith(NOT_PRIVATE)


def test_coefficients_are_shown_with_their_errors():
    fit = dpcov.ols(numeric(3), "column 0")
    cells = Cells(fit._repr_html_()).cells
    assert f"{fit.coefficients[1]:.5g}" in cells
    assert f"{fit.standard_errors[2]:.4g}" in cells


def test_a_plan_shows_predictions_and_what_it_supposes():
    schema = Schema.from_bounds(0, 1, ["a", "b"])
    found = plan(schema, 1000, epsilon=1.0, mechanism="matrix-laplace", factors=(1.0,))
    shown = Cells(found._repr_html_())
    assert f"{found.predictions[0].errors.correlation:.2g}" in shown.cells
    assert "dpcov read no data" in shown.text


def test_an_account_shows_what_is_left(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", PureDP(3.0), dataset="<b>")
    ledger.reserve(of(PureDP(1.0)))
    found = Cells(ledger.account()._repr_html_())
    assert found.cells[4:8] == ["epsilon", "3", "1", "2"]
    assert "<b>" in found.text


def test_long_tables_are_cut_and_say_so():
    wide = Schema.from_bounds(0, 1, [f"x{j}" for j in range(50)])
    assert "20 columns more." in Cells(wide._repr_html_()).text
