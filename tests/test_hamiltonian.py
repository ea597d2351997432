"""The leapfrog: reversible, volume-preserving, of second order; and it stops where it must."""

import numpy as np
from targets import Awkward

from stanadapt.density import GRADIENT_CALLS, value_and_gradient
from stanadapt.hamiltonian import leapfrog

START, MOMENTUM = np.array([0.3, 1.4, -4.0]), np.array([0.7, -1.1, 0.4])


def follow(position, momentum, step_size, steps, wall=np.inf):
    target = Awkward(wall)
    density = target.density()
    x, p, g = position.copy(), momentum.copy(), np.empty(3)
    start = value_and_gradient(density, x, g)
    end = leapfrog(density, x, p, g, step_size, steps)
    return x, p, end - start - 0.5 * (p @ p - momentum @ momentum), density, end


def test_reversible():
    x, p, _, _, _ = follow(START, MOMENTUM, 0.1, 17)
    back, momentum, _, _, _ = follow(x, -p, 0.1, 17)
    np.testing.assert_allclose(back, START, rtol=1e-10)
    np.testing.assert_allclose(-momentum, MOMENTUM, rtol=1e-10)


def test_preserves_volume():
    h, jacobian = 1e-6, np.empty((6, 6))
    z = np.concatenate([START, MOMENTUM])
    for i in range(6):
        ends = []
        for sign in (1, -1):
            shifted = z.copy()
            shifted[i] += sign * h
            x, p, *_ = follow(shifted[:3], shifted[3:], 0.1, 5)
            ends.append(np.concatenate([x, p]))
        jacobian[:, i] = (ends[0] - ends[1]) / (2 * h)
    assert abs(np.linalg.det(jacobian) - 1) < 1e-6


def test_energy_error_is_of_second_order():
    steps = np.array([8, 16, 32, 64, 128])
    errors = [abs(follow(START, MOMENTUM, 1.0 / n, n)[2]) for n in steps]
    slope = np.polyfit(np.log(1.0 / steps), np.log(errors), 1)[0]
    assert abs(slope - 2) < 0.1


def test_one_gradient_a_step_and_none_behind_a_failure():
    *_, density, _ = follow(START, MOMENTUM, 0.05, 9)
    assert density.calls[GRADIENT_CALLS] == 1 + 9
    *_, density, end = follow(START, MOMENTUM, 0.2, 50, wall=0.5)
    assert end == -np.inf
    assert density.calls[GRADIENT_CALLS] < 10
