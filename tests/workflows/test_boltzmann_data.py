"""The data of Boltzmann machines: systems, relaxations and moments against other derivations.

Published numbers are those of Nemeth et al. (2019) and of its authors' files.
"""

import json
from itertools import product

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows.data import boltzmann

# diagonal of Q Q' in the authors' files; their solver stopped earlier than ours
PUBLISHED_DIAGONALS = {
    "system_1": """
        5.6779 5.2121 6.5291 6.0696 5.4964 3.8241 5.8776 6.6135 4.9919 5.2874 4.8571 5.7591 5.8467
        3.1575 6.1131 7.2795 6.0924 5.5886 5.6806 3.2424 7.3217 4.7718 5.2010 6.1688 6.4092 5.3417
        5.6849 5.8951""",
    "system_10": """
        6.7058 7.8273 7.9176 6.8371 9.9371 5.8764 5.1018 7.3005 7.8193 6.4785 6.6577 6.7445 7.0318
        6.6984 6.7864 7.8806 7.8079 8.6462 4.5113 5.5441 6.8464 7.2178 6.4307 7.4517 7.1117 5.0437
        4.1522 6.7934""",
}


@pytest.mark.parametrize("data", PUBLISHED_DIAGONALS)
def test_bundled_systems_are_the_published_ones(data):
    """The diagonal determines the weights up to signs, which the published log evidence tests."""
    content = json.loads(bundled.find("boltzmann", data)[1].read_text())
    for key, value in boltzmann.boltzmann(data).items():
        np.testing.assert_allclose(content[key], value, rtol=0, atol=boltzmann.TOLERANCE)
    root = np.array(content["Q"])
    published = np.array(PUBLISHED_DIAGONALS[data].split(), dtype=float)
    bound = {"system_1": 0.13, "system_10": 0.06}[data]
    assert np.abs(np.diag(root @ root.T) - published).max() < bound
    assert np.ptp(published) > 20 * bound
    widest = np.argmax(np.abs(root), axis=0)
    assert np.all(root[widest, np.arange(content["D"])] > 0)
    lengths = np.linalg.norm(root, axis=0)
    assert np.all(np.diff(lengths) < 1e-5)
    if data == "system_10":
        assert 11.7963 < lengths[0] ** 2 < 11.7998  # between the optimum and the authors' solution


def test_relaxation_is_optimal():
    """Two spins: D = (d, d), W + D has eigenvalues d - w and d + w, so that d = |w|."""
    relaxed = boltzmann.relaxed(np.array([[0, -3.0], [-3, 0]]), inside=1e-6)
    np.testing.assert_allclose(relaxed, [[3, -3], [-3, 3]], rtol=0, atol=1e-5)


def test_moments_by_quadrature_of_stans_density():
    """Five spins in two dimensions: sums over states agree with sums over a grid of x."""
    rng = np.random.default_rng(6)
    content = {"D": 2, "n": 5, "Q": rng.standard_normal((5, 2)), "b": rng.standard_normal(5)}
    plain = {key: np.asarray(value).tolist() for key, value in content.items()}
    model = sa.Target(bundled.find("boltzmann", "system_1")[0], plain)
    known = boltzmann.moments(content)
    grid = np.linspace(-14, 14, 57)  # steps of half a standard deviation: an error of exp(-80)
    points = np.array(list(product(grid, grid)))
    density = np.exp([model.value(point) for point in points]) * (grid[1] - grid[0]) ** 2
    total = density.sum()
    mean = density @ points / total
    covariance = (points - mean).T * density @ (points - mean) / total
    np.testing.assert_allclose(boltzmann.exact(content)[1], covariance, rtol=0, atol=1e-9)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(known["mean"]["x"], mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(known["sd"]["x"], sd, rtol=0, atol=1e-6)
    assert known["log_evidence"] == pytest.approx(np.log(total), abs=1e-6)


def test_independent_draws_have_the_exact_moments():
    """Means and standard deviations of 40,000 draws; errors are those of independent draws."""
    rng, draws = np.random.default_rng(8), 40_000
    content = {"D": 3, "n": 7, "Q": 2 * rng.standard_normal((7, 3)), "b": rng.standard_normal(7)}
    known = boltzmann.moments(content)
    mean, sd = np.array(known["mean"]["x"]), np.array(known["sd"]["x"])
    x = boltzmann.independent_draws(content, draws, rng)
    assert x.shape == (draws, 3)
    assert np.all(np.abs(x.mean(axis=0) - mean) < 4 * sd / np.sqrt(draws))
    squares = (x - mean) ** 2
    error = squares.std(axis=0) / np.sqrt(draws)
    assert np.all(np.abs(squares.mean(axis=0) - sd**2) < 4 * error)
    # in any order: halves of the draws agree
    assert np.all(np.abs(x[::2].mean(axis=0) - x[1::2].mean(axis=0)) < 8 * sd / np.sqrt(draws))
