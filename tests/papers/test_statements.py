"""The table of statements and the quoted sentences agree with the texts of the papers.

The texts have no free licence. `DPCOV_PAPERS` names a folder that contains them.
"""

import importlib
import json
import os
import re
import unicodedata
from pathlib import Path

import pytest

FOLDER = os.environ.get("DPCOV_PAPERS")
NUMBERED = re.compile(r"(Algorithm|Theorem|Lemma|Corollary|Table|Figure)s? (\d+(?:\.\d+)?)")
TITLES = {
    "amin2019": "Differentially Private Covariance Estimation",
    "dorsi2025": "On Purely Private Covariance Estimation",
    "jiang2016": "Wishart Mechanism for Differentially Private Principal Components Analysis",
    "mouzakis2021": "Advances in Private Statistics",
    "wang2018": "Differentially Private Sparse Inverse Covariance Estimation",
}
# Statements of other papers that a text mentions.
CITED = {
    "amin2019": {("Theorem", "9"), ("Theorem", "18")},
    "dorsi2025": {("Lemma", "1.5"), ("Lemma", "5.2")},
}

pytestmark = pytest.mark.skipif(FOLDER is None, reason="DPCOV_PAPERS names no folder")


def text_of(paper):
    """Return the text whose beginning has the title of a paper."""
    for path in sorted(Path(FOLDER).glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        text = json.loads(text)["full_text"] if text.startswith("{") else text
        if TITLES[paper] in text[:200]:
            return text
    raise LookupError(f"no text of {paper}")


def unlisted(text, stated):
    """Return the numbered statements that a text mentions and a list of statements lacks."""
    listed = {found for name in stated for found in NUMBERED.findall(name)}
    return set(NUMBERED.findall(text)) - listed


def letters(text):
    """Return a text without spaces and without the symbols that our copies have lost."""
    text = unicodedata.normalize("NFKC", text).replace("\u270f", "epsilon")  # a font's epsilon
    return "".join(
        one for one in text if not one.isspace() and unicodedata.category(one) not in ("Cc", "Co")
    )


@pytest.fixture
def claims():
    return importlib.import_module("claims")


@pytest.mark.parametrize("paper", TITLES)
def test_every_numbered_statement_of_a_text_is_in_the_table_of_statements(paper, claims):
    text, stated = text_of(paper), claims.statements()[paper]
    assert unlisted(text, stated) == CITED.get(paper, set())
    fewer = [name for name in stated if "Algorithm 1" not in name]  # control: rows are missing
    assert unlisted(text, fewer) == {("Algorithm", "1")} | CITED.get(paper, set())


@pytest.mark.parametrize("paper", TITLES)
def test_every_quoted_sentence_is_in_the_text(paper, claims):
    text = letters(text_of(paper))
    quoted = [found.sentence for found in claims.claims_of(paper).values() if found.sentence]
    assert quoted
    assert [sentence for sentence in quoted if letters(sentence) not in text] == []
    assert letters(f"{quoted[0]} not") not in text  # control


@pytest.mark.parametrize("paper", TITLES)
def test_a_text_with_experiments_has_them_in_the_table(paper, claims):
    stated = claims.statements()[paper]
    rows = [name for name in stated if name.startswith("Experiment")]
    none = rows == ["Experiments"] and isinstance(stated["Experiments"], str)
    shown = re.search(r"^\d?\s*Experiments$|Performance comparisons", text_of(paper), re.MULTILINE)
    assert rows
    assert none == (shown is None)
