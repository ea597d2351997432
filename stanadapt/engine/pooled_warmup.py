"""Between two blocks of a pooled warm-up: the chains learn from each other."""

import time
from typing import Any


def pool_chains(chains: list[Any]) -> None:
    """Hand the states of chains that wait to their sampler, and give them what it returns.

    All of them wait at the same iteration; those that were stopped are not among them. The seconds
    this takes are shared out among the chains.
    """
    began, used, first = time.perf_counter(), time.thread_time(), chains[0]
    pooling, settings = first.sampler.pooling, first.compiled_settings
    states = [chain.state for chain in chains]
    if first.progress is None:
        progress, states = pooling.begin(settings, states, first.iter_warmup)
    else:
        progress, states = pooling.pool(settings, first.progress, states)
    for chain, state in zip(chains, states, strict=True):
        chain.state, chain.progress = state, progress
        chain.pause = chain.n_done + progress.block
        if not progress.block:
            chain.end_warmup()
    seconds, used = time.perf_counter() - began, time.thread_time() - used
    for chain in chains:
        chain.count_as_warmup(seconds / len(chains), used / len(chains))
