"""The two-stage step is reversible, keeps volume, is of second order, and stops at a failure."""

import numpy as np
import pytest

from stanadapt.engine import leapfrog
from stanadapt.engine.density import GRADIENT_CALLS
from stanadapt.engine.leapfrog import Leapfrog, Phase, from_point
from stanadapt.engine.points import gradient_at
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.metrics import METRICS
from tests.helpers.phase_space import jacobian_determinant
from tests.helpers.targets import Awkward

START, MOMENTUM = np.array([0.3, 1.4, -4.0]), np.array([0.7, -1.1, 0.4])


def follow(position, momentum, step_size, steps, target=None, factor=METRICS["dense"]):
    """Return position, momentum and energy error after some steps, and the density."""
    density = (target or Awkward()).density()
    n = density.dim
    work, point = Leapfrog(factor, np.empty(n), np.empty(n)), gradient_at(density, position)
    phase = Phase(np.empty(n), np.empty(n), np.empty(n))
    from_point(work, phase, point, np.random.default_rng(1))
    phase.momentum[:] = momentum
    for _ in range(steps):
        end = leapfrog.two_stage_move(density, work, phase, step_size)
    gained = 0.5 * (phase.momentum @ phase.momentum - momentum @ momentum)
    return phase.position, phase.momentum, gained - end + point.log_density, density


@pytest.mark.parametrize("steps", [1, 7])
def test_reversible(steps):
    x, p, *_ = follow(START, MOMENTUM, 0.3, steps)
    back, momentum, *_ = follow(x, -p, 0.3, steps)
    np.testing.assert_allclose(back, START, rtol=1e-10)
    np.testing.assert_allclose(-momentum, MOMENTUM, rtol=1e-10)


def test_preserves_volume():
    def move(x, p):
        return follow(x, p, 0.3, 3)[:2]

    assert abs(jacobian_determinant(move, START, MOMENTUM) - 1) < 1e-6


def test_the_energy_error_falls_fourfold_when_the_step_is_halved():
    unit = Gaussian(np.zeros(3), np.ones(3))
    errors = [
        abs(follow(START, MOMENTUM, 1.0 / n, n, unit, np.ones((1, 3)))[2]) for n in (16, 32, 64)
    ]
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 4.0, atol=0.2)


def test_its_energy_error_is_the_smallest_of_its_family():
    """One step of 1.8 on a normal: a leapfrog pair (b = 1/4) errs more than twice as much."""
    rng, b, h = np.random.default_rng(3), leapfrog.KICK, 1.8
    z = rng.standard_normal((2, 20_000))

    def spread(b):
        x, p = z.copy()
        p = p - b * h * x
        x = x + 0.5 * h * p
        p = p - (1 - 2 * b) * h * x
        x = x + 0.5 * h * p
        p = p - b * h * x
        return np.std(x * x + p * p - (z**2).sum(axis=0))

    assert spread(b) < 0.5 * spread(0.25)
    unit = Gaussian([0.0], [1.0])
    x, p, error, _ = follow(z[:1, 0], z[1:, 0], h, 1, unit, np.ones((1, 1)))
    assert error == pytest.approx(0.5 * (x @ x + p @ p - z[:, 0] @ z[:, 0]), abs=1e-12)


def test_two_gradients_per_step_and_none_after_a_failure():
    *_, density = follow(START, MOMENTUM, 0.05, 9)
    assert density.calls[GRADIENT_CALLS] == 1 + 18
    # the wall is behind the first stage
    *_, error, density = follow(START, np.array([3.0, 0.0, 0.0]), 0.4, 1, Awkward(0.5))
    assert error == np.inf
    assert density.calls[GRADIENT_CALLS] == 2


def test_a_metric_is_a_change_of_coordinates():
    """If the metric has the factor of a Gaussian, moves are those on a standard normal."""
    mean, sd = np.array([1.0, -2.0, 3.0]), np.array([1e-3, 1.0, 1e4])
    z = (START - 0.1) / 2.0
    scaled = follow(mean + sd * z, MOMENTUM, 0.9, 2, Gaussian(mean, sd), sd[None].copy())
    unit = follow(z, MOMENTUM, 0.9, 2, Gaussian(np.zeros(3), np.ones(3)), np.ones((1, 3)))
    np.testing.assert_allclose((scaled[0] - mean) / sd, unit[0], rtol=1e-9)
    np.testing.assert_allclose(scaled[1], unit[1], rtol=1e-9)
