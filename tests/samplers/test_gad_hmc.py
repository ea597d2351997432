"""gad_hmc climbs the derivative of its objective, and is gad_mala where a trajectory is one step."""

import numpy as np
import pytest

from stanadapt.kernels.density import value_and_gradient
from stanadapt.samplers.gad_hmc import LARGEST_WEIGHT, quarter_period
from stanadapt.samplers.registry import find
from tests.helpers.targets import Awkward

START = np.array([0.4, 1.2, -3.0])
DENSE = np.array([[0.9, 0, 0], [0.1, 0.3, 0], [-0.5, 1.0, 2.5]])


def evaluate(density, x):
    out = np.empty(3)
    return value_and_gradient(density, np.ascontiguousarray(x), out), out


def climbed(name, seed, scale, chosen):
    """Run one step and one climb that moves L by nothing worth naming; return what they made."""
    sampler, settings = find(name, learning_rate=1e-300, **chosen)
    density, rng = Awkward().density(), np.random.default_rng(seed)
    state = sampler.init(density, settings, START, rng)
    factor = state.tuning.factor
    if settings.diagonal:
        factor[:] = np.array([[0.9, 0.3, 2.5]]) * scale
        matrix = np.diag(factor[0])
    else:
        factor[:] = DENSE * scale
        matrix = factor.copy()
    if name == "gad_mala":
        state.current.scaled_gradient[:] = matrix.T @ state.current.gradient
    noise = np.random.default_rng(seed).standard_normal(3)
    state, info = sampler.step(density, settings, state, rng)
    tuning = state.tuning._replace(entropy_weight=1.7)
    state = sampler.adapt(density, settings, state._replace(tuning=tuning), info, 0, 100)
    return state, info, matrix, noise


def derivative(state, diagonal):
    """Derivative in L of all but sum_i log L_ii, from the outer products."""
    tuning = state.tuning
    whole = np.tril(tuning.left.T @ tuning.right)
    return np.diag(np.diag(whole)) if diagonal else whole


def objective(density, factor, noise, steps, weight, frozen=None):
    """The log ratio and weight times the entropy, without log det L, along one trajectory.

    frozen holds gradients at q_0, ..., q_N that do not depend on L; the log density does.
    """
    q, v, gradients = START, noise, []
    before, g = evaluate(density, q)
    gradients.append(g)
    for k in range(steps):
        half = v + 0.5 * factor.T @ g
        q = q + factor @ half
        after, g = evaluate(density, q)
        g = g if frozen is None else frozen[k + 1]
        gradients.append(g)
        v = half + 0.5 * factor.T @ g
    log_ratio = after - before + 0.5 * (noise @ noise - v @ v)
    entropy = 0.0
    if steps > 1:
        u = factor.T @ gradients[0]
        entropy = -(u @ u) / (8 * np.sin(np.pi / (4 * steps)) ** 2)
    return log_ratio, weight * entropy, gradients


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("diagonal", [False, True])
def test_derivative_by_finite_differences(steps, exact, diagonal):
    chosen = {"leapfrogs": steps, "exact": exact, "diagonal": diagonal}
    density, h, rejections = Awkward().density(), 1e-6, 0
    for seed in range(30):
        state, _, matrix, noise = climbed("gad_hmc", seed, 1.2 / steps**0.5, chosen)
        log_ratio, _, gradients = objective(density, matrix, noise, steps, 1.7)
        assert state.log_ratio == pytest.approx(log_ratio, rel=1e-9, abs=1e-9)
        frozen, counts = None if exact else gradients, 1.0 if log_ratio < 0 else 0.0

        def single(factor, noise=noise, frozen=frozen, counts=counts):
            ratio, entropy, _ = objective(density, factor, noise, steps, 1.7, frozen)
            return counts * ratio + entropy

        numeric = np.zeros((3, 3))
        for i in range(3):
            for j in range(i + 1):
                if not diagonal or i == j:
                    shift = np.zeros((3, 3))
                    shift[i, j] = h
                    numeric[i, j] = (single(matrix + shift) - single(matrix - shift)) / (2 * h)
        rejections += counts
        np.testing.assert_allclose(
            derivative(state, diagonal), numeric, rtol=1e-3, atol=1e-3 * np.abs(numeric).max()
        )
    assert 5 <= rejections <= 25


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("diagonal", [False, True])
def test_one_step_is_a_move_and_a_climb_of_gad_mala(exact, diagonal):
    chosen = {"exact": exact, "diagonal": diagonal}
    rejections = 0
    for seed in range(20):
        ours, info, *_ = climbed("gad_hmc", seed, 1.0, {"leapfrogs": 1, **chosen})
        theirs, same, *_ = climbed("gad_mala", seed, 1.0, chosen)
        assert info.accepted == same.accepted
        assert ours.log_ratio == pytest.approx(theirs.log_ratio, rel=1e-10, abs=1e-10)
        for point in ("current", "scratch"):
            one, other = getattr(ours, point), getattr(theirs, point)
            np.testing.assert_allclose(one.position, other.position, rtol=1e-12)
        one, other = derivative(ours, diagonal), derivative(theirs, diagonal)
        # their difference of gradients is central
        error = 1e-3 if exact else 1e-10
        np.testing.assert_allclose(one, other, rtol=error, atol=error * np.abs(other).max())
        rejections += ours.log_ratio < 0
    assert rejections >= 5


@pytest.mark.parametrize("steps", [2, 3, 10])
def test_a_quarter_of_a_period_forgets_where_it_started(steps):
    h, q, v = quarter_period(steps), 1.0, 0.0
    for _ in range(steps):
        v -= 0.5 * h * q
        q += h * v
        v -= 0.5 * h * q
    assert q == pytest.approx(0.0, abs=1e-14)
