"""A sparse precision matrix is read from a hundred gradients, exactly or not at all."""

import numpy as np
import pytest
from scipy import sparse

import stanadapt as sa
from stanadapt.samplers.whitened.sparse_precision import PLACES, find_precision
from tests.helpers.short_runs import assert_same_draws, in_other_ways, values
from tests.helpers.stan_target import shared_target

STATES = 400
LEVEL = f"""data {{ vector[{STATES}] y; }} parameters {{ vector[{STATES}] x; }}
model {{ x[1] ~ normal(0, 5); x[2:] ~ normal(0.98 * x[:{STATES - 1}], 0.2); y ~ normal(x, 1); }}"""
DATA = np.random.default_rng(5).normal(size=STATES)


def level_and_season(n, means=0):
    """Precision of a random walk with links to the fourth next state, and means of all."""
    rng = np.random.default_rng(1)
    walk = sparse.diags_array([1.0, -0.98], offsets=[0, 1], shape=(n, n))
    season = sparse.diags_array([1.0, 0.5], offsets=[0, 4], shape=(n, n))
    found = walk.T @ walk + 0.3 * season.T @ season
    if means:
        design = sparse.hstack([sparse.eye_array(n), rng.uniform(0.5, 1.0, (n, means))])
        nothing = sparse.csr_array((means, means))
        found = sparse.block_diag([found, nothing]) + 0.2 * design.T @ design
    return sparse.csr_array(found + 0.01 * sparse.eye_array(n + means))


def shown(precision, order=None):
    """Moves, and the changes of the gradient of a Gaussian, its coordinates in some order."""
    if order is not None:
        precision = precision[order][:, order]
    x = np.random.default_rng(2).standard_normal((PLACES, precision.shape[0]))
    return precision, x, (precision @ x.T).T


@pytest.mark.parametrize(
    ("states", "means", "mixed"), [(350, 0, True), (350, 2, True), (2200, 0, False)]
)
def test_a_sparse_matrix_is_found(states, means, mixed):
    n = states + means
    order = np.random.default_rng(3).permutation(n) if mixed else None
    precision, x, y = shown(level_and_season(states, means), order)
    found = find_precision(x, y)
    assert np.abs(found - precision).max() < 1e-9


# moves and changes of the gradient, in place of those of a sparse matrix
SPOILED = {
    "a wrong row": lambda x, y: (x, y + 0.1 * x[:, [9]] * np.eye(350)[7]),
    "a wrong side": lambda x, y: (x, y + 1e-3 * np.roll(x, 1, axis=1)),
    "noise": lambda x, y: (x, y * (1 + 1e-5 * np.random.default_rng(4).standard_normal(y.shape))),
    "curved": lambda x, y: (x, y + 0.01 * np.exp(x)),
    "curved, and diagonal": lambda x, y: (x, x + 0.01 * np.exp(x)),
    "flat": lambda x, y: (x, y * (np.arange(350) != 100)),
    "few": lambda x, y: (x[:20], y[:20]),
    "dense": lambda x, y: (x, x @ (np.eye(350) + 0.01)),
}


@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=list(SPOILED))
def test_nothing_else_is_taken(spoiled):
    _, x, y = shown(level_and_season(350))
    assert find_precision(x, y) is not None
    assert find_precision(*spoiled(x, y)) is None


# --- whole runs -----------------------------------------------------------------------------------


target = shared_target(LEVEL, {"y": DATA})


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(target, iter_sampling=500, seed=18)


def test_a_local_level_takes_two_gradients_per_draw(fit):
    assert fit.attrs["metric"] == (
        f"sparse, band 1: x[1..{STATES}] Gaussian with a sparse precision, whitened exactly"
    )
    assert fit.attrs["trajectory"].startswith("2 gradients per draw")
    assert fit.attrs["verdict"] == "fine"
    assert fit.attrs["n_gradients"] < 9000
    walk = sparse.diags_array([-0.98, 1.0], offsets=[0, 1], shape=(STATES - 1, STATES))
    precision = (walk.T @ walk / 0.2**2 + sparse.eye_array(STATES)).toarray()
    precision[0, 0] += 1.0 / 25.0
    covariance = np.linalg.inv(precision)
    draws = values(fit, "x").reshape(-1, STATES)
    mean, sd = covariance @ DATA, np.sqrt(np.diag(covariance))
    z = (draws.mean(axis=0) - mean) / sd
    # rotations draw antithetically: the error of a mean is smaller than that of independent draws
    assert np.abs(z).max() < 4.5 / np.sqrt(len(draws))
    # a covariance that is wrong somewhere would show in the length of whitened draws
    length = np.einsum("ij,jk,ik->i", draws - mean, precision, draws - mean)
    assert length.mean() == pytest.approx(STATES, abs=5.0 * np.sqrt(2.0 * STATES / len(draws)))


@pytest.mark.thorough
def test_the_same_draws_in_every_way_and_for_others(target, fit, tmp_path):
    run = {"iter_sampling": 500, "seed": 18}
    for other in in_other_ways(target, "auto", tmp_path / "run", 100, **run):
        assert_same_draws(fit, other)
        assert other.attrs["metric"] == fit.attrs["metric"]
    again = sa.sample(target, warm_start=fit, iter_sampling=100, seed=18)
    assert again.attrs["metric"] == fit.attrs["metric"]
    other = sa.sample(target, "hmc", iter_sampling=20, iter_warmup=600, seed=18)
    assert other.attrs["standardized"] == "sparse"
    diagonal = sa.sample(target, metric="diagonal", iter_sampling=20, seed=18)
    assert diagonal.attrs["metric"] == "diagonal"
