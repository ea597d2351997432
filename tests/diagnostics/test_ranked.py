"""One ranking per column, with the numbers of ArviZ, cached by the contents of the column."""

import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.mixing import (
    LONG,
    TAILS,
    Mixing,
    MixingCache,
    halves_r_hat,
    map_columns,
    measure_mixing,
    mixing,
)
from stanadapt.diagnostics.outlying_chain import outlying_chain
from stanadapt.diagnostics.ranked import Ranked, is_nested
from stanadapt.results import arviz_module
from stanadapt.targets.stan import bundled
from tests.helpers.autoregression import autoregression


def chains(count, length, seed, *, memory=0.9):
    """Skewed, autocorrelated chains, of unequal location and scale."""
    rng = np.random.default_rng(seed)
    x = autoregression(memory, (count, length), rng) / np.sqrt(1.0 - memory**2)
    return np.exp(0.4 * x) * (1.0 + 0.1 * np.arange(count))[:, None] - 3.0


def repeated(x, seed):
    """A chain that rejects: each draw is repeated a random number of times."""
    stays = np.random.default_rng(seed).random(x.shape) < 0.6
    stays[:, 0] = False
    last = np.maximum.accumulate(np.where(stays, 0, np.arange(x.shape[1])), axis=1)
    return np.take_along_axis(x, last, axis=1)


def heavy(x):
    return np.sinh(3.0 * (x - np.median(x)))


CASES = {
    "skewed": chains(4, 1000, 1),
    "odd length": chains(3, 501, 2),
    "one chain": chains(1, 2001, 3),
    "two draws per chain more than ArviZ needs": chains(4, 6, 4, memory=0.2),
    "few draws, odd": chains(2, 9, 5, memory=0.2),
    "the fewest": chains(2, 4, 6, memory=0.2),
    "rejections": repeated(chains(4, 800, 7), 7),
    "counts": np.floor(4.0 * chains(4, 700, 8)),
    "two values": (chains(2, 600, 9) > -2.0).astype(float),
    "symmetric counts, so that distances are tied": np.round(
        np.random.default_rng(10).standard_normal((4, 400)) * 2.0
    ),
    "heavy tails": heavy(chains(4, 1000, 11)),
    "huge": 1e300 * chains(4, 300, 12),
    "alternating": chains(4, 500, 13, memory=-0.95),
    "one chain apart": chains(4, 500, 14) + np.array([[0.0], [0.0], [0.0], [2.0]]),
    "a chain that does not move": np.vstack([chains(3, 400, 15), np.full((1, 400), -2.0)]),
    "a rare value": np.where(np.arange(4000).reshape(4, 1000) == 2345, 1.0, 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_mixing_equals_that_of_arviz(case):
    x, arviz = CASES[case], arviz_module()
    with np.errstate(all="ignore"):
        r_hat = arviz.rhat(x) if len(x) > 1 else np.nan
        expected = [
            r_hat, arviz.ess(x, method="bulk"), arviz.ess(x, method="tail", prob=TAILS)
        ]  # fmt: skip
    if x.shape[1] < 10:  # where ArviZ's estimate is its upper limit
        expected[1:] = np.minimum(expected[1:], x.size)
    np.testing.assert_allclose(mixing(x), np.array(expected, float), rtol=1e-9)


@pytest.mark.parametrize("value", [1.9602583164499647, 0.20191000196010989, 3.0])
@pytest.mark.parametrize("length", [149, 787, 800])
def test_draws_equal_to_a_quantile_are_counted_as_arviz_counts_them(value, length):
    """A tenth of the draws is one value, at each quantile in turn."""
    arviz, rng = arviz_module(), np.random.default_rng(length)
    for tail in (-1.0, 1.0):
        x = value + tail * np.maximum(rng.standard_normal((4, length)) - 1.2816, 0.0)
        expected = float(arviz.ess(x, method="tail", prob=TAILS))
        assert mixing(x).ess_tail == pytest.approx(expected, rel=1e-9)


def test_r_hat_of_the_halves_of_a_chain_equals_that_of_arviz():
    for length in (8, 15, 16, 17, 1001):
        x = chains(1, length, length)
        half = length // 2
        expected = float(arviz_module().rhat(x[0, : 2 * half].reshape(2, half)))
        assert halves_r_hat(x) == pytest.approx(expected, rel=1e-9)


def nested(x):
    return Ranked(x, shared_starts=True).r_hat()


@pytest.mark.parametrize("shape", [(64, 90), (256, 8), (256, 16)])
@pytest.mark.parametrize("part", [slice(None, None, 2), "half"])
def test_chains_of_one_start_that_end_apart_raise_nested_r_hat(shape, part):
    """Each superchain, or each half of the chains, is alike: only differences that last show."""
    x = np.random.default_rng(5).normal(size=shape)
    part = slice(shape[0] // 2) if part == "half" else part
    mode, wide, few = x.copy(), x.copy(), x[:, :7]
    mode[part] += 6.0
    wide[part] *= 5.0
    assert nested(x) < 1.01
    assert nested(mode) > 1.5
    assert nested(wide) > 1.15
    assert not is_nested(*few.shape)


def test_nested_r_hat_of_many_short_chains():
    """Of 256 x 16 draws, 128 effective ones in a superchain give 1.004; split R-hat is 1.03."""
    rng = np.random.default_rng(11)
    fine = autoregression(0.3, (256, 16), rng)
    assert nested(fine) < 1.01
    plain = float(arviz_module().rhat(fine))
    assert plain > 1.03
    assert mixing(fine).r_hat == pytest.approx(plain)
    lone, drift, starts = fine.copy(), fine + 0.5 * (np.arange(16) < 8), fine.copy()
    lone[77] += 6.0
    starts += np.resize(rng.normal(0.0, 0.4, 16), 256)[:, None]
    for planted in (lone, drift, starts):
        assert nested(planted) > 1.015
    assert nested(lone) > 1.05
    assert outlying_chain(lone, nested(lone)) == 77
    several = fine + 6.0 * (np.arange(256) % 9 == 0)[:, None]
    assert outlying_chain(fine, 1.02) is outlying_chain(several, 1.3) is None


class Counted(MixingCache):
    """A cache that counts the columns that were computed."""

    def __init__(self, **options):
        self.computed, compute = [], MixingCache()
        super().__init__(lambda draws: self.computed.append(draws) or compute(draws), **options)


def draws(chains=4, length=200, seed=1):
    steps = np.random.default_rng(seed).standard_normal((chains, length))
    return np.cumsum(steps, axis=1) * 1e-3 + np.cumsum(np.ones(length)) * 1e-5


def test_draws_are_cached_within_a_limit():
    x, measure = draws(), Counted()
    first = measure(x)
    assert len({f"{value:.3g}" for value in first}) == 3
    assert first == measure(x.copy()) == measure(np.asfortranarray(x))
    assert len(measure.computed) == 1
    assert measure(x.reshape(2, -1)) != first  # the same numbers in the same order
    x[3, -1] += 1.0
    measure(x)
    assert len(measure.computed) == 3
    measure = Counted(size=3)
    several = {f"x[{seed}]": draws(length=20, seed=seed) for seed in range(5)}
    measure_mixing(several, measure)
    assert len(measure.known) == 3
    measure(several["x[4]"])
    assert len(measure.computed) == 5
    measure(several["x[0]"])
    assert len(measure.computed) == 6


@pytest.mark.thorough
def test_threads_may_add_columns_while_the_oldest_are_removed():
    """Looking up the oldest entry while others are added may fail without a lock."""
    measure = MixingCache(lambda draws: Mixing(1.0, draws[0, 0], 1.0), size=5)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        found = map_columns(measure, [np.full((4, 4), float(i)) for i in range(20_000)], long=1)
    finally:
        sys.setswitchinterval(before)
    assert [mixed.ess_bulk for mixed in found] == list(range(20_000))
    assert len(measure.known) == 5


def test_long_columns_in_threads_are_those_of_one_after_the_other():
    several = {f"x[{seed}]": draws(length=LONG // 4, seed=seed) for seed in range(3)}
    alone = {name: MixingCache()(x) for name, x in several.items()}
    assert measure_mixing(several, MixingCache()) == alone
    assert list(measure_mixing(several)) == list(several)


def test_the_verdict_of_a_run_uses_the_cache_of_the_run():
    target = sa.Target(*bundled.find("logistic", "ripley"))
    before = set(mixing.known)
    fit = sa.sample(target, chains=4, seed=1)
    assert fit.attrs["verdict"] == "fine"
    assert len(mixing.known.keys() - before) == target.dim
