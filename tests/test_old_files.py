"""Files that earlier versions wrote: they load, and say what they said.

`data/` has a folder a version, written by it from made-up rows: a release of each mechanism and of
each thing that its file can hold, a ledger, a file of sums.
"""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from dpcov import Ledger, PureDP, cli, load, release
from dpcov.errors import SourceError
from dpcov.mechanisms import MECHANISMS, RETIRED
from dpcov.releases import VoidReleaseWarning
from dpcov.sources.partial import PartialMoment

DATA = Path(__file__).with_name("data")
VERSIONS = sorted(folder.name for folder in DATA.iterdir())
BEFORE_VOID = {"0.1.0"}  # of their releases some hold no guarantee: loading says so
RELEASES = sorted(DATA.glob("*/*.json"))
LAWS = {
    "wishart-difference",
    "nuclear-laplace",
    "discrete-gaussian-orthogonal",
    "discrete-laplace-entrywise",
    "centered-wishart",
    "weighted-sum",
}


def named(path):
    return f"{path.parent.name}-{path.stem}"


def loaded(path):
    """The release, and whether loading it warned."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = load(path)
    assert {warning.category for warning in told} <= {VoidReleaseWarning}
    return made, bool(told)


def holds(document, older):
    """Whether a document says all that an older one does; it may say more."""
    if isinstance(older, dict):
        return isinstance(document, dict) and all(
            key in document and holds(document[key], value) for key, value in older.items()
        )
    if isinstance(older, list):
        return len(document) == len(older) and all(map(holds, document, older))
    return document == older


@pytest.mark.parametrize("version", VERSIONS)
def test_there_is_a_file_of_every_mechanism_and_of_every_law(version):
    texts = [json.loads(path.read_text()) for path in (DATA / version).glob("*.json")]
    assert {text["mechanism"] for text in texts} == {*MECHANISMS, *RETIRED}
    assert {text["noise"]["law"] for text in texts if text["noise"]} == LAWS
    assert {text["denoise"] for text in texts} == {"none", "project", "shrink"}
    assert {text["guarantee"]["budget"]["definition"] for text in texts} == {
        "pure",
        "zcdp",
        "approx",
    }
    for told in (
        "group",
        "linear_map",
        "center",
        "rungs",
        "unit_count",
        "trace_noise",
        "published",
    ):
        assert len({text[told] is None for text in texts}) == 2


def in_format_2(older):
    """What a file of format 1 means: a step is the radius over 2^20."""
    lattice = dict(older["lattice"])
    units = lattice.pop("units_per_radius")
    grid = {"step": lattice["radius"] / units, "side": units}
    return older | {"format": "dpcov.release/2", "lattice": lattice | grid}


@pytest.mark.parametrize("path", RELEASES, ids=named)
def test_a_release_loads_and_its_new_file_says_all_that_the_old_one_does(path):
    made, warned = loaded(path)
    older = json.loads(path.read_text())
    assert older["format"] == "dpcov.release/1"
    assert holds(json.loads(made.to_text()), in_format_2(older))
    assert warned == (path.parent.name in BEFORE_VOID)
    if made.published is None:
        assert made.published_trace == older["published_trace"]
        return
    d, below = made.lattice.dimension, np.tril_indices(made.lattice.dimension)
    assert made.second_moment().shape == (d, d)
    assert made.published[below].tolist() == older["published"]
    if made.has_intercept:
        assert np.isfinite(made.covariance()).all()
        assert np.abs(made.correlation()).max() <= 1


def test_a_changed_file_is_noticed():
    older = json.loads(RELEASES[0].read_text())
    first, *others = older["published"]
    assert holds(older | {"more": 1}, older)
    assert not holds(older | {"published": [first + 1, *others]}, older)
    assert not holds({key: value for key, value in older.items() if key != "shift"}, older)
    assert not holds(older | {"published": others}, older)


@pytest.mark.parametrize("path", [p for p in RELEASES if "auto" in p.stem], ids=named)
def test_a_release_is_shown(path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["show", str(path), "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["mechanism"] == json.loads(path.read_text())["mechanism"]
    assert ("warning" in shown) == (path.parent.name in BEFORE_VOID)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_is_whole_and_goes_on(version, tmp_path):
    path = Path(shutil.copy(DATA / version / "ledger.db", tmp_path))
    ledger = Ledger.open(path)
    assert ledger.datasets() == ["default", "other"]
    account = ledger.account("default").to_json()
    assert account["budget"]["epsilon"] == 3.0
    assert account["spent"]["epsilon"] == 0.5
    before = ledger.verify()
    assert before.unverified == 0
    release(
        [[0.1, 0.5]] * 50, lower=[0, 0], upper=[1, 1], epsilon=1.0, ledger=ledger, dataset="default"
    )
    ledger.add_budget(PureDP(1.0), dataset="default")
    after = Ledger.open(path)
    assert after.account("default").to_json()["spent"]["epsilon"] == 1.5
    assert after.account("default").to_json()["budget"]["epsilon"] == 4.0
    assert after.verify().holds(before.head)


@pytest.mark.parametrize("version", VERSIONS)
def test_sums_of_rows_that_may_have_been_read_wrongly_are_refused_and_others_load(version):
    path = DATA / version / "part.sums"
    if version in BEFORE_VOID:
        with pytest.raises(SourceError, match=r"of a version before 0\.2\.0"):
            PartialMoment.load(path)
        return
    part = PartialMoment.load(path)
    assert part.rows == 1000
    made = release(path, schema=part.schema, epsilon=1e3, mechanism="matrix-laplace", seed=1)
    assert made.count() == pytest.approx(1000, rel=0.05)
