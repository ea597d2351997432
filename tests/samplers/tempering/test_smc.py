"""Sequential Monte Carlo on programs with exact moments and evidence."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers.codes import warns
from tests.helpers.known_moments import TWENTY, load, nearest, surprise_of_runs

# the reference is wide: some of its draws are 0 after rounding
FAILURES = pytest.mark.filterwarnings(r"ignore:.*\[failed_evaluations\]")
SHIFTED = """
data { real shift; }
parameters { vector<lower=0>[2] s; }
model { target += gamma_lpdf(s[1] | 2, 0.01) + lognormal_lpdf(s[2] | -5, 0.3) + shift; }
"""


def assert_mean(draws, truth):
    """Student t, p = 1e-4 for twelve runs."""
    assert surprise_of_runs(draws, truth)[0] < 6.0


# as many calls altogether as the chains of other samplers take after warm-up: test_multimodal.py
CALLS = 200_000
PLANS = {
    "resampled": {},
    "annealed": {
        "resample": False, "particles": 4000, "iter_sampling": 4000, "sweeps": 2, "leapfrogs": 1,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_twenty_modes(plan):
    """Every run is in all modes."""
    target, content = load("mixture", "twenty")
    fit = sa.sample(target, "smc", chains=12, threshold=0.9, seed=1, **PLANS[plan])
    assert fit.attrs["n_gradients"] < 1.2 * 12 * CALLS
    x = results.dataset(fit, "posterior")["x"].values
    for i, (first, second) in enumerate(TWENTY):
        assert_mean(x[..., i], first)
        assert_mean(x[..., i] ** 2, second)
    assert all(set(chain) == set(range(20)) for chain in nearest(x, content))
    tempering = results.dataset(fit, "tempering")
    evidence, error = tempering["log_evidence"].values, tempering["log_evidence_error"].values
    assert (error < 0.1).all()
    assert abs(evidence.mean()) < 6 * error[0] / np.sqrt(12)


def shifted(shift, **options):
    target = sa.Target(SHIFTED, {"shift": shift})
    return sa.sample(target, "smc", chains=4, iter_warmup=400, seed=2, **options)


@pytest.mark.thorough
@FAILURES
@pytest.mark.parametrize("resample", [True, False])
def test_a_constant_shifts_the_evidence_alone(resample):
    """The same draws but for rounding, which in time separates trajectories: means agree."""
    fits = [shifted(shift, resample=resample, threshold=0.8) for shift in (0.0, 1234.5)]
    s = [results.dataset(fit, "posterior")["s"].values for fit in fits]
    evidence = [results.dataset(fit, "tempering")["log_evidence"].values for fit in fits]
    for draws in s:
        assert_mean(draws[..., 0], 200.0)
        assert_mean(draws[..., 1], np.exp(-5 + 0.3**2 / 2))
    assert np.abs(evidence[0]).max() < 0.3
    np.testing.assert_allclose(evidence[1] - evidence[0], 1234.5, atol=0.3)


@FAILURES
def test_ancestors_and_weights_are_kept():
    fit = shifted(0.0, particles=300, iter_sampling=300, resample=False, threshold=0.8)
    stats, tempering = (results.dataset(fit, g) for g in ("sample_stats", "tempering"))
    assert tempering["log_weight"].shape == (4, 300)
    assert tempering["weighted_particle"].shape == (4, 300, 2)
    for chain in range(4):
        assert set(stats["particle"].values[chain]) == set(range(300))
        found = len(np.unique(stats["ancestor"].values[chain]))
        assert tempering["ancestors"].values[chain] == found
        weights = np.exp(tempering["log_weight"].values[chain])
        kept = tempering["weighted_particle"].values[chain, :, 1]
        mean = np.average(kept, weights=weights)
        assert mean == pytest.approx(-5.0, abs=0.3)


@FAILURES
def test_draws_beyond_the_particles_continue_from_them():
    with warns("reused_particles", 2000, 100):
        fit = shifted(0.0, particles=100, iter_sampling=2000)
    s = results.dataset(fit, "posterior")["s"].values
    assert len(np.unique(s[0, :, 0])) > 1500
    assert_mean(np.log(s[..., 1]), -5.0)
