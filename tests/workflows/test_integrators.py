"""The integrators of the workflow: closed forms of their properties on the oscillator."""

import numpy as np
import pytest

from workflows.learned import integrators

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


def test_a_step_of_euler_multiplies_the_oscillators_energy(spring):
    _, _, energy = integrators.trajectory(integrators.euler, spring, spring.starts[0], STEP, 20)
    np.testing.assert_allclose(energy[1:] / energy[:-1], 1 + STEP**2, rtol=1e-12)


def test_the_leapfrog_conserves_an_energy_of_its_own(spring):
    """p^2 / 2 + q^2 (1 - h^2 / 4) / 2, for any number of steps."""
    q, p, energy = integrators.trajectory(
        integrators.leapfrog, spring, spring.starts[0], STEP, 1000
    )
    own = 0.5 * p[:, 0] ** 2 + 0.5 * q[:, 0] ** 2 * (1 - STEP**2 / 4)
    np.testing.assert_allclose(own, own[0], rtol=1e-10)
    assert np.ptp(energy) > 1e-3 * energy[0]


def test_symplectic_euler_conserves_another(spring):
    """Return q^2 + p^2 - h q p, if the position moves by the new momentum."""
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
