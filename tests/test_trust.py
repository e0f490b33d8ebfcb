"""`make trust`, smaller: every attack gives the figure that it must."""

import importlib
import re
from pathlib import Path

import pytest

from dpcov.api.auditing import MAX_RELATIVE_EXCESS
from dpcov.core import registry
from dpcov.core.privacy import Neighbors
from dpcov.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[1]

QUICK = [
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("arithmetic", "randomness", "exact_losses", "person_means")
    ),
    # tests/test_sampled_audit.py and tests/test_sources_attack.py attack as much in less time.
    *(pytest.param(name, marks=pytest.mark.statistics) for name in ("audits", "sources_attack")),
]


@pytest.mark.parametrize("name", QUICK)
def test_every_attack_gives_the_figure_that_it_must(name, monkeypatch):
    module = importlib.import_module(name)
    if name == "exact_losses":  # tests/test_auditing.py asks for the others' exact losses
        monkeypatch.setattr(module, "ASKED", module.ASKED[:1])
    figures = module.measure(True)
    assert figures
    assert [figure for figure in figures if not figure.ok] == []
    assert all(isinstance(figure.ok, bool) for figure in figures)


def test_every_mechanism_is_audited_or_named_as_too_slow():
    audits = importlib.import_module("audits")
    assert audits.ASKED.keys() | set(audits.NOT_AUDITED) == MECHANISMS.keys()
    assert not audits.ASKED.keys() & set(audits.NOT_AUDITED)


def test_the_loss_of_every_mechanism_of_the_product_is_computed():
    asked = {mechanism.name for mechanism, _ in importlib.import_module("exact_losses").ASKED}
    assert asked == MECHANISMS.keys() - registry.PAPER_MECHANISMS.keys()


def test_the_page_names_every_mechanism_that_is_not_audited():
    audits = importlib.import_module("audits")
    page = (ROOT / "docs" / "trust.md").read_text()
    assert [name for name in audits.NOT_AUDITED if name not in page] == []
    assert re.search(r"^## What is not protected$", page, re.MULTILINE)


@pytest.mark.slow
def test_every_mechanism_is_asked_about_means_of_persons():
    person_means = importlib.import_module("person_means")
    for mechanism, budget in person_means.ASKED:
        found = person_means.losses(mechanism, budget, Neighbors.ADD_REMOVE, (3,))
        assert 0.9 < found.largest <= 1 + MAX_RELATIVE_EXCESS, mechanism
