"""The reference distribution: SciPy's densities, their gradients, exact draws, refusals."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.samplers.tempering.reference_distribution import (
    ReferenceDistribution,
    draw,
    log_density,
    log_density_and_gradient,
    normalize,
)
from tests.helpers.codes import raises

MEAN = np.array([0.5, -3.0, 2.0, 0.0, 100.0])
SD = np.array([2.0, 0.01, 5.0, 1.0, 30.0])
CORRELATION = 0.6 * np.eye(5) + 0.4 * np.outer([1, -1, 1, 1, -1], [1, -1, 1, 1, -1])
COVARIANCE = CORRELATION * np.outer(SD, SD)
SCALES = {
    "diagonal": ({"sd": SD}, np.diag(SD**2)),
    "number": ({"sd": 2.5}, 6.25 * np.eye(5)),
    "dense": ({"covariance": COVARIANCE}, COVARIANCE),
}
DEGREES = [np.inf, 6.0]


def scipys(covariance, degrees):
    if np.isinf(degrees):
        return stats.multivariate_normal(MEAN, covariance)
    return stats.multivariate_t(MEAN, covariance, df=degrees)


@pytest.fixture(params=[(name, degrees) for name in SCALES for degrees in DEGREES], ids=str)
def both(request):
    name, degrees = request.param
    chosen, covariance = SCALES[name]
    reference = ReferenceDistribution(MEAN, degrees=degrees, **chosen).compiled(5)
    return reference, scipys(covariance, degrees), covariance


def points(count, seed):
    """Points from near to far, at 0.01 to 30 standard deviations."""
    rng = np.random.default_rng(seed)
    for size in np.geomspace(0.01, 30.0, count):
        yield MEAN + size * SD * rng.standard_normal(5)


def test_density_is_scipys(both):
    reference, expected, _ = both
    for x in points(20, 1):
        # SciPy uses eigenvalues, here with a ratio of 1e7
        assert log_density(reference, x) == pytest.approx(expected.logpdf(x), rel=1e-8, abs=1e-8)


def test_gradient_is_the_derivative(both):
    reference, _, _ = both
    gradient, step = np.empty(5), 1e-5 * np.diag(SD)
    for x in points(20, 2):
        assert log_density_and_gradient(reference, x, gradient) == log_density(reference, x)
        differences = np.array(
            [log_density(reference, x + h) - log_density(reference, x - h) for h in step]
        )
        numeric = differences / (2e-5 * SD)
        # rounding error of the difference of two logs, over the step; that of curvature is smaller
        slack = 1e-15 * max(1.0, abs(log_density(reference, x))) / (2e-5 * SD) * 10
        assert np.all(np.abs(gradient - numeric) <= slack + 1e-6 * np.abs(gradient * SD).max() / SD)


def test_radius_of_draws_has_its_distribution(both):
    """The whole distribution of the squared distance, not only moments: chi-squared, or F."""
    reference, _, covariance = both
    degrees = reference.numbers[0]
    rng, x = np.random.default_rng(4), np.empty((2000, 5))
    for row in x:
        draw(reference, row, rng)
    square = np.einsum("ti,ij,tj->t", x - MEAN, np.linalg.inv(covariance), x - MEAN)
    expected = stats.chi2(5) if np.isinf(degrees) else stats.f(5, degrees, scale=5)
    assert stats.kstest(square, expected.cdf).pvalue > 1e-4


def test_references_have_a_size_a_text_and_memory_of_their_own():
    one = ReferenceDistribution(MEAN, SD)
    first, second = one.compiled(5), one.compiled(5)
    assert not any(np.shares_memory(a, b) for a, b in zip(first, second, strict=True))
    assert not np.shares_memory(first.mean, one.mean)
    reference = ReferenceDistribution(MEAN, SD)
    with raises("reference_size", 3, 5):
        reference.compiled(3)
    gaussian, student = ReferenceDistribution([0, 1], 1), ReferenceDistribution([0], 1, degrees=5)
    assert repr(gaussian) == "ReferenceDistribution(Gaussian, 2 parameters)"
    assert repr(student) == "ReferenceDistribution(Student t, 5 degrees, 1 parameters)"
    reference = ReferenceDistribution(MEAN, SD, degrees=4.0).compiled(5)
    reference.factor[0] *= [3.0, 1.0, 0.5, 2.0, 1.0]
    before = log_density(reference, MEAN)
    normalize(reference)
    assert before - log_density(reference, MEAN) == pytest.approx(np.log(3.0))


@pytest.mark.parametrize(("arguments", "facts"), [
    ({"mean": [[0.0]], "sd": 1}, ["mean", "(1, 1)"]), ({"mean": [], "sd": 1}, ["mean", "(0,)"]),
    ({"mean": [0.0, np.nan], "sd": 1}, ["mean", "nan"]), ({"mean": "a", "sd": 1}, ["mean", "'a'"]),
    ({"mean": [0.0, 1.0]}, ["sd", "covariance"]),
    ({"mean": [0.0], "sd": 1, "covariance": [[1]]}, ["sd", "covariance"]),
    ({"mean": [0.0, 1.0], "sd": [1.0, 0.0]}, ["sd", "smallest 0:"]),
    ({"mean": [0.0, 1.0], "sd": [1.0, 1e-160]}, ["sd", "1e-160"]),
    ({"mean": [0.0, 1.0], "sd": 1e160}, ["sd", "1e-150", "1e+150"]),
    ({"mean": [0.0, 1.0], "sd": -2}, ["sd", "-2"]),
    ({"mean": [0.0, 1.0], "sd": np.inf}, ["sd", "inf"]),
    ({"mean": [0.0, 1.0], "sd": [1.0] * 3}, ["sd", "(2,)", "(3,)"]),
    ({"mean": [0.0, 1.0], "covariance": [1, 2]}, ["covariance", "(2, 2)", "(2,)"]),
    ({"mean": [0.0, 1.0], "covariance": [[1, 0.5], [0, 1]]}, ["covariance"]),
    ({"mean": [0.0, 1.0], "covariance": [[1, 2], [2, 1]]}, ["covariance"]),
    ({"mean": [0.0], "sd": 1, "degrees": 0}, ["degrees", "0"]),
    ({"mean": [0.0], "sd": 1, "degrees": np.nan}, ["degrees", "nan"]),
    ({"mean": [0.0], "sd": 1, "degrees": "many"}, ["degrees", "'many'"]),
])  # fmt: skip
def test_improper_distributions_are_refused(arguments, facts):
    with raises("invalid_reference", *facts) as caught:
        ReferenceDistribution(**arguments)
    assert caught.value.stage == "settings"
