"""The last step of mechanisms that map rows first: what it spends, and which radius it takes."""

from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, Guarantee, Neighbors, Unit
from dpcov.mechanisms import Gaussian, radius
from dpcov.papers import transformed
from dpcov.rows.moment import LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

P = 3
SCHEMA = Schema.from_bounds(-1, 1, list("abc"), intercept=0.0)
IDENTITY = LinearMap.rounded(np.eye(P))


@pytest.mark.parametrize("given", [None, np.array([0.5, 2.0])], ids=["default", "given"])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_radius_and_release_spend_rho_after_the_rounding(neighbors, given, monkeypatch):
    seen = {}

    def private_radius(rows, shape, radii, law, clipped, entropy):
        seen.update(radii=radii, law=law, clipped=clipped)
        return 0.75

    def release_at(mechanism, rows, shape, radius, final, entropy):
        seen.update(final=final, radius=radius)
        return "the release"

    monkeypatch.setattr(transformed, "private_radius", private_radius)
    monkeypatch.setattr(transformed, "release_at", release_at)
    rows = open_rows(np.zeros((4, P)), SCHEMA)
    lattice, rho = rows.lattice(), Fraction(1, 2)
    made = transformed.release_transformed(
        Gaussian(),
        rows,
        IDENTITY,
        guarantee=Guarantee(ZCDP(0.5), neighbors, Unit()),
        rho=rho,
        extra=8,
        radius_share=0.25,
        trace_share=0.0,
        entropy=Entropy.seeded(1),
        radii=given,
    )
    sides = 2 if neighbors == Neighbors.REPLACE_ONE else 1
    on_radius = sides / (2 * (seen["law"].variance - 8))
    lattice = lattice.relative()
    on_release = lattice.frobenius_squared(neighbors) / (2 * (seen["final"].matrix.variance - 8))
    assert (on_radius, on_release) == (rho / 4, rho * 3 / 4)
    assert (made, seen["radius"]) == ("the release", 0.75)
    assert seen["clipped"] == pytest.approx(P**1.5 / 0.75**0.5)
    expected = np.sqrt(P * 2.0 ** (np.arange(-16, 49) / 4)) if given is None else given
    np.testing.assert_allclose(seen["radii"], expected)


@pytest.mark.parametrize("center", [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]], ids=str)
def test_a_center_is_stated_wherever_a_feature_has_one(center):
    rows = open_rows(np.full((9, P), 0.5), SCHEMA)
    shape = LinearMap.rounded(np.eye(P), center=np.array(center))
    final = Gaussian().calibrate(rows.lattice(), ZCDP(0.5), Neighbors.ADD_REMOVE)
    made = transformed.release_at(Gaussian(), rows, shape, 2.0, final, Entropy.seeded(1))
    assert (made.center is None) == (not any(center))
    assert made.center is None or made.center.tolist() == center
    assert made.linear_map.tolist() == np.eye(P).tolist()
    assert made.lattice.radius == 2.0


@pytest.mark.parametrize("k", [1, 3])
def test_counts_have_the_noise_of_as_many_rows_as_a_unit_has(k):
    lattice = open_rows(np.zeros((1, P)), SCHEMA).lattice()
    lattice = type(lattice)(P, 1.0, 0.0, Unit("id", k))
    law = radius.count_law(lattice, Fraction(1, 8), 8)
    assert k**2 / (2 * (law.variance - 8)) == Fraction(1, 8)


class Silent:
    """A law of noise that is 0, or always the same, and said to reach `noise_alone` rows."""

    def __init__(self, draw=0, noise_alone=0.0):
        self.draw, self.standard_deviation = draw, noise_alone / transformed.MIN_COUNT_SNR

    def samples(self, count, entropy):
        return np.full(count, self.draw)


@pytest.mark.parametrize(
    ("far", "clipped", "noise_alone", "expected"),
    [
        (0.9, 5.0, 0.0, 0.25),  # no more than 5 rows show
        (0.9, 4.9, 0.0, 1.0),
        (0.9, 0.0, 4.9, 1.0),
        (0.9, 0.0, 5.1, 0.25),  # noise alone would do as much
        (0.4, 4.9, 0.0, 0.5),
        (1.9, 4.9, 0.0, 1.0),  # beyond the last radius
    ],
)
def test_the_radius_is_the_least_beyond_which_few_rows_show(far, clipped, noise_alone, expected):
    values = np.zeros((105, P))
    values[:100, 0], values[100:, 1] = 0.2, min(far, 1.0)
    rows = open_rows(values, SCHEMA)
    radii = np.array([0.125, 0.25, 0.5, 1.0])
    found = transformed.private_radius(
        rows, IDENTITY, radii, Silent(0, noise_alone), clipped, Entropy.seeded(1)
    )
    assert found == expected


def test_noise_is_added_to_the_counts():
    rows = open_rows(np.zeros((0, P)), SCHEMA)
    radii = np.array([0.25, 0.5, 1.0])
    for draw, expected in ((10, 1.0), (-10, 0.25)):
        found = transformed.private_radius(
            rows, IDENTITY, radii, Silent(draw), 5.0, Entropy.seeded(1)
        )
        assert found == expected
