"""Every block of code of the documentation runs, and what is generated is whole."""

import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

from dpcov import errors
from dpcov.cli import commands
from dpcov.mechanisms import MECHANISMS, Gaussian
from dpcov.mechanisms.choice import Choice

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
import decisions  # noqa: E402 (the site's own code is no package)
import dpcov_site  # noqa: E402
import pages  # noqa: E402
import tables  # noqa: E402

ALL = sorted(DOCS.rglob("*.md"))
ERRORS = [name for name, kind in vars(errors).items() if inspect.isclass(kind)]
CELL = re.compile(r"(?<!\\)\|")


@pytest.mark.pages
@pytest.mark.slow
@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_runs_word_for_word(page):
    found = pages.outputs(page)
    text = page.read_text()
    assert len(found) == len(pages.blocks(text))
    shown = pages.with_outputs(text, found)
    printed = [line for output in found for part in output for line in part.splitlines()[:1]]
    assert all(line.rstrip() in shown for line in printed)


def test_the_pages_that_run_are_the_ones_we_think():
    names = {str(page.relative_to(DOCS)) for page in pages.pages()}
    guides = {str(page.relative_to(DOCS)) for page in (DOCS / "how-to").glob("*.md")}
    assert len(guides) >= 8
    guides -= {"how-to/install.md"}  # its commands install packages
    assert guides | {"tutorial.md", "reference/errors.md"} <= names


def test_the_table_of_what_auto_takes_is_that_of_the_function_that_decides(monkeypatch):
    assert decisions.PAGE.read_text() == decisions.page(), "run: python docs/_ext/decisions.py"
    assert decisions.PAGE.read_text().index("<!-- decisions -->") < 300  # the page opens with it
    taken = lambda *_, **__: Choice(Gaussian(), "always")  # noqa: E731
    monkeypatch.setattr(decisions, "choose", taken)
    assert decisions.PAGE.read_text() != decisions.page()  # control: another decision shows


def test_only_a_server_excuses_code_from_running():
    found = [
        (str(page.relative_to(DOCS)), block)
        for page in ALL
        for block in pages.blocks(page.read_text())
    ]
    assert not [page for page, block in found if block.language in ("sh", "bash", "shell")]
    excused = {page for page, block in found if "server" in block.options}
    assert excused == {"how-to/databases.md"}
    assert {page for page, block in found if "once" in block.options} == {"tutorial.md"}
    needed = {block.options["needs"] for _, block in found if "needs" in block.options}
    assert needed == {"dpcov.rows.sources.sql"}


def contents(page):
    """Return the pages that a page lists, in their order."""
    found = []
    for block in re.findall(
        r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                found += sorted(page.parent.glob(f"{line}.md"))
    return found


def test_every_page_is_listed_once_and_the_reference_comes_before_the_proofs():
    listed = [entry for page in ALL for entry in contents(page)]
    assert sorted([*listed, DOCS / "index.md"]) == ALL
    places = [listed.index(DOCS / f"{page}.md") for page in ("reference/python", "proofs/release")]
    assert places == sorted(places)
    assert {DOCS / f"{page}.md" for page in ("CONTRIBUTING", "SECURITY", "CHANGELOG")} <= {*listed}


def run(text, folder):
    page = folder / "page.md"
    page.write_text(text)
    return pages.outputs(page)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    return tmp_path


def test_a_block_on_a_terminal_sees_a_terminal(elsewhere):
    asked = "```console\n$ test -t 1 && echo yes || echo no\n```\n"
    assert run(f"<!-- run: terminal -->\n{asked}\n{asked}", elsewhere) == [["yes\n"], ["no\n"]]


def test_outputs_are_shown_below_what_printed_them(elsewhere):
    text = (
        "<!-- file: a.txt -->\n```toml\na = 1\n```\n\n"
        "```console\n$ cat a.txt\n$ echo two\\\n  more\n```\n\n"
        "```python\nx = 2\n```\n\n"
        '<!-- run: lines=1 -->\n```python\nprint(x, "\\nthree")\n```\n'
    )
    found = run(text, elsewhere)
    assert found == [[], ["a = 1\n", "two more\n"], [""], ["2 \nthree\n"]]
    shown = pages.with_outputs(text, found)
    assert "$ cat a.txt\na = 1\n$ echo two\\\n  more\ntwo more\n```" in shown
    assert "```text\n2\n...\n```" in shown


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ false\n```\n",
        "<!-- run: terminal -->\n```console\n$ false\n```\n",
        "```console\n$ dpcov show absent.json\n```\n",
        "```console\n$ cat absent\n$ true\n```\n",
        "```python\n1 / 0\n```\n",
        "```console\necho no prompt\n```\n",
        "<!-- run: raises=BudgetError -->\n```console\n$ dpcov --version\n```\n",
        "<!-- run: raises=BudgetError -->\n```console\n$ dpcov show absent.json\n```\n",
        "<!-- run: raises=BudgetError -->\n```python\nx = 1\n```\n",
        '<!-- run: raises=BudgetError -->\n```python\nimport dpcov\ndpcov.load("absent")\n```\n',
        "```python\nimport warnings\nwarnings.warn('old')\n```\n",
    ],
)
def test_control_a_page_that_does_not_do_what_it_says_is_rejected(text, elsewhere):
    with pytest.raises(RuntimeError, match=r"page\.md does not run"):
        run(text, elsewhere)


def test_what_needs_an_absent_module_or_a_new_clone_is_shown_but_not_run(elsewhere):
    text = (
        "<!-- run: needs=dpcov.nothing.at_all -->\n```console\n$ false\n```\n\n"
        "<!-- run: once -->\n```console\n$ false\n```\n\n"
        "<!-- run: server -->\n```console\n$ false\n```\n"
    )
    assert run(text, elsewhere) == [[], [], []]
    assert pages.with_outputs(text, [[], [], []]).count("$ false\n```") == 3


def test_every_error_is_shown_with_its_remedy():
    text = (DOCS / "reference" / "errors.md").read_text()
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    assert sorted(sections) == sorted(ERRORS)
    for name, section in sections.items():
        raised = [block.options.get("raises") for block in pages.blocks(section) if block.runs]
        if name == "DpcovError":
            assert "except dpcov.errors.DpcovError" in section
        else:
            assert name in raised
            assert "**Remedy**: " in section


def rows(table):
    return [[cell.strip() for cell in CELL.split(line)[1:-1]] for line in table.splitlines()]


def test_the_table_of_mechanisms_is_the_registry():
    said, table = tables.mechanisms().split("\n\n")
    same = "neighbours (add-remove, replace-one) and privacy unit (rows, persons)"
    assert said == f"All mechanisms accept the same {same}."
    head, _, *found = rows(table)
    assert [row[0].strip("`") for row in found] == list(MECHANISMS)
    assert all(len(row) == len(head) and all(row) for row in found)
    asked = {row[0].strip("`"): row[1:3] for row in found}
    assert asked["matrix-laplace"] == ["epsilon, epsilon and delta", "1"]
    assert asked["gaussian"] == ["rho, epsilon and delta", "1"]
    assert asked["standardized"] == ["epsilon, rho, epsilon and delta", "3"]
    assert asked["whitened"][0] == "epsilon and delta"


def test_every_claim_of_every_paper_is_on_its_page():
    text = "\n".join(map(tables.claims, tables.PAPERS))
    files = sorted((ROOT / "experiments").glob("*/claims.toml"))
    claims = [claim for file in files for claim in tomllib.loads(file.read_text())["claim"]]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == len(claims) + len(files) + text.count(tables.OWN_CLAIMS)
    assert all(len(row) == 6 for row in rows("\n".join(lines)))
    counted = [claim["verdict"] for claim in claims if not claim["where"].startswith("ours")]
    assert text.count("| **refuted**") == sum(claim["verdict"] == "refuted" for claim in claims)
    totals = rows(tables.verdicts())[2:]
    column = 1 + tables.KINDS.index("refuted")
    assert sum(int(row[column]) for row in totals) == counted.count("refuted") > 0
    assert sum(int(cell) for row in totals for cell in row[1:]) == len(counted) < len(claims)


def test_everything_generated_is_on_a_page_and_known():
    marks = [mark for page in ALL for mark in tables.MARK.findall(page.read_text())]
    assert sorted(marks) == sorted(tables.GENERATORS)


def test_every_command_is_in_the_reference():
    text = tables.commands()
    for name in commands():
        assert f"\n## dpcov {name}\n" in text
    assert "| `--epsilon` | Privacy budget" in text


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


DOCSTRING = """Of |x| and ||Z||_* and `a*b`.

Parameters
----------
first, second_ : what they are, on
    two lines.
form : ``a`` or ``b``, public
    A choice.

Examples
--------
>>> 2 * 3_
6

"""


def test_docstrings_are_plain_text_with_names_examples_and_code_left_alone():
    lines = DOCSTRING.splitlines()
    dpcov_site.plain(None, "function", "f", None, None, lines)
    text = "\n".join(lines)
    assert text.startswith(r"Of \|x\| and \|\|Z\|\|\_\* and `a*b`.")
    assert "\nfirst, second_\n    what they are, on\n    two lines.\n" in text
    assert "\nform : ``a`` or ``b``, public\n    A choice.\n" in text
    assert ">>> 2 * 3_\n6" in text


def test_what_stands_before_a_colon_is_not_the_type_of_a_property():
    lines = ["Number of rows: exact."]
    dpcov_site.plain(None, "property", "f", None, None, lines)
    assert ":" not in lines[0]
    dpcov_site.restored(None, "property", "f", None, None, lines)
    assert lines == ["Number of rows: exact."]
