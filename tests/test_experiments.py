"""The papers' experiments, in their small versions: every claim comes out as stated."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms import MECHANISMS, Gaussian, MatrixLaplace
from dpcov.rows.moment import Lattice

ROOT = Path(__file__).parents[1]
PAPERS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/claims.toml"))
FIELDS = {"id", "claim", "where", "expected", "tolerance", "verdict", "why"}
WRONG = {"not reproduced", "refuted", "misprint"}


@pytest.fixture
def claims():
    return importlib.import_module("claims")


@pytest.fixture
def faults():
    return importlib.import_module("faults")


@pytest.fixture
def seeds():
    module = importlib.import_module("seeds")
    yield module
    module.begin(0)


def reproduce(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "experiments" / "reproduce.py", "--small", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'benchmarks'}{os.pathsep}{ROOT / 'experiments'}"},
    )


@pytest.mark.statistics
@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_of_a_paper_comes_out_as_stated_and_notices_its_fault(paper):
    ran = reproduce(paper)
    assert ran.stdout.endswith(
        "claims that did not notice a fault: none\n"
        "claims that came out otherwise than stated: none\n"
    ), ran.stdout[-2000:] + ran.stderr
    assert ran.returncode == 0


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_states_its_place_tolerance_and_verdict(paper, claims):
    document = tomllib.loads((ROOT / "experiments" / paper / "claims.toml").read_text("utf-8"))
    for claim in document["claim"]:
        assert FIELDS <= set(claim) <= FIELDS | {"faults", "sentence"}
        assert bool(claim["why"]) or claim["verdict"] not in WRONG
        assert "faults" not in claim or claim["verdict"] not in ("measured", "derived", "loose")
        assert all(1 / 8 < fault.get("noise", 1) < 8 for fault in claim.get("faults", []))
    assert list(claims.claims_of(paper)) == [claim["id"] for claim in document["claim"]]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_the_pages_show_was_measured_for_the_claims_as_they_are(paper, claims):
    kept = json.loads((ROOT / "docs" / "results" / "papers" / f"{paper}.json").read_text())
    stated = claims.claims_of(paper)
    assert {row["id"] for row in kept["rows"]} == set(stated)
    for row in kept["rows"]:
        claim = stated[row["id"]]
        assert row["ok"]
        assert (row["verdict"], row["faults"]) == (claim.verdict, [*map(str, claim.faults)])
        assert (row["claim"], row["ours"]) == (claim.claim, claim.ours)


def test_the_verdicts_of_a_paper_hold_in_every_kept_run_with_other_seeds(claims):
    rows = json.loads((ROOT / "docs" / "results" / "papers" / "seeds.json").read_text())
    assert rows
    for row in rows:
        stated = claims.claims_of(row["paper"]).values()
        assert row["claims"] == sum(claim.verdict != "measured" for claim in stated)
        assert (row["held"], row["otherwise"]) == (row["runs"], [])
    assert sum(row["CPU seconds"] for row in rows) < 45 * 60


def test_runs_with_other_seeds_are_counted_for_each_paper(tmp_path):
    count = importlib.import_module("figures").other_seeds
    kept = tmp_path / "seeds.json"

    def ran(paper, *runs):
        for number, oks in enumerate(runs, 1):
            rows = [
                {"id": f"c{at}", "verdict": "reproduced", "ok": ok, "seconds": number}
                for at, ok in enumerate(oks)
            ]
            rows.append({"id": "own", "verdict": "measured", "ok": False, "seconds": 0})
            folder = tmp_path / f"reproduce-run{number}" / paper
            folder.mkdir(parents=True, exist_ok=True)
            found = json.dumps({"commit": f"{number}", "rows": rows})
            (folder / "claims.json").write_text(found)
        count(tmp_path, kept)
        return {row.pop("paper"): row for row in json.loads(kept.read_text())}

    first = ran("one", [True, True], [True, False], [True, True])["one"]
    assert (first["runs"], first["claims"], first["held"]) == (3, 2, 2)
    assert (first["otherwise"], first["CPU seconds"]) == (["c1"], 4)
    shutil.rmtree(tmp_path / "reproduce-run1")
    shutil.rmtree(tmp_path / "reproduce-run2")
    shutil.rmtree(tmp_path / "reproduce-run3")
    assert ran("two", [True])["one"] == first  # a paper without new runs keeps its row


NUMBERED = re.compile(r"(Algorithm|Theorem|Lemma|Corollary|Table|Figure)s? (\d+(?:\.\d+)?)")


def unchecked(stated, claims):
    """Return the faults of a paper's list of statements, given its claims (`where` by id)."""
    listed = {name for found in stated.values() if isinstance(found, list) for name in found}
    numbers = {found.groups() for name in stated for found in NUMBERED.finditer(name)}
    placed = {found.groups() for where in claims.values() for found in NUMBERED.finditer(where)}
    empty = [name for name, found in stated.items() if not found]
    whole = {(kind, int(number)) for kind, number in numbers if "." not in number}
    before = {(kind, number - 1) for kind, number in whole if number > 1}
    unknown = sorted(listed - set(claims))
    return unknown + sorted(placed - numbers) + sorted(before - whole) + empty


@pytest.mark.parametrize(
    "paper", ["amin2019", "dorsi2025", "jiang2016", "mouzakis2021", "wang2018"]
)
def test_every_statement_of_a_paper_has_claims_or_says_why_not(paper, claims):
    stated = claims.statements()[paper]
    wheres = {name: claim.where for name, claim in claims.claims_of(paper).items()}
    assert unchecked(stated, wheres) == []
    assert any(name.startswith("Experiment") for name in stated)
    for reason in (found for found in stated.values() if isinstance(found, str)):
        assert re.fullmatch(r"[A-Z].{20,}\.", reason)
    first = next(found for found in stated.values() if isinstance(found, list))[0]
    assert unchecked(stated | {"Lemma": ["nobody"]}, wheres) == ["nobody"]  # controls
    assert unchecked(stated | {"Lemma": []}, wheres) == ["Lemma"]
    assert unchecked(stated | {"Lemma 99": "No."}, wheres) == [("Lemma", 98)]
    assert unchecked(stated, wheres | {first: "Theorem 99"}) == [("Theorem", "99")]


def test_the_page_shows_each_printed_number_of_wang_beside_measured_ones():
    slides, sys.path[:0] = importlib.import_module("wang2018.printed"), [str(ROOT / "docs/_ext")]
    heads, _, *rows = importlib.import_module("tables").printed("wang2018").splitlines()
    assert all(name in heads for name in slides.NAMES)
    shown = [re.findall(r"(NA|[\d.]+) \([^)]+\)", row) for row in rows]
    expected = [
        [str(slides.printed(method, epsilon, name)) for name in slides.NAMES]
        for methods in slides.ROWS.values()
        for method in methods.values()
        for epsilon in slides.EPSILONS
    ]
    assert shown == expected
    assert len(rows) == 18


def test_a_run_states_the_seconds_of_its_claims(claims, monkeypatch, tmp_path):
    claim = stated(claims, "measured")
    row = row_of(monkeypatch, tmp_path, claims, claim, lambda small, folder: {"x": work(claims)})
    assert 0.02 <= row["seconds"] <= 2
    assert importlib.import_module("reproduce").seconds_of([row, row]) == 2 * row["seconds"]


def work(claims):
    began = time.process_time()
    while time.process_time() < began + 0.02:
        pass
    return claims.Finding("", holds=True)


def test_an_unknown_paper_is_refused():
    ran = reproduce("nobody1900")
    assert ran.returncode == 2
    assert "no such paper" in ran.stderr


def stated(claims, verdict, *faults):
    return claims.Claim("x", "c", "w", "e", "t", claims.Verdict(verdict), faults=faults)


def test_refuted_and_not_reproduced_are_different(claims):
    missed, false = (claims.Finding("", holds=False, exact=exact) for exact in (False, True))
    for verdict in ("refuted", "misprint"):
        assert stated(claims, verdict).stands(false)
        assert not stated(claims, verdict).stands(missed)
    assert stated(claims, "not reproduced").stands(missed)
    assert not stated(claims, "not reproduced").stands(false)
    assert set(claims.ALLOWED) == set(claims.Verdict)


def test_a_claim_that_names_no_fault_is_not_reproduced(claims, tmp_path, monkeypatch):
    fields = dict.fromkeys(sorted(FIELDS), "x") | {"verdict": "reproduced"}
    text = "[[claim]]\n" + "".join(f'{name} = "{value}"\n' for name, value in fields.items())
    (tmp_path / "nobody").mkdir()
    monkeypatch.setattr(claims, "HERE", tmp_path)
    (tmp_path / "nobody" / "claims.toml").write_text(text + 'faults = [{ of = "AD", noise = 2 }]\n')
    assert [*map(str, claims.claims_of("nobody")["x"].faults)] == ["noise of AD times 2"]
    (tmp_path / "nobody" / "claims.toml").write_text(text)
    with pytest.raises(ValueError, match="names no fault"):
        claims.claims_of("nobody")


@pytest.mark.parametrize("verdict", sorted(WRONG))
def test_a_verdict_against_a_paper_needs_its_sentence(verdict, claims, tmp_path, monkeypatch):
    fields = dict.fromkeys(sorted(FIELDS), "x") | {"verdict": verdict}
    (tmp_path / "nobody").mkdir()
    monkeypatch.setattr(claims, "HERE", tmp_path)

    def read(**more):
        lines = (f'{name} = "{value}"\n' for name, value in (fields | more).items())
        (tmp_path / "nobody" / "claims.toml").write_text("[[claim]]\n" + "".join(lines))
        return claims.claims_of("nobody")["x"]

    with pytest.raises(ValueError, match="without the paper's sentence"):
        read()
    assert not read(sentence="It is so.").ours
    assert read(where="ours").ours


def row_of(monkeypatch, tmp_path, claims, claim, part):
    reproduce = importlib.import_module("reproduce")
    monkeypatch.setattr(reproduce, "RESULTS", tmp_path)
    monkeypatch.setattr(reproduce, "claims_of", lambda paper: {claim.id: claim})
    monkeypatch.setitem(sys.modules, "nobody.run", SimpleNamespace(PARTS=(part,)))
    (row,) = reproduce.checked("nobody", "nobody", small=False, controls=True)
    return row


def test_a_claim_fails_that_does_not_notice_its_fault(claims, faults, monkeypatch, tmp_path):
    def level(small, folder, bound):
        error = faults.factor("noise")
        return {"x": claims.Finding(f"{error:g}", holds=error < bound)}

    large, larger = (faults.Fault(("noise",), noise=noise) for noise in (2, 4))
    claim = stated(claims, "reproduced", large, larger)
    for bound, awake in ((1.5, True), (3.0, False)):
        part = partial(level, bound=bound)
        row = row_of(monkeypatch, tmp_path, claims, claim, part)
        assert row["came"] == "reproduced"
        assert row["noticed"] == row["ok"] == awake


def test_a_claim_that_fails_with_few_repeats_notices_nothing(claims, faults, monkeypatch, tmp_path):
    def flaky(small, folder):
        faults.factor("noise")
        return {"x": claims.Finding("", holds=not small)}

    claim = stated(claims, "reproduced", faults.Fault(("noise",), noise=2))
    assert not row_of(monkeypatch, tmp_path, claims, claim, flaky)["noticed"]


def test_a_fault_is_of_the_mechanisms_that_it_names_while_it_is_in_force(faults):
    fault = faults.Fault(("one", "two"), noise=2, d=0.5, n=-1, log_d=1)
    with faults.in_force(fault):
        assert faults.factor("one", 4, 10) == pytest.approx(2 * 2 / 10 * np.log(4))
        assert faults.factor("two", 1, 1) == 0
        assert faults.factor("three", 4, 10) == 1
    assert faults.factor("one", 4, 10) == 1


def test_a_fault_of_a_mechanism_that_is_never_run_is_an_error(faults):
    with (
        pytest.raises(ValueError, match="no such mechanism was run: one"),
        faults.in_force(faults.Fault(("one",))),
    ):
        faults.factor("won")


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (MatrixLaplace(), PureDP(0.5)),
        (Gaussian(), ZCDP(0.25)),
        (Gaussian(), ApproxDP(0.5, 1e-6)),
    ],
)
def test_the_budget_of_a_fault_gives_the_noise_that_it_says(faults, mechanism, budget):
    def deviation():
        asked = faults.budget(budget, "it", 3, 100)
        law = mechanism.calibrate(Lattice(3, 1.0), asked, Neighbors.REPLACE_ONE).matrix
        return law.frobenius_squared**0.5

    right = deviation()
    with faults.in_force(faults.Fault(("it",), noise=2)):
        assert deviation() == pytest.approx(2 * right, rel=1e-6)


def test_another_run_has_other_draws_and_run_0_those_of_the_seeds(seeds):
    first = seeds.generator(20160004).random()
    assert first == np.random.default_rng(20160004).random()
    seeds.begin(1)
    assert seeds.generator(20160004).random() != first
    assert seeds.own(3) != 3


def test_a_large_second_moment_does_not_overflow():
    tables = importlib.import_module("amin2019.tables")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held = tables.synthetic("large", np.diag([3e7, 1.0]), 40_000_000)
    assert held.moment[0, 0] == pytest.approx(3e7, rel=1e-9)
    assert abs(held.rows.second_moments()[0].units[0, 0]) > 2**63  # control: int64 overflows


def test_a_verdict_on_a_registered_mechanism_notices_faults_of_the_library(monkeypatch):
    calibrated = importlib.import_module("calibrated")
    monkeypatch.setattr(calibrated, "DRAWS", 200)
    (case,) = (found for found in calibrated.CASES if found.name == "adaptive-gaussian")
    assert case.row()["ok"]
    nothing = replace(case, noise=lambda kind, factor: nullcontext())
    assert not nothing.row()["ok"]  # control: nothing to notice


def test_every_registered_mechanism_has_verdicts():
    cases = importlib.import_module("registered").CASES
    assert set(MECHANISMS) == {case.name for case in cases if case.tight}
