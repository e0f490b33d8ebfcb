"""The stories of the examples folder run to their end, in less than a minute each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpcov

EXAMPLES = Path(__file__).parents[1] / "examples"
MINUTE = 60
here = Path(os.environ.get("DPCOV_DATA", EXAMPLES.parents[1] / "shared" / "data"))
needs_data = pytest.mark.skipif(not here.is_dir(), reason="the real data sets are not here")


def story(name, folder, data):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", folder],
        env=os.environ | {"DPCOV_DATA": str(data), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=MINUTE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_hospital_protects_patients_and_stops_at_its_budget(tmp_path):
    told = story("hospital", tmp_path, tmp_path)
    assert "any one person (column 'patient', at most 4 rows each)" in told
    assert "A second release: The budget of data set 'default' does not suffice" in told
    assert dpcov.Ledger.open(tmp_path / "ward.ledger").account().left == {"epsilon": 0.5}
    assert "The ward" in (tmp_path / "ward.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("data", [pytest.param(here, marks=needs_data), Path("/nowhere")])
def test_the_census_tells_the_share_of_women_to_a_hundredth(data, tmp_path):
    told = story("census", tmp_path, data)
    assert ("the Adult table" in told) == (data == here)
    assert float(told.split("off by ")[1].split()[0]) < 0.01
    made = dpcov.load(tmp_path / "census.release.json")
    assert len(made.columns) == (105 if data == here else 14)


@needs_data
@pytest.mark.slow
def test_the_laboratory_finds_that_two_scores_of_one_scale_belong_together(tmp_path):
    told = story("laboratory", tmp_path, here)
    assert "motor_UPDRS - total_UPDRS" in told.split("the strongest:")[1].splitlines()[1]
    document = json.loads((tmp_path / "voices.release.json").read_text())
    assert document["mechanism"] == "standardized"
    assert "<svg" in (tmp_path / "voices.svg").read_text()


def test_the_laboratory_without_its_recordings_says_so(tmp_path):
    assert "not here" in story("laboratory", tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
