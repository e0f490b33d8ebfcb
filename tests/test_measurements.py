"""Every figure of the documents comes from a command of this repository."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
import tables  # noqa: E402 (the site's own code is no package)

SNAPSHOTS = sorted((DOCS / "results").glob("*.json"))
PAGES = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
IMAGE = re.compile(r"!\[(?P<says>[^\]]*)\]\((?P<file>[^)]+)\)")


def program(command):
    """Return the script behind a command; a target of make must exist."""
    bench = re.fullmatch(r'make bench NAME=(\w+)(?: ARGS=(?:"[^"]*"|\S+))?', command)
    if bench is not None:
        (script,) = (ROOT / "benchmarks").rglob(f"{bench[1]}.py")
        return script.relative_to(ROOT).as_posix()
    target = re.fullmatch(r"make ([a-z-]+)(?: \(quick\)|(?: [A-Z]+=[\w-]+)+)?", command)
    if target is None:
        return command.removeprefix("python ").split()[0]
    if target[1] == "bench":
        return "benchmarks/bench.py"
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{target[1]}:.*##.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe, f"make has no target {target[1]}"
    return re.search(r"(?:benchmarks|trust)/[\w/]+\.py", recipe[1])[0]


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: path.stem)
def test_every_snapshot_is_what_a_command_writes(snapshot):
    script = ROOT / program(json.loads(snapshot.read_text())["command"])
    assert snapshot.name in script.read_text(), f"{script} does not write {snapshot.name}"


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: path.stem)
def test_every_snapshot_is_on_the_page_of_measurements_as_a_table_or_as_a_file(snapshot):
    found = json.loads(snapshot.read_text())
    text = tables.measurements()
    section = text.split(f"## {snapshot.stem.replace('_', ' ')}\n")[1].split("\n## ")[0]
    assert f"`{found['command']}`" in section
    linked = re.findall(r"\[([\d,]+) results\]\(([^)]+)\)", section)
    if len(found["rows"]) > tables.MAX_ROWS:
        ((count, target),) = linked
        assert int(count.replace(",", "")) == len(found["rows"])
        assert (DOCS / target) == snapshot
        return
    assert not linked
    kinds = len({tuple(row) for row in found["rows"]})
    assert section.count("\n| ") + section.startswith("| ") == len(found["rows"]) + kinds


def test_every_picture_is_on_a_page_with_words_for_it_and_drawn_by_a_benchmark():
    drawn = {path for path in DOCS.rglob("figures/**/*") if path.is_file()}
    shown = [(page, found) for page, text in PAGES.items() for found in IMAGE.finditer(text)]
    assert {(page.parent / found["file"]).resolve() for page, found in shown} == drawn != set()
    assert all(len(found["says"]) > 40 for _, found in shown)
    folders = ROOT / "benchmarks", ROOT / "experiments"
    source = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    written = [
        re.sub(r"\{\w+\}", r"\\w+", name)
        for name in re.findall(r'"([\w{}-]+\.(?:svg|png))"', source)
    ]
    assert all(any(re.fullmatch(name, one.name) for name in written) for one in drawn)


def test_every_target_of_make_that_a_page_names_exists():
    named = {target for text in PAGES.values() for target in re.findall(r"`make ([a-z-]+)`", text)}
    makefile = (ROOT / "Makefile").read_text()
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    scripts = {one for text in PAGES.values() for one in re.findall(r"make bench NAME=(\w+)", text)}
    assert all(len([*(ROOT / "benchmarks").rglob(f"{name}.py")]) == 1 for name in scripts)
    assert len(named) + len(scripts) >= 12
