"""The derivatives and the step rule of gadRWM and gadMALA, against their formulas."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers import find
from stanadapt.samplers.gad import speed_measure
from tests.helpers.gad import START, agree, differences, evaluate, prepared
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import Awkward

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


def test_a_long_way_does_not_wind_the_entropy_weight_up():
    """L goes from 0.01 to about 1 by steps of 1e-4: beta would be 1e60, and end at its lower bound.

    The acceptance rate at the end, of 5000 draws with an ESS above 100, is known to 0.03.
    """
    target = sa.Target("parameters { vector[3] x; } model { x ~ std_normal(); }")
    fit = sa.sample(
        target, "gad_rwm", standardize=False, learning_rate=1e-4, initial_scale=0.02, chains=1,
        iter_warmup=20_000, iter_sampling=5000, save_warmup=True, seed=1,
    )  # fmt: skip
    weights = fit["warmup_sample_stats"]["entropy_weight"].values
    assert weights.max() == speed_measure.LARGEST_WEIGHT
    assert fit["sample_stats"]["acceptance_rate"].values.mean() == pytest.approx(0.25, abs=0.1)


def test_diagonal_and_beta_stay_above_their_lower_bounds():
    tuning = speed_measure.start(2, 1.0, False)
    for _ in range(3000):
        speed_measure.ascend(tuning, 0, -np.inf, 0.01)
        tuning = speed_measure.after_step(tuning, False, 0.9)
    assert np.diag(tuning.factor) == pytest.approx([1e-3, 1e-3])
    assert tuning.entropy_weight == 1e-4


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
