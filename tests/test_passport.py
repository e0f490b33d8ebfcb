"""The passport of a release: registry record, answers for NIST, and the page for an officer."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import get_args, get_type_hints

import jsonschema
import numpy as np
import pytest
import yaml

pytest.importorskip("jinja2", reason="the page needs the extra `report`")

import dpcov
from browser import Browser, executable
from dpcov.cli import json_schemas
from dpcov.cli import passport as command
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, PureDP, Unit
from dpcov.errors import ReleaseError
from dpcov.releases import Release
from dpcov.report import claims, nist, officer_page, passport, registry_record, statements
from dpcov.report.statements import Statements
from pages_for_tests import HOSTILE, hostile, numeric
from test_report import Outline

FORMER = Path(__file__).parent / "data" / "0.2.0"
FILES = sorted(path for path in FORMER.glob("*.json"))
SCHEMA = json.loads(json_schemas.texts()["passport.schema.json"])
RECORD_SCHEMA = {"$defs": SCHEMA["$defs"], **SCHEMA["$defs"]["RegistryRecord"]}
WHOLE = Statements(
    title="Visits of patients",
    curators=("City hospital", "University"),
    use="Planning: how many visits, and why",
    region="Austria",
    sector="Healthcare",
    justification="The board chose epsilon = 1.\nBounds are from a handbook.",
    data_seen=False,
    published=date(2026, 3, 1),
)
CHROMIUM = executable()
FORMS: tuple[passport.Format, ...] = get_args(passport.Format)
JARGON = re.compile(r"epsilon|delta|\brho\b|zCDP|neighbo|mechanism|matrix|schema\b|privacy unit")


def validate(record: object) -> None:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(RECORD_SCHEMA, format_checker=checker).validate(record)


@pytest.fixture(scope="module")
def private() -> Release:
    return numeric(4, epsilon=1.0)


@pytest.fixture(scope="module")
def seeded() -> Release:
    return numeric(4, seed=1)


@pytest.fixture(scope="module")
def harmful() -> Release:
    return hostile()


def former(name: str) -> Release:
    return Release.load(FORMER / f"{name}.json")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("said", [Statements(), WHOLE], ids=["nothing", "everything"])
def test_the_record_of_every_mechanism_fits_its_schema(path, said):
    release = Release.load(path)
    for one in (release, replace(release, reproducible=False)):
        made = registry_record.record(one, said)
        read = yaml.safe_load(registry_record.yaml_text(made, "a comment"))
        validate(read)
        assert read == made.model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize(
    "damage",
    [
        {"surprise": 1},
        {"status": "Published"},
        {"tier": 0},
        {"deployment": {}},
        {"deployment": {"basic": {"publication_date": "1/1/2026"}}},
    ],
)
def test_control_the_schema_refuses_a_wrong_record(private, damage):
    record = registry_record.record(private, WHOLE).model_dump(mode="json", exclude_none=True)
    validate(record)
    basic = damage.get("deployment", {}).get("basic")
    wrong = record | damage
    if basic is not None:
        parts = record["deployment"]
        wrong = record | {"deployment": parts | {"basic": parts["basic"] | basic}}
    with pytest.raises(jsonschema.ValidationError):
        validate(wrong)


def test_the_record_contains_the_guarantee_and_the_statements(private):
    record = registry_record.record(private, WHOLE)
    parts = record.deployment
    assert record.url_slug == "visits-of-patients-city-hospital-university-2026"
    assert record.tier == 3
    assert parts.basic.data_curators == ["City hospital", "University"]
    assert parts.basic.publication_date == "2026-03-01"
    assert parts.dp_variant.variant_name == "Pure DP"
    assert parts.privacy_loss.privacy_parameters.epsilon == 1.0
    assert "2.72" in parts.privacy_loss.privacy_parameters_details
    assert "Nobody inspected" in parts.implementation.preprocessing_and_hyperparameter_tuning
    less = registry_record.record(private, Statements())
    assert less.tier == 2
    assert less.deployment.basic.intended_use == "Not stated."


@pytest.mark.parametrize("delta", [1e-6, 1e-16, 0.5, 2.5e-7])
def test_small_numbers_stay_numbers_in_yaml(private, delta):
    guarantee = replace(private.guarantee, budget=ApproxDP(1e-5, delta))
    made = registry_record.record(replace(private, guarantee=guarantee), WHOLE)
    read = yaml.safe_load(registry_record.yaml_text(made))
    told = read["deployment"]["privacy_loss"]["privacy_parameters"]
    assert told == {"epsilon": 1e-5, "delta": delta}
    assert yaml.safe_load(f"delta: {1e-6!r}") == {"delta": "1e-06"}  # control: Python's own form


def test_a_seeded_release_says_first_that_it_is_not_private(seeded, private):
    record = passport.text(seeded, WHOLE, "yaml")
    assert record.startswith("# reproducible: NOT PRIVATE.")
    document = yaml.safe_load(record)["deployment"]
    assert document["basic"]["name"].startswith("NOT PRIVATE: ")
    assert list(document) == ["basic"]
    assert passport.text(seeded, WHOLE, "nist").startswith("**reproducible: NOT PRIVATE.")
    page = passport.text(seeded, WHOLE, "page")
    assert "<title>NOT PRIVATE: " in page
    body = page[page.index("<body>") :]
    assert body.index("NOT PRIVATE") < body.index("<header>")
    assert next(iter(passport.passport(seeded, WHOLE).model_dump().items())) == (
        "status",
        "reproducible: NOT PRIVATE",
    )
    for form in FORMS:
        assert "factor of at most" not in passport.text(seeded, WHOLE, form)
        assert "factor of at most" in passport.text(private, WHOLE, form)
        assert "NOT PRIVATE" not in passport.text(private, WHOLE, form)


def test_faults_of_old_versions_are_shown_first():
    old = Release.load(FORMER / "private.json")
    old = replace(old, provenance={"library": "dpcov 0.1.0", "date": "2024-01-01"})
    assert passport.text(old, WHOLE, "nist").startswith("**Made by a version before 0.2.0.")
    page = passport.text(old, WHOLE, "page")
    assert page.index("version before 0.2.0") < page.index("<header>")


def test_a_guarantee_is_recomputed_only_if_the_noise_gives_it(private):
    assert claims.verification(private) == claims.RECOMPUTED
    for name in ("eigenvector-sampling", "auto-persons", "additive-wishart"):
        release = replace(former(name), reproducible=False)
        for form in FORMS:
            assert "Not recomputable." in passport.text(release, WHOLE, form)
    partly = replace(former("private-radius"), reproducible=False)
    assert claims.verification(partly) == claims.PARTLY_RECOMPUTED


def test_the_factor_is_never_below_the_guarantee():
    for epsilon in np.exp(np.random.default_rng(0).uniform(-9, 3, 2000)).tolist():
        words = claims.factor_in_words(epsilon)
        number = float(re.search(r"[\d.,]*\d", words)[0].replace(",", ""))
        shown = 1 + number / 100 if "%" in words else number
        assert math.exp(epsilon) <= shown <= 1 + (math.exp(epsilon) - 1) * 1.11
    assert claims.factor_in_words(1.0) == "by a factor of at most 2.72"
    assert claims.factor_in_words(0.1) == "by at most 11%"
    assert claims.factor_in_words(10.0) == "by a factor of at most 22,100"
    assert claims.factor_in_words(30.0) == "without a useful limit"
    assert float(f"{math.exp(3.0):.3g}") > math.exp(3.0) > float(f"{math.exp(1.5):.3g}")  # control


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (Guarantee(PureDP(1.0), Neighbors.ADD_REMOVE),
         "Whether any one row is in the table changes the probability of any result by a factor of "
         "at most 2.72."),
        (Guarantee(ApproxDP(1.0, 1e-6), Neighbors.ADD_REMOVE, Unit("id", 3)),
         "Whether any one person is in the table changes the probability of any result by a factor "
         "of at most 2.72, plus at most 1 in 1,000,000."),
        (Guarantee(PureDP(0.1), Neighbors.REPLACE_ONE),
         "What the table contains for any one row changes the probability of any result by at most "
         "11%."),
    ],
)  # fmt: skip
def test_the_meaning_is_one_plain_sentence(guarantee, words):
    assert claims.meaning(guarantee) == words


def test_the_answers_cover_the_guideline_and_say_what_the_file_cannot_know(private):
    found = {one.topic: one for one in nist.answers(private, WHOLE)}
    assert list(found) == [
        "Privacy parameter",
        "Unit of privacy",
        "Neighbouring tables",
        "What the guarantee does not protect",
        "Mechanism and its correctness",
        "Composition",
        "Utility and bias",
        "Trust model",
        "Query model and access to results",
        "Random numbers and floating-point arithmetic",
        "Side channels",
        "How the bounds were chosen",
        "Data security and access control",
        "Data collection exposure",
    ]
    assert found["Composition"].answer.count("epsilon = ") == len(private.rounds)
    assert "Nobody inspected" in found["How the bounds were chosen"].curator_states
    silent = {topic for topic, one in found.items() if one.not_in_the_file is None}
    assert silent == {"Privacy parameter", "Neighbouring tables"}


def test_floating_point_is_named_unless_the_noise_is_drawn_exactly(private):
    assert "floating-point arithmetic: second moment." in claims.arithmetic(private)
    for name in ("gaussian", "laplace"):
        assert claims.arithmetic(former(name)).endswith("the noise is drawn exactly.")
    assert "floating-point" in claims.arithmetic(former("eigenvector-sampling"))


def test_rows_of_one_group_or_condition_are_named():
    assert "only rows where a > 0.5" in claims.table(former("project"))
    group = former("group")
    assert f"rows where {group.group.column} = {group.group.level}" in claims.table(group)
    assert "together" in claims.composition(group)


def test_the_page_has_no_technical_terms_before_its_last_section(private):
    for release in (private, replace(former("gaussian"), reproducible=False)):
        text = Outline(officer_page.page(release, Statements())).text
        main = text[text.index("What was published") : text.index("For the technical file")]
        assert JARGON.findall(main) == []
    assert JARGON.findall(nist.markdown(private, WHOLE))  # control


def test_names_that_mean_harm_do_nothing(harmful):
    said = replace(WHOLE, title=HOSTILE[8], curators=(HOSTILE[0],), use=HOSTILE[1])
    outline = Outline(officer_page.page(harmful, said))
    assert outline.faults == []
    names = {name for name, _ in outline.elements}
    assert names.isdisjoint({"script", "img", "b", "svg", "iframe", "link", "form"})
    markdown = nist.markdown(harmful, said)
    assert not set("<$`\\") & set(markdown)
    made = registry_record.record(harmful, WHOLE).model_dump(mode="json", exclude_none=True)
    texts = json.dumps(made, ensure_ascii=False)
    assert "&#60;script>" in texts
    assert "<script>" not in texts


def test_the_page_loads_nothing_and_is_well_formed(private):
    outline = Outline(officer_page.page(private, WHOLE))
    assert outline.faults == []
    assert not [a for _, a in outline.elements if {"src", "href"} & a.keys()]
    assert any("default-src 'none'" in str(a.get("content")) for a in outline.named("meta"))


def test_a_file_without_a_date_needs_the_date_of_publication(private):
    undated = replace(private, provenance={**private.provenance, "date": "soon"})
    with pytest.raises(ReleaseError, match="--published"):
        registry_record.record(undated, Statements())
    assert registry_record.record(undated, WHOLE).deployment.basic.publication_date == "2026-03-01"
    assert nist.markdown(undated, Statements())


@pytest.fixture
def saved(private, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    private.save("r.json")
    return tmp_path


def test_the_command_prints_or_writes_each_document(run, saved):
    assert run("passport r.json").out.startswith("# Private covariance release: answers to NIST")
    asked = "--curator Hospital --use Plans --region Austria --data-seen yes --published 2026-01-02"
    record = run(f"passport r.json --format yaml {asked} --sector Energy")
    assert record.err == ""
    basic = yaml.safe_load(record.out)["deployment"]["basic"]
    assert basic["data_product_sector"] == "Energy"
    assert basic["publication_date"] == "2026-01-02"
    done = run("passport r.json --format page --out p.html")
    assert done.out == "written to p.html\n"
    assert Path("p.html").read_text().startswith("<!DOCTYPE html>")
    assert run("passport r.json --format page --out p.html").code == 2
    assert run("passport r.json --out r.json --force").code == 2
    assert run("passport r.json --data-seen maybe").code == 2


def test_the_command_names_the_facts_that_the_registry_needs(run, saved):
    done = run("passport r.json --format yaml --use Plans")
    assert done.code == 0
    assert "Add --curator, --region." in done.err


def test_json_fits_the_published_schema(run, saved):
    found = json.loads(run("passport r.json --json --curator Hospital").out)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["registry"]["deployment"]["basic"]["data_curators"] == ["Hospital"]
    assert found["status"] == "private"


def test_the_options_of_the_command_are_those_of_the_report():
    hints = get_type_hints(command.passport)
    assert set(get_args(hints["form"])) == set(FORMS)
    assert set(get_args(get_args(hints["sector"])[0])) == set(get_args(statements.Sector))
    assert {*registry_record.VARIANTS.values()} < {
        *SCHEMA["$defs"]["Variant"]["properties"]["variant_name"]["enum"],
        "none",
    }


def longest() -> Release:
    """A release whose texts are all as long as the page allows."""
    release = former("project")
    facts = {
        "library": "dpcov 0.2.0",
        "version": "0.2.0",
        "date": "2026-01-01",
        "door": "Stata",
        "rows": "rows where " + " and ".join(f"column_{i} > 0.5" for i in range(60)),
        "not_protected": "The guarantee assumes much. " * 60,
    }
    return replace(release, provenance=facts)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_every_page_prints_on_one_sheet_of_a4(private, harmful, seeded, tmp_path):
    said = dict.fromkeys(("title", "use", "region", "justification"), "名前 long words " * 60)
    much = replace(WHOLE, curators=("A very long name of a hospital",) * 40, data_seen=True, **said)
    pages = {
        "few": (private, WHOLE),
        "none": (private, Statements()),
        "hostile": (harmful, much),
        "seeded": (seeded, much),
        "persons": (replace(former("auto-persons"), reproducible=False), much),
        "group": (replace(former("group"), reproducible=False), much),
        "longest": (replace(longest(), reproducible=False), much),
    }
    sheets = {}
    with Browser(str(CHROMIUM)) as browser:
        for name, (release, stated) in pages.items():
            place = tmp_path / f"{name}.html"
            place.write_text(officer_page.page(release, stated))
            browser.open(place, 800)
            assert browser.complaints() == []
            printed = browser.printed()
            assert b"/MediaBox [0 0 594.95996 841.91998]" in printed
            sheets[name] = printed.count(b"/Type /Page\n")
        place.write_text(place.read_text().replace("</main>", "<p>more</p>" * 60 + "</main>"))
        browser.open(place, 800)
        assert browser.printed().count(b"/Type /Page\n") > 1  # control
    assert sheets == dict.fromkeys(pages, 1)


def test_dpcov_can_write_a_passport_of_every_kind_of_release(private):
    releases = [dpcov.load(path) for path in (FORMER / "private.json", *FILES[:3])]
    for release in (*releases, private):
        for form in FORMS:
            assert passport.text(release, Statements(), form).endswith("\n")
