"""Masses per coordinate of hmc: exact paths of oscillators, momenta of the right size, refusals."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.settings import as_compiled
from stanadapt.samplers import find
from tests.helpers.codes import raises
from tests.helpers.gaussian_target import Gaussian

MEAN, SD = np.array([1.0, -3.0, 0.2]), np.array([0.5, 2.0, 1.0])
MASSES = np.array([0.6, 9.0, 2.0])
START = MEAN + np.array([0.4, 1.0, -1.5])
NORMAL = "parameters { vector[3] x; } model { x ~ normal(0, [1, 2, 0.5]'); }"


def moved(masses, time, step, seed):
    """Return where one trajectory ends, and the standard normals of its momenta."""
    sampler, settings = find("hmc", mass=masses, leapfrogs=round(time / step))
    settings, density = as_compiled(settings), Gaussian(MEAN, SD).density()
    state = sampler.init(density, settings, START.copy(), np.random.default_rng(0))
    state = state._replace(step_size=step, leapfrogs=round(time / step))
    state, info = sampler.step(density, settings, state, np.random.default_rng(seed))
    assert info.accepted
    return state.current.position, np.random.default_rng(seed).standard_normal(3)


@pytest.mark.parametrize("seed", [1, 2])
def test_trajectories_are_those_of_oscillators(seed):
    """Compare with the solution of m x'' = -(x - mean) / sd^2, p = sqrt(m) z.

    A leapfrog is an oscillator with frequency omega (1 + (omega h)^2 / 24 + ...) and amplitude off
    by (omega h)^2 / 8; three times their sum bounds the error, in units of the amplitude.
    """
    time, step = 3.0, 0.01
    end, z = moved(MASSES, time, step, seed)
    omega = 1.0 / (SD * np.sqrt(MASSES))
    away, turn = START - MEAN, z / (np.sqrt(MASSES) * omega)
    exact = MEAN + away * np.cos(omega * time) + turn * np.sin(omega * time)
    amplitude = np.hypot(away, turn)
    bound = 3 * amplitude * (omega * step) ** 2 * (omega * time / 24 + 1 / 8)
    assert (np.abs(end - exact) < bound).all()
    assert bound.max() < 1e-3


def test_masses_are_numbers_of_the_parameters():
    one, _ = moved(4.0, 1.0, 0.1, 3)
    all_, _ = moved([4.0, 4.0, 4.0], 1.0, 0.1, 3)
    np.testing.assert_array_equal(one, all_)
    # a mass of 4 halves velocities: twice the time
    unit, _ = moved(1.0, 0.5, 0.05, 3)
    np.testing.assert_allclose(one, unit, rtol=1e-13)
    target, short = sa.Target(NORMAL), {"seed": 1}
    short |= {"chains": 1, "iter_warmup": 200, "iter_sampling": 10}
    with raises("invalid_setting", "hmc", "mass", "one for each of 3", "got 2"):
        sa.sample(target, "hmc", mass=[1, 2], **short)
    with raises("invalid_setting", "hmc", "mass", "standardize"):
        sa.sample(target, "hmc", mass=[1, 2, 3], standardize=True, **short)
    fit = sa.sample(target, "hmc", mass="1,2,3", **short)
    assert fit.attrs["standardized"].startswith("no")
    assert '"mass": [1.0, 2.0, 3.0]' in fit.attrs["settings"]
    # the default is the mass of standardized coordinates
    assert not sa.sample(target, "hmc", mass=1, **short).attrs["standardized"].startswith("no")
