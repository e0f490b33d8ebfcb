"""Integer samplers: exact decisions, limits, and quick checks of the distributions.

The full goodness-of-fit battery is tests/statistical/test_discrete_laws.py.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers import discrete
from dpcov.core.samplers.discrete import discrete_gaussian, discrete_laplace, uniform_below
from dpcov.errors import MechanismError

SAMPLERS = [
    pytest.param(discrete_laplace, Fraction(1, 50), id="laplace-1/50"),
    pytest.param(discrete_laplace, Fraction(1, 3), id="laplace-1/3"),
    pytest.param(discrete_laplace, Fraction(5, 2), id="laplace-5/2"),
    pytest.param(discrete_laplace, 2**40 / Fraction(0.1), id="laplace-96-bit-numerator"),
    pytest.param(discrete_gaussian, Fraction(1, 10), id="gaussian-1/10"),
    pytest.param(discrete_gaussian, Fraction(30), id="gaussian-30"),
    pytest.param(discrete_gaussian, Fraction(2**104), id="gaussian-2^104"),
]


class ScriptedEntropy:
    """Hands out given words, and fails when asked for more."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words than the script holds"
        return np.array(taken, dtype=np.uint64)


def decide(first: int, gamma: Fraction, *further: int) -> tuple[bool, int]:
    """Return the exact verdict, and the number of further words that it used."""
    entropy = ScriptedEntropy(*further)
    verdict = discrete._decide_exactly(first, gamma, entropy)
    return verdict, len(further) - len(entropy.left)


def words_of_exp(gamma: Fraction, count: int) -> list[int]:
    """Return the first 64-bit words of exp(-gamma), from 200 digits of mpmath."""
    with mpmath.workdps(200):
        exp = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)
        bits = int(mpmath.floor(exp * mpmath.mpf(2) ** (64 * count)))
    return [bits >> (64 * (count - 1 - i)) & (2**64 - 1) for i in range(count)]


GAMMAS = [
    pytest.param(Fraction(gamma), id=str(gamma))
    for gamma in ("1", "1/3", "7/5", "1/1000000007", "30", "50", "100", "1e-15")
]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_words_beside_the_threshold_are_decided_at_once(gamma):
    first = words_of_exp(gamma, 1)[0]
    assert first == 0 or decide(first - 1, gamma) == (True, 0)
    assert decide(first + 1, gamma) == (False, 0)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_words_equal_to_the_threshold_are_decided_by_the_first_that_differs(gamma, shared):
    first, *further = words_of_exp(gamma, shared + 1)
    *equal, last = further
    if last > 0:
        assert decide(first, gamma, *equal, last - 1) == (True, shared)
    if last < 2**64 - 1:
        assert decide(first, gamma, *equal, last + 1) == (False, shared)


def test_gamma_zero_is_always_heads():
    assert decide(2**64 - 1, Fraction(0), 0) == (True, 1)


def test_hopeless_gamma_is_tails_without_overflow():
    assert decide(1, Fraction(2**62)) == (False, 0)
    assert decide(0, Fraction(2**30), 0, 1) == (False, 2)


@pytest.mark.parametrize(("sampler", "parameter"), SAMPLERS)
def test_exact_path_gives_the_draws_of_the_fast_path(sampler, parameter, monkeypatch):
    fast = sampler(parameter, 300, Entropy.seeded(7))
    verdicts = []
    decide_exactly = discrete._decide_exactly

    def counted(*args):
        verdicts.append(decide_exactly(*args))
        return verdicts[-1]

    monkeypatch.setattr(discrete, "COIN_SLACK", 2.0)
    monkeypatch.setattr(discrete, "_decide_exactly", counted)
    exact = sampler(parameter, 300, Entropy.seeded(7))
    np.testing.assert_array_equal(fast, exact)
    assert len(verdicts) > 300
    assert {True, False} <= set(verdicts)


def coin_errors(exponents: discrete._Exponents) -> np.ndarray:
    """Return the errors of the float probabilities of exp(-gamma)."""
    with mpmath.workdps(60):
        return np.array(
            [
                float(abs(mpmath.mpf(p) - mpmath.exp(-mpmath.mpf(g.numerator) / g.denominator)))
                for p, g in (
                    (float(p), exponents.exact(i)) for i, p in enumerate(np.exp(-exponents.floats))
                )
            ]
        )


OFFSETS = [sign * 2**k for sign in (-1, 1) for k in range(20)]


def wrong_coins(gamma: Fraction, error: float) -> int:
    """Count wrong coins near the threshold if float exponents are off by `error`."""
    first = words_of_exp(gamma, 1)[0]
    words = [first + offset for offset in OFFSETS]
    exponents = discrete._Exponents(np.full(len(words), float(gamma) + error), lambda _: gamma)
    heads = discrete._coins(exponents, ScriptedEntropy(*words))
    return np.count_nonzero(heads != (np.array(OFFSETS) < 0))


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 3), Fraction(7, 5), Fraction(9, 2)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_coins_beside_the_threshold_are_right_despite_the_float_error(gamma, sign, monkeypatch):
    error = sign * 9 * 2.0**-53 * (1 + float(gamma))
    assert wrong_coins(gamma, error) == 0
    monkeypatch.setattr(discrete, "COIN_SLACK", 0.0)
    assert wrong_coins(gamma, error) > 0


def laplace_cases():
    rng = np.random.default_rng(1)
    for scale in (Fraction(1, 3), Fraction(5, 2), 2**40 / Fraction(0.1), Fraction(2**55)):
        yield discrete._laplace_exponents(rng.integers(0, -(-scale // 1), 300), scale)


def gaussian_cases():
    rng = np.random.default_rng(2)
    for variance in (Fraction(1, 10), Fraction(1, 3), 2**60 / Fraction(0.3), Fraction(2**104 - 1)):
        scale = discrete.math.isqrt(variance // 1) + 1
        near = rng.integers(-50, 50, 300) + round(variance / scale)
        wide = np.rint(rng.laplace(0, scale, 300)).astype(np.int64)
        yield discrete._gaussian_exponents(np.concatenate((near, wide)), variance, scale)


@pytest.mark.parametrize("cases", [laplace_cases, gaussian_cases])
def test_float_probabilities_stay_inside_the_slack(cases):
    worst = max(coin_errors(exponents).max() for exponents in cases())
    assert worst <= 26 * 2.0**-53  # the proof; the 64 bits of U take one more


def test_the_slack_covers_the_proved_error():
    assert 27 * 2.0**-53 < discrete.COIN_SLACK <= 32 * 2.0**-53


@pytest.mark.parametrize("cases", [laplace_cases, gaussian_cases])
def test_slack_would_not_cover_single_precision(cases):
    for exponents in cases():
        exponents.floats[:] = exponents.floats.astype(np.float32)
        assert coin_errors(exponents).max() > discrete.COIN_SLACK or not exponents.floats.any()


def test_numpy_exp_is_within_one_unit_in_the_last_place():
    gammas = np.random.default_rng(3).uniform(0, 60, 3000)
    values = np.exp(-gammas)
    with mpmath.workdps(40):
        errors = [
            float(abs(mpmath.mpf(p) - mpmath.exp(-mpmath.mpf(g)))) / np.spacing(p)
            for g, p in zip(gammas, values, strict=True)
        ]
    assert max(errors) < 1  # the proof allows 8


def p_uniform(draws, bound):
    return stats.chisquare(np.bincount(draws, minlength=bound)).pvalue


@pytest.mark.parametrize("bound", [2, 3, 7, 64, 100])
def test_uniform_below_is_uniform(bound):
    draws = uniform_below(bound, 50_000, Entropy.seeded(bound))
    assert p_uniform(draws, bound) > 1e-3


@pytest.mark.parametrize("bound", [3, 7, 100])
def test_uniformity_test_rejects_a_remainder_without_rejection(bound):
    bits = (bound - 1).bit_length()
    words = Entropy.seeded(bound).words(50_000) >> np.uint64(64 - bits)
    assert p_uniform((words % bound).astype(np.int64), bound) < 1e-9


def test_uniform_below_fills_the_widest_range_evenly():
    bound = 3 * 2**60
    draws = uniform_below(bound, 50_000, Entropy.seeded(5))
    assert draws.min() >= 0
    assert draws.max() < bound
    assert p_uniform(draws // 2**58, 12) > 1e-3
    assert p_uniform(draws % 16, 16) > 1e-3


def test_uniform_below_one_is_zero():
    assert not uniform_below(1, 10, Entropy.seeded(1)).any()


@pytest.mark.parametrize(("sampler", "parameter"), SAMPLERS[1:])  # scale 1/50 gives only zeros
def test_same_stream_gives_the_same_draws_and_another_stream_others(sampler, parameter):
    draws = [sampler(parameter, 2000, Entropy.seeded(seed)).tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_small_batches_give_the_draws_of_one_stream(batch, monkeypatch):
    def draws():
        return (
            discrete._geometric(Fraction(1), 500, Entropy.seeded(1)).tolist(),
            uniform_below(100, 500, Entropy.seeded(1)).tolist(),
        )

    whole = draws()
    monkeypatch.setattr(discrete, "MAX_ATTEMPTS", batch)
    assert draws() == whole


def p_geometric(runs, gamma):
    survival = np.append(np.exp(-float(gamma) * np.arange(6)), 0)
    observed = np.bincount(np.minimum(runs, 5), minlength=6)
    return stats.chisquare(observed, -np.diff(survival) * runs.size).pvalue


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(7, 5)])
def test_runs_of_heads_are_geometric(gamma):
    runs = discrete._geometric(gamma, 50_000, Entropy.seeded(2))
    assert p_geometric(runs, gamma) > 1e-3
    assert p_geometric(runs, gamma * Fraction(11, 10)) < 1e-9


@pytest.mark.parametrize("count", [0, 1, 3, discrete.MAX_ATTEMPTS + 1])
def test_as_many_draws_as_asked(count):
    for draws in (
        uniform_below(6, count, Entropy.seeded(1)),
        discrete_laplace(Fraction(9, 2), count, Entropy.seeded(1)),
        discrete_gaussian(Fraction(9, 2), count, Entropy.seeded(1)),
    ):
        assert draws.shape == (count,)
        assert draws.dtype == np.int64


def test_tiny_parameters_give_zeros():
    assert not discrete_laplace(discrete.MIN_SCALE, 1000, Entropy.seeded(1)).any()
    assert not discrete_gaussian(discrete.MIN_VARIANCE, 1000, Entropy.seeded(1)).any()


def test_draws_have_the_variance_of_their_law():
    count = 100_000
    laplace = discrete_laplace(Fraction(5, 2), count, Entropy.seeded(3))
    gaussian = discrete_gaussian(Fraction(30), count, Entropy.seeded(4))
    assert laplace.var() == pytest.approx(0.5 / np.sinh(0.2) ** 2, rel=0.03)  # not 12.5: 12.34
    assert gaussian.var() == pytest.approx(30, rel=0.02)
    assert abs(laplace.mean()) < 4 * laplace.std() / count**0.5
    assert abs(gaussian.mean()) < 4 * gaussian.std() / count**0.5


def test_largest_noise_uses_the_whole_range_without_wrapping():
    laplace = discrete_laplace(discrete.MAX_SCALE, 50_000, Entropy.seeded(6)) / 2**80
    gaussian = discrete_gaussian(discrete.MAX_VARIANCE, 50_000, Entropy.seeded(6)) / 2**78
    for draws, law in ((laplace, "laplace"), (gaussian, "norm")):
        assert stats.kstest(draws.astype(float), law).pvalue > 1e-3
        assert stats.kstest(draws.astype(float) * 1.1, law).pvalue < 1e-9


@pytest.mark.parametrize("bits", [57, 62, 64, 80])
def test_noise_wider_than_64_bits_has_the_law_and_every_bit_of_the_narrow(bits):
    draws = discrete_laplace(Fraction(2**bits, 3), 20_000, Entropy.seeded(bits))
    assert draws.dtype == object
    assert stats.kstest((draws / Fraction(2**bits, 3)).astype(float), "laplace").pvalue > 1e-3
    for place in (0, 1, bits // 2, bits - 8):
        ones = sum(int(draw) >> place & 1 for draw in draws)
        assert abs(ones - 10_000) < 4 * 71, place


def test_the_sampler_for_wide_noise_draws_what_the_narrow_one_does(monkeypatch):
    scale, variance = Fraction(10**6, 7), Fraction(10**13, 7)
    narrow = discrete_laplace(scale, 500, Entropy.seeded(2))
    normal = discrete_gaussian(variance, 500, Entropy.seeded(2))
    monkeypatch.setattr(discrete, "MAX_INT64_SCALE", 0)
    assert discrete_laplace(scale, 500, Entropy.seeded(2)).tolist() == narrow.tolist()
    assert discrete_gaussian(variance, 500, Entropy.seeded(2)).tolist() == normal.tolist()


def test_wide_uniform_integers_fill_their_range():
    bound = 5 * 2**70
    draws = uniform_below(bound, 20_000, Entropy.seeded(5))
    assert 0 <= draws.min() < bound // 1000
    assert bound - bound // 1000 < draws.max() < bound
    assert stats.kstest((draws / bound).astype(float), "uniform").pvalue > 1e-3


def test_a_draw_beyond_64_bits_is_refused_not_wrapped(monkeypatch):
    for longest, fits in ((254, True), (255, False)):
        monkeypatch.setattr(discrete, "_geometric", lambda _g, n, _e, v=longest: np.full(n, v))
        if fits:
            draws = discrete_laplace(Fraction(discrete.MAX_INT64_SCALE), 20, Entropy.seeded(1))
            assert np.all(np.abs(draws) // 2**55 == longest)
        else:
            with pytest.raises(MechanismError, match="does not fit 64 bits"):
                discrete_laplace(Fraction(discrete.MAX_INT64_SCALE), 20, Entropy.seeded(1))


@pytest.mark.parametrize("scale", [0, -1, Fraction(1, 2**31), 2**80 + 1, 10**400])
def test_scale_out_of_range_is_refused_with_the_range(scale):
    with pytest.raises(
        MechanismError, match=r"scale of the integer noise is .* between 9[.]313E-10"
    ):
        discrete_laplace(Fraction(scale), 1, Entropy.seeded(1))


@pytest.mark.parametrize("variance", [0, -1, Fraction(1, 2**31), 2**156 + 1])
def test_variance_out_of_range_is_refused_with_the_range(variance):
    with pytest.raises(MechanismError, match=r"variance of the integer noise .* and 9[.]134E[+]46"):
        discrete_gaussian(Fraction(variance), 1, Entropy.seeded(1))


@pytest.mark.parametrize("bound", [0, -5, 2**84 + 1])
def test_bound_out_of_range_is_refused(bound):
    with pytest.raises(MechanismError, match="bound"):
        uniform_below(bound, 1, Entropy.seeded(1))


@pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian])
def test_float_parameters_are_refused_because_nothing_exact_follows_from_them(sampler):
    with pytest.raises(TypeError):
        sampler(2.5, 10, Entropy.seeded(1))
