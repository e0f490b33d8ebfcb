"""Run the four black-box tests of DP-Auditorium on releases of dpcov.

A test gets samples of a number from each of two neighbouring tables. The number is the noisy second
moment in the direction in which the two tables differ, so no other number of the release shows more
of the difference. The tests know nothing else.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import dpcov
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms import MatrixLaplace
from dpcov.rows.moment import Lattice
from figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget

ATTACK = "DP-Auditorium"
CONTROL = "DP-Auditorium: control that must be caught"
POWER = "DP-Auditorium: power"
NAMES = ("histogram", "MMD", "hockey-stick", "Renyi")
RUNS = 1_500  # on each table
FAILURE_PROBABILITY = 0.05
ORDER = 2.0  # of the Renyi divergence
# Epochs, samples at a time, learning rate and largest output of the networks, as in the examples of
# the tool.
EPOCHS, BATCH, RATE, BOUND = 2, 100, 1e-2, 1.0
REACH, BINS = 6.0, 20  # ends of the histogram in standard deviations, and its number of bins
ROWS, COLUMNS = 50, 3
REPETITIONS = 5
CONTROL_RUNS = 20_000
# Planted faults that each test must find: the noise is smaller by this factor, at this epsilon.
CONTROLS = {
    "histogram": (20.0, 1.0),
    "MMD": (20.0, 0.1),
    "hockey-stick": (2.0, 1.0),
    "Renyi": (20.0, 1.0),
}


def tester(name: str, claim: Budget) -> Any:
    """Return a test of the tool for a claim, or None if the test has no form for it.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    claim : Budget
        Claim that the test can reject.

    Returns
    -------
    PropertyTester or None

    """
    config, stated = part("configs.property_tester_config"), part("configs.privacy_property")
    training = config.TrainingConfig(EPOCHS, BATCH, RATE, BOUND)
    match claim:
        case ZCDP(rho):
            curve = stated.PrivacyProperty(renyi_dp=stated.RenyiDp(ORDER, rho * ORDER))
            approximate = None
        case PureDP(epsilon):
            curve = stated.PrivacyProperty(pure_dp=stated.PureDp(epsilon))
            approximate = stated.ApproximateDp(epsilon, 0.0)
        case ApproxDP(epsilon, delta):
            curve, approximate = None, stated.ApproximateDp(epsilon, delta)
    match name:
        case "Renyi" if curve is not None:
            tests = part("testers.renyi_tester")
            of = config.RenyiPropertyTesterConfig(ORDER, training, curve)
            return tests.RenyiPropertyTester(of, tests.make_default_renyi_base_model())
        case "hockey-stick" if approximate is not None:
            tests = part("testers.hockey_stick_tester")
            of = config.HockeyStickPropertyTesterConfig(training, approximate)
            return tests.HockeyStickPropertyTester(of, tests.make_default_hs_base_model())
        case "histogram" if approximate is not None:
            of = config.HistogramPropertyTesterConfig(False, BINS, -REACH, REACH, approximate)
            return part("testers.histogram_tester").HistogramTester(of)
        case "MMD" if approximate is not None:
            of = config.MMDPropertyTesterConfig(config.Kernel.KERNEL_RBF, 1.0, approximate)
            return part("testers.mmd_tester").MMDPropertyTester(of)
    return None


def part(name: str) -> Any:
    """Return a module of the tool."""
    return import_module(f"dp_auditorium.{name}")


def rejects(test: Any, one: Matrix, other: Matrix) -> bool:
    """Return True if a test rejects its claim for samples from two tables.

    Parameters
    ----------
    test : PropertyTester
        Test of the tool.
    one, other : ndarray, shape (n, k)
        Samples from each table.

    """
    config = part("configs.privacy_test_runner_config")
    asked = config.PrivacyTestRunnerConfig(
        config.PropertyTester.UNSPECIFIED_TESTER,
        max_num_trials=1,
        failure_probability=FAILURE_PROBABILITY,
        num_samples=len(one),
        post_processing=config.PostProcessing.NONE,
    )
    runner = part("privacy_test_runner").PrivacyTestRunner(asked, lambda _: (one, other), test)
    found = runner.test_privacy(lambda samples, _: samples, "dpcov")
    return found.found_privacy_violation is not None


# Samples


def released(asked: dict[str, Any], rows: Matrix, count: int) -> Matrix:
    """Return noisy second moments of releases of a table, shape (count, d, d)."""
    asked = {"lower": -1.0, "upper": 1.0, "threads": 1, "denoise": "none"} | asked
    return np.array([dpcov.release(rows, **asked).noisy() for _ in range(count)])


def numbers(one: Matrix, other: Matrix, row: Matrix) -> tuple[Matrix, Matrix]:
    """Return the number of each release that shows a row best, standardized, shape (n, 1)."""
    along = [np.einsum("i,nij,j->n", row, samples, row)[:, None] for samples in (one, other)]
    middle, deviation = np.median(np.concatenate(along)), np.std(along[0])
    return (along[0] - middle) / deviation, (along[1] - middle) / deviation


def pair(asked: dict[str, Any]) -> tuple[Matrix, Matrix]:
    """Return numbers of releases of a table and of the table with one more row."""
    rows = np.random.default_rng(1).uniform(-0.3, 0.3, (ROWS, COLUMNS))
    more = np.ones(COLUMNS)
    one, other = (released(asked, table, RUNS) for table in (rows, np.vstack([rows, more])))
    return numbers(one, other, np.append(more, 1.0)[: one.shape[1]])


def with_less_noise(
    runs: int, seed: int, factor: float = 2.0, epsilon: float = 1.0
) -> tuple[Matrix, Matrix]:
    """Return sums of matrix-laplace with too little noise, standardized, shape (n, d, d).

    The distribution of the noise is the same after a rotation, so the added row can lie on the
    first axis.

    Parameters
    ----------
    runs : int
        Number of samples from each table.
    seed : int
        Seed of the noise.
    factor : float
        Factor by which the noise is too small.
    epsilon : float
        Claim.

    """
    lattice, budget = Lattice(COLUMNS, 1.0, 0.3), PureDP(epsilon)
    laws = MatrixLaplace(trace_share=0.0).calibrate(lattice, budget, Neighbors.ADD_REMOVE)
    law = laws.matrix.rescaled(1 / factor)
    noise = [law.samples(runs, Entropy.seeded(seed + at)).astype(float) for at in (0, 1)]
    noise[1][:, 0, 0] += lattice.unit_bound
    return noise[0] / noise[0].std(), noise[1] / noise[0].std()


def entries(samples: Matrix) -> Matrix:
    """Return the distinct entries of symmetric matrices, shape (n, d (d + 1) / 2)."""
    return samples[:, *np.triu_indices(samples.shape[1])]


# Figures


def measure(asked: dict[str, tuple[dict[str, Any], ...]], quick: bool) -> Iterator[Figure]:
    """Yield the verdicts on the releases, then the power and the controls."""
    for name, budgets in asked.items():
        for options in budgets[: 1 if quick else None]:
            yield verdicts(name, options)
    for name in NAMES:
        yield power(name)
        yield control(name)


def verdicts(name: str, options: dict[str, Any]) -> Figure:
    """Return which tests reject the claim of a release."""
    match options:
        case {"epsilon": epsilon, "delta": delta}:
            claim: Budget = ApproxDP(epsilon, delta)
        case {"epsilon": epsilon}:
            claim = PureDP(epsilon)
        case {"rho": rho}:
            claim = ZCDP(rho)
    tests = {one: tester(one, claim) for one in NAMES}
    samples = pair({"mechanism": name} | options)
    asked = [one for one, test in tests.items() if test is not None]
    rejecting = [one for one in asked if rejects(tests[one], *samples)]
    stated = ", ".join(f"{key} {value}" for key, value in options.items())
    measured = f"{name}, {stated}: {RUNS:,} runs on both tables, {', '.join(asked)}"
    return Figure(ATTACK, measured, "none rejects", ", ".join(rejecting) or "none", not rejecting)


def power(name: str) -> Figure:
    """Return how often a test finds half of the noise, in one number and in all entries."""
    claim, found = PureDP(1.0), Counter[str]()
    for seed in range(REPETITIONS):
        one, other = with_less_noise(RUNS, 2 * seed)
        found["one number"] += rejects(tester(name, claim), one[:, 0, :1], other[:, 0, :1])
        if name != "histogram":  # it takes one number
            found["all entries"] += rejects(tester(name, claim), entries(one), entries(other))
    shown = ", ".join(f"{form}: {count} of {REPETITIONS}" for form, count in found.items())
    measured = f"{name}, epsilon 1, half of the noise: {RUNS:,} runs on both tables"
    return Figure(POWER, measured, "measured", shown, ok=True)


def control(name: str) -> Figure:
    """Return if a test finds a planted fault in enough runs."""
    factor, epsilon = CONTROLS[name]
    one, other = with_less_noise(CONTROL_RUNS, 0, factor, epsilon)
    found = rejects(tester(name, PureDP(epsilon)), one[:, 0, :1], other[:, 0, :1])
    measured = (
        f"{name}, epsilon {epsilon:g}, 1/{factor:g} of the noise: "
        f"{CONTROL_RUNS:,} runs on both tables"
    )
    return Figure(CONTROL, measured, "rejected", "rejected" if found else "not rejected", found)
