"""The proposal of Kameleon against the paper's dense formula, with kernels written out here."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stanadapt import kernel_proposal
from stanadapt.kernels import Kernel, fill_weights, weight_at_zero

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
    return x @ z


def slope(kernel, x, z, h=1e-5):
    """Gradient in x, by central differences."""
    steps = h * np.eye(len(x))
    return np.array(
        [(kernel_value(kernel, x + e, z) - kernel_value(kernel, x - e, z)) / (2 * h) for e in steps]
    )


def as_matrix(units):
    return units if len(units) == DIM else np.diag(units[0])


def subsample(units="identity", count=COUNT, points=POINTS):
    made = kernel_proposal.no_points(DIM, CAPACITY, SIGMA)
    made.points[:] = points
    made = kernel_proposal.with_points(made, count, UNITS[units], SIGMA)
    kernel_proposal.place_landmarks(made)
    return made


def measured(kernel, evenly=False, position=POSITION, **chosen):
    local = kernel_proposal.unused_local(DIM)
    kernel_proposal.measure(kernel, evenly, subsample(**chosen), position, local)
    return local


def factor(kernel, position, **chosen):
    """Local with its factor, floor FLOOR."""
    local = measured(kernel, position=position, **chosen)
    assert kernel_proposal.factorise(local, FLOOR, GAMMA, SCALE)
    return local


def covariance(lower):
    return np.tril(lower) @ np.tril(lower).T


def symmetric(lower):
    return np.tril(lower) + np.tril(lower, -1).T


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kernel", list(Kernel))
def test_covariance_is_the_papers(kernel, units):
    """gamma^2 F + nu^2 M H M^T with differences for gradients, nu = s / (2 w(0) sqrt(n))."""
    u = as_matrix(UNITS[units])
    if kernel == Kernel.linear:
        u = np.eye(DIM)  # of a linear kernel the units mean nothing: its weights are 1
    back = np.linalg.inv(u)
    columns = (
        2 * u @ np.array([slope(kernel, back @ POSITION, back @ z) for z in POINTS[:, :COUNT].T]).T
    )
    centring = np.eye(COUNT) - 1 / COUNT
    zero = {Kernel.gaussian: 1, Kernel.matern32: 3, Kernel.matern52: 5 / 3}.get(kernel)
    largest = zero / SIGMA**2 if zero else 1.0
    nu = SCALE / (2 * largest * np.sqrt(COUNT))
    expected = GAMMA**2 * symmetric(FLOOR) + nu**2 * columns @ centring @ columns.T
    found = covariance(factor(kernel, POSITION, units=units).factor)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", list(Kernel))
def test_evenly_divides_by_the_mean_square_of_the_weights(kernel):
    weights = np.empty(COUNT)
    squares = ((POINTS[:, :COUNT] - POSITION[:, None]) ** 2).sum(axis=0)
    fill_weights(kernel, SIGMA, squares, COUNT, weights)
    share = np.mean((weights / weight_at_zero(kernel, SIGMA)) ** 2)
    usual, even = measured(kernel).spread, measured(kernel, evenly=True).spread
    np.testing.assert_allclose(np.tril(even), np.tril(usual) / share, rtol=1e-12)
    assert (share < 0.5) == (kernel != Kernel.linear)


def test_far_from_the_past_only_even_proposals_keep_its_size():
    far = POSITION + np.array([8.0, 0.0, 0.0])
    shrunk = measured(Kernel.gaussian, position=far).spread
    kept = measured(Kernel.gaussian, evenly=True, position=far).spread
    assert np.trace(shrunk) < 1e-6
    assert np.trace(kept) > 0.5
    # so far that all weights underflow: the floor alone, and no division by zero
    none = measured(Kernel.gaussian, evenly=True, position=far + 1e3).spread
    np.testing.assert_array_equal(none, 0.0)


def test_linear_spread_is_the_covariance_of_the_points():
    """Even where all lie far from zero, which costs no digits."""
    shifted = POINTS + 1e6
    local = measured(Kernel.linear, points=shifted)
    expected = np.cov(POINTS[:, :COUNT], bias=True)
    np.testing.assert_allclose(np.tril(local.spread), np.tril(expected), rtol=1e-8)


@pytest.mark.parametrize("evenly", [False, True])
@pytest.mark.parametrize("kernel", list(Kernel))
def test_an_infinite_bandwidth_is_the_limit(kernel, evenly):
    """Every kernel is then the linear one."""
    made = subsample()
    unlimited = kernel_proposal.with_points(made, COUNT, made.units, np.inf)
    local = kernel_proposal.unused_local(DIM)
    kernel_proposal.measure(kernel, evenly, unlimited, POSITION, local)
    expected = measured(Kernel.linear).spread
    np.testing.assert_allclose(np.tril(local.spread), np.tril(expected), rtol=1e-12)


@pytest.mark.parametrize("evenly", [False, True])
@pytest.mark.parametrize("kernel", list(Kernel))
def test_log_proposal_ratio_is_that_of_two_normals(kernel, evenly):
    x, noise = POSITION, np.array([0.3, -1.2, 0.8])
    here = factor(kernel, x, evenly=evenly)
    move = np.tril(here.factor) @ noise
    there = factor(kernel, x + move, evenly=evenly)
    back = multivariate_normal(x + move, covariance(there.factor)).logpdf(x)
    forth = multivariate_normal(x, covariance(here.factor)).logpdf(x + move)
    found = kernel_proposal.log_proposal_ratio(here, there, noise.copy(), move)
    assert found == pytest.approx(back - forth, rel=1e-9)
    assert (abs(back - forth) > 1e-3) == (kernel != Kernel.linear)


def test_no_points_and_equal_points_leave_the_floor():
    for count in (0, COUNT):
        equal = np.ones((DIM, CAPACITY)) * POSITION[:, None]
        local = measured(Kernel.gaussian, evenly=True, count=count, points=equal + 0.5)
        np.testing.assert_allclose(local.spread, 0.0, atol=1e-25)
        assert kernel_proposal.factorise(local, FLOOR, GAMMA, SCALE)
        expected = GAMMA**2 * symmetric(FLOOR)
        np.testing.assert_allclose(covariance(local.factor), expected, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_told(bad):
    points = POINTS.copy()
    points[1, 3] = bad
    with np.errstate(invalid="ignore"):
        local = measured(Kernel.linear, points=points)
    assert not kernel_proposal.factorise(local, FLOOR, GAMMA, SCALE)


@pytest.mark.parametrize("kernel", [Kernel.gaussian, Kernel.matern32, Kernel.matern52])
def test_no_weight_is_larger_than_at_zero(kernel):
    weights = np.empty(50)
    fill_weights(kernel, SIGMA, np.linspace(0, 20, 50), 50, weights)
    assert weights[0] == pytest.approx(weight_at_zero(kernel, SIGMA), rel=1e-15)
    assert (np.diff(weights) < 0).all()
