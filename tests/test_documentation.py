"""The site is short, names only what exists, and hides no command from the tests."""

import inspect
import json
import re
import sys
from pathlib import Path

import pytest

import dpcov
from dpcov.api import plans
from dpcov.mechanisms import RETIRED_MECHANISMS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
import tables  # noqa: E402 (the site's own code is no package)

MAX_WORDS = 40_000
INCLUDED = re.compile(r"^```\{include\} (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def pages():
    """Return the text of each page of the site by its path, with the included files."""
    texts = {}
    for path in sorted(DOCS.rglob("*.md")):
        if "_build" not in path.relative_to(DOCS).parts:
            text = path.read_text(encoding="utf-8")
            for name in INCLUDED.findall(text):
                path = (path.parent / name).resolve()
                text = path.read_text(encoding="utf-8")
            texts[path.relative_to(ROOT).as_posix()] = text
    return texts


PAGES = pages()


def words(texts):
    """Return the number of words outside the API reference, as ``wc -w`` counts them."""
    return sum(
        len(text.split()) for name, text in texts.items() if not name.startswith("docs/reference/")
    )


def test_the_site_without_the_reference_is_short():
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= set(PAGES)
    assert words(PAGES) <= MAX_WORDS


def test_control_a_longer_site_is_noticed():
    longer = PAGES | {"docs/how-to/more.md": "word " * MAX_WORDS}
    assert words(longer) > MAX_WORDS
    unlimited = PAGES | {"docs/reference/more.md": "word " * MAX_WORDS}
    assert words(unlimited) == words(PAGES)


def retired(text):
    """Return the names of removed mechanisms in a text."""
    return [name for name in RETIRED_MECHANISMS if re.search(rf"(?<![\w-]){name}(?![\w-])", text)]


@pytest.mark.parametrize("name", [name for name in PAGES if name != "CHANGELOG.md"])
def test_a_page_names_no_mechanism_that_does_not_exist(name):
    marks = [mark for mark in tables.MARK.findall(PAGES[name]) if mark != "commands"]
    made = "\n".join(tables.GENERATORS[mark]() for mark in marks)
    assert not retired(f"{PAGES[name]}\n{made}")


def test_control_a_removed_mechanism_is_noticed():
    assert retired("The mechanism `ladder` is gone.") == ["ladder"]
    assert not retired("A bladder is no mechanism.")


def test_a_plan_states_one_result_of_its_calibration_and_it_is_the_measured_one():
    said = " ".join([*plans.LEGEND, plans.RANGE_NOTE])
    (least,) = re.findall(r"public tables, more than (\d+)% of the measured errors", said)
    assert said.count("public tables") == 1
    cells = json.loads((DOCS / "results" / "plan_calibration.json").read_text())["rows"]
    held = {}
    for cell in cells:
        if cell["between"]:
            low, high = cell["between"]
            held.setdefault(cell["guess"], []).append(low <= cell["measured"] <= high)
    shares = [sum(own) / len(own) for own in held.values()]
    assert min(shares) > int(least) / 100
    assert min(shares) < 0.99  # control: a larger figure would be noticed


def untested(text):
    """Return the blocks that contain commands, but are not blocks that the site runs."""
    found = [(language, code) for language, code in FENCE.findall(text) if language != "console"]
    return [code for language, code in found if language == "" or code.startswith("$ ")]


@pytest.mark.parametrize("name", PAGES)
def test_no_command_hides_in_a_block_that_does_not_run(name):
    assert not untested(PAGES[name])
    if not name.startswith("docs/"):  # the site does not run the pages of the folder above
        assert "```console" not in PAGES[name]


def test_control_a_hidden_command_is_noticed():
    assert untested("```text\n$ dpcov check a.csv\n```\n")
    assert untested("```\npip install dpcov\n```\n")
    assert not untested("```console\n$ dpcov demo\n```\n")


PUBLIC = {"dpcov", "dpcov.errors", "dpcov.estimators", "dpcov.plot", "dpcov.report"}
SHOWN = ("docs/how-to/", "docs/reference/", "docs/tutorial.md")
IMPORT = re.compile(r"^(?:from|import) (dpcov[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith(SHOWN)])
def test_a_guide_imports_public_modules_only(name):
    assert set(IMPORT.findall(PAGES[name])) <= PUBLIC


def test_control_a_private_module_is_noticed():
    assert IMPORT.findall("from dpcov.core.privacy import PureDP\n") == ["dpcov.core.privacy"]


def test_one_paragraph_says_which_names_are_stable_and_that_the_others_are_private():
    section = PAGES["docs/reference/python.md"].split("## What is stable\n")[1].split("\n## ")[0]
    (paragraph,) = section.strip().split("\n\n")
    assert all(f"`{name}`" in paragraph for name in PUBLIC - {"dpcov", "dpcov.plot"})
    assert "All other modules are private" in paragraph
    assert len(paragraph.split()) < 100


def returned(owner):
    """Yield the class names in the annotations of what public functions and methods return."""
    functions = [owner] if inspect.isfunction(owner) else []
    if inspect.isclass(owner):
        found = [getattr(value, "__func__", value) for value in vars(owner).values()]
        functions = [one for one in found if inspect.isfunction(one) and one.__name__[0] != "_"]
    for function in functions:
        yield from re.findall(r"\b[A-Z]\w+", str(function.__annotations__.get("return", "")))


def test_the_reference_lists_the_classes_that_public_functions_return():
    listed = {name.rsplit(".", 1)[1] for name in tables.RESULTS}
    known = {"Any", "Array", "None", "Matrix", "Self", "Budget", "True", "False"}  # no results
    owners = [getattr(dpcov, name) for name in dpcov.__all__ if name not in ("Release", "Schema")]
    named = {name for owner in owners for name in returned(owner)}
    assert {"OLS", "Plan", "Account", "Chain", "Statistic"} <= named  # control: names are found
    assert named - known - listed - set(dpcov.__all__) - {"Table"} == set()
    assert {"OLS", "PCA", "Plan"} <= listed
