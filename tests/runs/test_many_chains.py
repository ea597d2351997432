"""Hundreds of chains in one run: few draws of each, and one that is stuck."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers.stan_target import shared_target

NORMAL = "parameters { real x; } model { x ~ std_normal(); }"
# what enters the spike does not leave it; it has no mass, and other chains do not find it
SPIKE = """
parameters { vector[3] x; }
model {
  target += log_sum_exp(normal_lpdf(x[1] | 0, 1), normal_lpdf(x[1] | 30, 1e-7) - 20);
  x[2:3] ~ std_normal();
}
"""
normal, spike = shared_target(NORMAL), shared_target(SPIKE)


@pytest.mark.slow
def test_one_parameter_and_a_thousand_chains(normal):
    """Their draws are as good as those of few chains, and tables do not list each chain."""
    fit = sa.sample(normal, chains=1000, iter_sampling=20, seed=1, show_progress=False)
    x = fit.posterior["x"].values
    assert fit.attrs["verdict"] == "fine"
    assert x.shape == (1000, 20)
    assert np.unique(x).size > 10_000
    assert abs(x.mean()) < 4.0 / np.sqrt(sa.summary(fit).ess_bulk.iloc[0])
    assert x.var() == pytest.approx(1.0, abs=0.05)
    assert max(len(repr(sa.summary(fit)).splitlines()), len(repr(fit.attrs["verdict"]))) < 20
    assert int(fit.attrs["n_gradients"]) < 300 * 1000


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["auto", "nuts"])
def test_of_256_chains_one_that_is_stuck_is_named(spike, sampler):
    """It starts in the spike; R-hat of another quantity may be larger, by chance."""
    inits = [{"x": [k / 2560, 0.0, 0.0]} for k in range(256)]
    inits[77] = {"x": [30.0, 0.0, 0.0]}
    fit = sa.sample(
        spike, sampler, chains=256, iter_warmup=200, iter_sampling=16, inits=inits, seed=1,
        show_progress=False,
    )  # fmt: skip
    assert fit.posterior["x"].values[77, :, 0] == pytest.approx(30.0, abs=1e-4)
    assert fit.attrs["verdict"] == "do not use"
    assert any("Chain 78 " in reason for reason in results.from_json(fit, "verdict_reasons", []))
