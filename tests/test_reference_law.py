"""The law at the hot end: scipy's densities, their derivatives, exact draws, refusals in words."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.errors import StanadaptError
from stanadapt.reference_law import (
    ReferenceLaw,
    draw,
    log_density,
    log_density_and_gradient,
    normalise,
)

MIDDLE = np.array([0.5, -3.0, 2.0, 0.0, 100.0])
SD = np.array([2.0, 0.01, 5.0, 1.0, 30.0])
CORRELATION = 0.6 * np.eye(5) + 0.4 * np.outer([1, -1, 1, 1, -1], [1, -1, 1, 1, -1])
COVARIANCE = CORRELATION * np.outer(SD, SD)
LAWS = {
    "diagonal": ({"sd": SD}, np.diag(SD**2)),
    "number": ({"sd": 2.5}, 6.25 * np.eye(5)),
    "dense": ({"covariance": COVARIANCE}, COVARIANCE),
}
DEGREES = [np.inf, 6.0]
DRAWS = 20_000


def peer(covariance, degrees):
    if np.isinf(degrees):
        return stats.multivariate_normal(MIDDLE, covariance)
    return stats.multivariate_t(MIDDLE, covariance, df=degrees)


@pytest.fixture(params=[(name, degrees) for name in LAWS for degrees in DEGREES], ids=str)
def both(request):
    name, degrees = request.param
    chosen, covariance = LAWS[name]
    law = ReferenceLaw(MIDDLE, degrees=degrees, **chosen).law(5)
    return law, peer(covariance, degrees), covariance


def points(count, seed):
    """Near and far, in units of the smallest scale and of the largest."""
    rng = np.random.default_rng(seed)
    for size in np.geomspace(0.01, 30.0, count):
        yield MIDDLE + size * SD * rng.standard_normal(5)


def test_density_is_scipys(both):
    law, theirs, _ = both
    for x in points(20, 1):
        # scipy takes eigenvalues, of a matrix whose largest is 1e7 times its smallest
        assert log_density(law, x) == pytest.approx(theirs.logpdf(x), rel=1e-8, abs=1e-8)


def test_gradient_is_the_derivative(both):
    law, _, _ = both
    gradient, step = np.empty(5), 1e-5 * np.diag(SD)
    for x in points(20, 2):
        assert log_density_and_gradient(law, x, gradient) == log_density(law, x)
        ups = np.array([log_density(law, x + h) - log_density(law, x - h) for h in step])
        numeric = ups / (2e-5 * SD)
        # rounding of a difference of two logs, over the step; of the derivative's curvature, less
        slack = 1e-15 * max(1.0, abs(log_density(law, x))) / (2e-5 * SD) * 10
        assert np.all(np.abs(gradient - numeric) <= slack + 1e-6 * np.abs(gradient * SD).max() / SD)


def test_moments_of_draws(both):
    """Bounds of 5 standard errors, 25 of them a law: by chance none in 50,000 runs."""
    law, _, covariance = both
    degrees = law.numbers[0]
    rng, x = np.random.default_rng(3), np.empty((DRAWS, 5))
    for row in x:
        draw(law, row, rng)
    spread = covariance if np.isinf(degrees) else covariance * degrees / (degrees - 2)
    sd = np.sqrt(np.diag(spread))
    assert np.all(np.abs(x.mean(axis=0) - MIDDLE) < 5 * sd / np.sqrt(DRAWS))
    products = np.einsum("ti,tj->tij", x - MIDDLE, x - MIDDLE)
    error = products.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(np.abs(products.mean(axis=0) - spread) < 5 * error)
    assert np.all(error < 0.05 * np.outer(sd, sd))  # the check above had power


def test_radius_of_draws_has_its_law(both):
    """The whole law of the distance, not moments alone: chi-square, or F."""
    law, _, covariance = both
    degrees = law.numbers[0]
    rng, x = np.random.default_rng(4), np.empty((2000, 5))
    for row in x:
        draw(law, row, rng)
    square = np.einsum("ti,ij,tj->t", x - MIDDLE, np.linalg.inv(covariance), x - MIDDLE)
    law_of_square = stats.chi2(5) if np.isinf(degrees) else stats.f(5, degrees, scale=5)
    assert stats.kstest(square, law_of_square.cdf).pvalue > 1e-4


def test_normalise_follows_a_change_of_scales():
    law = ReferenceLaw(MIDDLE, SD, degrees=4.0).law(5)
    law.factor[0] *= [3.0, 1.0, 0.5, 2.0, 1.0]
    before = log_density(law, MIDDLE)
    normalise(law)
    assert before - log_density(law, MIDDLE) == pytest.approx(np.log(3.0))


def test_laws_share_nothing():
    one = ReferenceLaw(MIDDLE, SD)
    first, second = one.law(5), one.law(5)
    assert not any(np.shares_memory(a, b) for a, b in zip(first, second, strict=True))
    assert not np.shares_memory(first.mean, one.mean)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mean": [[0.0]], "sd": 1}, r"mean must have shape \(dim,\), got \(1, 1\)"),
        ({"mean": [], "sd": 1}, r"mean must have shape \(dim,\), got \(0,\)"),
        ({"mean": [0.0, np.nan], "sd": 1}, "mean must be finite, got "),
        ({"mean": "a", "sd": 1}, "mean must be numbers, got 'a'"),
        ({"mean": [0.0, 1.0]}, "give either sd or covariance"),
        ({"mean": [0.0], "sd": 1, "covariance": [[1]]}, "give either sd or covariance"),
        ({"mean": [0.0, 1.0], "sd": [1.0, 0.0]}, "sd must be positive.*smallest 0.*improper"),
        ({"mean": [0.0, 1.0], "sd": [1.0, 1e-160]}, "sd must lie between.*got 1e-160 to 1.*unit"),
        ({"mean": [0.0, 1.0], "sd": 1e160}, "sd must lie between 1e-150 and 1e.150, got"),
        ({"mean": [0.0, 1.0], "sd": -2}, "sd must be positive.*smallest -2.*improper"),
        ({"mean": [0.0, 1.0], "sd": np.inf}, "sd must be finite"),
        ({"mean": [0.0, 1.0], "sd": [1.0] * 3}, r"of shape \(2,\), got shape \(3,\)"),
        ({"mean": [0.0, 1.0], "covariance": [1, 2]}, r"of shape \(2, 2\), got \(2,\)"),
        ({"mean": [0.0, 1.0], "covariance": [[1, 0.5], [0, 1]]}, "covariance must be symmetric"),
        ({"mean": [0.0, 1.0], "covariance": [[1, 2], [2, 1]]}, "positive definite.*improper"),
        ({"mean": [0.0], "sd": 1, "degrees": 0}, "degrees must be a number above 0.*got 0"),
        ({"mean": [0.0], "sd": 1, "degrees": np.nan}, "degrees must be a number above 0.*got nan"),
        ({"mean": [0.0], "sd": 1, "degrees": "many"}, "degrees must be a number.*got 'many'"),
    ],
)
def test_what_is_no_law_is_refused_in_words(arguments, words):
    with pytest.raises(StanadaptError, match=f"reference law: .*{words}") as caught:
        ReferenceLaw(**arguments)
    assert caught.value.stage == "settings"


def test_a_law_of_another_size_is_refused():
    law = ReferenceLaw(MIDDLE, SD)
    with pytest.raises(StanadaptError, match="target has 3 unconstrained parameters, but mean 5"):
        law.law(3)


def test_says_what_it_is():
    assert repr(ReferenceLaw([0.0, 1.0], 1)) == "ReferenceLaw(Gaussian, 2 parameters)"
    said = repr(ReferenceLaw([0.0], 1, degrees=5))
    assert said == "ReferenceLaw(Student t, 5 degrees, 1 parameters)"
