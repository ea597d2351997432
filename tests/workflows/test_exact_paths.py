"""The exact paths of the lecture's figures: they solve the equations of motion."""

import numpy as np
import pytest

from workflows.learned.exact_paths import SLOPE, STEP, errors, paths, systems

BY_NAME = {known.system.name: known for known in systems()}


@pytest.mark.parametrize("name", BY_NAME)
def test_exact_paths_solve_the_equations_of_motion(name):
    """Derivatives by central differences: dq / dt = p, dp / dt = -gradient; the energy stays."""
    known = BY_NAME[name]
    times, h = np.linspace(0, 7, 15), 1e-5
    (q, p), (before, after) = known.exact(times), (known.exact(times - h), known.exact(times + h))
    gradient = np.array([known.system.gradient(np.array([x]))[0] for x in q])
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), p, rtol=0, atol=1e-8)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), -gradient, rtol=0, atol=1e-8)
    energy = [known.system.energy(np.array([a])) + 0.5 * b**2 for a, b in zip(q, p, strict=True)]
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)
    start_q, start_p = known.system.starts[0]
    assert (q[0], p[0]) == pytest.approx((start_q[0], start_p[0]))


def test_integrators_on_a_slope_have_known_errors():
    """A constant force: leapfrog is exact, Euler's position is off by slope e t / 2."""
    steps = 11
    table = errors(paths(BY_NAME["puck on a slope"], steps)).set_index("method")["error"]
    assert table["leapfrog"] < 1e-12
    expected = 0.5 * SLOPE * STEP * (steps * STEP)
    assert table["Euler"] == pytest.approx(expected)
    assert table["symplectic Euler"] == pytest.approx(expected)


def test_euler_leaves_the_oscillators_circle_by_a_known_factor():
    """Its radius grows by sqrt(1 + e^2) a step; leapfrog stays within O(e^2)."""
    rows = paths(BY_NAME["oscillator"], 20)
    radius = {
        name: np.hypot(part["position"], part["momentum"]).to_numpy()
        for name, part in rows.groupby("method")
    }
    np.testing.assert_allclose(radius["exact"], radius["exact"][0])
    np.testing.assert_allclose(radius["Euler"][1:] / radius["Euler"][:-1], np.sqrt(1 + STEP**2))
    assert np.abs(radius["leapfrog"] / radius["exact"] - 1).max() < STEP**2 / 4
