"""Native models shared by threads: same bits, no memory leaks."""

import gc
import os
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, value_and_gradient
from stanadapt.targets.stan import bundled
from stanadapt.targets.stan.backends import native

pytestmark = pytest.mark.cmdstan

CALLS, THREADS, POINTS = 1_000_000, 4, 250
# half the plane is out of bounds
REJECTING = """
parameters { vector[2] x; }
model {
  x ~ normal(0, 1);
  if (x[1] > 0) reject("out of bounds at ", x[1]);
}
"""


def megabytes():
    """Memory of this process; its peak, if the system does not report the current value."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


@njit(nogil=True)
def mismatches(density, positions, expected, gradients, rounds):
    """Evaluate all points repeatedly; count results that differ in any bit from those expected."""
    wrong, gradient = 0, np.empty(positions.shape[1])
    for _ in range(rounds):
        for i in range(positions.shape[0]):
            value = value_and_gradient(density, positions[i], gradient)
            same = value == expected[i]
            for j in range(gradient.size):
                same &= gradient[j] == gradients[i, j]
            wrong += not same
    return wrong


def serial(target, positions):
    """Return values and gradients computed by a single thread."""
    density, gradients = target.density(), np.empty_like(positions)
    values = [
        value_and_gradient(density, x, out) for x, out in zip(positions, gradients, strict=True)
    ]
    return np.array(values), gradients


def in_threads(target, positions, expected, gradients, calls):
    """Return each thread's mismatches and its counters."""
    densities = [target.density(chain) for chain in range(THREADS)]
    assert len({density.handle for density in densities}) == 1  # a single model
    rounds = calls // THREADS // len(positions)
    with ThreadPoolExecutor(THREADS) as pool:
        wrong = pool.map(
            lambda density: mismatches(density, positions, expected, gradients, rounds), densities
        )
        return list(wrong), [density.calls for density in densities]


def stress(target, seed):
    """Run a million calls after 100,000 to warm up; return the proportion that failed."""
    positions = np.random.default_rng(seed).standard_normal((POINTS, target.dim))
    expected, gradients = serial(target, positions)
    assert len(np.unique(expected)) > POINTS / 3
    in_threads(target, positions, expected, gradients, CALLS // 10)
    before = megabytes()
    wrong, counters = in_threads(target, positions, expected, gradients, CALLS)
    grown = megabytes() - before
    assert wrong == [0] * THREADS
    assert sum(calls[GRADIENT_CALLS] for calls in counters) == CALLS
    assert grown < 2, f"{grown:.1f} MB more"
    return sum(calls[FAILED_CALLS] for calls in counters) / CALLS


def test_the_check_detects_a_wrong_bit():
    target = sa.Target(*bundled.find("eight_schools_noncentered"), backend="cmdstan")
    positions = np.random.default_rng(2).standard_normal((3, target.dim))
    expected, gradients = serial(target, positions)
    gradients[1, 4] = np.nextafter(gradients[1, 4], np.inf)
    assert in_threads(target, positions, expected, gradients, 3 * THREADS)[0] == [1] * THREADS
    expected[2] = np.nextafter(expected[2], np.inf)
    assert in_threads(target, positions, expected, gradients, 3 * THREADS)[0] == [2] * THREADS


def test_threads_share_a_model():
    target = sa.Target(*bundled.find("eight_schools_noncentered"), backend="cmdstan")
    assert stress(target, 3) == 0


@pytest.mark.soak
def test_threads_share_a_model_that_throws_half_of_the_time():
    assert 0.4 < stress(sa.Target(REJECTING, backend="cmdstan"), 4) < 0.6


def test_deleted_models_free_their_memory():
    """Two hundred of half a megabyte each."""
    path, data = bundled.find("logistic", "german")
    target = sa.Target(path, data, backend="cmdstan")
    position = np.linspace(-0.1, 0.1, target.dim)
    expected = target.evaluate(position)[0]

    def construct(times):
        for _ in range(times):
            model = native._construct(Path(target.model.lib_path), target.program, target.checked)
            assert model.log_density_gradient(position)[0] == expected
            model.param_constrain(position, include_gq=True, rng=model.new_rng(1))
            del model
        gc.collect()

    construct(20)
    before = megabytes()
    construct(200)
    grown = megabytes() - before
    assert grown < 5, f"{grown:.1f} MB more"
    assert target.evaluate(position)[0] == expected


@pytest.mark.parametrize("sampler", ["gad_mala", "rwm"])
def test_draws_do_not_depend_on_the_number_of_parallel_chains(sampler):
    target = sa.Target(*bundled.find("eight_schools_noncentered"), backend="cmdstan")
    keywords = {"chains": 2, "iter_warmup": 300, "iter_sampling": 300}
    fits = [
        sa.sample(target, sampler, seed=seed, parallel_chains=n, **keywords)
        for seed, n in ((5, 1), (5, 2), (6, 2))
    ]
    for group in ("posterior", "sample_stats", "log_likelihood"):
        one, two = (results.dataset(fit, group) for fit in fits[:2])
        for name in one:
            np.testing.assert_array_equal(one[name].values, two[name].values)
    mu = [results.dataset(fit, "posterior")["mu"].values for fit in fits]
    assert (mu[0] != mu[2]).any()
    assert (mu[0][0] != mu[0][1]).any()
    assert len(np.unique(mu[0])) > 50
    assert fits[0].attrs["backend"] == "cmdstan"
