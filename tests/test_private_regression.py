"""The methods for a single regression that releases are compared with are what they claim to be."""

import numpy as np
import pytest

from dpcov.core.privacy import gaussian_mu
from private_regression import Moments, adassp, output_perturbation

N, P, EPSILON, DELTA = 20_000, 3, 1.0, 1e-6


def rows(seed=0):
    """Return (n, p) features and an intercept with ||a|| <= length, and |y| <= 1."""
    rng = np.random.default_rng(seed)
    a = np.column_stack([rng.uniform(-1, 1, (N, P)), np.ones(N)])
    y = np.clip(a @ [0.3, -0.2, 0.1, 0.1] + 0.1 * rng.normal(size=N), -1, 1)
    return a, y


def moments(a, y):
    return Moments(a.T @ a, a.T @ y, len(a), float(np.sqrt(P + 1)))


class Recorded:
    """A generator that adds no noise and remembers how much it was asked for."""

    def __init__(self):
        self.sizes = []

    def normal(self, size=None):
        self.sizes.append(size)
        return 0.0 if size is None else np.zeros(size)


@pytest.mark.parametrize("tight", [False, True])
def test_adassp_without_its_noise_is_ridge_with_its_penalty(tight):
    problem, recorded = moments(*rows()), Recorded()
    found = adassp(problem, EPSILON, DELTA, recorded, tight=tight)
    assert recorded.sizes == [None, (P + 1, P + 1), P + 1]  # three mechanisms, no more
    penalties = np.geomspace(1e-3, 1e5, 4000)
    gaps = [np.linalg.norm(problem.ridge(penalty) - found) for penalty in penalties]
    assert min(gaps) < 1e-3


def test_the_exact_curve_needs_less_noise_than_the_published_constants():
    """Spread of the coefficients over draws, in the same proportion as the multipliers."""
    problem = moments(*rows())
    spread = {}
    for tight in (False, True):
        rng = np.random.default_rng(1)
        draws = [adassp(problem, EPSILON, DELTA, rng, tight=tight) for _ in range(300)]
        spread[tight] = np.std(draws, axis=0).mean()
    published = np.sqrt(np.log(6 / DELTA)) * 3 / EPSILON
    exact = np.sqrt(3) / gaussian_mu(EPSILON, DELTA)
    assert spread[True] / spread[False] == pytest.approx(exact / published, rel=0.25)
    assert exact < published


def test_adassp_spends_its_budget_on_neighbours_and_no_more():
    """One row more moves (eigenvalue, gram, cross) by mu in units of the noise, at most."""
    length = np.sqrt(P + 1)
    a, y = np.full(P + 1, 1.0), 1.0  # the longest row
    moved = np.array([length**2, np.linalg.norm(np.outer(a, a)[np.triu_indices(P + 1)])])
    multiplier = np.sqrt(3) / gaussian_mu(EPSILON, DELTA)
    costs = [*(moved / (multiplier * length**2)), np.linalg.norm(a * y) / (multiplier * length)]
    assert np.linalg.norm(costs) <= gaussian_mu(EPSILON, DELTA) * (1 + 1e-9)
    halved = np.linalg.norm([2 * cost for cost in costs])
    assert halved > gaussian_mu(EPSILON, DELTA)


def test_output_perturbation_comes_close_to_ridge_as_the_budget_grows():
    problem = moments(*rows())
    errors = []
    for epsilon in (0.5, 8.0, 1e6):
        rng = np.random.default_rng(2)
        exact = problem.ridge(2 * 0.1 * N * (problem.length**2 + 1))
        found = [output_perturbation(problem, 0.1, epsilon, rng) for _ in range(50)]
        errors.append(np.mean([np.linalg.norm(f - exact) for f in found]))
    assert errors[0] > 4 * errors[1] > 0
    assert errors[2] < 1e-4
