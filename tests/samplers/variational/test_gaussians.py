"""Gaussians found by Pathfinder, ADVI and Laplace's method, against exact results."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import multivariate_normal

import stanadapt as sa
from stanadapt.engine.density import GRADIENT_CALLS, VALUE_CALLS
from stanadapt.engine.standardized_density import standardized
from stanadapt.samplers.variational import advi, laplace, pathfinder
from stanadapt.samplers.variational.gaussian import Gaussian, log_densities
from stanadapt.samplers.variational.lbfgs import climb
from stanadapt.samplers.variational.pathfinder import low_rank_factor
from tests.helpers.gaussian_target import Gaussian as Independent
from tests.helpers.targets import SHAPE, Awkward

# five scales over eight orders of magnitude, and means that are no multiples of them
SD = np.array([1e-4, 1e-2, 1.0, 1e2, 1e4])
MEAN = np.array([1e-3, -5.0, 3.0, 2e3, -3e4])
# of the awkward target's x[1], x[2]: standard deviations 0.3 and 4, correlation 0.7
COVARIANCE = np.array([[0.09, 0.84], [0.84, 16.0]])


def rng(seed=1):
    return np.random.default_rng(seed)


def factors(n):
    """One factor of each kind of storage, by name."""
    triangle = np.tril(rng(4).normal(size=(n, n))) + 2.0 * np.eye(n)
    directions = np.linalg.qr(rng(5).normal(size=(n, 2)))[0].T
    low = np.zeros((3, n + 1))
    low[0, :n], low[1:, :n], low[1:, n] = np.arange(1.0, n + 1), directions, [1.5, -0.6]
    return {"diagonal": np.arange(1.0, n + 1)[None], "dense": triangle, "low rank": low}


@pytest.mark.parametrize("kind", factors(4))
def test_log_density_and_moments_of_every_kind_of_factor(kind):
    q = Gaussian(np.array([1.0, -2.0, 0.5, 10.0]), factors(4)[kind])
    x = q.draw(rng(), 20_000)
    exact = multivariate_normal(q.location, q.covariance())
    np.testing.assert_allclose(q.log_density(x[:50]), exact.logpdf(x[:50]), rtol=1e-10)
    assert q.entropy == pytest.approx(exact.entropy(), rel=1e-12)
    np.testing.assert_allclose(q.sd(), np.sqrt(np.diag(q.covariance())), rtol=1e-12)
    np.testing.assert_allclose(q.triangle() @ q.triangle().T, q.covariance(), rtol=1e-10)
    # the error of a variance from 20,000 draws is 1 % of it: five errors
    np.testing.assert_allclose(np.var(x, axis=0), np.diag(q.covariance()), rtol=0.05)
    wanted = np.linalg.norm(q.covariance())
    assert np.linalg.norm(np.cov(x.T) - q.covariance()) < 0.05 * wanted


def pairs(count, n=6):
    """Pairs s, y = P s of a quadratic, their scales falling along the path, and P."""
    root = rng(2).normal(size=(n, n)) / np.sqrt(n)
    precision = (root @ root.T + 0.1 * np.eye(n)) / np.outer(*2 * [10.0 ** np.arange(n)])
    s = rng(3).normal(size=(count, n)) * 10.0 ** np.arange(n) * 1e-3 ** np.arange(count)[:, None]
    return s, s @ precision, precision


def bfgs(scale, steps, slopes):
    """The inverse Hessian, one update after another, each as it is defined."""
    h = np.diag(scale)
    for s, y in zip(steps, slopes, strict=True):
        v = np.eye(len(s)) - np.outer(y, s) / (s @ y)
        h = v.T @ h @ v + np.outer(s, s) / (s @ y)
    return h


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_factor_is_a_root_of_the_inverse_hessian(count):
    """A transposed triangular factor has the same determinant, but another covariance."""
    s, y, _ = pairs(count)
    scale = 2.0 * 10.0 ** (2.0 * np.arange(6))
    found = Gaussian(np.zeros(6), low_rank_factor(scale, s, y)).covariance()
    wanted = bfgs(scale, s, y)
    unit = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    np.testing.assert_allclose(found / unit, wanted / unit, atol=1e-8)
    if count:
        assert np.abs(wanted / unit - np.diag(np.diag(wanted / unit))).max() > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_climb_reaches_the_mode_in_any_units(seed):
    target = Independent(MEAN, SD)
    path = climb(target.density(), rng(seed).uniform(-2, 2, 5), 1000, 6)
    assert len(path.log_density) < 100
    assert np.all(np.diff(path.log_density) > 0.0)
    # 1e-9 is left of the log density at most, so that no coordinate is 1e-4 sd from the mode
    np.testing.assert_allclose((path.positions[-1] - MEAN) / SD, 0.0, atol=1e-4)


@pytest.mark.parametrize("size", [1e10, 1e12, 1e18])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_climb_does_not_end_before_a_coordinate_of_huge_scale_has_moved(seed, size):
    """From starts of size 1 nothing is promised of it: a step of 1 raises the density by 3 / size.

    It took no steps if size was 1e10 or more.
    """
    mean, sd = np.array([3.0 * size, 1.0, -5e-3]), np.array([size, 1.0, 1e-3])
    density, start = Independent(mean, sd).density(), rng(seed).uniform(-2, 2, 3)
    path = climb(density, start, 1000, 6)
    assert density.calls[GRADIENT_CALLS] < 200
    assert np.all(np.diff(path.log_density) >= 0.0)
    np.testing.assert_allclose((path.positions[-1] - mean) / sd, 0.0, atol=1e-4)
    found, _ = found_by_pathfinder(Independent(mean, sd), start)
    # a path of a dozen steps knows these scales within some factor
    assert np.all(np.abs(np.log(found.best.sd() / sd)) < np.log(4.0))


def test_a_climb_ends_before_a_wall_and_needs_a_density():
    """The mode, 0.69, lies beyond the wall: the climb ends before it, at a finite density."""
    path = climb(Awkward(0.5).density(), np.array([-3.0, 1.0, -2.0]), 200, 6)
    assert np.isfinite(path.log_density).all()
    assert path.positions[:, 0].max() <= 0.5
    assert path.positions[-1, 0] > 0.4
    assert not len(climb(Awkward(-1.0).density(), np.zeros(3), 10, 6).log_density)


def found_by_pathfinder(target, start, seed=1):
    density = target.density()
    settings = {"history": 6, "elbo_draws": 25, "max_iterations": 1000}
    return pathfinder.find(density, start, rng(seed), **settings), density


@pytest.mark.parametrize("unit", [1.0, 1e-9])  # 1 is 1e13 of the smallest scale then
def test_pathfinder_finds_a_gaussian_in_any_units(unit):
    mean, sd = unit * MEAN, unit * SD
    found, density = found_by_pathfinder(Independent(mean, sd), np.array([1.0, -1, 0.5, -1, 1]))
    np.testing.assert_allclose((found.best.location - mean) / sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(found.best.sd() / sd, 1.0, atol=0.1)
    # the log of the integral of exp(-z'z / 2): no ELBO is above it, but by the error of its draws
    evidence = 2.5 * np.log(2 * np.pi) + np.log(sd).sum()
    assert found.elbo.max() == pytest.approx(evidence, abs=0.1)
    assert density.calls[VALUE_CALLS] == 25 * len(found.elbo)
    assert density.calls[GRADIENT_CALLS] >= len(found.elbo)


def test_the_mixture_of_two_gaussians_is_normalized():
    parts = [Gaussian(np.array([-3.0]), np.array([[0.5]])), Gaussian(np.array([4.0]), np.eye(1))]
    grid = np.linspace(-12, 12, 20_001)
    density = np.exp(pathfinder.mixture_log_density(parts, grid[:, None]))
    assert trapezoid(density, grid) == pytest.approx(1.0, rel=1e-6)
    assert density[grid < 0].sum() == pytest.approx(density[grid > 0].sum(), rel=1e-3)


def correlated(mean, covariance):
    """A density of x = m + L z that is standard normal in z: in x, it has this covariance."""
    n = len(mean)
    base = Independent(np.zeros(n), np.ones(n))
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    return standardized(base.density(), -inverse @ mean, np.ascontiguousarray(inverse))


TRUTH = np.array([0.4, -0.3, 0.2])
WIDTHS = np.array([[1.2, 0.9, 0.0], [0.9, 1.5, -0.4], [0.0, -0.4, 0.6]])


def ascended(diagonal, iterations=2000):
    density = correlated(TRUTH, WIDTHS)
    return advi.ascend(density, diagonal, iterations, 10, 0.05, rng(7))


def test_advi_finds_what_it_can_of_a_correlated_gaussian():
    """The gradient has no variance there: the rest is the length of the last steps."""
    found = ascended(False)
    np.testing.assert_allclose(found.location, TRUTH, atol=5e-3)
    factor = np.tril(found.factor)
    np.testing.assert_allclose(factor @ factor.T, WIDTHS, atol=2e-2)
    evidence = 1.5 * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(WIDTHS)[1]
    assert found.elbo[-100:].mean() == pytest.approx(evidence, abs=0.02)
    # for a Gaussian with precision P the best one has variances 1 / P_ii, which are too small
    found = ascended(True)
    wanted = 1.0 / np.sqrt(np.diag(np.linalg.inv(WIDTHS)))
    np.testing.assert_allclose(found.location, TRUTH, atol=0.05)
    np.testing.assert_allclose(found.factor[0], wanted, rtol=0.05)
    assert np.all(wanted < 0.9 * np.sqrt(np.diag(WIDTHS)))


@pytest.mark.parametrize("height", ["1e300", "1e197", "1e30"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_draws_behind_a_wall_do_not_stop_the_ascent(height, diagonal):
    """Of the first q, 4 % of draws have slopes whose squares may overflow; of the last, 3e-8."""
    wall = 1.7 + np.log(float(height)) / 1000.0
    target = sa.Target(
        "parameters { real x; real y; } model { x ~ normal(-1, 0.5); y ~ normal(3 + x, 0.2);"
        f"target += -{height} * log1p_exp(1000 * (x - {wall})); }}",
    )  # fmt: skip
    found = advi.ascend(target.density(), diagonal, 4000, 10, 0.05, rng(1))
    triangle = np.diag(found.factor[0]) if diagonal else np.tril(found.factor)
    slope = np.array([[1.0, 0.0], [1.0, 1.0]])
    covariance = slope @ np.diag([0.5**2, 0.2**2]) @ slope.T
    if diagonal:  # only there has the gradient variance: rate / 2 * sqrt(2 / iterations), at most
        covariance = np.diag(1.0 / np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(found.location, [-1.0, 2.0], atol=0.03 if diagonal else 1e-3)
    np.testing.assert_allclose(triangle @ triangle.T, covariance, rtol=0.05 if diagonal else 1e-3)


def test_draws_and_densities_that_fail():
    density = Awkward(0.0).density()
    found = advi.ascend(density, False, 20, 10, 0.01, rng())
    assert 0 < found.failed < 200
    assert not np.isfinite(found.elbo).all()
    assert np.isfinite(found.location).all()
    values = log_densities(Awkward(0.0).density(), np.array([[-1.0, 1, -2], [1.0, 1, -2]]))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


def test_laplace_has_the_mode_and_none_in_a_flat_direction():
    """For x[0], a log gamma(a) variable: mode log a, curvature -a."""
    found = laplace.find(
        Awkward().density(), np.array([0.3, -1.0, 2.0]), history=6, max_iterations=1000
    ).best
    np.testing.assert_allclose(found.location, [np.log(SHAPE), 1.0, -2.0], atol=1e-6)
    covariance = found.covariance()
    assert covariance[0, 0] == pytest.approx(1.0 / SHAPE, rel=1e-6)
    np.testing.assert_allclose(covariance[1:, 1:], COVARIANCE, rtol=1e-6)
    np.testing.assert_allclose(covariance[0, 1:], 0.0, atol=1e-6)
    found = laplace.find(
        Independent([0.0, 0.0], [1.0, np.inf]).density(), np.ones(2), history=6, max_iterations=100
    )
    assert found.best is None
    np.testing.assert_allclose(np.abs(found.flattest), [0.0, 1.0], atol=1e-6)
