"""Adaptive mechanisms are their inner mechanism with a private radius, under their own name."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms import (
    AdaptiveGaussian,
    AdaptiveLaplace,
    Gaussian,
    Laplace,
    SeparateGaussian,
    SeparateLaplace,
)
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from rounds_for_tests import trace_of

ROWS = open_rows(
    np.random.default_rng(0).normal(size=(500, 4)), Schema.from_bounds(-100, 100, tuple("abcd"))
)
PAIRS = [
    (
        AdaptiveLaplace(radius_share=0.2, trace_share=0.3),
        Laplace(0.3, radius="private", radius_share=0.2),
        PureDP(1.0),
    ),
    (
        AdaptiveLaplace(by="separate-laplace", values="eigenvalues", vector_share=0.4),
        SeparateLaplace("eigenvalues", 0.4, radius="private"),
        PureDP(1.0),
    ),
    (
        AdaptiveGaussian(radius_share=0.2, trace_share=0.3),
        Gaussian(0.3, radius="private", radius_share=0.2),
        ApproxDP(1.0, 1e-6),
    ),
    (
        AdaptiveGaussian(by="separate-gaussian", values="eigenvalues", vector_share=0.4),
        SeparateGaussian("eigenvalues", 0.4, radius="private"),
        ZCDP(0.5),
    ),
]


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(("adaptive", "inner", "budget"), PAIRS)
def test_the_release_is_that_of_the_inner_mechanism(adaptive, inner, budget, neighbors):
    made, expected = (
        mechanism(ROWS, budget=budget, neighbors=neighbors, entropy=Entropy.seeded(1))
        for mechanism in (adaptive, inner)
    )
    laws = adaptive.calibrate(ROWS.lattice(), budget, neighbors)
    assert laws == inner.calibrate(ROWS.lattice(), budget, neighbors)
    np.testing.assert_array_equal(made.published, expected.published)
    assert trace_of(made) == trace_of(expected)
    assert (made.lattice, made.noise) == (expected.lattice, expected.noise)
    assert made.lattice.radius < 0.1 * ROWS.lattice().radius
    assert (made.mechanism, made.parameters) == (adaptive.name, asdict(adaptive))
    assert made.guarantee.budget == budget
    other = replace(adaptive, radius_share=0.3).calibrate(ROWS.lattice(), budget, neighbors)
    assert other != laws
    assert adaptive.passes == inner.passes == 2


@pytest.mark.parametrize(
    ("adaptive", "budget"), [(AdaptiveLaplace(), ZCDP(0.5)), (AdaptiveGaussian(), PureDP(1.0))]
)
def test_a_refused_budget_is_refused_in_the_name_that_was_asked_for(adaptive, budget):
    with pytest.raises(MechanismError, match=f"^The mechanism {adaptive.name} "):
        adaptive.calibrate(ROWS.lattice(), budget, Neighbors.ADD_REMOVE)


@pytest.mark.parametrize("kind", [AdaptiveLaplace, AdaptiveGaussian])
@pytest.mark.parametrize(
    "fields",
    [
        {"by": "either"},
        {"radius_share": 0.0},
        {"radius_share": 1.0},
        {"trace_share": 1.0},
        {"values": "trace"},
        {"vector_share": 0.0},
    ],
)
def test_fields_without_a_meaning_are_refused(kind, fields):
    with pytest.raises(MechanismError, match=next(iter(fields))):
        kind(**fields)
