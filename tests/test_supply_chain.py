"""What is installed is pinned, hashed and licensed as SECURITY.md says."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)
PERMISSIVE = re.compile(r"MIT|BSD|Apache|ISC|PSF|0BSD|Zlib|CC0")
WEAK_COPYLEFT = {"python-flint"}  # LGPL, loaded as a library: said in SECURITY.md
OF_THE_ENVIRONMENT = {"pip", "setuptools", "dpcov"}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    return {plain(name): version for name, version in PIN.findall(text)}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_pin_has_hashes_and_the_version_that_is_tested(lock: Path) -> None:
    text = lock.read_text()
    tested = pins((ROOT / "constraints.txt").read_text())
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        name, version = PIN.match(entry).groups()  # type: ignore[union-attr]
        assert "--hash=sha256:" in entry, name
        assert tested.get(plain(name), version) == version, name
    assert "http" not in text


def test_every_extra_that_make_installs_has_a_lock_with_all_it_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = set(re.findall(r"ready-([a-z]+)", (ROOT / "Makefile").read_text()))
    assert wanted <= {lock.stem for lock in LOCKS}
    for extra in wanted:
        locked = pins((ROOT / "requirements" / f"{extra}.txt").read_text())
        asked = [*project["dependencies"], *project["optional-dependencies"][extra]]
        names = {plain(re.split(r"[\[><=;]", item)[0]) for item in asked} - {"dpcov"}
        assert names <= locked.keys(), extra


def test_every_action_of_a_workflow_is_pinned_by_its_commit() -> None:
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    used = re.findall(r"uses: (.*)", text)
    assert len(used) > 8
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/.*")
    assert [one for one in used if not pinned.fullmatch(one)] == []
    assert "password" not in re.sub(r"#.*", "", text)


def test_the_bill_of_materials_lists_what_is_locked_with_its_licences() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.json").read_text())
    found = {plain(part["name"]): part for part in bill["components"]}
    locked = pins((ROOT / "requirements" / "core.txt").read_text())
    built_with = pins((ROOT / "requirements" / "core.txt").read_text()).keys() - found.keys()
    for name, part in found.items():
        if name in OF_THE_ENVIRONMENT:
            continue
        assert locked[name] == part["version"]
        licences = json.dumps(part["licenses"])
        assert PERMISSIVE.search(licences), name
        assert "GPL" not in licences or name in WEAK_COPYLEFT, name
    # The rest is for building, or for other systems.
    assert built_with <= {
        "hatchling",
        "editables",
        "packaging",
        "pathspec",
        "pluggy",
        "trove-classifiers",
        "colorama",
        "filelock",
        "tomlkit",
    }
