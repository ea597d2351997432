"""Kameleon: Adaptive Metropolis if its kernel is linear, its tuning, and a past that is given."""

import numpy as np
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.density import value
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.samplers.kameleon.kameleon import PUBLISHED
from stanadapt.targets.stan import bundled
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.targets import SD, Awkward

LINEAR = {
    "kernel": "linear", "subsample": 400, "history": 800, "bandwidth": 1.0, "whiten": False,
    "gamma": 0.3, "initial_scale": 0.7, "discard": 1, "tune_early": False, "redraw": 1.0,
    "learning_power": 0.7, "average": False,
}  # fmt: skip


def one_chain(chosen, target=None, start=(0.1, 0.5, -1.0), **lengths):
    """Return one chain from a given start."""
    target = target or Awkward()
    (chain,) = make_chains(("kameleon", chosen), target, **lengths)
    chain.state = chain.sampler.init(
        chain.density, chain.compiled_settings, np.array(start), chain.rng
    )
    return chain


class AdaptiveMetropolis:
    """Haario, Saksman and Tamminen (2001), with a learned scale; in numpy, symmetric proposals."""

    def __init__(self, density, position, rng):
        self.density, self.position, self.rng = density, np.array(position), rng
        self.log_density = value(density, self.position)
        self.scale, self.updates = LINEAR["initial_scale"] / np.sqrt(3), 0

    def step(self, past, adapting):
        if adapting and len(past):
            self.rng.random()  # whether to take another subsample: always
        covariance = LINEAR["gamma"] ** 2 * np.eye(3)
        if len(past):
            covariance += self.scale**2 * np.cov(np.array(past).T, bias=True).reshape(3, 3)
        noise = [self.rng.standard_normal() for _ in range(3)]
        proposal = self.position + np.linalg.cholesky(covariance) @ noise
        log_density = value(self.density, proposal)
        rate = min(1.0, np.exp(log_density - self.log_density))
        if self.rng.random() < rate:
            self.position, self.log_density = proposal, log_density
        if adapting and len(past):
            self.updates += 1
            gain = 0.5 * self.updates ** -LINEAR["learning_power"]
            self.scale *= np.exp(gain * (rate - 0.234))


def test_linear_kernel_is_adaptive_metropolis_draw_for_draw():
    """300 iterations that adapt and 200 that do not, with the covariance of the whole past."""
    chain = one_chain(LINEAR, warmup=300, draws=200)
    rng = np.random.default_rng(chain.plan.seeds()[0])
    peer = AdaptiveMetropolis(chain.density, [0.1, 0.5, -1.0], rng)
    finish([chain])
    # the proposal uses the positions before the last redraw, without the newest one
    draws, past = [], []
    for t in range(500):
        if t < 300:
            past = np.array(draws[1:])
        peer.step(past, adapting=t < 300)
        draws.append(peer.position)
    found = np.vstack([chain.warmup.constrained, chain.sampling.constrained])
    np.testing.assert_allclose(found, draws, rtol=1e-7, atol=1e-7)
    assert len(np.unique(found[:, 0])) > 80


# --- tuning --------------------------------------------------------------------------------------


def test_it_learns_units_bandwidth_and_scale():
    chain = one_chain({"subsample": 300, "whiten_kernel": True}, warmup=4000, draws=4000)
    finish([chain])
    past = chain.state.past
    # of 1000 draws the correlation's error is 0.06 or so: twice the real number of them
    assert np.sqrt(np.diag(past.floor)) == pytest.approx(SD, rel=0.3)
    np.testing.assert_allclose(
        np.tril(past.subsample.units) @ np.tril(past.subsample.units).T,
        np.tril(past.floor) + np.tril(past.floor, -1).T,
        rtol=1e-10,
    )
    # the distance of whitened positions is sqrt(2 chi^2_3), with median sqrt(2 * 2.37)
    assert past.subsample.bandwidth == pytest.approx(np.sqrt(2.37), rel=0.2)
    assert past.subsample.count == 300
    assert column(chain, "acceptance_rate").mean() == pytest.approx(0.234, abs=0.06)
    assert column(chain, "bandwidth")[0] == past.subsample.bandwidth


def test_it_reaches_scales_that_differ_by_a_million():
    """Start with the smallest steps: a kernel must not confine proposals to an early past."""
    code = "data { vector[5] s; } parameters { vector[5] x; } model { x ~ normal(1, s); }"
    scales = np.array([1e-3, 0.03, 1.0, 30.0, 1e3])
    fit = sa.sample(
        sa.Target(code, {"s": scales}), "kameleon", chains=4, seed=2,
        subsample=200, whiten_kernel=True,
    )  # fmt: skip
    draws = (fit["posterior"]["x"].values - 1) / scales
    per_chain = (draws**2).mean(axis=1)
    # the widest has some 250 effective draws a chain: an error of 0.09 each, 0.045 in all
    assert np.abs(per_chain.mean(axis=0) - 1).max() < 5 * 0.045
    assert per_chain.min() > 0.5


@pytest.mark.parametrize("warmup", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("chosen", [{}, PUBLISHED._asdict()])
def test_a_history_too_short_to_adapt_on(chosen, warmup):
    """Proposals are isotropic then, and the run ends."""
    chosen = {**chosen, "kernel": "gaussian", "initial_scale": 2.38, "gamma": 0.4}
    chain = one_chain(chosen, warmup=warmup, draws=200)
    finish([chain])
    assert np.isfinite(chain.sampling.constrained).all()
    assert np.isfinite(chain.sampling.stats).all()
    assert len(np.unique(chain.sampling.constrained[:, 0])) > 10


def test_a_chain_that_never_moves_has_equal_points_only():
    """Nothing can be learned from them: no bandwidth, no crash of the factorization."""
    for chosen in ({}, {"bandwidth": 2.0}, {"kernel": "linear", "redraw": 1.0}):
        target = Awkward()
        chain = one_chain({**chosen, "gamma": 1e3, "tune_early": False}, target, warmup=400)
        # all proposals are far: half throw, the others are hopeless. Steps from a given bandwidth
        # may become so short that some are not far: they all throw
        target.wall[0] = -np.inf if "bandwidth" in chosen else 0.11
        finish([chain])
        assert np.ptp(chain.sampling.constrained, axis=0).max() == 0.0
        assert np.isfinite(chain.sampling.stats).all()


def test_the_bandwidth_is_the_factor_times_the_median_heuristic(earlier):
    target, fit = earlier
    found = []
    for factor in (1.0, 0.5):
        made = sa.sample(
            target, "kameleon", chains=1, iter_warmup=0, iter_sampling=5, seed=4, warm_start=fit,
            bandwidth_factor=factor,
        )  # fmt: skip
        found.append(made["sample_stats"]["bandwidth"].values[0, 0])
    assert found[1] == pytest.approx(0.5 * found[0], rel=1e-12)


def test_redraws_become_rare_if_it_adapts_forever():
    """The probability of another subsample falls as 1 / t after warm-up."""
    chain = one_chain({"subsample": 50, "adapts_forever": True}, warmup=400, draws=3600)
    chain.advance(400)
    found = []
    for _ in range(7):
        chain.advance(500)
        found.append(chain.state.past.redraw)
    expected = [0.05 * 400 / t for t in range(900, 4000, 500)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- a past that is not its own ------------------------------------------------------------------


@pytest.fixture(scope="module")
def earlier():
    """Target and fit by another sampler; x is positive, so that positions differ from draws."""
    code = (
        "parameters { real<lower=0> x; vector[2] y; } model { x ~ gamma(2, 1); y ~ normal(3, 9); }"
    )
    target = sa.Target(code, {})
    return target, sa.sample(target, "rwm", chains=3, iter_warmup=500, iter_sampling=2000, seed=3)


def test_the_past_is_ordered_by_time_and_its_tuning_kept(earlier):
    target, fit = earlier
    found = positions_of_fit(target, fit)
    assert found.shape == (2000, 3)
    x, y = fit["posterior"]["x"].values, fit["posterior"]["y"].values
    interleaved = np.column_stack([np.log(x.T.ravel()), y.transpose(1, 0, 2).reshape(-1, 2)])
    chosen = np.linspace(0, 5999, 2000).astype(int)
    np.testing.assert_allclose(found, interleaved[chosen], rtol=1e-12, atol=1e-12)
    # an early window must not forget the bandwidth
    made = sa.sample(
        target, "kameleon", chains=1, iter_warmup=400, iter_sampling=10, seed=5, warm_start=fit,
        save_warmup=True,
    )  # fmt: skip
    assert np.isfinite(made["warmup_sample_stats"]["bandwidth"].values).all()


def test_chains_with_one_past_share_what_is_learned(earlier):
    """Without any warm-up: proposals are those of a learned chain, and nothing adapts."""
    target, fit = earlier
    made, again = (
        sa.sample(
            target, "kameleon", chains=2, iter_warmup=0, iter_sampling=1500, seed=4, warm_start=fit,
            inits=fit, parallel_chains=at_once,
        )
        for at_once in (2, 1)
    )  # fmt: skip
    assert made.attrs["warm_start_draws"] == 2000
    bandwidths = made["sample_stats"]["bandwidth"].values
    assert np.ptp(bandwidths) == 0.0
    # the median distance over sqrt(2), of two normals of sd 9: sqrt(1.39) * 9
    assert bandwidths[0, 0] == pytest.approx(10.6, rel=0.3)
    assert 0.15 < made["sample_stats"]["acceptance_rate"].values.mean() < 0.5
    assert made["posterior"]["y"].values.std() == pytest.approx(9, rel=0.25)
    np.testing.assert_array_equal(made["posterior"]["x"].values, again["posterior"]["x"].values)


# --- in practice ---------------------------------------------------------------------------------


@pytest.mark.soak
def test_the_defaults_of_a_run_cover_the_strong_banana():
    """Standardized, the deviation was 0.0237 with equal scales, and 0.0112 with ratios kept.

    Standard deviations of single chains are 0.016 and 0.006: the bound is 3.9 standard errors of
    the mean over 16 chains above the latter.
    """
    target = sa.Target(*bundled.find("banana", "strong"))
    fit = sa.sample(target, "kameleon", chains=16, iter_warmup=40_000, iter_sampling=40_000, seed=9)
    assert fit.attrs["standardized"] == "diagonal"
    levels = np.arange(1, 10) / 10
    radii = results.dataset(fit, "posterior")["radius_squared"].values
    inside = (radii[..., None] <= stats.chi2(8).ppf(levels)).mean(axis=1)
    assert np.abs(inside - levels).mean() < 0.017
