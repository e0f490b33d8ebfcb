"""The prose check finds what the style guide forbids, and no more."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import prose

LONG = "Word " + " ".join(["word"] * 30) + "."


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("The noise drowns the mean.", ["own word"]),
        ("We have a look at that of the others.", ["own word", "own word"]),
        ("The share is .5 of it.", ["number without a leading zero"]),
        ("It covers 95 % of cases.", ["space before %"]),
        (LONG, ["31 words"]),
        (f"{LONG} {LONG}", ["31 words", "31 words"]),
        ('A `look` and "the old door" are quoted.', []),
        ("```\nlook .5 95 %\n```\nPlain text.", []),
        ("It covers 95% in version 0.3.1 of the file a.py.", []),
        (f"{' '.join(['word'] * 20)}. dpcov {' '.join(['word'] * 20)}.", []),
        ("Levels, shares, units and steps are words of the schema.", []),
    ],
)
def test_a_passage_has_these_findings(text, rules):
    assert [one.rule for one in prose.findings(text, "a.md")] == rules


def test_docstrings_messages_and_comments_of_code_are_read(tmp_path):
    source = '"""The door."""\n\n# We look here.\nx = f"No {1} was told here, really."\n'
    found = [
        (one.line, one.text)
        for text, line in prose.of_python(source)
        for one in prose.findings(text, "a.py", line)
    ]
    assert sorted(found) == [(1, "door"), (3, "look"), (4, "told")]


def test_names_in_code_are_not_prose():
    assert not [
        one
        for text, line in prose.of_python("look = door(drowned)\n")
        for one in prose.findings(text, "a.py", line)
    ]


def test_the_name_of_a_parameter_is_not_prose():
    own = "looks"
    described = "Draw.\n\nParameters\n----------\n{} : int\n    Number of {}.\n"
    for word, found in (("queries", []), (own, [own])):
        texts = prose.of_python(f'"""{described.format(own, word)}"""\n')
        assert [one.text for text, _ in texts for one in prose.findings(text, "a.py")] == found
