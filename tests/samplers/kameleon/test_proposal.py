"""The proposal of Kameleon against the paper's dense formula, with kernels written out."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stanadapt.samplers.kameleon import kernel_proposal
from stanadapt.samplers.kameleon.kameleon import Settings
from stanadapt.samplers.kameleon.kernel_proposal import Kernel, fill_weights, weight

SIGMA, GAMMA, SCALE = 1.3, 0.4, 0.9
RNG = np.random.default_rng(1)
DIM, COUNT, CAPACITY = 3, 41, 50  # not a multiple of the four partial sums
POINTS = RNG.standard_normal((DIM, CAPACITY)) * [[0.5], [2.0], [1.0]] + [[1.0], [0.0], [-3.0]]
POSITION = np.array([0.8, 1.1, -2.5])
FLOOR = np.array([[1.0, 0.0, 0.0], [0.3, 2.0, 0.0], [-0.2, 0.1, 0.5]])
UNITS = {
    "identity": np.ones((1, DIM)),
    "diagonal": np.array([[0.5, 2.0, 1.5]]),
    "dense": np.array([[0.5, 0.0, 0.0], [0.7, 1.8, 0.0], [-0.4, 0.2, 1.1]]),
}


def kernel_value(kernel, x, z):
    r = np.linalg.norm(x - z)
    if kernel == Kernel.gaussian:
        return np.exp(-(r**2) / (2 * SIGMA**2))
    if kernel == Kernel.matern32:
        return (1 + np.sqrt(3) * r / SIGMA) * np.exp(-np.sqrt(3) * r / SIGMA)
    if kernel == Kernel.matern52:
        s = np.sqrt(5) * r / SIGMA
        return (1 + s + s**2 / 3) * np.exp(-s)
    if kernel == Kernel.inverse_multiquadric:
        return 1 / np.sqrt(1 + r**2 / SIGMA**2)
    return x @ z


def kernel_gradient(kernel, x, z, h=1e-5):
    """Return the gradient in x, by central differences."""
    steps = h * np.eye(len(x))
    return np.array(
        [(kernel_value(kernel, x + e, z) - kernel_value(kernel, x - e, z)) / (2 * h) for e in steps]
    )


def as_matrix(units):
    return units if len(units) == DIM else np.diag(units[0])


def subsample(units="identity", count=COUNT, points=POINTS):
    sample = kernel_proposal.no_points(DIM, CAPACITY, SIGMA)
    sample.points[:] = points
    sample = sample._replace(count=count, units=UNITS[units], bandwidth=SIGMA)
    kernel_proposal.place_landmarks(sample)
    return sample


def measured(kernel, normalize_weights=False, position=POSITION, **chosen):
    local = kernel_proposal.unused_local(DIM)
    settings = Settings(kernel=kernel, normalize_weights=normalize_weights)
    kernel_proposal.measure(settings, subsample(**chosen), position, local)
    return local


def factorized(kernel, position, **chosen):
    """Return a Local with its factor, for the floor FLOOR."""
    local = measured(kernel, position=position, **chosen)
    assert kernel_proposal.factorize(local, FLOOR, GAMMA, SCALE)
    return local


def covariance(lower):
    return np.tril(lower) @ np.tril(lower).T


def symmetric(lower):
    return np.tril(lower) + np.tril(lower, -1).T


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kernel", list(Kernel))
def test_covariance_is_the_papers(kernel, units):
    """Return gamma^2 F + nu^2 M H M^T with numerical gradients, nu = s / (2 w(0) sqrt(n))."""
    u = as_matrix(UNITS[units])
    if kernel == Kernel.linear:
        u = np.eye(DIM)  # units do not matter for the linear kernel: its weights are 1
    back = np.linalg.inv(u)
    points, position = (back @ POINTS[:, :COUNT]).T, back @ POSITION
    columns = 2 * u @ np.array([kernel_gradient(kernel, position, z) for z in points]).T
    centering = np.eye(COUNT) - 1 / COUNT
    zero = {Kernel.matern32: 3, Kernel.matern52: 5 / 3, Kernel.linear: 0}.get(kernel, 1)
    largest = zero / SIGMA**2 if zero else 1.0
    nu = SCALE / (2 * largest * np.sqrt(COUNT))
    expected = GAMMA**2 * symmetric(FLOOR) + nu**2 * columns @ centering @ columns.T
    found = covariance(factorized(kernel, POSITION, units=units).factor)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", list(Kernel))
def test_normalized_weights_divide_the_spread_by_their_mean_square(kernel):
    weights = np.empty(COUNT)
    squares = ((POINTS[:, :COUNT] - POSITION[:, None]) ** 2).sum(axis=0)
    fill_weights(kernel, SIGMA, squares, COUNT, weights)
    share = np.mean((weights / weight(kernel, SIGMA, 0.0)) ** 2)
    plain, normalized = measured(kernel).spread, measured(kernel, normalize_weights=True).spread
    np.testing.assert_allclose(np.tril(normalized), np.tril(plain) / share, rtol=1e-12)
    assert (share < 0.5) == (kernel != Kernel.linear)


def test_far_from_the_past_only_proposals_with_normalized_weights_keep_their_size():
    far = POSITION + np.array([8.0, 0.0, 0.0])
    shrunk = measured(Kernel.gaussian, position=far).spread
    kept = measured(Kernel.gaussian, normalize_weights=True, position=far).spread
    assert np.trace(shrunk) < 1e-6
    assert np.trace(kept) > 0.5
    # so far that all weights underflow: only the floor, and no division by zero
    none = measured(Kernel.gaussian, normalize_weights=True, position=far + 1e3).spread
    np.testing.assert_array_equal(none, 0.0)


def test_spread_is_the_covariance_of_the_points_or_the_floor():
    """Even if all lie far from zero, no digits are lost."""
    shifted = POINTS + 1e6
    local = measured(Kernel.linear, points=shifted)
    expected = np.cov(POINTS[:, :COUNT], bias=True)
    np.testing.assert_allclose(np.tril(local.spread), np.tril(expected), rtol=1e-8)
    for count in (0, COUNT):
        equal = np.ones((DIM, CAPACITY)) * POSITION[:, None]
        local = measured(Kernel.gaussian, normalize_weights=True, count=count, points=equal + 0.5)
        np.testing.assert_allclose(local.spread, 0.0, atol=1e-25)
        assert kernel_proposal.factorize(local, FLOOR, GAMMA, SCALE)
        expected = GAMMA**2 * symmetric(FLOOR)
        np.testing.assert_allclose(covariance(local.factor), expected, rtol=1e-12)


@pytest.mark.parametrize("normalize_weights", [False, True])
@pytest.mark.parametrize("kernel", list(Kernel))
def test_limits_and_ratios_are_those_of_normals(kernel, normalize_weights):
    """Every kernel is then the linear one."""
    sample = subsample()
    unlimited = sample._replace(count=COUNT, bandwidth=np.inf)
    local = kernel_proposal.unused_local(DIM)
    settings = Settings(kernel=kernel, normalize_weights=normalize_weights)
    kernel_proposal.measure(settings, unlimited, POSITION, local)
    expected = measured(Kernel.linear).spread
    np.testing.assert_allclose(np.tril(local.spread), np.tril(expected), rtol=1e-12)
    x, noise = POSITION, np.array([0.3, -1.2, 0.8])
    here = factorized(kernel, x, normalize_weights=normalize_weights)
    move = np.tril(here.factor) @ noise
    there = factorized(kernel, x + move, normalize_weights=normalize_weights)
    back = multivariate_normal(x + move, covariance(there.factor)).logpdf(x)
    forth = multivariate_normal(x, covariance(here.factor)).logpdf(x + move)
    found = kernel_proposal.log_proposal_ratio(here, there, noise.copy(), move)
    assert found == pytest.approx(back - forth, rel=1e-9)
    assert (abs(back - forth) > 1e-3) == (kernel != Kernel.linear)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_factorize_reports_values_that_are_not_finite(bad):
    points = POINTS.copy()
    points[1, 3] = bad
    with np.errstate(invalid="ignore"):
        local = measured(Kernel.linear, points=points)
    assert not kernel_proposal.factorize(local, FLOOR, GAMMA, SCALE)
