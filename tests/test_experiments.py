"""The papers' experiments, in their small versions: every claim comes out as stated."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/claims.toml"))


def reproduce(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "experiments" / "reproduce.py", "--small", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'benchmarks'}{os.pathsep}{ROOT / 'experiments'}"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_of_a_paper_comes_out_as_stated(paper):
    ran = reproduce(paper)
    assert ran.stdout.endswith("claims that came out otherwise than stated: none\n"), ran.stderr
    assert ran.returncode == 0


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_states_its_place_tolerance_and_verdict(paper):
    document = tomllib.loads((ROOT / "experiments" / paper / "claims.toml").read_text("utf-8"))
    for claim in document["claim"]:
        assert set(claim) == {"id", "claim", "where", "expected", "tolerance", "verdict", "why"}
        assert claim["verdict"] in ("reproduced", "not reproduced", "refuted")
        assert bool(claim["why"]) or claim["verdict"] == "reproduced"


def test_an_unknown_paper_is_refused():
    ran = reproduce("nobody1900")
    assert ran.returncode == 2
    assert "no such paper" in ran.stderr
