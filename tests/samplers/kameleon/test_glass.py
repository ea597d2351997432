"""The Glass program: its density in numpy once more, the estimate unbiased, its noise as published.

The second way to the same number goes through other formulas: the Gram matrix row by row, Newton's
method on v with dense solves until it stands still. Its log density is that of all of (theta, u).
"""

import json
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

import stanadapt as sa
from stanadapt.targets import noise
from stanadapt.targets.stan import bundled

PROGRAM, DATA = bundled.find("glass")
# posterior means of earlier runs by hand, convention 1 and 2: points with most of the mass
CENTERS = {
    1: np.array([-1.61, -1.78, -0.24, -2.22, -2.26, -2.62, -1.33, -2.72, -3.00]),
    2: np.array([2.13, 1.91, -0.06, 2.66, 2.31, 2.63, 1.15, 3.32, 3.51]),
}
STEPS = "int newton_steps = 7;"


def content(**changed):
    return {**json.loads(DATA.read_text()), **changed}


def target(backend="stanli", steps=7, data=None, **changed):
    """Skip stanli's checks of the program, which take seconds; one test makes them."""
    code = PROGRAM.read_text()
    assert STEPS in code
    code = code.replace(STEPS, f"int newton_steps = {steps};")
    settings = {"unsafe": True} if backend == "stanli" else {}
    return sa.Target(code, data or content(**changed), backend=backend, noise=["u"], **settings)


pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


def whitened(inputs):
    """Return rows with covariance I; L of the covariance is lower triangular."""
    centered = inputs - inputs.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(np.cov(inputs.T)), centered.T).T


def log_estimate(data, theta, u):
    """Return the log of the mean importance weight; u has shape (row, sample)."""
    z = whitened(np.array(data["X"], dtype=float))
    scales = np.exp(theta) if data["convention"] == 1 else np.sqrt(0.5 * np.exp(-theta))
    gram = np.array([np.exp(-np.sum(((z - row) * scales) ** 2, axis=1)) for row in z])
    factor = np.linalg.cholesky(gram + data["ridge"] * np.eye(len(z)))
    signs, mode = 2 * np.array(data["y"]) - 1, np.zeros(len(z))
    for _ in range(30):
        p = expit(factor @ mode)
        precision = np.eye(len(z)) + (factor.T * (p * (1 - p))) @ factor
        slope = factor.T @ (signs * expit(-signs * (factor @ mode))) - mode
        mode = mode + np.linalg.solve(precision, slope)
    root = np.linalg.cholesky(precision)
    v = mode[:, None] + np.linalg.solve(root.T, u)
    logs = np.sum(log_expit(signs[:, None] * (factor @ v)), axis=0)
    logs += 0.5 * np.sum(u**2 - v**2, axis=0) - np.log(np.diag(root)).sum()
    return logsumexp(logs) - np.log(u.shape[1])


def log_density(data, theta, u):
    """Return the log density without the constants of normal distributions."""
    return log_estimate(data, theta, u) - theta @ theta / 10 - 0.5 * np.sum(u**2)


def points(data, sizes=(0.3, 1.0, 2.2)):
    """Return (theta, u) near the mass of the posterior, up to the width of the prior."""
    rng = np.random.default_rng(9)
    for size in sizes:
        yield (
            CENTERS[data["convention"]] + size * rng.standard_normal(9),
            rng.standard_normal((214, data["M"])),
        )


def position(theta, u):
    """Return a position in Stan's order: theta, then the columns of u."""
    return np.concatenate([theta, u.T.ravel()])


# --- data and density ----------------------------------------------------------------------------


def test_data_and_priors_are_those_of_the_paper():
    data = content()
    inputs = np.array(data["X"])
    assert inputs.shape == (214, 9) == (data["N"], data["D"])
    assert sum(data["y"]) == 163
    assert set(data["y"]) == {0, 1}
    assert (data["M"], data["ridge"], data["convention"]) == (1, 0.001, 1)
    np.testing.assert_allclose(inputs[:, 1:].sum(axis=1), 100, atol=1.0)  # percent of the weight
    np.testing.assert_allclose(np.cov(whitened(inputs).T), np.eye(9), atol=1e-10)
    # theta_1 = -(theta_2 + log 2) / 2 gives the same K; each adds its own -theta^2 / 10
    first, second = target(), target(convention=2)
    theta, u = next(points(content(convention=2)))
    mapped = -(theta + np.log(2)) / 2
    one = first.value(position(mapped, u)) + mapped @ mapped / 10
    other = second.value(position(theta, u)) + theta @ theta / 10
    assert one == pytest.approx(other, rel=0, abs=1e-9)
    assert abs(mapped @ mapped - theta @ theta) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("convention", "samples"), [(1, 1), (2, 3)])
def test_density_equals_the_other_way(convention, samples):
    data = content(convention=convention, M=samples)
    stan, values = target(data=data), []
    for theta, u in points(data):
        values.append(log_density(data, theta, u))
        assert stan.value(position(theta, u)) == pytest.approx(values[-1], rel=0, abs=1e-10)
    assert np.ptp(values) > 10


@pytest.mark.cmdstan
@pytest.mark.soak
@pytest.mark.parametrize(("convention", "samples"), [(1, 1), (2, 3)])
def test_native_density_equals_the_other_way(convention, samples):
    """Values come with all constants there, gradients' values with none."""
    data = content(convention=convention, M=samples)
    stan = target("cmdstan", data=data)
    constants = -0.5 * (stan.dim * np.log(2 * np.pi) + 9 * np.log(5))
    for theta, u in points(data):
        expected, where = log_density(data, theta, u), position(theta, u)
        assert stan.value(where) == pytest.approx(expected + constants, rel=0, abs=1e-10)
        assert stan.evaluate(where)[0] == pytest.approx(expected, rel=0, abs=1e-10)


def test_the_embedded_backend_admits_it():
    """Make all checks, as for users; the gradient is that of the density."""
    stan = sa.Target(PROGRAM, DATA, noise="u")
    assert stan.column_names == [f"theta.{d}" for d in range(1, 10)]
    rng, h = np.random.default_rng(10), 1e-5
    theta, u = next(points(content()))
    where, direction = position(theta, u), rng.standard_normal(223)
    direction /= np.linalg.norm(direction)
    slope = (stan.value(where + h * direction) - stan.value(where - h * direction)) / (2 * h)
    assert stan.evaluate(where)[1] @ direction == pytest.approx(slope, rel=1e-5)


# --- the estimate --------------------------------------------------------------------------------

TINY = {
    "N": 4, "D": 1, "M": 1, "ridge": 0.001, "convention": 1,
    "X": [[0.1], [0.5], [1.4], [-2.0]], "y": [1, 0, 1, 1],
}  # fmt: skip


def exact_likelihood(theta):
    """p(y | theta) of TINY by Gauss-Hermite quadrature with 24 nodes in each of 4 dimensions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    z = whitened_column(TINY["X"])
    gram = np.exp(-(((z[:, None] - z) * np.exp(theta)) ** 2)) + 0.001 * np.eye(4)
    f = np.linalg.cholesky(gram) @ np.array(list(product(nodes, repeat=4))).T
    signs = 2 * np.array(TINY["y"]) - 1
    mass = np.prod(list(product(weights / np.sqrt(2 * np.pi), repeat=4)), axis=1)
    return mass @ np.prod(expit(signs[:, None] * f), axis=0)


def whitened_column(inputs):
    x = np.array(inputs)[:, 0]
    return (x - x.mean()) / x.std(ddof=1)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [7, 1, 0])
@pytest.mark.parametrize("theta", [-1.5, 0.7])
def test_estimates_are_unbiased_for_any_number_of_steps(steps, theta):
    """The mean of 4000 is within four standard errors of the integral; false alarms 6e-5."""
    stan, rng = target(steps=steps, data=TINY), np.random.default_rng(11)
    logs = []
    for _ in range(4000):
        u = rng.standard_normal(4)
        where = np.concatenate([[theta], u])
        logs.append(stan.value(where) + 0.5 * u @ u + theta**2 / 10)
    estimates, exact = np.exp(logs), exact_likelihood(theta)
    error = estimates.std(ddof=1) / np.sqrt(4000)
    assert abs(estimates.mean() - exact) < 4 * error
    assert 4 * error < 0.06 * exact  # so that a wrong determinant would be seen


@pytest.mark.slow
def test_newton_has_converged_all_over_the_prior():
    """Seven steps give the same as twelve, at 20 prior draws; three do not."""
    few, usual, many = target(steps=3), target(), target(steps=12)
    rng, found = np.random.default_rng(12), []
    for _ in range(20):
        where = position(np.sqrt(5) * rng.standard_normal(9), rng.standard_normal((214, 1)))
        found.append([stan.value(where) for stan in (few, usual, many)])
    differences = np.abs(np.array(found)[:, :2] - np.array(found)[:, 2:])
    assert differences[:, 1].max() < 1e-10
    assert differences[:, 0].max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "expected"), [(1, 0.46), (25, 0.10)])
def test_noise_is_as_measured(samples, expected):
    """Check the standard deviation of the log estimate at a point, within a third for 80 draws."""
    where = np.zeros(9 + 214 * samples)
    where[:9] = CENTERS[1]
    found = noise.estimate(target(M=samples), where, draws=40)
    assert found.sd == pytest.approx(expected, rel=0.35)
    assert found.z < 5
