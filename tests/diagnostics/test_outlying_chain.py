"""Which chain stands out: one that does is named, and none where several or none do."""

import numpy as np
import pytest

from stanadapt import results
from stanadapt.diagnostics.verdict import outlying_chain

SHAPE = (4, 400)


def said(draws):
    return outlying_chain(draws, float(results.arviz_module().rhat(draws)))


def normal(seed=1, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape)


def slow(seed=1):
    """Draws worth about ten independent ones per chain."""
    x, rng = normal(seed), np.random.default_rng(seed + 1000)
    for t in range(1, SHAPE[1]):
        x[:, t] = 0.95 * x[:, t - 1] + np.sqrt(1 - 0.95**2) * rng.normal(size=SHAPE[0])
    return x


@pytest.mark.parametrize("scale", [1e-6, 1e5])
@pytest.mark.parametrize("chain", range(4))
def test_one_chain_in_another_place_is_named(chain, scale):
    draws = normal()
    draws[chain] += 0.7
    sentence = said(scale * draws)
    assert sentence.startswith(f"Chain {chain + 1} stands out: its mean is ")
    assert "without it R-hat is 1.00" in sentence


def test_one_chain_in_another_mode_is_named_though_all_are_slow():
    draws = slow()
    draws[2] += 9
    assert said(draws).startswith("Chain 3 stands out")


def test_one_chain_of_another_spread_is_named():
    draws = normal()
    draws[1] *= 3
    assert said(draws).startswith("Chain 2 stands out")


def test_none_is_named_where_pairs_disagree():
    draws = normal()
    draws[2:] += 9
    assert said(draws) == ""


def test_none_is_named_where_all_are_somewhere_else():
    assert said(normal() + 9 * np.arange(4)[:, None]) == ""
    assert said(normal() + 0.13 * np.arange(4)[:, None]) == ""


def test_none_is_named_by_chance():
    """Of a hundred fits whose R-hat is above 1.01 since the chains are short and slow."""
    blamed = [said(slow(seed)) for seed in range(100)]
    assert sum(map(bool, blamed)) <= 5


def test_two_chains_do_not_tell_which_one():
    assert said(normal(shape=(2, 400)) + 9 * np.arange(2)[:, None]) == ""
