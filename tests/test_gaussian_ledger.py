"""Ledgers that count Gaussian noise: releases, refusals, renewal, and what became of a release."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import cli
from dpcov.api import ledger as ledger_module
from dpcov.api.about import source_name
from dpcov.api.grouped import budget_of_level, release_by
from dpcov.api.ledger import About, Ledger, LedgerWarning
from dpcov.core.accounting import drawn_mu_squared, root_up
from dpcov.core.entropy import Entropy
from dpcov.core.ledger_rule import Count
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit, exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import (
    BudgetError,
    BudgetExceededError,
    DpcovError,
    LedgerError,
    MechanismError,
    OutputError,
)
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.published.kinds import NoisyCount, NoisySums
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.sql import DatabaseTable
from tables_for_tests import of, write_people

WHOLE = ApproxDP(1.0, 1e-6)
VERSION_2 = Path(__file__).with_name("data") / "ledgers" / "version-2.ledger"
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 1, "threads": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hospital.ledger"


def table(rows: int = 60, columns: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random((rows, columns))


def mu_of(epsilon: float, delta: float) -> float:
    return root_up(drawn_mu_squared(epsilon, delta))


def gaussian_spend(ledger: Ledger, epsilon: float, delta: float, **named: Any) -> int:
    budget = ApproxDP(epsilon, delta)
    return ledger.reserve(of(budget), mu=mu_of(epsilon, delta), **named)


def run(*line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(line))
    return int(str(ended.value.code))


# Releases


@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "standardized"])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_a_ledger_admits_one_release_of_its_whole_budget(
    path: Path, mechanism: str, neighbors: str
) -> None:
    ledger = Ledger.create(path, WHOLE, neighbors=Neighbors(neighbors))
    asked = {"mechanism": mechanism, "neighbors": neighbors, "ledger": ledger, **BOUNDS}
    made = dpcov.release(table(), epsilon=1.0, delta=1e-6, **asked)
    assert made.guarantee.budget == WHOLE
    account = ledger.account()
    assert account.left["mu_squared"] == 0
    assert account.spent["epsilon"] == 1.0
    with pytest.raises(BudgetExceededError, match="epsilon 0 at this delta remain"):
        dpcov.release(table(), epsilon=0.001, delta=1e-6, **asked)


def test_a_request_with_delta_draws_gaussian_noise(path: Path) -> None:
    """Two columns and epsilon 2: without the ledger, the mechanism would draw Laplace noise."""
    asked = {"epsilon": 2.0, "delta": 1e-9, **BOUNDS}
    assert dpcov.release(table(columns=1), **asked).guarantee.budget == PureDP(2.0)
    ledger = Ledger.create(path, ApproxDP(4.0, 1e-6))
    made = dpcov.release(table(columns=1), ledger=ledger, **asked)
    assert made.guarantee.budget == ApproxDP(2.0, 1e-9)
    sums, count = made.find(NoisySums), made.find(NoisyCount)
    assert {law.law for law in (made.noise, count.noise, sums.noise)} == {
        "discrete-gaussian-orthogonal",
        "discrete-gaussian",
    }
    (entry,) = ledger.account().entries
    assert entry.mu == mu_of(2.0, 1e-9)


def test_a_request_by_rho_has_the_noise_of_its_mu(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE)
    asked = {"rho": 0.01, "mechanism": "gaussian", **BOUNDS}
    made = dpcov.release(table(), ledger=ledger, **asked)
    plain = dpcov.release(table(), **asked)
    assert made.guarantee == plain.guarantee
    assert made.noise.variance == plain.noise.variance + 8
    assert ledger.account().entries[0].mu == pytest.approx(0.02**0.5, rel=1e-12)


def test_twelve_releases_fit_where_sums_admit_four(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE)
    for _ in range(12):
        gaussian_spend(ledger, 0.25, 1e-8)
    assert ledger.account().spent["epsilon"] == pytest.approx(0.75, rel=1e-3)
    sums = Ledger.create(path, WHOLE, dataset="sums", count="sums")
    for _ in range(4):
        gaussian_spend(sums, 0.25, 1e-8, dataset="sums")
    with pytest.raises(BudgetExceededError):
        gaussian_spend(sums, 0.25, 1e-8, dataset="sums")
    assert {entry.mu for entry in sums.account("sums").entries} == {mu_of(0.25, 1e-8)}


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_a_grouped_release_is_counted_once(path: Path, neighbors: Neighbors) -> None:
    columns = {"x": {"kind": "numeric", "lower": 0, "upper": 1}}
    columns["g"] = {"kind": "categorical", "levels": ["u", "v"]}
    frame = pd.DataFrame({"x": table()[:, 0], "g": ["u", "v"] * 30})
    ledger = Ledger.create(path, WHOLE, neighbors=neighbors)
    schema = Schema.parse({"columns": columns})
    asked = {"schema": schema, "neighbors": neighbors, "ledger": ledger}
    made = release_by(frame, "g", epsilon=1.0, delta=1e-6, **asked)
    (entry,) = ledger.account().entries
    level = budget_of_level(WHOLE, neighbors)
    assert {one.guarantee.budget for one in made.values()} == {level}
    assert entry.mu == neighbors.sides * mu_of(level.epsilon, level.delta)
    assert entry.mu <= mu_of(1.0, 1e-6)
    hashes = {sha256(one.to_text().encode()).hexdigest() for one in made.values()}
    assert entry.outcome is not None
    assert set(entry.outcome.files) == hashes
    assert len(hashes) == 2


# Refusals, each before anything is spent


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 0.5},
        {"epsilon": 0.5, "mechanism": "matrix-laplace"},
        {"epsilon": 0.5, "delta": 1e-8, "mechanism": "matrix-laplace"},
        {"rho": 0.01, "mechanism": "additive-wishart"},
        {"epsilon": 0.5, "delta": 1e-8, "mechanism": "stable-covariance"},
    ],
    ids=str,
)
def test_what_has_no_mu_is_refused_with_a_remedy(path: Path, asked: dict[str, Any]) -> None:
    ledger = Ledger.create(path, WHOLE)
    with pytest.raises((LedgerError, MechanismError), match=r"Nothing was spent") as refused:
        dpcov.release(table(), ledger=ledger, **asked, **BOUNDS)
    remedy = "--pure" if "delta" not in asked and "rho" not in asked else "--count sums"
    assert remedy in str(refused.value)
    assert not ledger.account().entries


WITH_MU = {
    *("standardized", "gaussian"),
    *("separate-gaussian", "adaptive-gaussian", "preconditioned", "heavy-tailed"),
}
# Options of mechanisms with a mu that change which noise they draw.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "gaussian": [{}, {"radius": "private"}],
    "separate-gaussian": [{}, {"values": "eigenvalues", "radius": "private"}],
    "adaptive-gaussian": [{}, {"by": "separate-gaussian"}],
    "heavy-tailed": [{}, {"variant": "naive"}, {"radii": "theory", "condition": 2.0}],
}
OF_PAPERS = [
    pytest.param(name, options, id=f"{name}-{options}")
    for name in sorted(WITH_MU)
    for options in VARIANTS.get(name, [{}])
]


@pytest.mark.papers
@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - WITH_MU))
def test_a_mechanism_without_a_mu_is_refused_before_it_spends(path: Path, name: str) -> None:
    ledger = Ledger.create(path, WHOLE)
    asked: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-8, "mechanism": name}
    words = f"The noise of the mechanism {name} has no mu.*Nothing was spent"
    with pytest.raises(MechanismError, match=words):
        dpcov.release(table(), ledger=ledger, **asked, **BOUNDS)
    assert not ledger.account().entries


@pytest.mark.papers
@pytest.mark.parametrize("neighbors", list(Neighbors))
@pytest.mark.parametrize(("name", "options"), OF_PAPERS)
def test_a_mechanism_with_gaussian_rounds_only_has_a_mu(
    path: Path, name: str, options: dict[str, Any], neighbors: Neighbors
) -> None:
    ledger = Ledger.create(path, WHOLE, neighbors=neighbors)
    asked = {"mechanism": name, "neighbors": neighbors, "ledger": ledger, **options, **BOUNDS}
    dpcov.release(table(), epsilon=0.5, delta=1e-8, **asked)
    dpcov.release(table(), rho=0.01, **asked)
    first, second = ledger.account().entries
    assert first.mu == mu_of(0.5, 1e-8)
    assert second.mu == pytest.approx(0.02**0.5, rel=1e-12)
    with pytest.raises(BudgetExceededError):
        dpcov.release(table(), epsilon=1.0, delta=1e-6, **asked)


@pytest.mark.papers
@pytest.mark.parametrize(("name", "options"), OF_PAPERS)
def test_each_variance_of_a_mechanism_with_a_mu_is_larger_by_8(
    name: str, options: dict[str, Any]
) -> None:
    """The plain noise costs rho exactly, so the larger noise has mu^2 = 2 rho before rounding."""
    mechanism, lattice = mechanism_named(name, **options), Lattice(3, 1.0, 0.3)
    asked = lattice, ZCDP(0.01), Neighbors.ADD_REMOVE
    plain, larger = mechanism.calibrate(*asked), mechanism.calibrate_gaussian(*asked)
    assert (plain.mu_squared, larger.mu_squared) == (None, Fraction("0.02"))
    found, wanted = variances(larger), variances(plain)
    assert [one - other for one, other in zip(found, wanted, strict=True)] == [8] * len(found)


@pytest.mark.papers
@pytest.mark.parametrize(
    ("name", "options"),
    [("preconditioned", {}), *(("heavy-tailed", options) for options in VARIANTS["heavy-tailed"])],
    ids=str,
)
def test_the_last_round_after_pilot_queries_has_the_larger_noise_too(
    name: str, options: dict[str, Any]
) -> None:
    """These mechanisms calibrate the last round when the number of pilot queries is known."""
    values = np.random.default_rng(0).normal(scale=0.1, size=(5000, 2)).clip(-1, 1)
    rows = open_rows(values, Schema.from_bounds(-1, 1, ("a", "b")), threads=1)
    mechanism = mechanism_named(name, **options)
    asked = rows.lattice(), ZCDP(0.4), Neighbors.ADD_REMOVE
    plain, larger = mechanism.calibrate(*asked), mechanism.calibrate_gaussian(*asked)
    drawn = [mechanism.run(rows, laws, Entropy.seeded(1)).noise for laws in (larger, plain)]
    assert drawn[0].variance - drawn[1].variance == 8


def variances(laws: Any) -> list[Fraction]:
    """Return the variances of all Gaussian noise in a calibration."""
    if isinstance(laws, ScalarGaussian | GaussianOrthogonal):
        return [laws.variance]
    if isinstance(laws, tuple):
        return [one for part in laws for one in variances(part)]
    if is_dataclass(laws) and not isinstance(laws, Guarantee):
        return variances(tuple(getattr(laws, part.name) for part in fields(laws)))
    return []


@pytest.mark.parametrize("budget", [PureDP(0.1), ZCDP(0.001), ApproxDP(0.1, 1e-9)], ids=str)
def test_an_entry_without_a_mu_is_refused_by_the_ledger_itself(path: Path, budget: Any) -> None:
    ledger = Ledger.create(path, WHOLE)
    with pytest.raises(LedgerError, match="Nothing was spent"):
        ledger.reserve(of(budget))
    assert not ledger.account().entries


@pytest.mark.parametrize("mu", [0.0, -0.1, float("nan"), float("inf")])
def test_a_mu_that_is_no_mu_is_refused(path: Path, mu: float) -> None:
    ledger = Ledger.create(path, WHOLE)
    with pytest.raises(LedgerError, match="mu must be a finite number above 0"):
        ledger.reserve(of(ApproxDP(0.1, 1e-9)), mu=mu)
    assert not ledger.account().entries


@pytest.mark.parametrize("mu", ['"x"', "-1", "NaN", "true", "[1]"])
def test_a_mu_in_a_file_that_is_no_mu_is_damage(path: Path, mu: str) -> None:
    ledger = Ledger.create(path, WHOLE)
    gaussian_spend(ledger, 0.1, 1e-9)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TRIGGER entries_UPDATE")
    text = f'{{"epsilon": 0.1, "delta": 1e-9, "mu": {mu}}}'
    db.execute("UPDATE entries SET budget = ?", (text,))
    db.close()
    with pytest.raises(LedgerError, match="damaged"):
        gaussian_spend(ledger, 0.1, 1e-9)


def test_a_refusal_says_what_is_left_at_the_delta_of_the_request(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE)
    gaussian_spend(ledger, 0.9, 1e-6)
    asked = round(0.9 * ledger.account().left["epsilon"], 3)  # fits at the delta of the budget
    needs = rf"needs epsilon {asked} and delta 0[.]001, but epsilon \S+ at this delta remain"
    with pytest.raises(BudgetExceededError, match=needs) as refused:
        gaussian_spend(ledger, asked, 1e-3)
    remaining = float(str(refused.value).split("but epsilon ")[1].split()[0])
    with pytest.raises(BudgetExceededError):
        gaussian_spend(ledger, remaining * 1.001, 1e-3)
    gaussian_spend(ledger, remaining, 1e-3)


# The rule


def test_the_count_is_chosen_once_and_printed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ledger", "create", str(path), "--epsilon", "1", "--delta", "1e-6") == 0
    assert "count: gaussian" in capsys.readouterr().out
    line = ("--epsilon", "1", "--delta", "1e-6", "--count", "sums", "--dataset", "sums")
    assert run("ledger", "create", str(path), *line) == 0
    assert "count: sums" in capsys.readouterr().out
    assert run("ledger", "create", str(path), "--epsilon", "1", "--dataset", "pure") == 0
    assert run("ledger", "show", str(path), "--json") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])["datasets"]
    assert [one["count"] for one in shown] == ["gaussian", "sums", "sums"]
    ledger = Ledger.open(path)
    ledger.add_budget(ApproxDP(1.0, 1e-6), dataset="sums")
    ledger.add_budget(ApproxDP(1.0, 1e-6), dataset="default")
    assert [ledger.account(name).count for name in ledger.datasets()] == [
        Count.GAUSSIAN,
        Count.SUMS,
        Count.SUMS,
    ]


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (PureDP(1.0), {"count": "gaussian"}),
        (PureDP(1.0), {"pure": 0.5}),
        (WHOLE, {"count": "sums", "pure": 0.5}),
        (WHOLE, {"pure": 1.0}),
    ],
    ids=str,
)
def test_a_rule_that_the_budget_cannot_have_is_refused_and_makes_no_file(
    path: Path, budget: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(BudgetError):
        Ledger.create(path, budget, **options)
    assert not path.exists()


def test_a_count_that_does_not_exist_is_refused(path: Path) -> None:
    with pytest.raises(LedgerError, match="Choose one of: sums, gaussian"):
        Ledger.create(path, WHOLE, count="best")
    assert not path.exists()


def test_pure_releases_have_a_filter_of_their_own(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE, pure=0.4)
    for _ in range(4):
        ledger.reserve(of(PureDP(0.1)))
    with pytest.raises(BudgetExceededError, match=r"but 0 of the reserve 0[.]4 remain"):
        ledger.reserve(of(PureDP(0.1)))
    with pytest.raises(BudgetExceededError):
        gaussian_spend(ledger, 0.61, 1e-6)
    gaussian_spend(ledger, 0.6, 1e-6)
    account = ledger.account()
    assert account.spent == {
        "epsilon": 1.0,
        "delta": 1e-6,
        "mu_squared": account.spent["mu_squared"],
        "pure": 0.4,
    }
    assert account.can_request == ()
    ledger.add_budget(ApproxDP(0.5, 1e-7), pure=0.2)
    grown = ledger.account()
    assert (grown.budget, grown.pure) == (ApproxDP(1.5, 1.1e-6), pytest.approx(0.6))
    assert grown.left["pure"] == 0.2
    assert grown.left["epsilon"] > 0


def test_pure_noise_and_a_delta_do_not_mix_in_a_gaussian_ledger(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE, pure=0.5)
    made = dpcov.release(table(), ledger=ledger, epsilon=0.5, **BOUNDS)
    assert made.guarantee.budget == PureDP(0.5)
    assert ledger.account().left["pure"] == 0
    assert ledger.account().spent["mu_squared"] == 0


# Old ledgers, and the renewal of a data set


@pytest.fixture
def old(path: Path) -> Ledger:
    shutil.copy(VERSION_2, path)
    return Ledger.open(path)


def test_an_old_ledger_keeps_its_rule_and_its_figures(old: Ledger) -> None:
    found = {name: old.account(name) for name in old.datasets()}
    assert {account.count for account in found.values()} == {Count.SUMS}
    assert found["wards"].spent == {
        "epsilon": pytest.approx(1.1223444464012982, rel=1e-12),
        "delta": 9.92e-07,
    }
    assert found["wards"].left == {
        "epsilon": pytest.approx(1.6128554662279284, rel=1e-12),
        "delta": 1.08e-07,
    }
    assert found["sums"].left == {"epsilon": 2.75, "delta": 9.9e-07}
    assert found["staff"].left == {"epsilon": 1.5}
    files = {entry.file for account in found.values() for entry in account.entries}
    assert files == {"not recorded"}
    assert len(old.verify().digests) == 13


def test_only_a_change_upgrades_an_old_ledger(old: Ledger) -> None:
    content = old.path.read_bytes()
    old.account("staff")
    old.verify()
    with pytest.raises(BudgetExceededError):
        old.reserve(of(PureDP(9.0)), dataset="staff")
    assert old.path.read_bytes() == content
    head = old.verify().head
    old.reserve(of(PureDP(0.5)), dataset="staff")
    assert old.verify().holds(head)
    assert old.account("staff").left == {"epsilon": 1.0}
    assert [entry.file for entry in old.account("staff").entries] == ["not recorded", "unfinished"]


def test_a_new_data_set_opens_with_what_is_left_and_the_old_one_ends(old: Ledger) -> None:
    left = old.account("wards").left
    assert exact(left["epsilon"]) < exact(3.5) - exact(old.account("wards").spent["epsilon"])
    new = old.renew("wards-2", previous="wards", pure=0.25)
    assert new.budget == ApproxDP(left["epsilon"], left["delta"])
    assert (new.count, new.pure, new.previous) == (Count.GAUSSIAN, 0.25, "wards")
    before = old.account("wards")
    assert (before.successor, before.can_request) == ("wards-2", ())
    for attempt in (
        lambda: old.reserve(of(PureDP(0.01)), dataset="wards"),
        lambda: old.add_budget(WHOLE, dataset="wards"),
        lambda: old.renew("wards-3", previous="wards"),
    ):
        with pytest.raises(LedgerError, match=r"has ended\. Use --dataset 'wards-2'"):
            attempt()
    gaussian_spend(old, 0.1, 1e-9, dataset="wards-2")
    with pytest.raises(LedgerError, match="already counts Gaussian noise"):
        old.renew("wards-3", previous="wards-2")


def test_a_new_data_set_protects_the_unit_of_the_old_one(old: Ledger) -> None:
    person = Unit("id", 3)
    assert old.renew("sums-2", previous="sums").unit == person
    with pytest.raises(LedgerError, match="but this release protects one row"):
        gaussian_spend(old, 0.1, 1e-9, dataset="sums-2")
    old.reserve(of(ApproxDP(0.1, 1e-9), unit=person), mu=0.02, dataset="sums-2")


def test_the_name_of_an_ended_data_set_is_not_needed(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE, count="sums")
    ledger.reserve(of(ApproxDP(0.25, 1e-7)))
    ledger.renew("second")
    gaussian_spend(ledger, 0.1, 1e-9)
    assert ledger.account().dataset == "second"
    assert len(ledger.account("default").entries) == 1


@pytest.mark.parametrize("spent", [ApproxDP(1.0, 1e-7), ApproxDP(0.1, 1e-6)], ids=str)
def test_nothing_left_opens_nothing(path: Path, spent: ApproxDP) -> None:
    ledger = Ledger.create(path, WHOLE, count="sums")
    ledger.reserve(of(spent))
    with pytest.raises(LedgerError, match="too little left"):
        ledger.renew("second")
    assert ledger.datasets() == ["default"]
    assert ledger.account().successor is None


KILLED = """
import os, signal, sys
from dpcov.api import ledger as module
insert, limit, done = module.insert, int(sys.argv[2]), 0

def insert_and_die(*row):
    global done
    done += 1
    if done == limit:
        os.kill(os.getpid(), signal.SIGKILL)
    return insert(*row)

module.insert = insert_and_die
module.Ledger.open(sys.argv[1]).renew("wards-2", previous="wards")
"""


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_crash_leaves_either_both_data_sets_or_none(old: Ledger, limit: int) -> None:
    accounts = [old.account(name) for name in old.datasets()]
    command = [sys.executable, "-c", KILLED, str(old.path), str(limit)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [old.account(name) for name in old.datasets()] == accounts
    assert old.renew("wards-2", previous="wards").previous == "wards"


def test_the_command_renews(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger.create(path, WHOLE, count="sums").reserve(of(ApproxDP(0.25, 1e-7)))
    assert run("ledger", "renew", str(path), "--dataset", "b", "--from", "default") == 0
    out = capsys.readouterr().out
    assert "(0.75, 9e-07)" in out
    assert "count: gaussian" in out
    assert run("ledger", "show", str(path), "--dataset", "default") == 0
    out = capsys.readouterr().out
    assert "This data set has ended. The data set 'b' received its budget." in out


# What became of a release


def test_the_second_record_describes_the_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    Ledger.create(path, WHOLE)
    line = "release people.csv --schema people.toml --epsilon 0.5 --delta 1e-8 --out a.json"
    told = ["--ledger", str(path), "--year", "2025", "--purpose", "Annual report"]
    assert run(*line.split(), *told) == 0
    (entry,) = Ledger.open(path).account().entries
    assert entry.outcome is not None
    assert entry.outcome.files == (sha256(Path("a.json").read_bytes()).hexdigest(),)
    about = entry.outcome.about
    assert (about.source, about.schema) == ("people.csv", "people.toml")
    assert (about.year, about.purpose) == (2025, "Annual report")
    assert len(about.schema_sha256) == 64
    assert entry.file == f"a.json {entry.outcome.files[0][:12]}"


def test_a_release_in_python_records_the_file_that_it_would_save(
    path: Path, tmp_path: Path
) -> None:
    ledger = Ledger.create(path, WHOLE)
    asked = {"epsilon": 0.5, "delta": 1e-8, "ledger": ledger, "year": 2025, **BOUNDS}
    made = dpcov.release(table(), **asked)
    made.save(tmp_path / "a.json")
    (entry,) = ledger.account().entries
    assert entry.outcome is not None
    assert entry.outcome.files == (sha256((tmp_path / "a.json").read_bytes()).hexdigest(),)
    assert entry.outcome.about.source == "numpy ndarray in memory"
    assert entry.outcome.about.schema == "bounds"


def test_a_crash_leaves_an_unfinished_release_that_is_shown(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_people(tmp_path)
    Ledger.create(path, WHOLE)

    def fail(*_: object) -> None:
        raise OutputError("The disk is full.")

    monkeypatch.setattr("dpcov.core.files.Output.write", fail)
    files = ["--schema", str(tmp_path / "people.toml"), "--out", str(tmp_path / "a.json")]
    budget = ["--epsilon", "0.5", "--delta", "1e-8", "--ledger", str(path)]
    assert run("release", str(tmp_path / "people.csv"), *files, *budget) == 2
    (entry,) = Ledger.open(path).account().entries
    assert entry.state == "unfinished"
    capsys.readouterr()
    assert run("ledger", "show", str(path)) == 0
    assert "unfinished" in capsys.readouterr().out
    assert run("ledger", "report", str(path)) == 0
    assert "Unfinished releases: 1." in capsys.readouterr().out


def test_a_release_is_never_lost_for_its_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(path, WHOLE)

    def fail(*_: object) -> None:
        raise LedgerError("The ledger is locked.")

    monkeypatch.setattr(ledger_module.Ledger, "finish", fail)
    asked = {"epsilon": 0.5, "delta": 1e-8, "ledger": ledger, **BOUNDS}
    with pytest.warns(LedgerWarning, match="which shows it as unfinished"):
        assert dpcov.release(table(), **asked).published is not None
    assert ledger.account().entries[0].state == "unfinished"


def test_an_entry_is_finished_once(path: Path) -> None:
    ledger = Ledger.create(path, WHOLE)
    entry = gaussian_spend(ledger, 0.1, 1e-9)
    ledger.finish(entry, (), About(purpose="none"))
    assert ledger.account().entries[0].file == "no file"
    with pytest.raises(LedgerError, match="already a result of entry 1"):
        ledger.finish(entry)
    with pytest.raises(LedgerError, match="no entry 2"):
        ledger.finish(2)


@pytest.mark.parametrize("content", ["{}", "[]", "x", '{"files": 3}', '{"files": [], "more": 1}'])
def test_a_result_that_makes_no_sense_is_damage(path: Path, content: str) -> None:
    ledger = Ledger.create(path, WHOLE)
    ledger.finish(gaussian_spend(ledger, 0.1, 1e-9))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TRIGGER results_UPDATE")
    db.execute("UPDATE results SET content = ?", (content,))
    db.close()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.account()


SECRET = "pa55w0rd"  # noqa: S105


@pytest.mark.parametrize(
    ("link", "name"),
    [
        (f"postgresql://ana:{SECRET}@host:5432/clinic", "postgresql://host:5432/clinic"),
        ("postgresql://host/clinic", "postgresql://host/clinic"),
        (f"postgresql://ana:{SECRET}@host/clinic?sslmode=require", "postgresql://host/clinic"),
        (f"postgresql://host/clinic?password={SECRET}", "postgresql://host/clinic"),
        (f"postgresql://host/clinic?user=a@b&sslkey={SECRET}", "(link)"),
        (f"postgresql://ana:a/{SECRET}@host/clinic", "postgresql://host/clinic"),
        (f"postgresql://ana:a?{SECRET}@host/clinic", "postgresql://host/clinic"),
        (f"postgres://ana:with a space {SECRET}@host/db", "postgres://host/db"),
        (f"postgresql://ana:{SECRET}", "(link)"),
        (f"host=host user=ana password='{SECRET}'", "host=host user=ana password=(hidden)"),
        (f"folder/postgresql://ana:{SECRET}@host/db", "folder/(link)"),
        ("clinic.db", "clinic.db"),
    ],
)
def test_the_name_of_a_source_holds_no_password(link: str, name: str) -> None:
    assert source_name(link) == name
    assert source_name(DatabaseTable(link, "visits")) == f"{name}, table visits"
    assert SECRET not in source_name(Path(link))


@pytest.mark.parametrize(
    "asked",
    [{"year": 0}, {"year": 10_000}, {"year": True}, {"year": "2025"}, {"purpose": "x" * 1001}],
)
def test_a_year_and_a_purpose_are_checked_before_anything_is_spent(
    path: Path, asked: dict[str, Any]
) -> None:
    ledger = Ledger.create(path, WHOLE)
    with pytest.raises(DpcovError, match="must be"):
        dpcov.release(table(), epsilon=0.5, delta=1e-8, ledger=ledger, **asked, **BOUNDS)
    assert not ledger.account().entries


# The report


@pytest.fixture
def full(path: Path) -> Path:
    ledger = Ledger.create(path, WHOLE, pure=0.25)
    about = About("people.csv", "people.toml", "ab" * 32, 2025, "Report | of <the> ward")
    ledger.finish(gaussian_spend(ledger, 0.25, 1e-8, note="standardized"), ("cd" * 32,), about)
    ledger.reserve(of(PureDP(0.1)), note="matrix-laplace")
    return path


def test_a_report_is_one_page_of_text(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ledger", "report", str(full)) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        f"head {Ledger.open(full).verify().head}.",
        "All releases together: Whether any one row is in the table or not",
        "e^1 = 2.718, plus 1e-06",
        "count: gaussian",
        "One more release can request at most: epsilon",
        "Unfinished releases: 1.",
        "0.1985",  # of (0.25, 1e-8), at the delta of the budget
        "2025 Report | of <the> ward",
        "cd" * 32,
    ):
        assert part in text


def test_a_report_in_markdown_and_html_escapes_what_people_write(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("md", "html", "txt"):
        assert run("ledger", "report", str(full), "--out", str(tmp_path / f"r.{suffix}")) == 0
    markdown, page = ((tmp_path / f"r.{suffix}").read_text() for suffix in ("md", "html"))
    assert "Report \\| of &lt;the&gt; ward" in markdown
    assert "Report | of &lt;the&gt; ward" in page
    assert page.startswith("<!DOCTYPE html>")
    assert "<script" not in page
    assert run("ledger", "report", str(full), "--out", str(tmp_path / "r.md")) == 2
    assert run("ledger", "report", str(full), "--out", str(tmp_path / "r.pdf")) == 2
    assert "ends in .html, .md, .txt" in capsys.readouterr().err
    assert not (tmp_path / "r.pdf").exists()


def test_a_report_of_an_old_ledger_and_of_all_data_sets(
    old: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ledger", "report", str(old.path)) == 0
    text = capsys.readouterr().out
    assert all(f"Data set {name}." in text for name in old.datasets())
    assert "not recorded" in text
