"""Pictures of the documentation: small, drawn by one command, complete in the gallery."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import picture_style
import pictures
from demo_release import demo
from dpcov import plot
from dpcov.cli import commands
from pictures_of_design import ROUNDS, budget_fractions

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "figures"
DRAWN = [*pictures.DRAWING, *pictures.MEASURING]
# Pictures that need no release, so they take less than a second each.
FAST = ("packages.svg", "epsilon.svg", "half-widths.svg")
SECTION = re.compile(
    r"## [^\n]+\n\n!\[(?P<alt>[^\]]+)\]\(figures/(?P<file>[^)]+)\)\n\n`(?P<command>[^`\n]+)`\n\n"
    r"(?P<words>[^\n]+(?:\n[^\n]+)*)\n"
)
GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
SHOWN = list(SECTION.finditer(GALLERY))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
HASHED = ("id", "clip-path")  # attributes with a hash of exact coordinates
MAX_DISTANCE = 0.5  # points, between the numbers of two pictures


def test_the_gallery_has_one_command_and_one_paragraph_for_each_picture():
    assert sorted(one["file"] for one in SHOWN) == sorted(path.name for path in FIGURES.iterdir())
    assert len(SHOWN) == GALLERY.count("\n## ") >= 12
    assert all(len(one["words"].split()) < 40 for one in SHOWN)


@pytest.mark.parametrize("command", [one["command"] for one in SHOWN])
def test_the_command_of_a_picture_exists(command):
    program, name = re.split(r"[ .(]", command)[:2]
    if program == "dpcov":
        found = re.match(r"dpcov\.plot\.(\w+)\(", command)
        assert found[1] in plot.__all__ if found else name in {one.split()[0] for one in commands()}
    elif file := re.fullmatch(r"make bench NAME=pictures ARGS=(\S+)", command):
        assert file[1] in DRAWN
    else:
        assert program in ("make", "python")  # test_measurements.py checks their names


@pytest.mark.parametrize("path", sorted(FIGURES.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small_and_has_the_colours_of_light_and_dark_pages(path):
    assert path.stat().st_size <= picture_style.MAX_BYTES
    assert path.suffix == ".png" or path.name in DRAWN
    if path.suffix == ".svg":
        text = path.read_text(encoding="utf-8")
        assert text.count(picture_style.THEME) == 1
        assert "currentColor" in text
        assert picture_style.TEXT_COLOUR not in text
        assert "<image" not in text


def parts(text):
    """Yield each element of a picture as its words and its numbers, without hashes of paths."""
    for element in ET.fromstring(text).iter():  # noqa: S314 (our own pictures)
        kept = {name: value for name, value in element.attrib.items() if name not in HASHED}
        written = f"{element.tag} {sorted(kept.items())} {element.text}"
        written = re.sub(r"#[mp]\w{10}", "", written)
        yield NUMBER.sub("#", written), [float(number) for number in NUMBER.findall(written)]


def same(first, second):
    """Return True if two pictures differ by rounding only."""
    ours, theirs = list(parts(first)), list(parts(second))
    return len(ours) == len(theirs) and all(
        words == others and all(abs(a - b) <= MAX_DISTANCE for a, b in zip(at, there, strict=True))
        for (words, at), (others, there) in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(
    "name", [one if one in FAST else pytest.param(one, marks=pytest.mark.slow) for one in DRAWN]
)
def test_a_committed_picture_is_the_one_that_the_command_draws(name):
    committed = (FIGURES / name).read_text(encoding="utf-8")
    assert same(committed, pictures.picture(name, []))


def test_control_another_number_is_noticed():
    one = '<svg><path d="M 10.00 20.00"/></svg>'
    assert same(one, one.replace("20.00", "20.01"))
    assert not same(one, one.replace("20.00", "30.00"))
    assert not same(one, one.replace("path", "line"))


@pytest.mark.slow
def test_the_rounds_of_a_release_spend_the_fractions_in_the_picture():
    _, release, _ = demo()
    spent = {one.query: one.spent for one in release.rounds}
    whole = sum(spent.values()) - spent["count"]
    parts = [sum(spent.get(query, 0) for query in queries) for queries in ROUNDS.values()]
    found = [float(part / whole) for part in parts]
    drawn = dict(budget_fractions(release.schema))[f"{found[1]:.0%}"]
    assert found == pytest.approx([*drawn.values()], abs=1e-6)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (((0.5, 0.5),), []),
        (((0.5, 0.5), (0.55, 0.5)), ["'name 0' overlaps 'name 1'"]),
        (((0.99, 0.5),), ["'name 0' is cut"]),
        (((0.5, 0.5, 45), (0.56, 0.62)), ["'name 0' overlaps 'name 1'"]),
        (((0.5, 0.5, 45), (0.56, 0.5)), []),
    ],
)
def test_a_text_that_is_cut_or_overlaps_another_text_is_noticed(places, expected):
    with mpl.rc_context(picture_style.STYLE):
        made = picture_style.figure(2.0)
        for at, (x, y, *angle) in enumerate(places):
            made.text(x, y, f"name {at}", rotation=sum(angle))
    assert picture_style.clashes(made) == expected


def test_names_beside_a_picture_are_in_order_and_apart():
    placed = pictures.spaced(np.array([0.0, 0.01, 0.5, 0.51]), 0.1)
    assert (np.diff(placed) >= 0.1 - 1e-12).all()
    assert abs(placed - [0.0, 0.01, 0.5, 0.51]).max() <= 0.1
