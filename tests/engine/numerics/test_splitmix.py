"""SplitMix64 bit for bit, with its uniforms and normals; the softmax of levels, against SciPy's."""

import numpy as np
import pytest
from scipy import special, stats

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics.softmax import NEGLIGIBLE, decay, softmax
from stanadapt.engine.numerics.splitmix import SplitMix64, bits
from stanadapt.engine.numerics.vectors import fill_normal

# from seed 1234567, as published with other implementations of SplitMix64
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]


@jit
def _uniforms(stream, out):
    for i in range(out.shape[0]):
        out[i] = stream.random()


def splitmix(seed, count):
    """The algorithm in Python integers."""
    outputs, modulus = [], 2**64
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) % modulus
        z = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9 % modulus
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % modulus
        outputs.append(z ^ (z >> 31))
    return outputs


@pytest.mark.parametrize("seed", [0, 1234567, 2**53 - 1])
def test_bits_and_uniforms(seed):
    state = np.array([seed])
    found = [int(bits(state)) % 2**64 for _ in range(1000)]
    assert found == splitmix(seed, 1000)
    if seed == 1234567:
        assert found[:4] == KNOWN
    uniforms = np.empty(1000)
    _uniforms(SplitMix64(np.array([seed])), uniforms)
    np.testing.assert_array_equal(uniforms, [(z >> 11) * 2.0**-53 for z in found])


def test_normals_and_first_numbers_of_neighboring_seeds():
    x = np.empty(100_000)
    fill_normal(SplitMix64(np.array([7])), x)
    assert stats.kstest(x, "norm").pvalue > 1e-4
    # standard error of a correlation: 1 / sqrt(n)
    for lag in (1, 2):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 4.5 / np.sqrt(len(x))
    assert abs(np.corrcoef(x[:-1] ** 2, x[1:] ** 2)[0, 1]) < 4.5 / np.sqrt(len(x))
    first = np.empty((20_000, 2))
    for seed, row in enumerate(first):
        _uniforms(SplitMix64(np.array([seed])), row)
    for column in first.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(column[:-1], column[1:])[0, 1]) < 4.5 / np.sqrt(len(first))


def test_decay_and_levels_without_a_share():
    x = np.append(np.linspace(NEGLIGIBLE, 0.0, 4001), -np.geomspace(1e-12, 1.0, 50))
    np.testing.assert_allclose([decay(y) for y in x], np.exp(x), rtol=1e-13)
    assert decay(0.0) == 1.0
    shares = np.array([-np.inf, 2.0, -1e300, 1.0])
    assert softmax(shares) == pytest.approx(np.logaddexp(2.0, 1.0), rel=1e-15)
    np.testing.assert_allclose(shares, [0.0, np.e / (1 + np.e), 0.0, 1 / (1 + np.e)], rtol=1e-13)


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


@pytest.mark.parametrize("count", range(1, 10))
def test_the_largest_may_be_anywhere(count):
    for k in range(count):
        shares = np.zeros(count)
        shares[k] = 5e3
        assert softmax(shares) == 5e3
        np.testing.assert_array_equal(shares, np.arange(count) == k)
