"""The screening of many columns: none that ArviZ finds bad is hidden among good ones."""

import itertools
import tracemalloc

import numpy as np
import pytest

from stanadapt import results
from stanadapt.diagnostics.mixing import (
    CLOSE_R_HAT,
    FAR_ESS,
    Mixing,
    MixingCache,
    halves_r_hat,
    limits,
    measure_worst,
    mixing,
)
from stanadapt.diagnostics.screening import is_constant, screen, worst_columns
from stanadapt.diagnostics.verdict import verdict
from tests.helpers.autoregression import autoregression


def alternating(rng, shape):
    """Signs alternate while the amplitude changes slowly: every second draw shows one sign."""
    signs = np.where(np.arange(shape[1]) % 2, 1.0, -1.0)
    return signs * np.exp(autoregression(0.98, shape, rng))


def period_two(rng, shape):
    """Two values in turn, and which comes first depends on the chain."""
    return (-1.0) ** (np.arange(shape[1]) + np.arange(shape[0])[:, None]) + 0.1 * rng.normal(
        size=shape
    )


def antithetic(rng, shape):
    return np.exp(autoregression(-0.95, shape, rng)) * rng.gamma(2.0, size=(shape[0], 1))


def late_jump(rng, shape):
    """The last eighth of one chain is elsewhere."""
    x = rng.exponential(size=shape)
    x[-1, -shape[1] // 8 :] += 4.0
    return x


def rare_spike(rng, shape):
    """One visit, of two per cent of one chain, far away."""
    x = rng.gumbel(size=shape)
    x[0, shape[1] // 3 : shape[1] // 3 + shape[1] // 50] += 1e6
    return x


def rare_value(rng, shape):
    """Zero but for a few visits, all in one chain."""
    x = np.zeros(shape)
    x[-1, 7 : 7 + shape[1] // 10] = rng.exponential()
    return x


def heavy_and_apart(rng, shape):
    """Cauchy tails hide the distance of one chain from means and variances."""
    x = rng.standard_cauchy(shape)
    x[0] += 0.7
    return x


def wider(rng, shape):
    """One chain has other scales, about the same median."""
    x = rng.standard_t(3, size=shape)
    x[0] *= 1.8
    return x


def one_tail(rng, shape):
    """The upper tail is a slow excursion, common to no other part of the distribution."""
    high = autoregression(0.995, shape, rng) > 1.6
    return np.where(high, 5.0 + rng.exponential(size=shape), rng.normal(size=shape))


def trend(rng, shape):
    return rng.normal(size=shape) + np.linspace(-0.6, 0.6, shape[1])


def slow(rng, shape):
    return np.sinh(autoregression(0.995, shape, rng))


def counts(rng, shape):
    return np.floor(np.exp(autoregression(0.99, shape, rng)))


def rejecting(rng, shape):
    """Draws are repeated for long."""
    kept = np.where(rng.random(shape) < 0.03, np.arange(shape[1]), 0)
    return np.take_along_axis(rng.gamma(1.0, size=shape), np.maximum.accumulate(kept, 1), 1)


def mostly_one_value(rng, shape):
    return np.where(autoregression(0.99, shape, rng) > 1.3, rng.normal(size=shape), -1.0)


def slow_at_odd_draws(rng, shape):
    """The draws of even number are independent."""
    return np.where(np.arange(shape[1]) % 2, slow(rng, shape), rng.normal(size=shape))


def both_tails(rng, shape):
    """Stays in either tail are long, while signs are independent: means mix well."""
    tail = autoregression(0.98, shape, rng) > 1.2816
    distance = np.where(tail, 1.7 + 0.3 * rng.random(shape), 1.65 * rng.random(shape))
    return rng.choice([-1.0, 1.0], shape) * distance


FAULTS = [
    alternating, period_two, antithetic, late_jump, rare_spike, rare_value, heavy_and_apart, wider,
    one_tail, trend, slow, counts, rejecting, mostly_one_value, slow_at_odd_draws, both_tails,
]  # fmt: skip
SHAPES = [(4, 500), (4, 2000), (2, 1001), (1, 4000), (12, 100)]


def fails(x):
    """Whether ArviZ's figures fail the limits of the verdict."""
    limit, ess = limits(len(x))
    mixed = mixing(x)
    r_hat = mixed.r_hat if len(x) > 1 else halves_r_hat(x)
    return not (r_hat <= limit and mixed.ess_bulk >= ess and mixed.ess_tail >= ess)


def weaker(x, rng):
    """Return a column with the same fault, mixed with good draws: closer to the limits."""
    typical = np.ptp(np.quantile(x, [0.05, 0.95])) or 1.0
    kept = np.where(rng.random(x.shape) < 0.6, x, rng.permuted(x.ravel()).reshape(x.shape))
    return 0.7 * kept + 0.1 * typical * rng.standard_normal(x.shape)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_no_column_that_fails_is_screened_as_clear(fault):
    """Half of the faults fail in the figures of one chain or several, half are too weak."""
    for shape, seed in itertools.product(SHAPES, range(2)):
        rng = np.random.default_rng(seed)
        x = fault(rng, shape)
        for column in (x, weaker(x, rng)):
            assert not (fails(column) and is_clear(column)), shape
    # alternating chains, late jumps and rare values, which thinned draws do not show
    for chains in (1, 4):
        column = fault(np.random.default_rng(1), (chains, 2000 // chains))
        columns = among_good(column, 77)
        many = results.build({"posterior": {"x": np.stack(list(columns.values()), -1)}}, {})
        # a good one moves while the other may stay
        alone = results.build({"posterior": {"y": column, "x": columns["x[1]"]}}, {})
        expected, found = verdict(alone), verdict(many)
        assert found.verdict == expected.verdict
        texts = [text.replace("y is", "x[78] is") for text in expected.reasons]
        assert [str(text) for text in found.reasons] == texts


@pytest.mark.parametrize("seed", range(5))
def test_tails_are_screened_by_themselves(seed):
    """Bulk and mean mix ten times as well; batch means and ArviZ agree to a factor of two."""
    x = both_tails(np.random.default_rng(seed), (4, 4000))
    (location,), (tails,) = screen([x]).ess
    exact = mixing(x)
    assert exact.ess_bulk > 10.0 * exact.ess_tail
    assert location > 8.0 * tails
    assert 0.5 * exact.ess_tail < tails < 2.0 * exact.ess_tail


def is_clear(x):
    """Whether the screening finds a column far from failing."""
    limit, ess = limits(len(x))
    return screen([x]).is_clear(1.0 + CLOSE_R_HAT * (limit - 1.0), FAR_ESS * ess)


def among_good(column, place, number=200):
    """Return columns by name: good ones, independent draws, and one other."""
    good = np.random.default_rng(5).gamma(3.0, size=(number, *column.shape))
    columns = {f"x[{i + 1}]": x for i, x in enumerate(good)}
    columns[f"x[{place + 1}]"] = column
    return columns


def test_all_draws_of_the_faults_are_screened():
    """At the seed of the test above, most do: otherwise it could not fail."""
    failing = [f for f in FAULTS if fails(f(np.random.default_rng(1), (4, 500)))]
    assert len(failing) >= 10
    x = slow_at_odd_draws(np.random.default_rng(1), (4, 3000))
    assert fails(x)
    assert not is_clear(x)
    assert not fails(x[:, ::2])


@pytest.mark.parametrize("number", [5, 16, 300])
def test_of_columns_that_are_all_clear_the_worst_by_each_measure_decide(number):
    good = np.random.default_rng(2).exponential(size=(number, 4, 3000))
    columns = {f"x[{i}]": x for i, x in enumerate(good)}
    measure = MixingCache()
    found = measure_worst(columns, measure=measure)
    assert 1 <= len(measure.known) == len(found) <= 4
    columns["x[3]"] = slow(np.random.default_rng(3), (4, 3000))
    again = measure_worst(columns)
    assert "x[3]" in again
    assert min(number, 8) <= len(again) <= 32


def test_exact_figures_close_to_a_limit_overrule_the_screening():
    """Whatever the screening found: of 100 columns, the worst by each measure are then examined."""
    columns = among_good(np.random.default_rng(4).normal(size=(4, 1000)), 3, 100)
    close = Mixing(1.0, 700.0, 900.0)  # the limit is 400
    assert 8 <= len(measure_worst(columns, measure=lambda x: close)) <= 32


def test_infinite_draws_and_late_variation_are_found():
    x = np.random.default_rng(6).normal(size=(40, 2, 103))
    for place, value in ((3, np.nan), (17, np.inf), (25, -np.inf)):
        x[place, 1, 102] = value  # the last draw, which halves and batches may leave out
    x[30] = 1e307 * np.abs(x[30])  # a sum that overflows
    finite = screen(list(x)).finite
    assert np.flatnonzero(~finite).tolist() == [3, 17, 25]
    x = np.zeros((2, 100))
    x[1, 99] = 1e-300
    assert not is_constant(x)
    assert is_constant(np.zeros((2, 100)))
    steps = np.random.default_rng(1).integers(-2, 3, size=(4, 100)) * np.finfo(float).eps
    assert is_constant(1.0 + steps)  # such as the diagonal of a correlation matrix
    assert not is_constant(steps)
    assert not is_constant(1.0 + 8.0 * steps)
    assert is_constant(np.full((4, 100), -np.inf))


@pytest.mark.parametrize("draws", range(1, 12))
def test_few_draws_and_constant_columns_are_screened(draws):
    """As the worst, if nothing is known of them."""
    x = np.random.default_rng(draws).normal(size=(40, 3, draws))
    x[11] = 7.0
    columns = {str(i): column for i, column in enumerate(x)}
    names = worst_columns(columns)
    assert "11" in names or draws < 4
    assert 8 <= len(names) <= 32
    assert [is_constant(column) for column in x] == [i == 11 or draws * 3 == 1 for i in range(40)]


def test_the_verdict_takes_less_memory_than_the_draws():
    """The worst columns and one block are in memory, not all columns once more."""
    draws = np.random.default_rng(7).normal(size=(4, 4000, 300))
    fit = results.build({"posterior": {"x": draws}}, {})
    verdict(fit)  # imports
    mixing.known.clear()
    tracemalloc.start()
    try:
        assert verdict(fit) == ("fine", [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.7 * draws.nbytes
