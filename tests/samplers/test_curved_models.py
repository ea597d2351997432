"""Banana, flower and ring: the moments in known_moments.json, and the law of the whitened radius.

Bananas can be drawn directly. Drawing an angle and a distance to the curve does not give the
density of a flower or ring, which is one on the plane: there each draw has its radius as weight.
Their moments are found once more by summing Stan's density over a polar grid.
"""

import json

import numpy as np
import pytest
from scipy.stats import chi2

import stanadapt as sa
from stanadapt.targets.stan import bundled
from tests.helpers.known_moments import known_moments
from workflows.kameleon import discrepancy

DRAWS = 20_000
BANANAS = ["moderate", "strong", "two_dim"]
FLOWERS = [("flower", "flower"), ("flower", "two_dim"), ("ring", "ring")]


def load(name, data):
    return json.loads(bundled.find(name, data)[1].read_text()), known_moments(name, data)


def radius_squared(name, content, draws):
    """Return the generated quantity, as Stan computes it."""
    target = sa.Target(bundled.ROOT / name / f"{name}.stan", content)
    out = np.empty((len(draws), len(target.column_names)))
    assert target.constrainer(seed=1)(np.ascontiguousarray(draws), out) == 0
    assert target.column_names[-1] == "radius_squared"
    np.testing.assert_array_equal(out[:, :-1], draws)
    return out[:, -1]


def curve(name, content, angle):
    if name == "ring":
        return np.full_like(angle, content["radius"])
    return content["radius"] + content["amplitude"] * np.cos(content["petals"] * angle)


def drawn_around(name, content, seed):
    """Return draws with a uniform angle and a normal distance, and their weights."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-np.pi, np.pi, DRAWS)
    r = curve(name, content, angle) + np.sqrt(content["variance"]) * rng.standard_normal(DRAWS)
    others = rng.standard_normal((DRAWS, content["N"] - 2))
    return np.column_stack([r * np.cos(angle), r * np.sin(angle), others]), np.abs(r)


def errors(values, weights, expected):
    """Return the error of a weighted mean in standard errors (delta method)."""
    shares = (weights / weights.sum())[:, None]
    mean = (shares * values).sum(axis=0)
    return (mean - expected) / np.sqrt((shares**2 * (values - mean) ** 2).sum(axis=0))


def moments(draws, radii):
    """Return columns with the first and second moments of known_moments.json as means."""
    return np.column_stack([draws, draws**2, radii, radii**2])


def expected_moments(reference):
    mean = np.r_[reference["mean"]["x"], reference["mean"]["radius_squared"]]
    sd = np.r_[reference["sd"]["x"], reference["sd"]["radius_squared"]]
    second = mean**2 + sd**2
    return np.r_[mean[:-1], second[:-1], mean[-1], second[-1]]


@pytest.mark.parametrize("data", BANANAS)
def test_banana_by_direct_draws(data):
    """18 moments within 4.5 standard errors: a false alarm once in 8000; coverage within 4."""
    content, reference = load("banana", data)
    n = content["N"]
    draws = np.random.default_rng(21).standard_normal((DRAWS, n))
    draws[:, 0] *= np.sqrt(content["variance"])
    draws[:, 1] += content["twist"] * (draws[:, 0] ** 2 - content["variance"])
    radii, even = radius_squared("banana", content, draws), np.ones(DRAWS)
    scores = errors(moments(draws, radii), even, expected_moments(reference))
    assert np.abs(scores).max() < 4.5
    levels = np.array(discrepancy.LEVELS)
    bound = 4 * np.sqrt(levels * (1 - levels) / DRAWS)
    assert np.all(np.abs(discrepancy.coverage(radii, n) - levels) < bound)
    assert np.any(np.abs(discrepancy.coverage(radii, n - 1) - levels) > bound)


@pytest.mark.parametrize(("name", "data"), FLOWERS)
def test_flower_and_ring_by_weighted_draws(name, data):
    content, reference = load(name, data)
    seed = 22 + FLOWERS.index((name, data))
    draws, weights = drawn_around(name, content, seed)
    radii = radius_squared(name, content, draws)
    expected = expected_moments(reference)
    assert np.abs(errors(moments(draws, radii), weights, expected)).max() < 4.5
    inside = radii[:, None] < chi2.ppf(discrepancy.LEVELS, content["N"] - 1)
    assert np.abs(errors(inside, weights, np.array(discrepancy.LEVELS))).max() < 4


@pytest.mark.parametrize(("name", "data"), [("flower", "two_dim"), ("ring", "ring")])
def test_density_of_stan_has_the_moments_of_the_reference(name, data):
    """Over one petal; the ring is the same at every angle."""
    content, reference = load(name, data)
    target = sa.Target(bundled.ROOT / name / f"{name}.stan", content)
    r = np.linspace(0, 24 if name == "flower" else 7, 801)[1:]
    angle = np.linspace(0, np.pi / 3, 41)[:-1]
    total = np.zeros(4)
    for a in angle:
        points = np.outer(r, [np.cos(a), np.sin(a)])
        density = np.exp([target.value(point) for point in points]) * r  # area of the polar grid
        square = (r - curve(name, content, a)) ** 2 / content["variance"]
        total += [density.sum(), density @ r**2, density @ (square < chi2.ppf(0.5, 1)), density @ r]
    assert total[1] / total[0] / 2 == pytest.approx(reference["sd"]["x"][0] ** 2, rel=1e-4)
    # the edge of the region falls between two points of the grid
    assert total[2] / total[0] == pytest.approx(0.5, abs=0.02)
    mean_radius = 11.9 if name == "flower" else 3.5 + 0.05 / 3.5  # E(m^2 + s) / E m
    assert total[3] / total[0] == pytest.approx(mean_radius, rel=1e-4)
