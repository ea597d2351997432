"""Ladders, learned or one's own: shape, Lambda and interpolation; draws and evidence are exact."""

import json

import numpy as np
import pytest
from scipy.interpolate import interp1d

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.settings import as_chosen, as_compiled
from stanadapt.samplers import find
from stanadapt.samplers.tempering import ReferenceDistribution
from stanadapt.samplers.tempering.ladder import (
    BARRIER,
    LOG_STEP,
    LOG_Z,
    SMALLEST_REJECTION,
    B,
    copy_ladder,
    first_ladder,
    measure,
    no_ladder,
    place,
    respace,
)
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


def test_ladders_of_command_lines_and_levels_between():
    for name in ("parallel_tempering", "simulated_tempering", "smc"):
        _, settings = find(name, inverse_temperatures="1,0.5, 0.25 0")
        assert settings.inverse_temperatures == (1.0, 0.5, 0.25, 0.0)
        _, same = find(name, inverse_temperatures=np.array([1, 0.5, 0.25, 0]))
        assert same == settings
        assert find(name, **json.loads(json.dumps(as_chosen(same))))[1] == same
        compiled = as_compiled(same).inverse_temperatures
        np.testing.assert_array_equal(compiled, [1.0, 0.5, 0.25, 0.0])
        assert not compiled.flags.writeable
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


REJECTION = np.array([0.05, 0.3, 0.6, 0.1, 0.45])


def make_ladder(seed=1, levels=6, room=9):
    """A ladder with uneven levels, constants, steps and scales."""
    rng, ladder = np.random.default_rng(seed), no_ladder(room, 3)
    first_ladder(ladder, levels, 0.0, 0.0)
    ladder.levels[:levels, LOG_Z] = np.cumsum(rng.normal(size=levels))
    ladder.levels[:levels, LOG_STEP] = rng.normal(size=levels)
    ladder.scale[:levels] = np.exp(3 * rng.normal(size=(levels, 3)))
    return ladder


@pytest.mark.parametrize("min_inverse_temperature", [0.0, 0.2])
def test_the_first_ladder_is_denser_near_the_reference(min_inverse_temperature):
    ladder = no_ladder(10, 2)
    first_ladder(ladder, 7, min_inverse_temperature, -1.5)
    b = ladder.levels[:7, B]
    assert (b[0], b[-1], ladder.size[0]) == (min_inverse_temperature, 1.0, 7)
    assert np.all(np.diff(b, 2) > 0)
    np.testing.assert_array_equal(ladder.levels[:7, LOG_STEP], -1.5)
    assert not ladder.levels[7:].any()


@pytest.mark.parametrize("count", [1, 4])
def test_short_chains_are_all_at_the_target(count):
    ladder = no_ladder(5, 1)
    first_ladder(ladder, count, 1.0, 0.0)
    np.testing.assert_array_equal(ladder.levels[:count, B], 1.0)


def test_the_barrier_is_the_sum_of_rejections():
    ladder = make_ladder()
    assert measure(ladder, REJECTION) == pytest.approx(REJECTION.sum())
    np.testing.assert_allclose(ladder.levels[:6, BARRIER], [0, *np.cumsum(REJECTION)])
    ladder = make_ladder()
    assert measure(ladder, np.zeros(5)) == pytest.approx(5 * SMALLEST_REJECTION)
    new = no_ladder(9, 3)
    respace(ladder, new, 9)
    assert np.all(np.diff(new.levels[:9, B]) > 0)
    assert np.isfinite(new.levels).all()
    ladder, new = no_ladder(6, 1), no_ladder(6, 1)
    first_ladder(ladder, 6, 0.2, 0.0)
    measure(ladder, REJECTION)
    respace(ladder, new, 3)
    assert (new.levels[0, B], new.levels[2, B]) == (pytest.approx(0.2), 1.0)


@pytest.mark.parametrize("count", [2, 4, 6, 9])
def test_respaced_levels_are_equally_far_apart(count):
    ladder, new = make_ladder(), no_ladder(9, 3)
    total = measure(ladder, REJECTION)
    respace(ladder, new, count)
    assert new.size[0] == count
    b, old = new.levels[:count, B], ladder.levels[:6]
    assert (b[0], b[-1]) == (0.0, 1.0)
    # Lambda at the new levels, according to the old ladder
    barrier = np.interp(b, old[:, B], old[:, BARRIER])
    np.testing.assert_allclose(np.diff(barrier), total / (count - 1), rtol=1e-9)
    np.testing.assert_allclose(new.levels[:count, BARRIER], barrier, rtol=1e-9)


def test_other_columns_and_copies_of_a_ladder():
    ladder, new = make_ladder(), no_ladder(9, 3)
    measure(ladder, REJECTION)
    respace(ladder, new, 8)
    b, old = new.levels[:8, B], ladder.levels[:6]
    for column in (LOG_Z, LOG_STEP):
        expected = np.interp(b, old[:, B], old[:, column])
        np.testing.assert_allclose(new.levels[:8, column], expected, rtol=1e-9, atol=1e-12)
    logs = interp1d(old[:, B], np.log(ladder.scale[:6]), axis=0)(b)
    np.testing.assert_allclose(np.log(new.scale[:8]), logs, rtol=1e-9, atol=1e-12)
    # also if it was longer before
    ladder, new = make_ladder(), make_ladder(2, 9)
    measure(ladder, REJECTION)
    copy_ladder(ladder, new)
    assert new.size[0] == 6
    np.testing.assert_array_equal(new.levels[:6], ladder.levels[:6])
    np.testing.assert_array_equal(new.scale[:6], ladder.scale[:6])
    new.levels[0, B], new.scale[0, 0], new.size[0] = 0.5, -1.0, 2
    assert (ladder.levels[0, B], ladder.size[0]) == (0.0, 6)
    assert ladder.scale[0, 0] > 0
