"""Engines that run Stan's own NUTS: one file each, with a function `run`."""

from typing import NamedTuple

import numpy as np

# Stan's names of sampler statistics, ArviZ's, and their types
STATISTICS = {
    "lp__": ("lp", np.float64),
    "accept_stat__": ("acceptance_rate", np.float64),
    "stepsize__": ("step_size", np.float64),
    "treedepth__": ("tree_depth", np.int64),
    "n_leapfrog__": ("n_steps", np.int64),
    "divergent__": ("diverging", bool),
    "energy__": ("energy", np.float64),
}


class NutsSettings(NamedTuple):
    """Stan's own settings of NUTS."""

    adapt_delta: float = 0.8
    max_treedepth: int = 10


class NutsRun(NamedTuple):
    """What an engine returns.

    column_names
        Stan's, dotted, without the statistics.
    draws, statistics
        Shape (chain, warm-up and sampling, column); statistics in the order of STATISTICS.
    warmup_seconds, sampling_seconds
        One number per chain.
    compile_seconds
        Zero if nothing had to be compiled.
    engine
        Its name and version.
    remarks
        Sentences for the user.

    """

    column_names: list[str]
    draws: np.ndarray
    statistics: np.ndarray
    warmup_seconds: list[float]
    sampling_seconds: list[float]
    compile_seconds: float
    engine: str
    remarks: tuple[str, ...] = ()
