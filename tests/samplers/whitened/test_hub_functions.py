"""Functions of many hubs are read from their moves, exactly, or none are."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.mixing import mixing
from stanadapt.samplers.whitened.block_terms import INVERSE, RATIO
from stanadapt.samplers.whitened.hub_functions import ALONE, functions_of_hubs, moves_of_hubs
from stanadapt.targets.declared_bounds import CORRELATION
from tests.helpers.short_runs import values

# logs of loadings and of scales, and a correlation
LOADINGS = 3
COUNT = 2 * LOADINGS + 1
HINTS = dict.fromkeys(range(COUNT - 1)) | {COUNT - 1: CORRELATION}


def made_up(other=lambda x: 0.0):
    """Positions of hubs, and gradients of a factor model with two correlated factors."""
    rng = np.random.default_rng(2)
    x = rng.normal(-0.5, 0.3, COUNT) + moves_of_hubs(COUNT, rng)
    found = 0.0
    for k in range(LOADINGS):
        load, precision = np.exp(x[:, k]), np.exp(-2.0 * x[:, LOADINGS + k])
        found += np.multiply.outer(load * precision, rng.standard_normal(8))
        found -= np.multiply.outer(load**2 * precision, rng.standard_normal(8))
    rho = np.tanh(x[:, -1])
    found -= np.multiply.outer(1.0 / (1.0 - rho**2), rng.standard_normal(8))
    found += np.multiply.outer(rho / (1.0 - rho**2), rng.standard_normal(8))
    return x, found + np.multiply.outer(other(x), np.ones(8))


EXPECTED = {
    *(((k, True, c), (LOADINGS + k, True, -2)) for k in range(LOADINGS) for c in (1, 2)),
    ((COUNT - 1, False, INVERSE),),
    ((COUNT - 1, False, RATIO),),
}


def test_products_of_two_and_three_hubs_are_found_and_nothing_else():
    assert set(functions_of_hubs(*made_up(), HINTS)) == EXPECTED
    x, found = made_up(lambda x: np.exp(x[:, 0] + x[:, 1] - x[:, 2]))
    three = ((0, True, 1), (1, True, 1), (2, True, -1))
    assert set(functions_of_hubs(x, found, HINTS)) == EXPECTED | {three}
    x, found = made_up()
    first_pair = 1 + COUNT * len(ALONE)
    found[[5, first_pair + LOADINGS - 1, -1]] = np.inf  # the second is that of hub 0 and its scale
    assert set(functions_of_hubs(x, found, HINTS)) == EXPECTED
    found[::3] = np.inf
    assert functions_of_hubs(x, found, HINTS) == [()]


@pytest.mark.parametrize(
    "other",
    [
        lambda x: np.exp(3.0 * x[:, 0]),  # an exponent that is not tried
        lambda x: np.log1p(np.exp(x[:, 0] + x[:, 1])),  # a product of none
        lambda x: np.tanh(x[:, -1]) ** 3,
    ],
)
def test_functions_of_another_form_leave_none(other):
    assert functions_of_hubs(*made_up(other), HINTS) == [()]


# --- a whole run ----------------------------------------------------------------------------------

PEOPLE, ITEMS = 40, 4
DATA = "data { int N; int K; matrix[N, K] Y; }"
SCALES = "vector<lower=0>[K] lam; vector<lower=0>[K] s;"
PRIORS = "lam ~ normal(0, 1); s ~ normal(0, 1);"
CENTERED = f"""{DATA} parameters {{ {SCALES} vector[N] f; }}
model {{ {PRIORS} f ~ normal(0, 1); for (k in 1:K) Y[, k] ~ normal(lam[k] * f, s[k]); }}"""
MARGINAL = f"""{DATA} parameters {{ {SCALES} }}
model {{
  matrix[K, K] S = add_diag(lam * lam', square(s));
  {PRIORS} for (n in 1:N) Y[n] ~ multi_normal(rep_vector(0, K), S);
}}"""


@pytest.mark.slow
def test_a_factor_model_with_centered_factors_has_its_neck():
    """A scale may be nearly zero, where all factors are known: draws lacked this, and were fine."""
    rng = np.random.default_rng(12)
    noise = rng.standard_normal((PEOPLE, ITEMS)) * [0.2, 0.7, 0.6, 0.9]
    y = np.multiply.outer(rng.standard_normal(PEOPLE), [1.0, 0.8, 0.9, 0.4]) + noise
    data = {"N": PEOPLE, "K": ITEMS, "Y": y}
    fit = sa.sample(sa.Target(CENTERED, data), seed=1)
    assert fit.attrs["verdict"] == "fine"
    said = "f[1..40] given lam[1..4] and s[1..4]: Gaussian, straightened exactly"
    assert fit.attrs["straightening"].startswith(said)
    exact = sa.sample(sa.Target(MARGINAL, data), seed=2, iter_sampling=4000)
    for k in range(ITEMS):
        draws, right = values(fit, "s")[..., k], values(exact, "s")[..., k]
        for share in (0.01, 0.05, 0.5, 0.95):
            below = (draws < np.quantile(right, share)).astype(float)
            size = 1.0 / (1.0 / mixing(below).ess_bulk + 1.0 / mixing(right).ess_bulk)
            error = np.sqrt(share * (1.0 - share) / size)
            assert below.mean() == pytest.approx(share, abs=4.0 * error)
