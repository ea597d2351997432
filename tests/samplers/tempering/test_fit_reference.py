"""References for tempering from Pathfinder and from fits: they cover every mode; errors."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs.reference import fit_reference
from stanadapt.samplers.tempering import Extended, ReferenceDistribution, start
from stanadapt.samplers.tempering.start import highest_elbos, parts_of_mass, pooled_moments
from stanadapt.samplers.variational.gaussian import Gaussian
from stanadapt.samplers.variational.methods import gaussians_of
from stanadapt.targets.stan import bundled
from tests.helpers import noisy_program
from tests.helpers.codes import raises, raises_in


@pytest.fixture(scope="module")
def target():
    """Two modes at (5, 0) and (-5, 0), of sd 0.5: no path sees both."""
    return sa.Target(*bundled.find("mixture", "mog2"))


def fit_with(**variables):
    return results.build({"posterior": variables}, {})


def parts():
    """Three Gaussians of unequal places and shapes, one diagonal, one of low rank."""
    rng = np.random.default_rng(4)
    dense = np.tril(rng.standard_normal((3, 3))) + 2 * np.eye(3)
    direction = np.array([0.6, 0.0, 0.8])
    low_rank = np.array([[1.0, 10.0, 0.1, 0.0], [*direction, 3.0]])
    return [
        Gaussian(np.array([5.0, 0.0, 1.0]), np.array([[1.0, 0.1, 30.0]])),
        Gaussian(np.array([-5.0, 2.0, 40.0]), dense),
        Gaussian(np.array([0.0, -7.0, 3.0]), low_rank),
    ]


def second_moments(mixture):
    """E x and E x x^T of the mixture, summed over its parts one by one."""
    mean = sum(part.location for part in mixture) / len(mixture)
    square = sum(
        np.outer(part.location, part.location) + part.matrix() @ part.matrix().T for part in mixture
    )
    return mean, square / len(mixture) - np.outer(mean, mean)


def test_moments_of_mixtures_and_weights_of_paths(target, tmp_path):
    mean, covariance = second_moments(parts())
    pooled = pooled_moments(parts())
    np.testing.assert_allclose(pooled[0], mean)
    np.testing.assert_allclose(pooled[1], covariance, rtol=1e-12, atol=1e-10)
    n = start.LARGEST_DENSE + 1  # of so many parameters, variances alone
    many = [Gaussian(np.full(n, at), np.full((1, n), 3.0)) for at in (0.0, 4.0)]
    np.testing.assert_allclose(pooled_moments(many)[1], np.full(n, 9.0 + 4.0))
    fit = sa.approximate(target, draws=50, seed=1)
    mean, covariance = second_moments(gaussians_of(fit))
    path = sa.save(fit, tmp_path / "approximation.nc")
    for source in (fit, path, str(path)):
        reference = fit_reference(target, source)
        np.testing.assert_allclose(reference.mean, mean)
        covered = reference.factor @ reference.factor.T
        np.testing.assert_allclose(covered, 4 * covariance, atol=1e-8)


def test_paths_without_mass_or_elbo_are_left_out():
    """The gap is 20 and one a parameter: 23 here."""
    assert len(parts_of_mass(parts(), np.array([-100.0, -122.9, -123.1]))) == 2
    assert len(parts_of_mass(parts(), np.array([1e9, 0.0, 1.0]))) == 1
    nan = np.nan
    elbo = np.array([[-5.0, nan, -2.0], [nan, nan, nan], [-np.inf, -90.0, nan], [0.0, 1.0, nan]])
    np.testing.assert_array_equal(highest_elbos(elbo), [-2.0, -90.0, 1.0])
    assert len(parts_of_mass(parts(), highest_elbos(elbo))) == 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pathfinder_covers_both_modes(target, seed):
    """Of 16 paths at least three end in each mode, but for 1 seed in 240 (binomial)."""
    reference = fit_reference(target, seed=seed)
    sd = np.sqrt(np.diag(reference.factor @ reference.factor.T))
    least = np.sqrt(0.25 + 25.0 * 4 * (3 / 16) * (13 / 16))
    assert 2 * least < sd[0] <= 2 * 5.1
    assert sd[1] == pytest.approx(2 * 0.5, rel=0.05)
    again = fit_reference(target, "pathfinder", seed=seed, inflation=3.0, degrees=4.0)
    np.testing.assert_allclose(again.factor, 1.5 * reference.factor, rtol=1e-12)
    assert again.degrees == 4.0


def test_draws_of_all_chains_count_together(target):
    """Each chain is stuck in another mode."""
    rng = np.random.default_rng(3)
    x = 0.5 * rng.standard_normal((2, 400, 2))
    x[0, :, 0] += 5.0
    x[1, :, 0] -= 5.0
    reference = fit_reference(target, fit_with(x=x), inflation=1.0)
    np.testing.assert_allclose(reference.mean, x.mean(axis=(0, 1)))
    expected = np.cov(x.reshape(-1, 2), rowvar=False)
    np.testing.assert_allclose(reference.factor @ reference.factor.T, expected)


def test_sources_that_cannot_be_used(target):
    few = fit_with(x=np.random.default_rng(1).standard_normal((1, 15, 2)))
    still = fit_with(x=np.ones((1, 100, 2)))
    for fit, count in ((few, 15), (still, 100)):
        with raises("reference_draws", "reference_distribution", count):
            fit_reference(target, fit)
    with raises_in("initialization"):
        fit_reference(target, fit_with(y=np.ones((1, 100, 2))))
    with raises("out_of_range", "inflation", -1.0):
        fit_reference(target, inflation=-1.0)
    with raises("not_a_reference", "'advi'"):
        fit_reference(target, "advi")
    extended = Extended(target, 2, reference_distribution=ReferenceDistribution([0, 0], 5.0))
    with raises("reference_coordinates", repr(extended), target.name):
        fit_reference(extended, few)
    with raises_in("settings", "fit_reference", "'pathfinder'"):
        Extended(target, 2, reference_distribution="pathfinder")


def test_approximations_in_other_coordinates_and_estimated_densities_are_refused(target):
    fit = sa.approximate(target, draws=50, seed=1)
    results.dataset(fit, "approximation")["location"].values[:] += 1.0
    with raises("reference_coordinates", "mixture"):
        fit_reference(target, fit)
    noisy = sa.Target(noisy_program.PROGRAM, {"M": 2, "s": 0.5}, noise=["u"])
    with raises("estimated_density", noisy.name, "u"):
        fit_reference(noisy)
