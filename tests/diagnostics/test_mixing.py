"""R-hat and effective sample sizes of columns, which are cached by their contents."""

import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.mixing import (
    LONG,
    Mixing,
    MixingCache,
    map_columns,
    measure_mixing,
    mixing,
)
from stanadapt.targets.stan import bundled


class Counted(MixingCache):
    """A cache that counts the columns that were computed."""

    def __init__(self, **options):
        self.computed, compute = [], MixingCache()
        super().__init__(lambda draws: self.computed.append(draws) or compute(draws), **options)


def draws(chains=4, length=200, seed=1):
    steps = np.random.default_rng(seed).standard_normal((chains, length))
    return np.cumsum(steps, axis=1) * 1e-3 + np.cumsum(np.ones(length)) * 1e-5


def test_the_same_draws_are_computed_once_and_others_again():
    x, measure = draws(), Counted()
    first = measure(x)
    assert len({f"{value:.3g}" for value in first}) == 3
    assert first == measure(x.copy()) == measure(np.asfortranarray(x))
    assert len(measure.computed) == 1
    assert measure(x.reshape(2, -1)) != first  # the same numbers in the same order
    x[3, -1] += 1.0
    measure(x)
    assert len(measure.computed) == 3


def test_the_cache_does_not_grow_without_limit():
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
