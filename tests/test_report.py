"""The page of a release: what it says, and that names in it do no harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="the page needs the extra `report`")

import dpcov
from dpcov import cli
from dpcov.analysis import declared
from dpcov.analysis.declared import Section
from dpcov.analysis.strongest import strongest_pairs
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.core.show.result import Found
from dpcov.core.show.table import Table
from dpcov.errors import OutputError, ReleaseError
from dpcov.export import write_folder
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases import Release
from dpcov.report import render, write
from dpcov.report.words import for_everybody, not_protected, percent
from dpcov.rows.schema import Schema
from pages_for_tests import HOSTILE, hostile, numeric
from r_package import run_r
from tables_for_tests import write_people

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Elements of a page: their names, attributes and text; complains of what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.faults: list[str] = []
        self.feed(page)
        self.close()
        self.faults += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def private() -> Release:
    return numeric(4)


@pytest.fixture(scope="module")
def page(private: Release) -> str:
    return render(private, target="column 1", file="people.release.json")


@pytest.fixture(scope="module")
def bad_page() -> str:
    return render(hostile(), target=HOSTILE[0], title=HOSTILE[8], file=HOSTILE[1])


def test_a_page_has_every_section_and_well_formed_markup(page):
    outline = Outline(page)
    assert outline.faults == []
    found = {attributes.get("id") for attributes in outline.named("section")}
    parts = {part.name for part in declared.sections()}
    assert parts >= {"correlations", "strongest", "directions", "network", "regression"}
    assert found == parts | {"guarantee", "budget", "use"}
    links = {str(a["href"]).removeprefix("#") for a in outline.named("a")}
    assert links - {"main"} == found


def test_the_same_release_gives_the_same_page(page, private):
    assert render(private, target="column 1", file="people.release.json") == page


def test_table_1_is_first_and_no_page_judges_the_protection(page):
    assert re.findall(r'<section id="(\w+)"', page)[0] == "table1"
    assert not re.search("(strong|moderate|weak) protection|common standards", page)


def test_what_is_not_protected_has_five_lines_at_most(page, private):
    shown = page.split("<h3>What is not protected</h3>")[1].split("</ul>")[0]
    assert shown.count("<li>") == len(not_protected(private)) == 4
    assert all(line in unescape(shown) for line in not_protected(private))
    swapped = numeric(2, neighbors="replace-one")
    assert "the number of rows (4,000)" in " ".join(not_protected(swapped))
    conditional = replace(swapped, provenance={**swapped.provenance, "not_protected": "If so."})
    assert len(not_protected(conditional)) == 5


def test_the_worst_error_is_beside_the_average_and_names_its_pair(page, private):
    errors = dpcov.correlation_standard_errors(private)
    i, j = np.unravel_index(np.argmax(errors), errors.shape)
    pair = " - ".join(private.columns[at] for at in sorted((int(i), int(j))))
    assert f"the worst: ± {1.96 * errors.max():.2g} ({pair})" in unescape(page)


def test_correlations_are_ranked_by_the_nearest_end_and_the_others_are_folded():
    table = np.random.default_rng(0).normal(0, 0.2, (4000, 4))
    table[:, 1] += table[:, 0]
    table[:, 2] -= 0.3 * table[:, 0]
    made = dpcov.release(table, lower=-2, upper=2, epsilon=5.0)
    first, rest = strongest_pairs(made).tables()
    nearest = []
    for _, (_, ends, _) in first.rows:
        low, high = map(float, str(ends).split(" to "))
        assert low * high > 0
        nearest.append(min(abs(low), abs(high)))
    assert len(nearest) >= 2
    assert nearest == sorted(nearest, reverse=True)
    assert len(first.rows) + len(rest.rows) == 6
    for _, (_, ends, _) in rest.rows:
        low, high = map(float, str(ends).split(" to "))
        assert low <= 0 <= high
    folded = render(made).split("<summary>Pairs whose interval contains 0</summary>")[1]
    assert str(rest.rows[0][0]) in folded.split("</details>")[0]


def chatty(release, *, generator):
    """Return a section that draws many random numbers."""
    generator.random(1000)
    return Found([Table(("", "x"), [("y", [1.0])])], {})


def figures_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'<section id="(\w+)"(.*?)</section>', page, re.DOTALL))


def test_a_section_in_the_middle_leaves_the_figures_of_the_others(page, private, monkeypatch):
    facts = {"heading": "H", "lead": "L", "place": 15, "signal": False}
    monkeypatch.setitem(declared._SECTIONS, "chatty", Section(chatty, "chatty", **facts))
    more = figures_of(render(private, target="column 1", file="people.release.json"))
    assert more.pop("chatty")
    assert more == figures_of(page)


def test_control_another_generator_moves_figures(page, private):
    other = render(private, target="column 1", generator=np.random.default_rng(1))
    assert figures_of(other)["strongest"] != figures_of(page)["strongest"]


def test_a_page_runs_no_script_and_loads_nothing(page, bad_page):
    for text in (page, bad_page):
        outline = Outline(text)
        names = {name for name, _ in outline.elements}
        assert names.isdisjoint({"script", "iframe", "object", "link", "embed", "base", "form"})
        for _, attributes in outline.elements:
            assert not any(key.startswith("on") for key in attributes)
            for key in ("src", "href", "xlink:href"):
                assert str(attributes.get(key) or "#").startswith(("#", "data:image/png;"))
        assert "@import" not in text
        policy = outline.named("meta")
        assert any("default-src 'none'" in str(meta.get("content")) for meta in policy)


def test_names_that_mean_harm_are_shown_and_do_nothing(bad_page):
    outline = Outline(bad_page)
    assert outline.faults == []
    names = [name for name, _ in outline.elements]
    assert names.count("b") == names.count("i") == names.count("img") == 0
    assert "<script>alert(1)" not in bad_page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in bad_page
    assert "{{ 7 * 7 }}" in bad_page
    assert "<script>alert(1)</script>" in outline.text
    assert r"$\frac{1}{" in outline.text
    assert "名前" in outline.text
    assert not set(bad_page) & {"\x1b", "\u202e", "\x00"}


def test_identifiers_are_unique_and_every_figure_is_described(page):
    outline = Outline(page)
    found = [str(a["id"]) for _, a in outline.elements if "id" in a]
    assert len(found) == len(set(found))
    figures = outline.named("svg")
    assert len(figures) >= 5
    for figure in figures:
        assert figure["role"] == "img"
        assert set(str(figure["aria-labelledby"]).split()) <= set(found)
    used = set(re.findall(r"url\(#([^)]+)\)", page)) | set(re.findall(r'href="#([^"]+)"', page))
    assert used <= set(found)


def test_everything_that_scrolls_can_be_reached_by_keyboard(page):
    boxes = [a for _, a in Outline(page).elements if a.get("class") == "scroll"]
    assert boxes
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)


def test_figures_take_the_colours_of_the_page(page):
    assert "currentColor" in page
    assert "#123456" not in page
    assert "font-family" not in page[page.index("<main") :]
    assert "prefers-color-scheme: dark" in page


def test_the_figures_are_those_of_the_release(page, private):
    text = Outline(page).text
    i, j = np.unravel_index(
        np.argmax(np.abs(np.tril(private.correlation(), -1))), private.correlation().shape
    )
    assert f"{private.correlation()[i, j]:+.3f}" in text
    fit = dpcov.ols(private, "column 1")
    assert f"{fit.coefficients[1]:.5g}" in text
    assert private.guarantee_in_words() in text


def test_the_instructions_for_r_give_the_correlations(tmp_path):
    """The release can have missing cells: the page's code runs without changes."""
    table = pd.DataFrame(
        np.random.default_rng(1).uniform(-1, 1, (3000, 3)), columns=["x", "y", "z"]
    )
    table["y"] = table["x"] / 2 + table["y"] / 2
    table = table.mask(np.random.default_rng(2).random(table.shape) < 0.3)
    column = {"kind": "number", "lower": -1, "upper": 2, "missing": "pairwise"}
    made_by = Schema.parse({"version": 2, "columns": dict.fromkeys(table, column)})
    made = dpcov.release(table, schema=made_by, epsilon=10.0, seed=1)
    shown = render(made, file="people.release.json")
    (code,) = re.findall(r'aria-label="R code"><pre><code>(.*?)</code>', shown, re.DOTALL)
    assert "dpcov export people.release.json --for r --out for-r" in shown
    write_folder(made, "r", tmp_path / "for-r")
    save = 'cat(jsonlite::toJSON(cor(release), digits = NA), file = "found.json")'
    (tmp_path / "page.R").write_text(f"{unescape(code)}\n{save}\n", encoding="utf-8")
    run_r(tmp_path / "page.R", tmp_path)
    found = np.array(json.loads((tmp_path / "found.json").read_text()))
    assert np.abs(found - made.correlation()).max() < 1e-8


def test_a_seeded_release_is_stamped_and_explains_no_guarantee():
    stamped = render(numeric(3, seed=1))
    outline = Outline(stamped)
    assert NOT_PRIVATE in outline.text
    assert any(a.get("class") == "stamp" and a["role"] == "alert" for a in outline.named("p"))
    assert "NOT PRIVATE" in stamped[: stamped.index("</title>")]
    assert "For everybody" not in outline.text
    assert "the odds that" not in outline.text[outline.text.index("Table 1") :]


def test_a_private_release_has_no_stamp(page):
    assert "NOT PRIVATE" not in page
    assert "For a data protection officer" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"intercept": 0.0}, "without an intercept"),
        ({"epsilon": 1e-3, "neighbors": "replace-one"}, "a noisy trace, because"),
        ({"epsilon": 1e-3, "rows": 50}, "Nothing on this page rises|No correlation rises"),
        ({"mechanism": "eigenvector-sampling"}, "contains no intervals"),
        ({"delta": 1e-6, "mechanism": "gaussian"}, r"\(epsilon, delta\)-differential privacy"),
    ],
    ids=str,
)
def test_what_a_release_cannot_estimate_is_said_to_be_so(options, said):
    text = Outline(render(numeric(3, **{"rows": 300} | options))).text
    assert re.search(said, text)


def test_one_feature_alone_makes_a_page():
    assert Outline(render(numeric(1))).faults == []


@pytest.mark.parametrize(
    "asked", [{"target": "nobody"}, {"target": "column 1", "features": ["nobody"]}], ids=str
)
def test_an_unknown_target_or_feature_is_refused(private, asked):
    with pytest.raises(ReleaseError, match="There is no feature 'nobody'"):
        render(private, **asked)


def test_the_bet_is_the_bound_of_the_guarantee():
    words = " ".join(for_everybody(numeric(2, epsilon=1.0)))
    assert "73.2%" in words  # e / (1 + e) = 0.7311, rounded up
    assert percent(0.99999) == "almost 100%"
    assert percent(0.9982) == "99.9%"
    assert "the odds that any one row is in the table change by a factor of at most 2.72" in words
    assert "at most e^20" in " ".join(for_everybody(numeric(2, epsilon=20.0)))
    approximate = " ".join(for_everybody(numeric(2, delta=1e-6, mechanism="gaussian")))
    assert "except with a probability of about 1e-06" in approximate
    swapped = " ".join(for_everybody(numeric(2, neighbors="replace-one")))
    assert "the odds between any two values of one row" in swapped
    assert "equally likely" not in " ".join(
        for_everybody(numeric(2, delta=1e-6, mechanism="gaussian"))
    )


@pytest.fixture
def run(capsys, tmp_path: Path, monkeypatch):
    """Run the command line in a folder with a release and its ledger."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    ledger = Ledger.create("l.db", PureDP(30.0))
    asked = {"schema": "people.toml", "epsilon": 20.0, "mechanism": "matrix-laplace"}
    made = dpcov.release("people.csv", ledger=ledger, **asked)
    made.save("r.json")

    def run(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["report", *line.split()])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def test_the_command_writes_the_page_with_the_budget_left(run):
    code, out, err = run("r.json --out page.html --ledger l.db --target income --title Survey")
    assert (code, err) == (0, "")
    assert "page.html" in out
    outline = Outline(Path("page.html").read_text(encoding="utf-8"))
    assert "Regression of income" in outline.text
    assert re.search(r"epsilon\s*30\s*20\s*10\b", outline.text)
    assert "Survey" in outline.text
    assert Path("page.html").stat().st_size < 1.5e6


def test_the_command_overwrites_neither_a_page_nor_its_input(run):
    assert run("r.json --out page.html")[0] == 0
    before = Path("page.html").read_text()
    code, _, err = run("r.json --out page.html")
    assert code == 2
    assert "exists" in err
    assert Path("page.html").read_text() == before
    assert run("r.json --out r.json --force")[0] == 2
    assert run("l.db --out x.html")[0] == 2


def test_a_folder_that_cannot_be_written_is_refused(private, tmp_path):
    with pytest.raises(OutputError):
        write(private, tmp_path / "no" / "page.html")


def test_lacking_jinja2_the_remedy_is_named(private, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(OutputError, match="report"):
        render(private)


def test_the_page_of_a_release_by_level_says_so():
    table = {"x": np.linspace(-1, 1, 400), "sex": ["m", "f"] * 200}
    import pyarrow as pa

    schema = dpcov.Schema.parse(
        {
            "columns": {
                "x": {"kind": "numeric", "lower": -1, "upper": 1},
                "sex": {"kind": "categorical", "levels": ["m", "f"]},
            }
        }
    )
    made = dpcov.release_by(pa.table(table), "sex", schema=schema, epsilon=5.0)
    text = Outline(render(made["m"])).text
    assert "Only rows with sex = m" in text


def test_commands_quote_the_name_of_the_file(private):
    page = unescape(render(private, file="my visits.json"))
    assert "dpcov show 'my visits.json'\n" in page
    assert "dpcov export 'my visits.json' --for r" in page
    assert "dpcov show visits.json\n" in render(private, file="visits.json")
