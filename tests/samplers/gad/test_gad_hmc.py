"""gad_hmc climbs the derivative of its objective; its moves: test_equivalences.py."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers.gad.gad_hmc import LARGEST_WEIGHT, entropy_term, quarter_period
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.gad import START, agree, differences, evaluate, prepared
from tests.helpers.short_runs import NORMAL, draw, values
from tests.helpers.targets import RHO, SCALES, Awkward

# a quarter of a period in five steps is accepted more often than asked for
LONG = {"leapfrogs": 5, "learning_rate": 5e-3}


def climbed(seed, scale, chosen):
    """Run one step and one climb with a negligible learning rate, without entropy."""
    sampler, settings, density, state, matrix = prepared("gad_hmc", scale, chosen)
    noise = np.random.default_rng(seed).standard_normal(3)
    state, info = sampler.step(density, settings, state, np.random.default_rng(seed))
    tuning = state.tuning._replace(entropy_weight=0.0)
    state = sampler.adapt(density, settings, state._replace(tuning=tuning), info, 0, 100)
    return state, matrix, noise


def derivative(tuning, diagonal):
    """Return the derivative in L of all but sum_i log L_ii, from the outer products."""
    whole = np.tril(tuning.left.T @ tuning.right)
    return np.diag(np.diag(whole)) if diagonal else whole


def trajectory(density, factor, noise, steps, frozen=None):
    """Return the log ratio and the gradients at q_0, ..., q_N.

    frozen holds gradients that do not depend on L; the log density does.
    """
    q, v = START, noise
    before, g = evaluate(density, q)
    gradients = [g]
    for k in range(steps):
        half = v + 0.5 * factor.T @ g
        q = q + factor @ half
        after, g = evaluate(density, q)
        g = g if frozen is None else frozen[k + 1]
        gradients.append(g)
        v = half + 0.5 * factor.T @ g
    return after - before + 0.5 * (noise @ noise - v @ v), gradients


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("diagonal", [False, True])
def test_derivative_of_the_log_ratio(steps, exact, diagonal):
    chosen = {"leapfrogs": steps, "exact": exact, "diagonal": diagonal}
    density, rejections = Awkward().density(), 0
    for seed in range(30):
        state, matrix, noise = climbed(seed, 1.2 / steps**0.5, chosen)
        log_ratio, gradients = trajectory(density, matrix, noise, steps)
        assert state.log_ratio == pytest.approx(log_ratio, rel=1e-9, abs=1e-9)
        frozen = None if exact else gradients

        def log_ratio_of(factor, noise=noise, frozen=frozen):
            return trajectory(density, factor, noise, steps, frozen)[0]

        if log_ratio < 0:
            numeric = differences(log_ratio_of, matrix, diagonal)
            agree(derivative(state.tuning, diagonal), numeric, 1e-3)
            rejections += 1
        else:
            assert not derivative(state.tuning, diagonal).any()
    assert 5 <= rejections <= 25


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("diagonal", [False, True])
def test_derivative_of_the_entropy(steps, diagonal):
    """Vectors e with products e e^T that sum to I give its mean over all e exactly."""
    chosen = {"leapfrogs": steps, "diagonal": diagonal}
    _, _, density, state, matrix = prepared("gad_hmc", 0.7, chosen)
    tuning, path = state.tuning._replace(entropy_weight=1.7), state.trajectory
    path.positions[0], path.gradients[0] = START, state.current.gradient
    ours = np.zeros((3, 3))
    for unit in np.eye(3):
        path.start[:] = unit
        rows = entropy_term(density, steps, tuning, path, 0)
        assert rows == (steps > 1)
        ours += derivative(tuning, diagonal)
    h = 1e-5
    columns = [evaluate(density, START + h * e)[1] - evaluate(density, START - h * e)[1]
               for e in np.eye(3)]  # fmt: skip
    hessian = -np.array(columns) / (2 * h)

    def entropy(factor):
        square = (factor.T @ hessian @ factor) @ (factor.T @ hessian @ factor)
        return -1.7 * np.trace(square) / (4 * (4 * np.sin(np.pi / (4 * steps)) ** 2) ** 2)

    agree(ours, differences(entropy, matrix, diagonal) * (steps > 1), 1e-3)


@pytest.mark.parametrize("steps", [2, 3, 10])
def test_a_quarter_of_a_period_forgets_its_start(steps):
    h, q, v = quarter_period(steps), 1.0, 0.0
    for _ in range(steps):
        v -= 0.5 * h * q
        q += h * v
        v -= 0.5 * h * q
    assert q == pytest.approx(0.0, abs=1e-14)


def test_beta_stays_finite_if_trajectories_are_long_before_they_are_rejected():
    (chain,) = finish(make_chains(("gad_hmc", LONG), Awkward(), warmup=20_000, draws=2000))
    assert column(chain, "acceptance_rate").mean() > 0.9
    assert column(chain, "entropy_weight").max() <= LARGEST_WEIGHT


def test_trajectories_become_a_quarter_of_a_period_in_every_direction():
    """Check the last two coordinates, which are normal, and do not depend on the first."""
    chains = finish(make_chains(("gad_hmc", LONG), Awkward(), n=4, warmup=20_000, draws=10))
    precision = np.linalg.inv(np.outer(SCALES, SCALES) * np.array([[1.0, RHO], [RHO, 1.0]]))
    found = []
    for chain in chains:
        block = np.tril(chain.state.tuning.factor)[1:, 1:]
        found.append(np.linalg.eigvalsh(block.T @ precision @ block))
    # one chain ends within a fifth of it
    np.testing.assert_allclose(
        np.mean(found, axis=0), quarter_period(LONG["leapfrogs"]) ** 2, rtol=0.2
    )


@pytest.mark.filterwarnings("ignore::stanadapt.ConvergenceWarning")
def test_a_rate_above_the_target_is_not_a_fault():
    fit = draw(sa.Target(NORMAL), "gad_hmc", leapfrogs=8, iter_warmup=200, iter_sampling=200)
    assert values(fit, "acceptance_rate", "sample_stats").mean() > 0.97
    assert "acceptance_off_target" not in fit.attrs["verdict_codes"]
