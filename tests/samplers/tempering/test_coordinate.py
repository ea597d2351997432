"""A continuous temperature: cubics as SciPy's, the law given x by quadrature, exact draws of it."""

import numpy as np
import pytest
from scipy import integrate, interpolate, stats

from stanadapt.samplers.tempering import coordinate as coordinates
from stanadapt.samplers.tempering.coordinate import B_AT, C_AT, CELLS
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_Z, B, no_ladder

LAMBDAS = np.array([0.0, 0.3, 0.9, 1.6, 2.0])
TEMPERATURES = np.array([0.0, 0.01, 0.1, 0.6, 1.0])
CONSTANTS = np.array([0.0, 0.4, 1.1, -0.3, 2.0])
DELTAS = (-800.0, -30.0, -1e-9, 0.0, 0.4, 7.0, 200.0)


def barrier(atom=0.2):
    ladder, coordinate = no_ladder(7, 2), coordinates.no_coordinate(atom)
    count = len(LAMBDAS)
    ladder.size[0] = count
    for column, values in ((BARRIER, LAMBDAS), (B, TEMPERATURES), (LOG_Z, CONSTANTS)):
        ladder.levels[:count, column] = values
    coordinates.set_barrier(coordinate, ladder)
    return coordinate


def uniform(atom=0.0, log_zeta=1.7):
    coordinate = coordinates.no_coordinate(atom)
    coordinates.set_uniform(coordinate, log_zeta)
    return coordinate


ALL = {
    "barrier": barrier, "uniform": uniform,
    "barrier without atoms": lambda: barrier(0.0), "uniform with atoms": lambda: uniform(0.3),
}  # fmt: skip


@pytest.fixture(params=ALL)
def coordinate(request):
    return ALL[request.param]()


def log_density(coordinate, delta, q):
    """Return f = b Delta - c of an array of q, by linear interpolation of the knots."""
    cells = coordinate.cells[0]
    s = np.clip((q - coordinate.atom) / (1 - 2 * coordinate.atom), 0.0, 1.0)
    grid = np.linspace(0, 1, cells + 1)
    b, c = (np.interp(s, grid, coordinate.knots[part, : cells + 1]) for part in (B_AT, C_AT))
    return b * delta - c


def law(coordinate, delta):
    """Grid of q, its distribution function there, and the density at both ends, by Simpson."""
    q = np.unique(np.concatenate([np.linspace(0, 1, 200_001), np.logspace(-9, -4, 5001)]))
    f = log_density(coordinate, delta, q)
    density = np.exp(f - f.max())
    cdf = integrate.cumulative_simpson(density, x=q, initial=0.0)
    return q, cdf / cdf[-1], density[[-1, 0]] / cdf[-1]


@pytest.mark.slow
def test_cubics_are_those_of_scipy():
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = np.cumsum(rng.exponential(size=6)), rng.standard_normal(6)
        found, scipys = coordinates.monotone_slopes(x, y), interpolate.PchipInterpolator(x, y)
        np.testing.assert_allclose(found, scipys.derivative()(x), atol=1e-12)
    coordinate, at = barrier(), LAMBDAS[-1] * np.linspace(0, 1, CELLS + 1)
    for part, values in ((B_AT, TEMPERATURES), (C_AT, CONSTANTS)):
        expected = interpolate.PchipInterpolator(LAMBDAS, values)(at)
        np.testing.assert_allclose(coordinate.knots[part], expected, atol=1e-12)
    assert np.all(np.diff(coordinate.knots[B_AT]) >= 0)
    straight = coordinates.monotone_slopes(x[:2], y[:2])
    np.testing.assert_allclose(straight, (y[1] - y[0]) / (x[1] - x[0]))


def test_places_and_their_slopes(coordinate):
    rng, h = np.random.default_rng(2), 1e-7
    for u in rng.logistic(size=50):
        at = coordinates.place_of(coordinate, u)
        q = 1 / (1 + np.exp(-u))
        assert at.q == pytest.approx(q)
        for delta, value in ((0.0, -at.c), (1.0, at.b - at.c)):
            assert log_density(coordinate, delta, q) == pytest.approx(value, abs=1e-12)
            up, down = (log_density(coordinate, delta, q + e) for e in (h, -h))
            slope = delta * at.b_slope - at.c_slope
            assert slope == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)
        rise = (1 / (1 + np.exp(-u - h)) - 1 / (1 + np.exp(-u + h))) / (2 * h)
        assert coordinates.log_jacobian(u) == pytest.approx(np.log(rise), abs=1e-6)


@pytest.mark.parametrize("delta", DELTAS)
def test_densities_of_the_ends_given_a_position(coordinate, delta):
    _, _, (cold, hot) = law(coordinate, delta)
    found = coordinates.condition(coordinate, delta)
    np.testing.assert_allclose(found, (cold, hot), rtol=1e-4, atol=1e-12)


def test_weights_of_the_ends_are_those_of_the_paper():
    for excess in (-30.0, -0.3, 1e-9, 2.0, 300.0):
        cold, hot = coordinates.condition(uniform(), excess + 1.7)
        assert cold == pytest.approx(excess / -np.expm1(-excess), rel=1e-9)
        assert hot == pytest.approx(-excess / -np.expm1(excess) if excess < 300 else 0, rel=1e-9)
    coordinate = barrier()
    cold, hot = coordinates.condition(coordinate, -np.inf)
    assert cold == 0.0
    assert hot == pytest.approx(1 / 0.2)
    assert coordinates.draw(coordinate, np.random.default_rng(4)) <= 0.2


@pytest.mark.thorough
@pytest.mark.parametrize("delta", DELTAS)
def test_draws_given_a_position_have_its_law(coordinate, delta):
    """One false alarm in 1e4 draws of the whole grid; ties at atoms are spread evenly."""
    q, cdf, _ = law(coordinate, delta)
    coordinates.condition(coordinate, delta)
    rng = np.random.default_rng(3)
    found = [coordinates.draw(coordinate, rng) for _ in range(4000)]
    assert stats.kstest(found, lambda x: np.interp(x, q, cdf)).pvalue > 1e-5
