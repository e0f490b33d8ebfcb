"""The comparison with other libraries: the laws behind it, and the page that cites it."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import peers
import peers_law

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import tables  # noqa: E402 (the site's own code is no package)

SPECTRUM = (20.0, 0.0, 0.0, 0.0, 0.0)
DRAWS = 1000
SIGMAS = 6


def squares(draw):
    vectors = [draw(np.diag(SPECTRUM), 1.0, seed) for seed in range(DRAWS)]
    return np.array(vectors)[:, 0] ** 2


def apart(found, mean):
    """Return the standard errors between the mean of `found` and `mean`."""
    return abs(found.mean() - mean) / (found.std() / math.sqrt(DRAWS))


@pytest.mark.parametrize(
    ("spectrum", "known"), [((12.0, 0.0), 0.7981), (SPECTRUM, 0.548), ((0.0, 0.0, 0.0), 1 / 3)]
)
def test_moments_of_the_bingham_law_are_the_known_ones(spectrum, known):
    assert peers_law.mean_square(spectrum, 1.0, exact=True) == pytest.approx(known, abs=5e-4)


@pytest.mark.parametrize("d", [2, 3, 10, 40])
@pytest.mark.parametrize("exact", [True, False])
def test_a_density_adds_up_to_one(d, exact):
    density = peers_law.log_density(9.0, 4.0, d, 0.7, exact=exact)
    p, q, weights = peers_law.squares(d)
    assert np.sum(weights * np.exp(density(p, q))) == pytest.approx(1.0, abs=1e-12)


def test_the_quadrature_is_that_of_uniform_directions():
    directions = np.random.default_rng(0).standard_normal((200_000, 7))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    p, q, weights = peers_law.squares(7)
    for power in (1, 2):
        simulated = np.mean((directions[:, 0] ** 2 * directions[:, 1] ** 2) ** power)
        assert np.sum(weights * (p * q) ** power) == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize("d", [2, 5, 20])
def test_the_bingham_law_keeps_epsilon_and_the_one_with_the_wrong_sign_does_not(d):
    assert peers_law.largest_loss(d, 1.0, exact=True) < 0.5
    assert (peers_law.largest_loss(d, 1.0, exact=False) > 1.0) == (d >= 5)


def test_our_directions_are_bingham_and_the_check_notices_others():
    ours = squares(peers.dpcov_direction)
    assert apart(ours, peers_law.mean_square(SPECTRUM, 1.0, exact=True)) < SIGMAS
    assert apart(ours, peers_law.mean_square(SPECTRUM, 1.0, exact=False)) > 4 * SIGMAS


@pytest.mark.parametrize(
    "peer", [pytest.param(name, id=name) for name in peers.DIRECTIONS if name != "dpcov"]
)
def test_peers_draw_from_the_law_that_the_page_says(peer):
    if peer not in peers.installed(peers.DIRECTIONS):
        pytest.skip("a peer that is not installed, with what it needs, can't be measured")
    theirs = squares(peers.DIRECTIONS[peer][1])
    assert apart(theirs, peers_law.mean_square(SPECTRUM, 1.0, exact=False)) < SIGMAS
    assert apart(theirs, peers_law.mean_square(SPECTRUM, 1.0, exact=True)) > 4 * SIGMAS


def test_a_peer_that_takes_too_long_has_no_figures(monkeypatch):
    monkeypatch.setattr(peers, "LIMIT", 0.2)

    def endless(table, epsilon, seed):
        while True:
            pass

    found = peers.measure(endless, np.eye(3), 1.0)
    assert found == {"error_mean": None, "error_se": None, "seconds": None, "repeats": 0}


def test_an_error_is_the_mean_over_the_repeats(monkeypatch):
    monkeypatch.setattr(peers, "REPEATS", 4)

    def off(table, epsilon, seed):
        return table.T @ table + np.diag([float(seed), 0.0])

    found = peers.measure(off, np.ones((5, 2)), 1.0)
    assert found["error_mean"] == pytest.approx((0 + 1 + 2 + 3) / 4 / 5)


def test_ours_is_the_figure_of_make_accuracy():
    def figure(name):
        return json.loads((ROOT / "docs" / "results" / name).read_text())["rows"]

    accuracy = {
        (row["dataset"], row["budget"]): row["error_mean"] for row in figure("accuracy.json")
    }
    ours = [
        row for row in figure("peers.json") if row.get("method") == "dpcov" and "error_mean" in row
    ]
    same = [row for row in ours if row["dataset"] in ("wine", "airfoil", "adult")]
    assert len(same) == 9
    for row in same:
        known = accuracy[row["dataset"], f"pure {row['epsilon']:g}"]
        assert row["error_mean"] == pytest.approx(known, rel=1e-5)  # theirs rounds to the lattice


def test_the_page_shows_worse_cells_too_and_what_gave_no_answer():
    text = tables.GENERATORS["peers"]()
    rows = json.loads((ROOT / "docs" / "results" / "peers.json").read_text())["rows"]
    late = [row for row in rows if row["kind"] == "error" and row["error_mean"] is None]
    assert text.count("none in 100 s") == len(late) > 0
    cells = [row for row in rows if row["kind"] == "error" and row["method"] == "dpcov"]
    assert text.count("\n| ") == 1 + len(cells)
