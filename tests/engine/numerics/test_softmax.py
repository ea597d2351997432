"""The softmax of level weights, against SciPy's."""

import numpy as np
import pytest
from scipy import special

from stanadapt.engine.numerics.softmax import NEGLIGIBLE, decay, softmax


def test_the_exponential_is_exact_to_thirteen_digits():
    x = np.append(np.linspace(NEGLIGIBLE, 0.0, 4001), -np.geomspace(1e-12, 1.0, 50))
    np.testing.assert_allclose([decay(y) for y in x], np.exp(x), rtol=1e-13)
    assert decay(0.0) == 1.0


# numbers that are not multiples of four too: a remainder is left over
@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 34, 61])
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0, 1e4])
def test_shares_and_log_sum(count, spread):
    logs = 1e3 + spread * np.random.default_rng(count).standard_normal(count)
    shares = logs.copy()
    log_sum = softmax(shares)
    # logs of about a thousand already have an error of 1e-13
    np.testing.assert_allclose(shares, special.softmax(logs), rtol=1e-12, atol=1e-17)
    assert log_sum == pytest.approx(special.logsumexp(logs), rel=1e-15)
    assert shares.sum() == pytest.approx(1.0, abs=1e-15 * count)


def test_impossible_levels_have_no_share():
    shares = np.array([-np.inf, 2.0, -1e300, 1.0])
    assert softmax(shares) == pytest.approx(np.logaddexp(2.0, 1.0), rel=1e-15)
    np.testing.assert_allclose(shares, [0.0, np.e / (1 + np.e), 0.0, 1 / (1 + np.e)], rtol=1e-13)


@pytest.mark.parametrize("count", range(1, 10))
def test_the_largest_may_be_anywhere(count):
    for k in range(count):
        shares = np.zeros(count)
        shares[k] = 5e3
        assert softmax(shares) == 5e3
        np.testing.assert_array_equal(shares, np.arange(count) == k)
