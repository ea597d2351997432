"""Chains that are pooled: what progress knows of a chain stays with it if others are stopped."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.chain import pool_chains
from stanadapt.engine.protocol import Pooling
from tests.helpers.codes import warns


class Progress(NamedTuple):
    block: int
    starts: np.ndarray


def make_chains(pooling, starts):
    sampler = SimpleNamespace(pooling=pooling)
    return [
        SimpleNamespace(
            sampler=sampler, compiled_settings=None, state=start, progress=None, iter_warmup=100,
            n_done=0, pause=0, waiting=True, count_as_warmup=lambda *seconds: None,
        )
        for start in starts
    ]  # fmt: skip


def advance(chains, stopped=()):
    for i, chain in enumerate(chains):
        if chain.waiting:
            chain.waiting = i not in stopped
            chain.n_done = chain.pause if chain.waiting else chain.n_done


def test_rows_of_progress_stay_with_their_chains():
    seen = []

    def pool(settings, progress, states):
        seen.append((progress.starts.tolist(), states))
        return progress, states

    def begin(settings, states, iter_warmup):
        return Progress(5, np.array(states)), states

    chains = make_chains(Pooling(begin, pool, rows_of_chains=("starts",)), [10, 20, 30, 40])
    for stopped in ((), (), (1,), (0,), ()):
        pool_chains(chains)
        advance(chains, stopped)
    pool_chains(chains)
    alive = [[10, 20, 30, 40]] * 2 + [[10, 30, 40]] + [[30, 40]] * 2
    assert seen == [(rows, rows) for rows in alive]


# the density fails at every point near 0 but 0 itself, so that this chain is stopped in warm-up
TRAP = """
parameters { real x; }
model { if (x < 500) { if (x != 0) reject("near 0"); target += -8; } else x ~ normal(1000, 1); }
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trapped", [0, 2])
def test_chains_of_the_default_continue_if_another_is_stopped(trapped):
    inits = [{"x": 1000.0 + i} for i in range(3)]
    inits.insert(trapped, {"x": 0.0})
    target = sa.Target(TRAP, backend="stanli", unsafe=True, show_progress=False)
    with warns("stopped_chains", f"chain {trapped + 1}"):
        fit = sa.sample(
            target, "whitened_hmc", inits=inits, seed=1, iter_sampling=400, show_progress=False
        )
    x = fit["posterior"]["x"].values
    assert x.shape == (3, 400)
    # 400 effective draws or so: four standard errors
    assert abs(x.mean() - 1000) < 4 / np.sqrt(400)
