"""Published sampling results of gradient-based adaptive MCMC, which ours have to reach.

Titsias and Dellaportas (2019), table 1: averages of ten chains of 20,000 + 20,000 iterations, by
preset=titsias2019. Standard deviations of one chain are those of our ten on the page of
reproductions; a mean of n chains may differ from the published one by four times
sd sqrt(1 / n + 1 / 10).
"""

import functools

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from workflows.gad.published import PUBLISHED, REPEATS, ess_of_chain
from workflows.reproduction.recorded import runs

CHAINS, ERRORS, DRAWS = 3, 4.0, 20_000
SIZES = ["ess_min", "ess_median", "ess_max"]
# rows of the table, by sampler and what the preset does not restore
ROWS = {
    "gadMALAf": ("gad_mala", {}), "gadMALAe": ("gad_mala", {"exact": True}),
    "gadRWM": ("gad_rwm", {}), "AM": ("am", {"diagonal": True}), "RWM": ("rwm", {}),
    "MALA": ("mala", {}), "HMC-20": ("hmc", {"leapfrogs": 20}),
}  # fmt: skip


@functools.cache
def chains(row):
    """Run chains as the paper does on Neal's Gaussian."""
    sampler, settings = ROWS[row]
    target = sa.Target(*bundled.find("neal"))
    starts = np.random.default_rng(5).standard_normal((CHAINS, target.dim))
    return sa.sample(
        target, sampler, chains=CHAINS, iter_warmup=20_000, iter_sampling=DRAWS, seed=5,
        inits=starts, preset="titsias2019", **settings,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def forget():
    """Free the chains, 50 MB per row, after the last of these tests."""
    yield
    chains.cache_clear()


def draws_of(row):
    """Return draws, shape (chain, draw, coordinate)."""
    (draws,) = results.dataset(chains(row), "posterior").values()
    return draws.values


def spreads(row):
    """Return standard deviations over our ten chains, of ESS before it is capped."""
    (run,) = [run for run in runs("gad") if run.name == "gad/neal"]
    repeats = run.table("_repeats")
    return repeats.loc[repeats["method"] == row, ["acceptance", *SIZES]].std().to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_effective_draws_on_neals_gaussian(row):
    """The smallest, median and largest over coordinates, and the acceptance rate."""
    ess = np.array([[ess_of_chain(x) for x in chain.T] for chain in draws_of(row)])
    ess = np.minimum(ess, DRAWS)
    ours = np.array([ess.min(axis=1), np.median(ess, axis=1), ess.max(axis=1)]).mean(axis=1)
    accepted = results.dataset(chains(row), "sample_stats")["acceptance_rate"].mean()
    known = PUBLISHED["neal"][row]
    found = np.array([float(accepted), *ours])
    published = np.array([known.acceptance, known.ess_min, known.ess_median, known.ess_max])
    errors = spreads(row) * np.sqrt(1 / CHAINS + 1 / REPEATS)
    distance = (found - published) / errors
    assert (np.abs(distance) < ERRORS).all(), (found, distance)
