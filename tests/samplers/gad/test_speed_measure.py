"""The derivatives and step rules of the gad samplers, against their formulas."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers import find
from stanadapt.samplers.gad import speed_measure
from stanadapt.samplers.gad.gad_hmc import LARGEST_WEIGHT, entropy_term, quarter_period
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.gad import START, agree, differences, evaluate, prepared
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.short_runs import NORMAL, draw, values
from tests.helpers.targets import RHO, SCALES, Awkward

LENGTH = 0.9  # long enough that some proposals are rejected


def proposal_log_ratio(name, density, x, eps, factor, frozen_gradient=None):
    """Return the log ratio as a function of L; min(0, log ratio) is the objective of one sample."""
    if name == "gad_rwm":
        return evaluate(density, x + factor @ eps)[0] - evaluate(density, x)[0]
    u = factor.T @ evaluate(density, x)[1]
    y = x + factor @ (0.5 * u + eps)
    gradient_y = evaluate(density, y)[1] if frozen_gradient is None else frozen_gradient
    m = 0.5 * (u + factor.T @ gradient_y) + eps
    return evaluate(density, y)[0] - evaluate(density, x)[0] - 0.5 * (m @ m - eps @ eps)


def rejected_proposal(name, seed, **chosen):
    """Run one step and one `adapt` from a known L; return their ingredients."""
    sampler, settings, density, state, matrix = prepared(name, LENGTH, chosen)
    state, info = sampler.step(density, settings, state, np.random.default_rng(seed))
    eps, log_ratio = state.noise.copy(), state.log_ratio
    state = sampler.adapt(density, settings, state, info, 0, 100)
    return density, START, eps, matrix, log_ratio, state.tuning, settings


VARIANTS = [
    (name, dict(chosen, diagonal=diagonal))
    for name, chosen in (("gad_rwm", {}), ("gad_mala", {}), ("gad_mala", {"exact": True}))
    for diagonal in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chosen"), VARIANTS)
def test_derivative_of_a_rejected_proposal(name, chosen):
    """Compare with finite differences in L; only the fast form holds g(y) constant."""
    rejections = 0
    for seed in range(40):
        density, x, eps, matrix, log_ratio, tuning, settings = rejected_proposal(
            name, seed, **chosen
        )
        if not log_ratio < 0:
            continue
        frozen = None
        if name == "gad_mala" and not settings.exact:
            u = matrix.T @ evaluate(density, x)[1]
            frozen = evaluate(density, x + matrix @ (0.5 * u + eps))[1]

        def objective(factor, eps=eps, x=x, frozen=frozen, density=density):
            return proposal_log_ratio(name, density, x, eps, factor, frozen)

        assert abs(objective(matrix) - log_ratio) < 1e-10
        rank = 3 if getattr(settings, "exact", False) else 1
        ours = np.tril(tuning.left[:rank].T @ tuning.right[:rank])
        numeric = differences(objective, matrix, settings.diagonal)
        if settings.diagonal:
            ours = np.diag(np.diag(ours))
        agree(ours, numeric, 2e-5)
        rejections += 1
    assert rejections >= 10


LARGE = speed_measure.SINGLE_FROM + 5  # a row that ends within a block


# squares of 1e30 are below the bound of single precision, 1e38
@pytest.mark.parametrize(("n", "diagonal", "scale"), [
    (21, False, 1.0), (21, True, 1.0), (LARGE, False, 1.0), (LARGE, False, 1e15),
])  # fmt: skip
def test_step_rule_is_rmsprop_on_the_lower_triangle(n, diagonal, scale):
    """Four steps against the recursion of the paper, written out in NumPy."""
    eta, single = 0.05 if n < LARGE else 1e-3, n >= LARGE and not diagonal
    tuning = speed_measure.start(n, 2.0, diagonal)
    assert tuning.single.shape == (n if single else 0, n)
    rng = np.random.default_rng(5)
    factor = np.eye(n) * 2.0 / np.sqrt(n)
    mean_square, beta = None, 1.0
    keep = np.eye(n) if diagonal else np.tril(np.ones((n, n)))
    for accepted, rank in ((True, 1), (False, 2), (True, 0), (False, 1)):
        tuning.left[:], tuning.right[:] = rng.standard_normal((2, 3, n))
        tuning.left[:] *= scale
        d = (tuning.left[:rank].T @ tuning.right[:rank]) * keep
        d += beta * np.diag(1 / np.diag(factor))
        mean_square = d**2 if mean_square is None else 0.9 * mean_square + 0.1 * d**2
        factor = factor + keep * eta / (1 + np.sqrt(mean_square)) * d
        beta = max(beta * (1 + 0.02 * (accepted - 0.3)), 1e-4)
        speed_measure.ascend(tuning, rank, 1.0, eta)
        tuning = speed_measure.after_step(tuning, accepted, 0.3)
    ours = np.diag(tuning.factor[0]) if diagonal else np.tril(tuning.factor)
    error = 1e-9 if single else 1e-12
    np.testing.assert_allclose(ours, factor, rtol=0.0 if single else 1e-12, atol=error)
    assert tuning.entropy_weight == pytest.approx(beta, rel=1e-14)


def test_derivatives_too_large_for_single_precision_are_forgotten():
    """Their squares are infinite in single precision: L may move too far, and recovers."""
    n = speed_measure.SINGLE_FROM
    tuning = speed_measure.start(n, 2.0, False)
    for left in (1e25, 1.0):
        tuning.left[0], tuning.right[0] = left, 1.0
        for _ in range(1000):
            before = tuning.factor.copy()
            speed_measure.ascend(tuning, 1, 1.0, 1e-3)
            tuning = speed_measure.after_step(tuning, True, 0.3)
    assert np.isfinite(tuning.factor).all()
    moved = np.tril(tuning.factor - before, -1)[np.tril_indices(n, -1)]
    np.testing.assert_allclose(moved, 1e-3 / 2.0, rtol=0.01)


@pytest.mark.parametrize("left", [1e25, -1e200, np.inf, np.nan])
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("kind", [(False, 0), (True, 0), (False, 1)])
def test_no_derivative_makes_a_step_without_a_bound(kind, terms, left):
    """A step of RMSProp is at most eta / sqrt(0.1) = 3.2 eta, of any derivative."""
    diagonal, rank = kind
    tuning = speed_measure.start(3, 2.0, diagonal, terms=3, rank=rank)
    for size in (1.0, left, 1.0):
        tuning.left[:terms], tuning.right[:terms] = [0.5, size, -0.2], [1.0, 0.3, 2.0]
        before = tuning.factor.copy()
        speed_measure.ascend(tuning, terms, 1.0, 1e-3)
        tuning = speed_measure.after_step(tuning, True, 0.3)
        assert np.isfinite(tuning.factor).all()
        assert np.abs(tuning.factor - before).max() < 3.3e-3


def test_lower_bounds_and_long_ways_keep_weights():
    tuning = speed_measure.start(2, 1.0, False)
    for _ in range(3000):
        speed_measure.ascend(tuning, 0, -np.inf, 0.01)
        tuning = speed_measure.after_step(tuning, False, 0.9)
    assert np.diag(tuning.factor) == pytest.approx([1e-3, 1e-3])
    assert tuning.entropy_weight == 1e-4
    # L goes from 0.01 to about 1 by steps of 1e-4: beta would be 1e60, and end at its lower bound
    # the acceptance rate at the end, of 5000 draws with an ESS above 100, is known to 0.03
    target = sa.Target("parameters { vector[3] x; } model { x ~ std_normal(); }")
    fit = sa.sample(
        target, "gad_rwm", standardize=False, learning_rate=1e-4, initial_scale=0.02, chains=1,
        iter_warmup=20_000, iter_sampling=5000, save_warmup=True, seed=1,
    )  # fmt: skip
    weights = fit["warmup_sample_stats"]["entropy_weight"].values
    assert weights.max() == speed_measure.LARGEST_WEIGHT
    assert fit["sample_stats"]["acceptance_rate"].values.mean() == pytest.approx(0.25, abs=0.1)


@pytest.mark.parametrize(
    "name", ["gad_mala", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gad_rwm", "gad_hmc"))]
)
def test_failed_proposals_make_moves_shorter(name):
    target = Awkward()
    sampler, settings = find(name, learning_rate=0.01)
    density, rng = target.density(), np.random.default_rng(1)
    state = sampler.init(density, settings, np.array([0.0, 1.0, -2.0]), rng)
    before = state.tuning.factor.copy()
    target.wall[0] = -np.inf
    for t in range(20):
        state, info = sampler.step(density, settings, state, rng)
        state = sampler.adapt(density, settings, state, info, t, 100)
    assert np.all(np.diag(state.tuning.factor) < np.diag(before))
    assert np.isfinite(state.tuning.factor).all()


@pytest.mark.parametrize("name", slow_except(["gad_mala"], ["gad_rwm", "gad_mala", "gad_hmc"]))
def test_the_factor_climbs_after_every_adapt_every_iterations(name):
    sampler, settings = find(name, learning_rate=0.01, adapt_every=3)
    density, rng = Awkward().density(), np.random.default_rng(1)
    state = sampler.init(density, settings, np.array([0.0, 1.0, -2.0]), rng)
    climbed, weights = [], []
    for t in range(12):
        before = state.tuning.factor.copy()
        state, info = sampler.step(density, settings, state, rng)
        state = sampler.adapt(density, settings, state, info, t, 100)
        climbed.append(not np.array_equal(state.tuning.factor, before))
        weights.append(state.tuning.entropy_weight)
    assert climbed == [t % 3 == 0 for t in range(12)]
    assert len(set(weights)) == 12  # the entropy weight is tuned in all of them
    if name == "gad_mala":
        lower = np.tril(state.tuning.factor)
        np.testing.assert_allclose(
            state.current.scaled_gradient, lower.T @ state.current.gradient, rtol=1e-12
        )


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


def test_trajectories_and_weights_stay_bounded():
    (chain,) = finish(make_chains(("gad_hmc", LONG), Awkward(), warmup=20_000, draws=2000))
    assert column(chain, "acceptance_rate").mean() > 0.9
    assert column(chain, "entropy_weight").max() <= LARGEST_WEIGHT
    # check the last two coordinates, which are normal, and do not depend on the first
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
