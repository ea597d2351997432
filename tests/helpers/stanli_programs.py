"""Data, a program and the check of a density for the tests of the embedded backend."""

import numpy as np

X = np.array([0.5, -1.0, 2.0, 0.3, 1.5, -0.7, 0.9])
K = np.array([1, 5, 2, 4, 6, 1, 7])
RNG = np.random.default_rng(2024)


def derivative(function, theta, h=1e-5):
    steps = h * np.eye(theta.size)
    return np.array([(function(theta + s) - function(theta - s)) / (2 * h) for s in steps])


def assert_density(target, log_density, n=5):
    """Check values, up to a constant, and gradients at n random points."""
    points = RNG.uniform(-1, 1, (n, target.dim))
    evaluations = [target.evaluate(point) for point in points]
    values = np.array([value for value, _, _ in evaluations])
    expected = np.array([log_density(point) for point in points])
    np.testing.assert_allclose(values - values[0], expected - expected[0], atol=1e-10)
    for point, (_, gradient, _) in zip(points, evaluations, strict=True):
        np.testing.assert_allclose(gradient, derivative(log_density, point), rtol=1e-6, atol=1e-7)


def normal_sum(x, mean, sd):
    return np.sum(-np.log(sd) - 0.5 * ((x - mean) / sd) ** 2)
