"""Files that earlier versions wrote: they load, and say what they said.

`data/` has a folder for each version, which that version wrote from simulated rows. A
folder contains a ledger, a file of sums, and releases of each mechanism and each possible part.
"""

import json
import shutil
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcov import Ledger, PureDP, cli, intervals, load, release
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError, SourceError
from dpcov.mechanisms import MECHANISMS, RETIRED_MECHANISMS
from dpcov.releases import VoidReleaseWarning
from dpcov.releases.former_files import put_together
from dpcov.rows.sources.partial import PartialMoment
from former_documents import former
from rounds_for_tests import trace_of

DATA = Path(__file__).with_name("data")
VERSIONS = sorted(folder.name for folder in DATA.glob("[0-9]*"))
BEFORE_VOID = {"0.1.0"}  # of their releases some hold no guarantee: loading says so
RELEASES = sorted(DATA.glob("[0-9]*/*.json"))
OF_RUNGS = [path for path in RELEASES if json.loads(path.read_text())["rungs"] is not None]
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
    """Return the release, and whether its loading gave a warning."""
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        made = load(path)
    assert {warning.category for warning in reported} <= {VoidReleaseWarning}
    return made, bool(reported)


def holds(document, older):
    """Return True if a document contains everything that an older one does."""
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
    assert {text["mechanism"] for text in texts} == {*MECHANISMS, *RETIRED_MECHANISMS}
    assert {text["noise"]["law"] for text in texts if text["noise"]} == LAWS
    assert {text["denoise"] for text in texts} == {"none", "project", "shrink"}
    assert {text["guarantee"]["budget"]["definition"] for text in texts} == {
        "pure",
        "zcdp",
        "approx",
    }
    for reported in (
        "group",
        "linear_map",
        "center",
        "rungs",
        "unit_count",
        "trace_noise",
        "published",
    ):
        assert len({text[reported] is None for text in texts}) == 2


def in_format_2(older):
    """Return the meaning of a file of format 1, in which a step is the radius over 2^20."""
    lattice = dict(older["lattice"])
    units = lattice.pop("units_per_radius")
    grid = {"step": lattice["radius"] / units, "side": units}
    return older | {"format": "dpcov.release/2", "lattice": lattice | grid}


def but_rungs(older):
    """Return the rest of an old file without its moments by norm."""
    if older["rungs"] is None:
        return older
    return {name: older[name] for name in older if name not in ("rungs", "published", "noise")}


def but_shift(older):
    """What is left of an old file without the unit and the estimate of a matrix that it lacks."""
    if older.get("published", ()) is not None:
        return older
    return {name: older[name] for name in older if name not in ("shift", "denoised")}


@pytest.mark.parametrize("path", RELEASES, ids=named)
def test_a_release_loads_and_its_new_file_says_all_that_the_old_one_does(path):
    made, warned = loaded(path)
    older = json.loads(path.read_text())
    assert older["format"] == "dpcov.release/1"
    assert holds(former(made), but_shift(but_rungs(in_format_2(older))))
    assert warned == (path.parent.name in BEFORE_VOID)
    if made.published is None:
        assert trace_of(made) == older["published_trace"]
        return
    d, below = made.lattice.dimension, np.tril_indices(made.lattice.dimension)
    assert made.second_moment().shape == (d, d)
    if older["rungs"] is None:
        assert made.published[below].tolist() == older["published"]
    if made.not_released is None:
        assert np.isfinite(made.covariance()).all()
        assert np.abs(made.correlation()).max() <= 1


@pytest.mark.parametrize("path", OF_RUNGS, ids=named)
def test_moments_by_length_are_one_matrix_whose_estimate_is_near_the_old_one(path, tmp_path):
    made, _ = loaded(path)
    older = json.loads(path.read_text())
    assert 1 <= len(made.noise.terms) <= len(older["rungs"])
    again = denoise(made, made.denoise, generator=simulation_generator(1))
    before, after = made.second_moment(), again.second_moment()
    assert np.linalg.norm(after - before) < 0.4 * np.linalg.norm(before)
    assert again.count() == pytest.approx(made.count())
    if made.has_intercept:
        found = intervals(made, "mean", sampling=False, generator=simulation_generator(1))
        assert np.isfinite([found.low, found.high]).all()
        assert np.all(found.low < found.high)
    made.save(tmp_path / "r.json")
    read = loaded(tmp_path / "r.json")[0]
    assert np.array_equal(read.published, made.published)
    assert read.noise == made.noise
    repeated = denoise(read, made.denoise, generator=simulation_generator(1))
    assert np.array_equal(repeated.second_moment(), after)


def test_lengths_that_hardly_a_row_has_are_left_out_and_what_shows_and_the_last_are_kept():
    """Control: without an intercept the last is left out too, if anything shows."""
    law = GaussianOrthogonal(4, Fraction(100))  # of a trace the deviation is 20
    noise = WeightedSum((1.0, 0.5, 0.25), (law,) * 3)
    traces = {"loud": 79, "sure": 90, "empty": 0}
    rungs = np.stack([np.diag([trace, 0, 0, 0]) for trace in traces.values()])
    together, kept = put_together(rungs, noise, 0, has_intercept=True)
    assert kept.weights == (0.5, 0.25)
    assert together.tolist() == np.diag([45, 0, 0, 0]).tolist()
    assert put_together(rungs, noise, 0, has_intercept=False)[1].weights == (0.5,)
    assert put_together(rungs, noise, 1, has_intercept=True)[1] == noise  # twice as clear
    assert put_together(rungs // 2, noise, 1, has_intercept=False)[1].weights == (0.5,)
    assert put_together(0 * rungs, noise, 0, has_intercept=False)[1] == noise
    assert put_together(0 * rungs, noise, 0, has_intercept=True)[1].weights == (0.25,)
    wide = replace(noise, weights=(64.0, 0.5, 0.25))
    huge, _ = put_together(rungs * 2**56, wide, 0, has_intercept=True)
    assert 2**63 - 2**11 < huge[0, 0] < 2**63
    with pytest.raises(OverflowError):
        put_together(
            2**56 * rungs, replace(noise, weights=(1e300, -1e300, 1.0)), 0, has_intercept=True
        )


@pytest.mark.parametrize(
    "damage", ["lost", "short", "fewer", "other noise", "no trace", "mixed orders"]
)
def test_a_file_whose_moments_by_length_do_not_fit_is_refused(tmp_path, damage):
    """If the moments are lost, their sum and its noise distribution remain."""
    document = json.loads((DATA / "0.2.0" / "ladder.json").read_text())
    if damage == "lost":
        document["rungs"] = None
    elif damage == "short":
        document["rungs"][1].pop()
    elif damage == "fewer":
        document["rungs"].pop()
    elif damage == "other noise":
        document["noise"] = document["noise"]["terms"][0]
    elif damage == "no trace":
        document["trace_noise"] = document["published_trace"] = None
    else:
        document["noise"]["terms"][1]["dimension"] += 1
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    if damage == "lost":
        assert len(loaded(path)[0].noise.terms) == 3
        return
    with pytest.raises(ReleaseError):
        load(path)


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
    assert shown["warning"].startswith("Made ")
    assert ("void" in shown["warning"]) == (path.parent.name in BEFORE_VOID)


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
        with pytest.raises(SourceError, match=r"from a version before 0[.]2[.]0"):
            PartialMoment.load(path)
        return
    part = PartialMoment.load(path)
    assert part.rows == 1000
    made = release(path, schema=part.schema, epsilon=1e3, mechanism="matrix-laplace", seed=1)
    assert made.count() == pytest.approx(1000, rel=0.05)
