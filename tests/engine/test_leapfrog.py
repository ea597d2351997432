"""The leapfrog is reversible, volume-preserving and of second order, and stops at a failure."""

import numpy as np
import pytest

from stanadapt.engine.density import GRADIENT_CALLS, value_and_gradient
from stanadapt.engine.leapfrog import Leapfrog, Phase, from_point, leapfrog, move
from stanadapt.engine.points import gradient_at
from tests.helpers.phase_space import jacobian_determinant
from tests.helpers.targets import Awkward

START, MOMENTUM = np.array([0.3, 1.4, -4.0]), np.array([0.7, -1.1, 0.4])


def follow(position, momentum, step_size, steps, wall=np.inf, scale=(1.0, 1.0, 1.0)):
    target = Awkward(wall)
    density = target.density()
    x, p, g = position.copy(), momentum.copy(), np.empty(3)
    start = value_and_gradient(density, x, g)
    end, made = leapfrog(density, x, p, g, np.array(scale), step_size, steps)
    assert made == density.calls[GRADIENT_CALLS] - 1
    return x, p, end - start - 0.5 * (p @ p - momentum @ momentum), density, end


def test_reversible():
    x, p, _, _, _ = follow(START, MOMENTUM, 0.1, 17)
    back, momentum, _, _, _ = follow(x, -p, 0.1, 17)
    np.testing.assert_allclose(back, START, rtol=1e-10)
    np.testing.assert_allclose(-momentum, MOMENTUM, rtol=1e-10)


def test_preserves_volume():
    def move(x, p):
        return follow(x, p, 0.1, 5)[:2]

    assert abs(jacobian_determinant(move, START, MOMENTUM) - 1) < 1e-6


def test_energy_error_is_of_second_order():
    steps = np.array([8, 16, 32, 64, 128])
    errors = [abs(follow(START, MOMENTUM, 1.0 / n, n)[2]) for n in steps]
    slope = np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0]
    assert abs(slope - 2) < 0.1


def test_one_gradient_per_step_and_none_after_a_failure():
    *_, density, _ = follow(START, MOMENTUM, 0.05, 9)
    assert density.calls[GRADIENT_CALLS] == 1 + 9
    *_, density, end = follow(START, MOMENTUM, 0.2, 50, wall=0.5)
    assert end == -np.inf
    assert density.calls[GRADIENT_CALLS] < 10


# --- with a metric -------------------------------------------------------------------------------

ROOTS = {
    "dense": np.array([[0.9, 0.0, 0.0], [0.1, 0.4, 0.0], [-0.5, 1.7, 2.0]]),
    "diagonal": np.array([[0.8, 0.25, 3.0]]),
}


def follow_with_metric(root, position, momentum, step_size, steps):
    """Return position, whitened momentum and energy error after some moves."""
    density = Awkward().density()
    work = Leapfrog(root, np.empty(3), np.empty(3))
    start = gradient_at(density, position)
    phase = Phase(np.empty(3), np.empty(3), np.empty(3))
    from_point(work, phase, start, np.random.default_rng(1))
    phase.momentum[:] = momentum
    for _ in range(steps):
        end = move(density, work, phase, step_size)
    error = end - start.log_density - 0.5 * (phase.momentum @ phase.momentum - momentum @ momentum)
    return phase.position, phase.momentum, error


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_a_move_back_is_a_move_with_a_negative_step(root):
    x, p, _ = follow_with_metric(root, START, MOMENTUM, 0.1, 17)
    back, momentum, _ = follow_with_metric(root, x, p, -0.1, 17)
    np.testing.assert_allclose(back, START, rtol=1e-9)
    np.testing.assert_allclose(momentum, MOMENTUM, rtol=1e-9)


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_energy_error_with_a_metric_is_of_second_order(root):
    steps = np.array([8, 16, 32, 64, 128])
    errors = [abs(follow_with_metric(root, START, MOMENTUM, 0.5 / n, n)[2]) for n in steps]
    slope = np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0]
    assert abs(slope - 2) < 0.1


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_a_metric_is_a_change_of_coordinates(root):
    """Compare with matrices: a momentum p = L^-T v moves x by eps L L^T p."""
    full = np.diag(root[0]) if len(root) == 1 else root
    density, gradient, eps = Awkward().density(), np.empty(3), 0.2
    x, p = START.copy(), np.linalg.solve(full.T, MOMENTUM)
    for _ in range(5):
        value_and_gradient(density, x, gradient)
        p = p + 0.5 * eps * gradient
        x = x + eps * full @ full.T @ p
        value_and_gradient(density, x, gradient)
        p = p + 0.5 * eps * gradient
    ours = follow_with_metric(root, START, MOMENTUM, eps, 5)
    np.testing.assert_allclose(ours[0], x, rtol=1e-10)
    np.testing.assert_allclose(ours[1], full.T @ p, rtol=1e-10)


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (0.8, 0.25, 3.0)])
@pytest.mark.parametrize("steps", [1, 5])
def test_the_plain_leapfrog_is_that_of_a_diagonal_metric(scale, steps):
    """One missing scale would only lower acceptance: the moves would still be reversible."""
    plain = follow(START, MOMENTUM, 0.1, steps, scale=scale)
    ours = follow_with_metric(np.array([scale]), START, MOMENTUM, 0.1, steps)
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], plain[1], rtol=1e-12)


def test_new_momenta_are_standard_normal_and_forces_whitened_gradients():
    root, density = ROOTS["dense"], Awkward().density()
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
