"""The example of the README runs as printed and gives the figures that the text states."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from shell_commands import shell

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Run the example of the README in a folder: the demo, its schema and its commands."""
    folder = tmp_path_factory.mktemp("readme")
    (schema,), (console,) = blocks("toml"), blocks("console")
    shell("dpcov demo", folder)
    (folder / "visits.toml").write_text(schema)
    commands = re.findall(r"^\$ (.*)$", console, re.MULTILINE)
    assert len(commands) == len(console.splitlines()) >= 4
    printed = [shell(command, folder) for command in commands]
    return folder, dict(zip(commands, printed, strict=True))


def stated(pattern: str) -> float:
    """Return the number that a sentence of the README states."""
    (found,) = re.findall(pattern, " ".join(README.split()))
    return float(found.replace(",", ""))


def test_the_example_of_the_readme_protects_persons_and_gives_the_figures_that_it_states(example):
    folder, _ = example
    made = dpcov.load(folder / "visits.json")
    assert (made.guarantee.unit.column, made.guarantee.unit.max_rows) == ("patient", 4)
    assert made.guarantee.budget == dpcov.PureDP(1.0)
    visits = pd.read_csv(folder / "demo" / "visits.csv")
    whole = visits["age"].corr(visits["systolic"])
    used = np.minimum(visits["patient"].value_counts(), 4).sum()
    assert len(visits) == stated(r"contains ([\d,]+) simulated visits")
    assert visits["patient"].nunique() == stated(r"simulated visits of ([\d,]+) patients")
    assert whole == pytest.approx(
        stated(r"correlation of all 25,762 visits was ([\d.]+)\. "), abs=5e-4
    )
    assert used == pytest.approx(stated(r"used about ([\d,]+) visits"), abs=50)
    private = stated(r"the private correlation of age and pressure was ([\d.]+)\. ")
    assert made.columns == ("age", "smoker", "systolic")
    assert made.correlation()[0, 2] == pytest.approx(private, abs=0.02)
    assert abs(whole - private) < 0.02
    assert whole != pytest.approx(private + 0.05, abs=0.02)  # control: another figure is noticed


def test_the_commands_of_the_readme_do_what_their_comments_say(example):
    folder, printed = example
    plan, *_, ols = printed.values()
    assert "dpcov read no data" in plan
    assert "age" in ols
    with pytest.raises(subprocess.CalledProcessError):  # the ledger holds epsilon 3 in total
        shell(
            "dpcov release demo/visits.csv --schema visits.toml --epsilon 2.5 "
            "--ledger visits.ledger --out second.json",
            folder,
        )


def test_the_readme_is_short_and_its_picture_is_there():
    assert README.count("\n") <= 100
    (picture,) = re.findall(r'<img src="([^"]+)"', README)
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / picture).stat().st_size < 100_000


def test_the_readmes_make_targets_exist():
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= named <= set(targets)
