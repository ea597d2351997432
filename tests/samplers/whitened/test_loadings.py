"""Coordinates without bounds that multiply others are found, and become hubs of a block."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.mixing import mixing
from stanadapt.samplers.whitened.loadings import find_loadings, pairs_to_find_loadings
from tests.helpers.short_runs import values

STATES = 12
Y, Z = np.random.default_rng(4).standard_normal((2, STATES))
COUNTS = np.random.default_rng(5).poisson(3.0, STATES)


def products(rows):
    """Gradients of states, seen twice: directly and as a + b x. The log of a scale comes first."""
    x, a, b = rows[:, 1:-2], rows[:, -2:-1], rows[:, -1:]
    weight = np.exp(-2.0 * rows[:, :1])
    left = weight * (Z - a - b * x)
    inner = Y - 2.0 * x + b * left
    return np.hstack([np.sin(rows[:, :1]), inner, left.sum(1, keepdims=True) - a,
                      (left * x).sum(1, keepdims=True) - b])  # fmt: skip


def products_and_own_score(rows):
    """The same, with a further score of b alone."""
    found = products(rows)
    found[:, -1] -= rows[:, -1] ** 5
    return found


def no_products(rows):
    """The same without b, but for its prior, and a curved score of its own for each."""
    x = rows[:, 1:-1]
    return np.hstack([np.sin(rows[:, :1]), COUNTS - np.exp(x), -(rows[:, -1:] ** 3)])


def counts_around_a_mean(rows):
    """Counts whose logs have the sum of a state and a mean, the last coordinate."""
    x, mean = rows[:, 1:-1], rows[:, -1:]
    left = COUNTS - np.exp(x + mean)
    return np.hstack([np.sin(rows[:, :1]), left - x, left.sum(1, keepdims=True) - mean])


@pytest.mark.parametrize(
    ("gradients", "more", "expected"),
    [
        (products, 2, [STATES + 2]),
        (products_and_own_score, 2, [STATES + 2]),
        (no_products, 1, []),
        (counts_around_a_mean, 1, []),
    ],
)
def test_the_coordinate_that_is_in_all_products_is_found(gradients, more, expected):
    x = np.random.default_rng(1).normal(0.4, 0.3, (50, 1 + STATES + more))
    pairs = pairs_to_find_loadings(x, np.array([0]))
    pairs[:, 1] = gradients(pairs[:, 0])
    np.testing.assert_array_equal(find_loadings(pairs, np.array([0])), expected)
    pairs[3, 1, 1] = np.inf  # a gradient that failed, in one part
    assert not len(find_loadings(pairs, np.array([0])))


def test_each_coordinate_moves_by_its_own_standard_deviations_from_the_mean():
    x = np.random.default_rng(1).normal(0.4, 0.3, (50, 5)) * [1.0, 10.0, 0.1, 1.0, 100.0]
    pairs = pairs_to_find_loadings(x, np.array([0]))
    forth, back = pairs[::2, 0], pairs[1::2, 0]
    size = np.abs(forth - back)[:, 1:] / x.std(axis=0)[1:]
    assert 0.0 < size.max() < 1e-3
    away = ((forth + back)[:, 1:] / 2.0 - x.mean(axis=0)[1:]) / x.std(axis=0)[1:]
    expected = np.vstack([np.zeros(4), np.kron(np.eye(4), [[-1.0], [1.0], [2.0]])])
    np.testing.assert_allclose(away, expected, rtol=0, atol=1e-9)


# --- a whole run ----------------------------------------------------------------------------------

PEOPLE = 30
DATA = "data { int N; vector[N] x; vector[N] y; }"
SCALES = "real mu; real a; real b; real<lower=0> tau; real<lower=0> s_x; real<lower=0> s_y;"
PRIORS = """mu ~ normal(0, 2); a ~ normal(0, 2); b ~ normal(0, 2);
  tau ~ normal(0, 2); s_x ~ normal(0, 1); s_y ~ normal(0, 1);"""
CENTERED = f"""{DATA} parameters {{ {SCALES} vector[N] u; }}
model {{ {PRIORS} u ~ normal(mu, tau); x ~ normal(u, s_x); y ~ normal(a + b * u, s_y); }}"""
MARGINAL = f"""{DATA} parameters {{ {SCALES} }}
model {{
  vector[2] m = [mu, a + b * mu]';
  matrix[2, 2] S = add_diag(square(tau) * [1, b]' * [1, b], [square(s_x), square(s_y)]);
  {PRIORS} for (n in 1:N) [x[n], y[n]]' ~ multi_normal(m, S);
}}"""


@pytest.mark.slow
def test_errors_of_measurement_have_their_necks():
    """Either scale may be nearly zero, where all values are known: draws lacked these."""
    rng = np.random.default_rng(11)
    u = rng.normal(1.0, 1.0, PEOPLE)
    x, y = u + 0.5 * rng.standard_normal(PEOPLE), 0.8 * u + 0.4 * rng.standard_normal(PEOPLE)
    data = {"N": PEOPLE, "x": x, "y": y}
    fit = sa.sample(sa.Target(CENTERED, data), seed=1)
    assert fit.attrs["verdict"] == "fine"
    assert "given b, tau, s_x and s_y" in fit.attrs["straightening"]
    exact = sa.sample(sa.Target(MARGINAL, data), seed=2, iter_sampling=4000)
    for name in ("s_x", "s_y", "b"):
        draws, right = values(fit, name), values(exact, name)
        for share in (0.01, 0.05, 0.5, 0.95):
            below = (draws < np.quantile(right, share)).astype(float)
            size = 1.0 / (1.0 / mixing(below).ess_bulk + 1.0 / mixing(right).ess_bulk)
            error = np.sqrt(share * (1.0 - share) / size)
            assert below.mean() == pytest.approx(share, abs=4.0 * error)
