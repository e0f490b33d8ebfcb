"""What neighbours cost, recomputed from the lattice: never more than stated."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, Unit, exact, gaussian_mu
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, Laplace, MatrixLaplace, NuclearLaplace
from dpcov.published.consistency import shift_for
from dpcov.rows.moment import Lattice

Q = 2**20
ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
EPSILON, RHO = 0.7, 0.3
SHAPES = {
    "d=1": Lattice(1, 1.0),
    "d=1, persons": Lattice(1, 1.0, 0.0, Unit("id", 3)),
    "d=2": Lattice(2, 1.0),
    "with intercept": Lattice(5, 1.0, 0.5),
    "persons": Lattice(3, 1.0, 0.0, Unit("id", 4)),
    "persons with intercept": Lattice(5, 1.0, 0.5, Unit("id", 3)),
}
each_shape = pytest.mark.parametrize("lattice", SHAPES.values(), ids=SHAPES)
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def extreme_rows(p):
    """Return rows of full norm: axes, and one whose products with two others can cancel."""
    rows = [Q * row for row in np.eye(p, dtype=int)]
    if p == 5:  # 1 + 9 + 4 + 1 + 1 = 16: the norm is Q, and with t = Q/2 orthogonal to (Q e1, t)
        rows.append(Q // 4 * np.array([-1, 3, 2, 1, 1]))
    return [*rows, -rows[0], np.zeros(p, int)]


def random_row(p, rng):
    row = rng.normal(size=p) * rng.choice([0.1, 1, 1], size=p)
    return np.trunc(row * (Q * (1 - 1e-9) / np.linalg.norm(row))).astype(int)


def units_of(lattice, rng):
    """Return second moments that one unit can have, as integer matrices: extreme, then random."""
    p, t, k = lattice.features, lattice.intercept_units, lattice.unit.max_rows
    found = [[row] * k for row in extreme_rows(p)]
    found += [[random_row(p, rng) for _ in range(rng.integers(1, k + 1))] for _ in range(30)]
    return [sum(outer(row, t) for row in rows) for rows in found]


def outer(row, t):
    whole = np.array([*row.tolist(), t] if t else row.tolist(), dtype=object)
    return np.outer(whole, whole)


def differences(lattice, neighbors):
    """Return changes of the second moment between neighbours."""
    units = units_of(lattice, np.random.default_rng(3))
    if neighbors is ADD:
        return [sign * unit for unit in units for sign in (1, -1)]
    return [one - other for one in units for other in units]


def nuclear(matrix):
    return float(np.abs(np.linalg.eigvalsh(matrix.astype(float))).sum())


def frobenius_squared(matrix):
    return int((matrix * matrix).sum())


def pure_loss(matrix, noise):
    trace = abs(int(matrix.trace())) / noise.trace.scale if noise.trace else 0
    return nuclear(matrix) / (2 * noise.matrix.scale) + float(trace)


def concentration(matrix, noise, rounding=0):
    """Return the exact zCDP cost: D^2 / 2s^2 on the diagonal, D^2 / s^2 off it, and the trace."""
    diagonal = sum(int(x) ** 2 for x in matrix.diagonal())
    off = (frobenius_squared(matrix) - diagonal) // 2
    variance = noise.matrix.variance - rounding
    cost = Fraction(diagonal, 1) / (2 * variance) + Fraction(off, 1) / variance
    if noise.trace:
        cost += Fraction(int(matrix.trace()) ** 2) / (2 * (noise.trace.variance - rounding))
    return cost


def worst(cost, lattice, neighbors, noise):
    return max(cost(matrix, noise) for matrix in differences(lattice, neighbors))


def largest_trace(lattice, neighbors):
    return Fraction(max(abs(int(m.trace())) for m in differences(lattice, neighbors)))


def public_corner(lattice, neighbors):
    """Return True if intercepts cancel in the trace, which then has too much noise."""
    return neighbors is SWAP and lattice.intercept_units > 0


def keeps(loss, stated, slack=1e-12):
    return loss <= stated * (1 + slack)


@each_relation
@each_shape
def test_sensitivities_are_those_of_the_table(lattice, neighbors):
    bound = Q**2 + lattice.intercept_units**2
    k = lattice.unit.max_rows
    two = 2 if neighbors is SWAP and lattice.dimension > 1 else 1
    assert lattice.nuclear(neighbors) == two * k * bound
    assert lattice.frobenius_squared(neighbors) == two * (k * bound) ** 2
    found = differences(lattice, neighbors)
    assert max(nuclear(m) for m in found) == pytest.approx(two * k * bound, rel=1e-12)
    assert max(frobenius_squared(m) for m in found) == two * (k * bound) ** 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@each_relation
@each_shape
def test_matrix_laplace_spends_all_of_epsilon_and_no_more(lattice, neighbors, share):
    noise = MatrixLaplace(share).calibrate(lattice, PureDP(EPSILON), neighbors)
    loss = worst(pure_loss, lattice, neighbors, noise)
    assert keeps(loss, EPSILON)
    assert loss > EPSILON * (1 - 1e-9)
    left = exact(EPSILON) * (1 - exact(share) * (noise.trace is not None and neighbors is ADD))
    assert Fraction(noise.matrix.scale) >= lattice.nuclear(neighbors) / (2 * left)
    alone = largest_trace(lattice, neighbors) / noise.trace_alone.scale
    assert alone <= exact(EPSILON)
    assert alone == exact(EPSILON) or public_corner(lattice, neighbors)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@each_relation
@each_shape
def test_gaussian_spends_exactly_rho(lattice, neighbors, share):
    noise = Gaussian(share).calibrate(lattice, ZCDP(RHO), neighbors)
    assert worst(concentration, lattice, neighbors, noise) == exact(RHO)
    alone = largest_trace(lattice, neighbors) ** 2 / (2 * noise.trace_alone.variance)
    assert alone <= exact(RHO)
    assert alone == exact(RHO) or public_corner(lattice, neighbors)


def exact_delta(mu_squared, epsilon):
    """Return the delta of the Gaussian mechanism in 50 digits, for a slightly smaller epsilon."""
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
        eps = mpmath.mpf(epsilon) - mpmath.mpf("1e-28")
        low, high = mu / 2 - eps / mu, -mu / 2 - eps / mu
        return mpmath.ncdf(low) - mpmath.exp(eps) * mpmath.ncdf(high)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 1e-6), (0.05, 1e-9), (0.1, 1e-30), (0.01, 1e-4), (8.0, 1e-12), (50.0, 0.1)],
)
@each_relation
@each_shape
def test_gaussian_spends_all_of_delta_and_no_more(lattice, neighbors, epsilon, delta):
    noise = Gaussian().calibrate(lattice, ApproxDP(epsilon, delta), neighbors)
    costs = [concentration(m, noise, rounding=8) for m in differences(lattice, neighbors)]
    assert max(costs) == Fraction(gaussian_mu(epsilon * (1 - 1e-12), delta)) ** 2 / 2
    spent = exact_delta(2 * max(costs), epsilon)
    assert spent <= delta
    assert spent > delta * (1 - 1e-6)


@each_relation
@each_shape
def test_the_gaussian_trace_alone_spends_rho_after_the_rounding(lattice, neighbors):
    rho, bound = exact(RHO), Fraction(lattice.unit_bound) ** 2
    plain = Gaussian().calibrate(lattice, ZCDP(RHO), neighbors).trace_alone.variance
    assert bound / (2 * plain) == rho
    budget = ApproxDP(1.0, 1e-6)
    mu = gaussian_mu(1.0 - 1e-12, 1e-6)
    rounded = Gaussian().calibrate(lattice, budget, neighbors).trace_alone.variance
    assert bound / (rounded - 8) == Fraction(mu) ** 2


@each_shape
def test_under_replace_one_the_trace_has_the_noise_of_a_diagonal_entry(lattice):
    if lattice.dimension == 1:
        assert Gaussian().calibrate(lattice, ZCDP(RHO), SWAP).trace is None
        return
    laws = Gaussian().calibrate(lattice, ZCDP(RHO), SWAP)
    assert laws.trace.variance == laws.matrix.variance
    pure = MatrixLaplace().calibrate(lattice, PureDP(EPSILON), SWAP)
    assert pure.trace.scale == 2 * lattice.unit_bound / exact(EPSILON)


@pytest.mark.parametrize("kind", [Gaussian, Laplace, MatrixLaplace, NuclearLaplace])
@pytest.mark.parametrize("share", [-0.01, 1.0, 1.5, float("nan"), "0.5", None])
def test_a_share_for_the_trace_outside_of_0_to_1_is_refused(kind, share):
    with pytest.raises(MechanismError, match="trace_share must be at least 0 and below 1"):
        kind(trace_share=share)


@pytest.mark.parametrize("kind", [Gaussian, MatrixLaplace])
@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan"), "0.5", None])
def test_a_share_for_the_radius_outside_of_0_to_1_is_refused(kind, share):
    with pytest.raises(MechanismError, match="radius_share must be above 0 and below 1"):
        kind(radius_share=share)
    with pytest.raises(MechanismError, match="radius must be 'public' or 'private'"):
        kind(radius="secret")


@pytest.mark.parametrize("kind", [Gaussian, MatrixLaplace])
def test_a_private_radius_takes_a_second_pass(kind):
    assert (kind().passes, kind(radius="private").passes) == (1, 2)


@each_relation
def test_a_relation_by_name_is_guaranteed_as_the_relation(neighbors):
    lattice = SHAPES["d=2"]
    for kind, budget in ((Gaussian, ZCDP(RHO)), (MatrixLaplace, PureDP(EPSILON))):
        named = kind().calibrate(lattice, budget, str(neighbors))
        assert named == kind().calibrate(lattice, budget, neighbors)
        assert named.guarantee.neighbors is neighbors


@pytest.mark.parametrize(
    ("spread", "shift"), [(1.0, 0), (2.0**10, 0), (2.0**11 - 1, 0), (2.0**11, 1), (2.0**40, 30)]
)
def test_the_published_lattice_is_2_to_the_minus_10_of_the_noise(spread, shift):
    assert shift_for(spread) == shift


@each_relation
def test_delta_check_rejects_a_sensitivity_two_percent_low(neighbors):
    lattice = SHAPES["with intercept"]
    noise = Gaussian().calibrate(lattice, ApproxDP(1.0, 1e-6), neighbors)
    small = replace(noise, matrix=GaussianOrthogonal(6, noise.matrix.variance * Fraction(96, 100)))
    costs = [concentration(m, small, rounding=8) for m in differences(lattice, neighbors)]
    assert exact_delta(2 * max(costs), 1.0) > 1.05e-6


def ripple(kernel_variance):
    """Return the log of the largest ratio of sum_k exp(-(k - y)^2 / 2r^2) between two real y."""
    with mpmath.workdps(60):
        at = [
            mpmath.fsum(
                mpmath.exp(-((k - mpmath.mpf(y)) ** 2) / (2 * kernel_variance))
                for k in range(-80, 81)
            )
            for y in (0, 0.25, 0.5)
        ]
        return mpmath.log(max(at) / min(at))


def test_a_discrete_gaussian_is_a_rounded_continuous_one_but_for_1e_33():
    assert ripple(8) < mpmath.mpf("1e-33")
    assert ripple(4) < mpmath.mpf("1e-33")
    assert ripple(2) > mpmath.mpf("1e-20")


# Negative controls: each broken calibration must fail the check that the right one passes.


def without_the_factor_two(lattice):
    noise = MatrixLaplace().calibrate(lattice, PureDP(EPSILON), SWAP)
    d = lattice.dimension
    return replace(noise, matrix=WishartDifference(d, noise.matrix.scale / 2)), SWAP


def with_a_free_trace_under_add_remove(lattice):
    noise = MatrixLaplace(0.0).calibrate(lattice, PureDP(EPSILON), ADD)
    scale = 2 * lattice.unit_bound / exact(EPSILON)
    return replace(noise, trace=ScalarLaplace(scale)), ADD


def for_rows_where_persons_are_protected(lattice):
    rows = replace(lattice, unit=Unit())
    return MatrixLaplace().calibrate(rows, PureDP(EPSILON), ADD), ADD


def with_a_trace_of_half_the_scale(lattice):
    noise = MatrixLaplace().calibrate(lattice, PureDP(EPSILON), SWAP)
    return replace(noise, trace=ScalarLaplace(noise.trace.scale / 2)), SWAP


@pytest.mark.parametrize(
    ("broken", "factor"),
    [
        (without_the_factor_two, 2),
        (with_a_free_trace_under_add_remove, 1.5),
        (for_rows_where_persons_are_protected, 4),
        (with_a_trace_of_half_the_scale, 1.5),
    ],
)
def test_pure_check_rejects_a_calibration(broken, factor):
    lattice = SHAPES["persons"]
    noise, neighbors = broken(lattice)
    loss = worst(pure_loss, lattice, neighbors, noise)
    assert not keeps(loss, EPSILON)
    assert loss == pytest.approx(factor * EPSILON, rel=1e-9)


def with_sensitivity_of_add_remove(lattice):
    noise = Gaussian().calibrate(lattice, ZCDP(RHO), SWAP)
    return replace(
        noise, matrix=GaussianOrthogonal(lattice.dimension, noise.matrix.variance / 2)
    ), SWAP


def with_a_free_gaussian_trace_under_add_remove(lattice):
    noise = Gaussian(0.0).calibrate(lattice, ZCDP(RHO), ADD)
    return replace(noise, trace=ScalarGaussian(2 * noise.matrix.variance)), ADD


def with_persons_as_rows(lattice):
    rows = replace(lattice, unit=Unit())
    return Gaussian().calibrate(rows, ZCDP(RHO), SWAP), SWAP


@pytest.mark.parametrize(
    ("broken", "factor"),
    [
        (with_sensitivity_of_add_remove, 2),
        (with_a_free_gaussian_trace_under_add_remove, Fraction(3, 2)),
        (with_persons_as_rows, 16),
    ],
)
def test_zcdp_check_rejects_a_calibration(broken, factor):
    lattice = SHAPES["persons"]
    noise, neighbors = broken(lattice)
    cost = worst(concentration, lattice, neighbors, noise)
    assert cost == factor * exact(RHO)


def test_a_common_variance_on_and_off_the_diagonal_would_cost_twice_rho():
    lattice = SHAPES["d=2"]
    noise = Gaussian().calibrate(lattice, ZCDP(RHO), SWAP)
    variance = noise.matrix.variance / 2
    costs = [
        Fraction(int(np.tril(m * m).sum())) / (2 * variance) for m in differences(lattice, SWAP)
    ]
    assert max(costs) == 2 * exact(RHO)
