"""Lines of code are counted as the page says, and no room is above its ceiling."""

from pathlib import Path

import pytest

import lines

ROOT = Path(__file__).parents[1]

SOURCE = '''"""A docstring
of two lines."""

import os  # counts once

# A comment.


class A:
    """One line."""

    text = """three
    lines of
    data"""

    def f(self):
        """Only told."""


def g(
    x,
):
    # Another.
    return (
        x
    )
'''


def test_code_counts_and_what_is_said_about_it_does_not():
    assert lines.code_lines(SOURCE) == 1 + 1 + 3 + 1 + 3 + 3
    assert lines.code_lines("") == 0
    assert lines.code_lines('"""Told."""\n') == 0
    assert lines.code_lines('x = 1\n"""a text that is no docstring"""\n') == 2


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("src/dpcov/api.py", "src/dpcov"),
        ("src/dpcov/rows/sources/spark.py", "src/dpcov/rows"),
        ("src/dpcov/papers/samplers/frame.py", "src/dpcov/papers"),
        ("tests/papers/test_frames.py", "tests/papers"),
        ("tests/statistical/checks.py", "tests"),
        ("benchmarks/arena/arena.py", "benchmarks"),
    ],
)
def test_a_file_belongs_to_one_room(path, room):
    assert lines.room(Path(path)) == room


def test_every_room_keeps_below_its_ceiling():
    page = lines.PAGE.read_text(encoding="utf-8")
    assert lines.breaches(lines.counted(), lines.ceilings(page)) == []


def test_a_room_too_large_one_without_a_ceiling_and_a_ceiling_too_many_are_told():
    found = lines.breaches({"a": 1_001, "b": 1, "d": 2}, {"a": 1_000, "c": 5, "d": 2})
    assert found == [
        "a: 1,001 code lines, above its ceiling of 1,000",
        "b: no ceiling in the table",
        "c: a ceiling without a room",
    ]


def test_ceilings_are_lowered_and_never_raised():
    page = "| room | ceiling |\n|---|---|\n| `a` | 1,000 |\n| `b` | 10 |\n"
    assert lines.lowered(page, {"a": 900, "b": 20}) == page.replace("1,000", "900")


def test_what_is_counted_of_a_folder_is_the_sum_of_its_rooms(tmp_path):
    for path, text in (
        ("src/dpcov/api.py", "x = 1\ny = 2\n"),
        ("src/dpcov/papers/p.py", "z = 3\n"),
        ("tests/test_api.py", "t = 4\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert lines.counted(tmp_path) == {
        "product without papers": 2,
        "src/dpcov": 2,
        "src/dpcov/papers": 1,
        "tests": 1,
    }
