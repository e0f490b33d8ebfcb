"""Pointers between the code and the proofs it rests on lead somewhere, both ways."""

import functools
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
POINTER = re.compile(r"docs/proofs/([\w-]+\.md)((?:(?:[\s,#]+sections?)?[ ,]+\d+[a-c]?\b)*)")
STEP = re.compile(r"^(?:## |\*\*)(\d+[a-c]?)\. ", re.MULTILINE)
NAME = re.compile(r"`([A-Za-z_.]+)`")


def steps(page):
    return set(STEP.findall((ROOT / "docs" / "proofs" / page).read_text(encoding="utf-8")))


def pointers(text):
    for page, numbers in POINTER.findall(text):
        yield page, re.findall(r"\d+[a-c]?", numbers)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_what_the_code_cites_is_there(path):
    for page, numbers in pointers(path.read_text(encoding="utf-8")):
        assert (ROOT / "docs" / "proofs" / page).exists(), page
        assert set(numbers) <= steps(page), (page, numbers)


def test_every_step_that_the_code_must_keep_is_cited_in_it():
    cited = {
        number
        for path in SOURCES
        for page, numbers in pointers(path.read_text(encoding="utf-8"))
        if page == "release.md"
        for number in numbers
    }
    # 1 is about what callers declare; 6 about its parts.
    assert steps("release.md") - {"1", "6"} <= cited


@functools.cache
def known_words() -> set[str]:
    """Return the words of the sources, and the names of test files and of their functions."""
    tests = [*(ROOT / "tests").rglob("*.py")]
    named = [
        *(path.read_text(encoding="utf-8") for path in SOURCES),
        *(path.name for path in tests),
    ]
    functions = (re.findall(r"def (\w+)", path.read_text(encoding="utf-8")) for path in tests)
    return {*re.findall(r"\w+", "\n".join(named)), *itertools.chain.from_iterable(functions), "md"}


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "docs" / "proofs").glob("*.md")))
def test_the_names_in_a_proof_exist(page):
    text = (ROOT / "docs" / "proofs" / page).read_text(encoding="utf-8")
    missing = {
        name
        for name in NAME.findall(text)
        if not set(filter(None, name.split("."))) <= known_words()
    }
    assert not missing


def test_a_pointer_to_no_step_is_noticed():
    assert [*pointers("(docs/proofs/release.md, section 3)")] == [("release.md", ["3"])]
    ((page, numbers),) = pointers("see docs/proofs/release.md 3, 99a.")
    assert page == "release.md"
    assert not set(numbers) <= steps(page)
