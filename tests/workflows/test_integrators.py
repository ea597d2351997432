"""The integrators of the workflow, and the exact paths of the lecture's figures."""

import numpy as np
import pytest

from workflows.learned import exact_paths, integrators
from workflows.learned.exact_paths import SLOPE, errors, paths, systems

STEP = 0.4
# of a force that depends on all positions: U = sum of cosh(q_i) + (sum of q)^2 / 2
CURVED = integrators.System(
    "curved",
    lambda q: float(np.cosh(q).sum() + 0.5 * q.sum() ** 2),
    lambda q: np.sinh(q) + q.sum(),
    [(np.array([0.3, -1.1]), np.array([0.7, 0.2])), (np.array([1.0, 0.4]), np.array([-1.0, 2.0]))],
    0.1,
)


@pytest.fixture
def spring():
    return integrators.oscillator(3, np.random.default_rng(1))


def test_energies_that_integrators_multiply_or_conserve(spring):
    _, _, energy = integrators.trajectory(integrators.euler, spring, spring.starts[0], STEP, 20)
    np.testing.assert_allclose(energy[1:] / energy[:-1], 1 + STEP**2, rtol=1e-12)
    # p^2 / 2 + q^2 (1 - h^2 / 4) / 2, for any number of steps
    q, p, energy = integrators.trajectory(
        integrators.leapfrog, spring, spring.starts[0], STEP, 1000
    )
    own = 0.5 * p[:, 0] ** 2 + 0.5 * q[:, 0] ** 2 * (1 - STEP**2 / 4)
    np.testing.assert_allclose(own, own[0], rtol=1e-10)
    assert np.ptp(energy) > 1e-3 * energy[0]
    # return q^2 + p^2 - h q p, if the position moves by the new momentum
    q, p, _ = integrators.trajectory(
        integrators.symplectic_euler, spring, spring.starts[0], STEP, 1000
    )
    own = q[:, 0] ** 2 + p[:, 0] ** 2 - STEP * q[:, 0] * p[:, 0]
    np.testing.assert_allclose(own, own[0], rtol=1e-10)


@pytest.mark.parametrize(("name", "expected", "keeps_volume", "reverses"), [
    ("Euler", 1, False, False), ("symplectic Euler", 1, True, False), ("leapfrog", 2, True, True),
])  # fmt: skip
def test_order_volume_and_return(name, expected, keeps_volume, reverses):
    step = integrators.METHODS[name]
    assert integrators.order(*integrators.energy_errors(step, CURVED, 8)) == pytest.approx(
        expected, abs=0.05
    )
    # of Euler: det(1 + h^2 U''), U'' = diag(cosh q) + 1 1'
    q = CURVED.starts[0][0]
    curvature = np.diag(np.cosh(q)) + 1.0
    grown = 1.0 if keeps_volume else np.linalg.det(np.eye(2) + STEP**2 * curvature)
    assert integrators.volume(step, CURVED, STEP) == pytest.approx(grown, rel=1e-6)
    assert (integrators.distance_back(step, CURVED, STEP) < 1e-10) == reverses


def test_the_gradient_of_a_program_is_that_of_its_energy():
    system = integrators.program(1, np.random.default_rng(1))
    q, p = system.starts[0]
    ahead, behind = (system.energy(q + sign * 1e-5 * p) for sign in (1, -1))
    assert (ahead - behind) / 2e-5 == pytest.approx(system.gradient(q) @ p, rel=1e-5)


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
    expected = 0.5 * SLOPE * exact_paths.STEP * (steps * exact_paths.STEP)
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
    np.testing.assert_allclose(
        radius["Euler"][1:] / radius["Euler"][:-1], np.sqrt(1 + exact_paths.STEP**2)
    )
    assert np.abs(radius["leapfrog"] / radius["exact"] - 1).max() < exact_paths.STEP**2 / 4
