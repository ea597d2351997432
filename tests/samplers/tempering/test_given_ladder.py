"""Ladders of one's own: they stay as given, draws and evidence are exact.

The target has two modes with unequal weights and, in each coordinate, unequal scales.
"""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.settings import as_chosen, as_compiled
from stanadapt.samplers import find
from stanadapt.samplers.tempering import ReferenceDistribution
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_STEP, LOG_Z, B, no_ladder, place
from tests.helpers.known_moments import surprise_of_runs
from tests.helpers.stan_target import shared_target

TWO_MODES = """
parameters { vector[2] x; }
model {
  target += log_mix(0.7,
    normal_lpdf(x | [-1, 0]', [1, 0.2]'), normal_lpdf(x | [5, 2]', [0.4, 1.5]'));
}
"""
WEIGHTS = np.array([0.7, 0.3])
CENTERS, SDS = np.array([[-1.0, 0.0], [5.0, 2.0]]), np.array([[1.0, 0.2], [0.4, 1.5]])
MEAN, SQUARE = WEIGHTS @ CENTERS, WEIGHTS @ (SDS**2 + CENTERS**2)
# wider than the modes, and off center
REFERENCE = ReferenceDistribution([1.0, 1.5], [4.0, 2.5])
# powers of this target are proper: they integrate, and wander between modes at 1/60
POWERS = [1.0 / t for t in (1.0, 2.8, 7.7, 21.6, 60.0)]
LADDER = [1.0, 0.7, 0.35, 0.15, 0.05, 0.0]
CHAINS = 10
target = shared_target(TWO_MODES)


def assert_mean(values, truth):
    """Student t with 9 degrees of freedom, p = 3e-4 or less; return the error."""
    surprise, error = surprise_of_runs(values, truth)
    assert surprise < 5.5
    return error


def assert_exact(fit):
    x = results.dataset(fit, "posterior")["x"].values
    for i in range(2):
        # the errors are small enough to see a mode with a tenth too much weight
        assert assert_mean(x[..., i], MEAN[i]) < 0.2
        assert_mean(x[..., i] ** 2, SQUARE[i])


def tempered(target, name, **chosen):
    common = {"chains": CHAINS, "iter_warmup": 1500, "iter_sampling": 1500, "seed": 3}
    return sa.sample(target, name, **(common | chosen))


@pytest.mark.thorough
@pytest.mark.filterwarnings(r"ignore:.*\[improper_hot_chains\]")
@pytest.mark.parametrize("name", ["parallel_tempering", "simulated_tempering"])
@pytest.mark.parametrize("given", [LADDER, POWERS], ids=["reference", "powers"])
def test_a_given_ladder_stays_and_is_exact(name, given, target):
    powers = {"reference_family": "power"} if given is POWERS else {}
    fit = tempered(target, name, inverse_temperatures=given, **powers)
    assert_exact(fit)
    tempering = results.dataset(fit, "tempering")
    np.testing.assert_array_equal(tempering["temperature"].values, [given[::-1]] * CHAINS)
    assert json.loads(fit.attrs["settings"])["inverse_temperatures"] == given
    assert (results.dataset(fit, "sample_stats")["levels"].values == len(given)).all()
    if not powers:
        evidence = tempering["log_evidence"].values
        error = evidence.std(ddof=1) / np.sqrt(CHAINS)
        assert abs(evidence.mean()) < 5.5 * error
        assert error < 0.05


def test_evidence_by_annealing_along_equal_steps_is_unbiased(target):
    """The mean of Z over runs, not of log Z, is that of the normalized target: 1."""
    steps = np.linspace(1.0, 0.0, 1001)
    fit = tempered(
        target, "smc", resample=False, inverse_temperatures=steps, sweeps=1, particles=100,
        iter_sampling=100, iter_warmup=2000, leapfrogs=1, chains=16,
        reference_distribution=REFERENCE,
    )  # fmt: skip
    assert_exact(fit)
    tempering = results.dataset(fit, "tempering")
    np.testing.assert_array_equal(tempering["temperature"].values[3], steps[::-1])
    ratio = np.exp(tempering["log_evidence"].values)
    error = ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert abs(ratio.mean() - 1.0) < 5 * error
    assert error < 0.05
    assert "too_many_stages" not in str(fit.attrs["notes"])


def test_stages_that_warmup_has_no_room_for_follow_it(target):
    fit = tempered(
        target, "smc", inverse_temperatures=LADDER, particles=400, iter_sampling=400,
        iter_warmup=10, reference_distribution=REFERENCE,
    )  # fmt: skip
    assert_exact(fit)
    stages = results.dataset(fit, "sample_stats")["stage"].values
    assert (stages == len(LADDER) - 1).all()
    temperature = results.dataset(fit, "tempering")["temperature"].values
    np.testing.assert_array_equal(temperature, [LADDER[::-1]] * CHAINS)


def test_a_ladder_of_a_command_line_is_that_of_python():
    for name in ("parallel_tempering", "simulated_tempering", "smc"):
        _, settings = find(name, inverse_temperatures="1,0.5, 0.25 0")
        assert settings.inverse_temperatures == (1.0, 0.5, 0.25, 0.0)
        _, same = find(name, inverse_temperatures=np.array([1, 0.5, 0.25, 0]))
        assert same == settings
        assert find(name, **json.loads(json.dumps(as_chosen(same))))[1] == same
        compiled = as_compiled(same).inverse_temperatures
        np.testing.assert_array_equal(compiled, [1.0, 0.5, 0.25, 0.0])
        assert not compiled.flags.writeable


def test_levels_between_are_interpolated():
    old, new = no_ladder(4, 2), no_ladder(3, 2)
    old.levels[:3] = [[0.0, 0.0, 1.0, 0.0], [0.5, 4.0, 0.0, 2.0], [1.0, 5.0, -1.0, 3.0]]
    old.scale[:3] = [[4.0, 1.0], [1.0, 9.0], [1.0, 1.0]]
    old.size[0] = 3
    place(old, new, np.array([1.0, 0.75, 0.125]))
    assert new.size[0] == 3
    np.testing.assert_allclose(new.levels[:, B], [0.125, 0.75, 1.0])
    np.testing.assert_allclose(new.levels[:, LOG_Z], [1.0, 4.5, 5.0])
    np.testing.assert_allclose(new.levels[:, LOG_STEP], [0.75, -0.5, -1.0])
    np.testing.assert_allclose(new.levels[:, BARRIER], [0.5, 2.5, 3.0])
    np.testing.assert_allclose(new.scale, [[4**0.75, 9**0.25], [1.0, 3.0], [1.0, 1.0]])
