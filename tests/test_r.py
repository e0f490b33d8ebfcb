"""What the page on R asks its reader to type gives, in R, the figures of dpcov."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.errors import DpcovError
from dpcov.mechanisms import MECHANISMS
from dpcov.releases.pairwise import hidden
from dpcov.rows.schema import Schema
from tables_for_tests import correlated
from terminals import DPCOV

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import pages  # noqa: E402 (the site's own code is no package)

PAGE = (ROOT / "docs" / "how-to" / "r.md").read_text(encoding="utf-8")
PROGRAM = ROOT / "src" / "dpcov" / "report" / "release.R"
ASKED = """
digits <- 17
facts <- list(
    from_release = unname(correlations(release)), words = release$guarantee$in_words,
    from_csv = correlation, covariance = covariance, mean = found$mean,
    slopes = solve(covariance[others, others], covariance[others, target]), others = others
)
cat(toJSON(facts, digits = NA, auto_unbox = TRUE), file = "facts.json")
"""

EACH = """
for (file in list.files(pattern = "release.json$")) {
    release <- fromJSON(file)

    found <- list(moment = second_moment(release))
    if (release$lattice$intercept_units > 0) {
        found$correlation <- unname(correlations(release))
        found$count <- if (exists("best_count")) count(release)
    }
    cat(toJSON(found, digits = NA), file = sub("release.json", "found.json", file))
}
"""
OLD = """library(jsonlite)

second_moment <- function(release) {  # as the page had it
    S <- diag(length(release$lattice$features) + 1)
    S[upper.tri(S, diag = TRUE)] <- if (release$denoise == "none") release$published else
        release$denoised
    S[lower.tri(S)] <- t(S)[lower.tri(S)]
    S
}
correlations <- function(release) {
    S <- second_moment(release)
    p <- nrow(S) - 1
    cov2cor(S[1:p, 1:p] - outer(S[1:p, p + 1], S[1:p, p + 1]) / S[p + 1, p + 1])
}
"""
MANY = (correlated(100_000, 3, seed=1) + 1) / 2  # not about the middle of its bounds, 0
BUDGETS = (
    {"epsilon": 4.0},
    {"rho": 2.0},
    {"epsilon": 4.0, "delta": 1e-3},
    {"epsilon": 30.0, "delta": 1e-3},
)
DENOISED = ("none", "project", "shrink")


def has_r() -> bool:
    if shutil.which("Rscript") is None:
        return False
    done = subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Run the page's commands and its R code in order; return the release and R's results."""
    if not has_r():
        pytest.skip("R with jsonlite is not installed; .ci/services installs it")
    folder = tmp_path_factory.mktemp("r")
    subprocess.run([*DPCOV, "demo"], cwd=folder, capture_output=True, check=True)
    found = pages.blocks(PAGE)
    for command in [
        one for block in found if block.language == "console" for one in block.commands
    ]:
        words, _, target = command.partition(" > ")
        done = subprocess.run(
            [*DPCOV, *words.split()[1:]], cwd=folder, capture_output=True, check=True
        )
        if target:
            (folder / target).write_bytes(done.stdout)
    shutil.copy(PROGRAM, folder)
    lines = "".join(block.code for block in found if block.language == "r")
    (folder / "page.R").write_text(lines + ASKED, encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", "page.R"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    release = dpcov.load(folder / "demo" / "visits.release.json")
    return release, json.loads((folder / "facts.json").read_text()), done.stdout


def test_correlations_from_the_release_file_itself_agree(read):
    release, facts, printed = read
    assert np.abs(np.array(facts["from_release"]) - release.correlation()).max() < 1e-9
    assert facts["words"] == release.guarantee_in_words()
    assert release.guarantee_in_words() in " ".join(printed.split())


def test_matrices_that_dpcov_wrote_agree(read):
    release, facts, _ = read
    assert np.abs(np.array(facts["from_csv"]) - release.correlation()).max() < 1e-12
    assert np.allclose(facts["covariance"], release.covariance(), rtol=1e-12, atol=0)
    assert np.allclose(facts["mean"], release.mean(), rtol=1e-12, atol=0)


def test_a_regression_in_r_is_that_of_the_released_covariance(read):
    release, facts, _ = read
    at = [release.columns.index(name) for name in facts["others"]]
    target = release.columns.index("systolic")
    covariance = release.covariance()
    slopes = np.linalg.solve(covariance[np.ix_(at, at)], covariance[at, target])
    assert len(slopes) == len(release.columns) - 2  # the target and one level are left out
    assert np.allclose(facts["slopes"], slopes, rtol=1e-8)


def test_control_the_agreement_is_closer_than_the_noise(read):
    release, facts, _ = read
    apart = np.abs(np.array(facts["from_release"]) - np.eye(len(release.columns)))
    assert apart.max() > 1e-3


def released(**request):
    """Release with the first sufficient budget; use few rows if they are enough."""
    for count, budget in itertools.product((4000, len(MANY)), BUDGETS):
        try:
            return dpcov.release(MANY[:count], lower=-1, upper=1, seed=1, **request, **budget)
        except DpcovError as error:
            refused = error
    raise AssertionError(f"{request}: {refused}")


def by_every_mechanism():
    """Yield releases of a small table by mechanism and denoising, with and without intercept."""
    for name in MECHANISMS:
        for method in DENOISED:
            yield f"{name} {method}", released(mechanism=name, denoise=method)
    for method in DENOISED:
        yield (
            f"without intercept {method}",
            released(mechanism="matrix-laplace", intercept=0, denoise=method),
        )


def read_in_r(releases, code, folder):
    """Return the results of the page's R functions for each release."""
    if not has_r():
        pytest.skip("R with jsonlite is not installed; .ci/services installs it")
    for name, release in releases.items():
        release.save(folder / f"{name}.release.json")
    (folder / "each.R").write_text(code + EACH, encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", "each.R"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: json.loads((folder / f"{name}.found.json").read_text()) for name in releases}


def functions():
    """Return the program that the page links."""
    return PROGRAM.read_text(encoding="utf-8")


def test_releases_of_every_mechanism_and_denoising_are_read_as_dpcov_reads_them(tmp_path):
    releases = dict(by_every_mechanism())
    assert len(releases) == 3 * (len(MECHANISMS) + 1)
    assert sum(one.linear_map is not None for one in releases.values()) >= 9
    assert sum(one.center is not None for one in releases.values()) >= 3
    found = read_in_r(releases, functions(), tmp_path)
    for name, release in releases.items():
        moment = release.second_moment()
        apart = np.abs(np.array(found[name]["moment"]) - moment).max()
        assert apart <= 1e-9 * np.abs(moment).max(), name
        if release.not_released is None:
            correlation = np.array(found[name]["correlation"])
            assert np.abs(correlation - release.correlation()).max() < 1e-8, name


def test_control_to_leave_out_the_map_and_the_center_is_noticed(tmp_path):
    """An earlier version of the page left them out."""
    releases = {
        name: released(mechanism="standardized", directions_share=share, denoise="none")
        for name, share in (("by column", 0.0), ("by direction", 0.1))
    }
    found = read_in_r(releases, OLD, tmp_path)
    for name, release in releases.items():
        moments = release.second_moment(), np.array(found[name]["moment"])
        truth, read = (moment / moment[-1, -1] for moment in moments)  # in whatever units
        assert np.abs(read - truth).max() > 0.01, name
    correlation = np.array(found["by direction"]["correlation"])  # its map mixes features
    assert np.abs(correlation - releases["by direction"].correlation()).max() > 0.01


RULES = ("midpoint", "level", "pairwise", "mixed")
LAWS = ("matrix-laplace", "gaussian", "laplace", "wishart", "additive-wishart")


def missing(rule, *, rows=2000, gap=0.3, levels="zeros", fields=None, **request):
    """Release numbers and categories with missing cells."""
    draws = np.random.default_rng(4)
    shared = draws.standard_normal((rows, 1))
    values = (0.7 * shared + 0.7 * draws.standard_normal((rows, 3))).clip(-4, 4)
    table = pd.DataFrame(values, columns=["x", "y", "z"]).mask(draws.random((rows, 3)) < gap)
    kinds = np.where(draws.random(rows) < 0.2, None, draws.choice(["a", "b", "c"], rows))
    table = table.assign(g=kinds, w=draws.uniform(0.3, 1, rows), id=np.arange(rows) // 3)
    rules = ("pairwise", "level", "midpoint") if rule == "mixed" else (rule,) * 3
    columns = {
        name: {"kind": "number", "lower": -4, "upper": 5, "missing": own}
        for name, own in zip("xyz", rules, strict=True)
    }
    other = {"other": True} if levels == "other" else {}
    columns["g"] = {"kind": "categorical", "levels": ["a", "b"], "missing": levels, **other}
    made_by = Schema.parse({"version": 2, "columns": columns, **(fields or {})})
    return dpcov.release(table, schema=made_by, seed=1, **({"epsilon": 5.0} | request))


def by_every_missing_rule():
    """Yield releases for each rule of missing cells, and for all other relevant options."""
    weight = {"weight": {"column": "w", "maximum": 1.0}}
    unit = {"unit": {"column": "id", "type": "integer", "max_rows": 3}}
    derived = {"derived": {"xy": {"product": ["x", "y"]}, "zz": {"square": "z"}}}
    for rule in RULES:
        yield rule, missing(rule)
        yield f"{rule} noisy", missing(rule, epsilon=0.3)
        yield f"{rule} impossible", missing(rule, rows=200, gap=0.8, epsilon=1e4)
        yield f"{rule} raw", missing(rule, denoise="none")
        yield f"{rule} weighted", missing(rule, fields=weight)
        yield f"{rule} persons", missing(rule, fields=unit)
        yield f"{rule} derived", missing(rule, fields=derived)
        yield f"{rule} replaced", missing(rule, neighbors="replace-one")
        yield f"{rule} levels", missing(rule, levels="level")
        yield f"{rule} other", missing(rule, levels="other")
    for law in {*LAWS} & {*MECHANISMS}:
        for budget in ({"epsilon": 20.0}, {"rho": 20.0}, {"epsilon": 20.0, "delta": 1e-4}):
            request = {"epsilon": None, "mechanism": law, "denoise": "project", **budget}
            try:
                yield f"{law} {len(budget)} {'rho' in budget}", missing("pairwise", **request)
            except DpcovError:
                continue  # no budget of this mechanism


def test_releases_of_every_missing_rule_are_read_as_dpcov_reads_them(tmp_path):
    releases = dict(by_every_missing_rule())
    drowned = missing("pairwise", rows=300, epsilon=0.1)
    releases["hidden"] = drowned
    assert hidden(drowned).any()
    assert len({release.noise.__class__ for release in releases.values()}) >= 3
    found = read_in_r(releases, functions(), tmp_path)
    for name, release in releases.items():
        apart = np.abs(np.array(found[name]["correlation"]) - release.correlation())
        assert apart.max() < 1e-8, name
        assert found[name]["count"][0] == pytest.approx(release.count(), abs=1e-6), name


def test_control_to_forget_that_cells_may_be_missing_is_noticed(tmp_path):
    """An earlier version of the page used missing marks as features, and 0 for the cells."""
    release = missing("pairwise")
    forgets = (
        functions() + "completed <- function(release, S) S\nmarks <- function(release) FALSE\n"
    )
    found = np.array(read_in_r({"forgets": release}, forgets, tmp_path)["forgets"]["correlation"])
    at = [j for j, feature in enumerate(release.schema.features) if feature.variable]
    assert len(found) > len(at)
    assert np.abs(found[np.ix_(at, at)] - release.correlation()).max() > 0.1


def test_the_page_links_the_program_and_runs_it():
    (linked,) = re.findall(r"\[release\.R\]\(([^)]+)\)", PAGE)
    assert (ROOT / "docs" / "how-to" / linked).resolve() == PROGRAM
    assert 'source("release.R")' in PAGE
