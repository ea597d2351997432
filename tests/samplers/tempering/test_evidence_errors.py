"""Are reported errors of the log evidence right? Many runs on programs with known evidence.

Those of `hvi`, which has no reference distribution, are in test_hvi.py.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers import registered
from stanadapt.samplers.tempering import ReferenceDistribution
from tests.helpers.known_moments import known_moments, load

SEEDS = range(100, 150)


class Method(NamedTuple):
    """A sampler, its settings, and the number of chains of a run that gives an error."""

    sampler: str
    settings: dict[str, Any]
    chains: int = 4


LONG = {"iter_warmup": 10_000}
# on a program of 26 parameters with many small modes
BOLTZMANN = {
    "simulated_tempering": Method("simulated_tempering", {**LONG, "iter_sampling": 8470}),
    "continuous_tempering": Method("continuous_tempering", {**LONG, "iter_sampling": 7130}),
    "continuous_tempering, gibbs": Method(
        "continuous_tempering", {**LONG, "iter_sampling": 7130, "temperature_update": "gibbs"}
    ),
    "smc": Method("smc", {"particles": 1000, "iter_sampling": 100}),
    "annealed importance sampling": Method(
        "smc", {"resample": False, "threshold": 0.9, "iter_sampling": 100}
    ),
}
# and on twenty modes in the plane, those with errors from the spread of chains: eight of them,
# since squares of Student's t with 3 degrees of freedom have no variance
TWENTY = {
    "parallel_tempering": Method(
        "parallel_tempering", {"iter_warmup": 2000, "iter_sampling": 8000}, 8
    ),
    "energy rings": Method(
        "parallel_tempering",
        {"iter_warmup": 2000, "iter_sampling": 8000, "swaps": "energy_rings"}, 8,
    ),
    "pseudo_extended": Method("pseudo_extended", {"iter_warmup": 3000, "iter_sampling": 6000}, 8),
}  # fmt: skip


def test_every_sampler_that_tempers_is_there():
    tempering = {name for name, s in registered().items() if s.tempering is not None}
    assert {m.sampler for m in [*BOLTZMANN.values(), *TWENTY.values()]} == tempering


def surprises(target, method, truth, **options):
    """Standardized errors, shape (seed, chain)."""
    found = []
    for seed in SEEDS:
        fit = sa.sample(
            target, method.sampler, chains=method.chains, seed=seed, **method.settings, **options
        )
        tempering = results.dataset(fit, "tempering")
        miss = tempering["log_evidence"].values - truth
        found.append(miss / tempering["log_evidence_error"].values)
    print(f"{method}: {np.mean(np.square(found)):.2f}, {np.abs(found).max():.2f}")
    return np.array(found)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", BOLTZMANN)
def test_errors_of_the_log_evidence_are_right(method):
    """Fifty seeds, four chains each: variance of standardized errors; none is above 4.

    The variance of 200 normal ones is known to 10 %, and one in 80 such sets has one above 4.
    """
    truth, target = known_moments("boltzmann", "system_10"), load("boltzmann", "system_10")[0]
    reference = ReferenceDistribution(np.zeros(26), np.array(truth["sd"]["x"]))
    found = surprises(
        target, BOLTZMANN[method], truth["log_evidence"], reference_distribution=reference
    )
    assert 0.6 < np.mean(np.square(found)) < 1.6
    assert np.abs(found).max() < 4.0


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", TWENTY)
def test_errors_from_the_spread_of_chains_are_right(method):
    """Fifty seeds of eight chains, which share one error: the variance is known to about 10 %."""
    target, _ = load("mixture", "twenty")
    found = surprises(target, TWENTY[method], 0.0)
    assert 0.6 < np.mean(np.square(found)) < 1.6
    assert np.abs(found).max() < 5.0
