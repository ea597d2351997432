"""Integrators are reversible, keep volume, are of second order, and stop at a failure."""

import numpy as np
import pytest

from stanadapt.engine import leapfrog as engine
from stanadapt.engine import metric_factor
from stanadapt.engine.density import GRADIENT_CALLS, value_and_gradient
from stanadapt.engine.leapfrog import Around, Leapfrog, Phase, from_point, leapfrog
from stanadapt.engine.points import gradient_at
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.metrics import METRICS
from tests.helpers.targets import Awkward

START, MOMENTUM = np.array([0.3, 1.4, -4.0]), np.array([0.7, -1.1, 0.4])


def rotating(density, work, phase, step_size, mean=None):
    """Move around a Gaussian, by default with mean zero."""
    mean = np.zeros(density.dim) if mean is None else mean
    z = metric_factor.inverse_times_rows(work.factor, (phase.position - mean)[None])[0]
    return engine.rotating_move(density, work, Around(mean, z, z.copy()), phase, step_size)


def turning(density, work, phase, step_size, mean=None):
    """Move around a Gaussian with one gradient, by default with mean zero."""
    mean = np.zeros(density.dim) if mean is None else mean
    z = metric_factor.inverse_times_rows(work.factor, (phase.position - mean)[None])[0]
    around = Around(mean, z.copy(), np.empty(0))
    end = engine.move(density, work, phase._replace(position=z), step_size, around)
    engine.place(work, around, z, phase.position)
    return end


DRIFTS = {"leapfrog": engine.move, "two stages": engine.two_stage_move}
MOVES = DRIFTS | {"rotations": rotating, "rotating leapfrog": turning}
each_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
each_root = pytest.mark.parametrize("root", METRICS.values(), ids=METRICS)


def follow(move, position, momentum, step_size, steps, root=METRICS["dense"], target=None):
    """Return position, whitened momentum and energy error after some steps, and the density."""
    density = (target or Awkward()).density()
    n = density.dim
    work, point = Leapfrog(root, np.empty(n), np.empty(n)), gradient_at(density, position)
    phase = Phase(np.empty(n), np.empty(n), np.empty(n))
    from_point(work, phase, point, np.random.default_rng(1))
    phase.momentum[:] = momentum
    for _ in range(steps):
        end = move(density, work, phase, step_size)
    gained = 0.5 * (phase.momentum @ phase.momentum - momentum @ momentum)
    return phase.position, phase.momentum, gained - end + point.log_density, density


@each_move
@each_root
@pytest.mark.parametrize("steps", [1, 17])
def test_a_move_back_is_a_move_with_a_negative_step_or_momentum(move, root, steps):
    x, p, *_ = follow(move, START, MOMENTUM, 0.1, steps, root)
    for sign in (1, -1):
        back, momentum, *_ = follow(move, x, sign * p, -sign * 0.1, steps, root)
        np.testing.assert_allclose(back, START, rtol=1e-9)
        np.testing.assert_allclose(sign * momentum, MOMENTUM, rtol=1e-9)


@each_move
def test_volume_is_preserved_and_each_kick_has_one_gradient(move):
    """The determinant of the Jacobian matrix is one, by central differences."""
    z, h, columns = np.concatenate([START, MOMENTUM]), 1e-6, []
    for shift in h * np.eye(6):
        ends = [follow(move, *np.split(z + s * shift, 2), 0.3, 3)[:2] for s in (1, -1)]
        columns.append((np.concatenate(ends[0]) - np.concatenate(ends[1])) / (2 * h))
    assert abs(np.linalg.det(columns) - 1) < 1e-6
    kicks = 1 if move in (engine.move, turning) else 2
    *_, density = follow(move, START, MOMENTUM, 0.05, 9)
    assert density.calls[GRADIENT_CALLS] == 1 + 9 * kicks
    # the wall is behind the first stage
    far = np.array([3.0, 0.0, 0.0])
    *_, error, density = follow(move, START, far, 0.4, 1, target=Awkward(0.5))
    assert error == np.inf
    assert density.calls[GRADIENT_CALLS] == 2


@each_move
@each_root
def test_energy_error_is_of_second_order(move, root):
    steps = np.array([16, 32, 64, 128])
    errors = [abs(follow(move, START, MOMENTUM, 0.5 / n, n, root)[2]) for n in steps]
    slope = np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0]
    assert abs(slope - 2) < 0.1


@pytest.mark.parametrize("move", DRIFTS.values(), ids=DRIFTS)
def test_a_metric_is_a_change_of_coordinates(move):
    """If the metric has the factor of a Gaussian, moves are those on a standard normal."""
    mean, sd = np.array([1.0, -2.0, 3.0]), np.array([1e-3, 1.0, 1e4])
    z = (START - 0.1) / 2.0
    at = mean + sd * z
    scaled = follow(move, at, MOMENTUM, 0.9, 2, sd[None].copy(), Gaussian(mean, sd))
    unit = follow(move, z, MOMENTUM, 0.9, 2, np.ones((1, 3)), Gaussian(np.zeros(3), np.ones(3)))
    np.testing.assert_allclose((scaled[0] - mean) / sd, unit[0], rtol=1e-9)
    np.testing.assert_allclose(scaled[1], unit[1], rtol=1e-9)


@pytest.mark.parametrize("rotation", [rotating, turning])
def test_rotations_follow_a_gaussian_exactly(rotation):
    """However long the step; a quarter turn ends at a draw that does not depend on the start."""
    mean, sd = np.array([1.0, -2.0, 3.0]), np.array([1e-3, 1.0, 1e4])

    def move(*given):
        return rotation(*given, mean=mean)

    x, p, error, _ = follow(move, mean + sd, MOMENTUM, np.pi / 2, 1, sd[None].copy(),
                            Gaussian(mean, sd))  # fmt: skip
    np.testing.assert_allclose(x, mean + sd * MOMENTUM, rtol=1e-9)
    np.testing.assert_allclose(p, -1.0, rtol=1e-9)
    assert abs(error) < 1e-9


def plain(momentum, step_size, steps, wall=np.inf, scale=(1.0, 1.0, 1.0)):
    """Return position, momentum and log density after leapfrogs with a scale, and the gradients."""
    density, x, p, g = Awkward(wall).density(), START.copy(), momentum.copy(), np.empty(3)
    value_and_gradient(density, x, g)
    end, made = leapfrog(density, x, p, g, np.array(scale), step_size, steps)
    assert made == density.calls[GRADIENT_CALLS] - 1
    return x, p, end, made


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (0.8, 0.25, 3.0)])
@pytest.mark.parametrize("steps", [1, 5])
def test_plain_leapfrogs_are_those_of_a_diagonal_metric(scale, steps):
    """One missing scale would only lower acceptance: the moves would still be reversible."""
    *ours, _, made = plain(MOMENTUM, 0.1, steps, scale=scale)
    assert made == steps
    with_metric = follow(engine.move, START, MOMENTUM, 0.1, steps, np.array([scale]))
    np.testing.assert_allclose(ours, with_metric[:2], rtol=1e-12)


def test_failures_and_momenta():
    *_, end, made = plain(MOMENTUM, 0.2, 50, wall=0.5)
    assert end == -np.inf
    assert made < 10
    root, density = METRICS["dense"], Awkward().density()
    work, rng = Leapfrog(root, np.empty(3), np.empty(3)), np.random.default_rng(5)
    point, momenta = gradient_at(density, START), []
    for _ in range(2000):
        phase = Phase(np.empty(3), np.empty(3), np.empty(3))
        from_point(work, phase, point, rng)
        momenta.append(phase.momentum)
    np.testing.assert_allclose(phase.force, root.T @ point.gradient)
    np.testing.assert_array_equal(phase.position, START)
    error = 5 / np.sqrt(2000)  # five standard errors of a mean; a covariance has up to sqrt(2) more
    assert np.all(np.abs(np.mean(momenta, axis=0)) < error)
    assert np.all(np.abs(np.cov(np.transpose(momenta)) - np.eye(3)) < np.sqrt(2) * error)


def test_the_energy_error_of_two_stages_is_the_smallest_of_their_family():
    """One step of 1.8 on a normal: a leapfrog pair (b = 1/4) errs more than twice as much."""
    rng, b, h = np.random.default_rng(3), engine.KICK, 1.8
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
    x, p, error, _ = follow(MOVES["two stages"], z[:1, 0], z[1:, 0], h, 1, np.ones((1, 1)), unit)
    assert error == pytest.approx(0.5 * (x @ x + p @ p - z[:, 0] @ z[:, 0]), abs=1e-12)
