"""A bounded drift of gad_mala: exact draws, and a way back from a steep tail."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.results import arviz_module
from tests.helpers.stan_target import shared_target

# x = log t falls as exp(-exp(x)) on the right: there moves along the gradient overshoot
STEEP = "parameters { real<lower=0> t; } model { t ~ gamma(2, 1); }"
FIXED = {"initial_scale": 1.65, "learning_rate": 1e-12, "standardize": False}
steep = shared_target(STEEP)


def draw(target, **options):
    return sa.sample(target, "gad_mala", seed=3, **FIXED, **options)


def test_draws_are_exact_if_most_drifts_are_at_the_bound(steep):
    """|L g| / 2 is above 0.2 at most points; mean and square within five Monte Carlo errors."""
    fit = draw(steep, largest_drift=0.2, iter_warmup=100, iter_sampling=10_000)
    t = fit["posterior"]["t"].values
    assert np.mean(0.5 * 1.65 * np.abs(2 - t) > 0.2) > 0.7
    for power, truth in ((1, 2.0), (2, 6.0)):
        error = np.std(t**power) / np.sqrt(float(arviz_module().ess(t**power)))
        assert abs(np.mean(t**power) - truth) < 5 * error
        assert error < 0.1 * truth  # the check above had power


@pytest.mark.parametrize(("bound", "leaves"), [(0.0, False), (2.5, True)])
def test_a_chain_leaves_a_steep_tail_with_a_bound_alone(steep, bound, leaves):
    """Without one, moves from t = 200 are by 270 standard deviations, and none is accepted."""
    inits = np.full((2, 1), np.log(200.0))
    fit = draw(steep, largest_drift=bound, chains=2, inits=inits, iter_warmup=0, iter_sampling=150)
    left = fit["posterior"]["t"].values[:, -1] < 20.0
    assert left.all() if leaves else not left.any()
    assert ("frozen_chain" in fit.attrs["verdict_codes"]) == (not leaves)
