"""How many chains, how long, from which seed: checked once, for samplers and reference alike."""

import operator
import os
import secrets
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError

LARGEST_SEED = 2**32 - 1  # CmdStan's


class Plan(NamedTuple):
    """What a run will do, checked. The names are CmdStanPy's."""

    chains: int
    parallel_chains: int
    threads_per_chain: int
    iter_warmup: int
    iter_sampling: int
    thin: int
    seed: int
    save_warmup: bool
    show_progress: bool

    @property
    def draws(self) -> int:
        """Draws kept a chain."""
        return self.thinned(self.iter_sampling)

    @property
    def warmup_draws(self) -> int:
        """Draws of warm-up kept a chain."""
        return self.thinned(self.iter_warmup) if self.save_warmup else 0

    def thinned(self, iterations: int) -> int:
        """How many of a phase's iterations are kept: 0, thin, 2 thin, ..., as in CmdStan."""
        return -(-iterations // self.thin)

    def seeds(self) -> list[np.random.SeedSequence]:
        """One independent source of randomness a chain."""
        return np.random.SeedSequence(self.seed).spawn(self.chains)


def make_plan(
    *,
    chains: Any,
    parallel_chains: Any,
    iter_warmup: Any,
    iter_sampling: Any,
    thin: Any,
    seed: Any,
    save_warmup: bool,
    show_progress: bool,
    threads_per_chain: Any = 1,
) -> Plan:
    """Check every number and fill in defaults; raises StanadaptError, stage "settings".

    parallel_chains defaults to the number of cores over threads_per_chain; seed to a random one,
    which the result's attributes tell.
    """
    chains = whole("chains", chains, 1)
    cores = os.cpu_count() or 1
    threads = whole("threads_per_chain", threads_per_chain, 1)
    if parallel_chains is None:
        parallel = max(cores // threads, 1)
    else:
        parallel = whole("parallel_chains", parallel_chains, 1)
    iter_warmup = whole("iter_warmup", iter_warmup, 0)
    iter_sampling = whole("iter_sampling", iter_sampling, 1)
    thin = whole("thin", thin, 1)
    if thin > iter_sampling:
        raise StanadaptError(
            "settings",
            f"thin must not exceed iter_sampling ({iter_sampling}), got {thin}: "
            "no more than one draw would be left.",
        )
    seed = secrets.randbelow(LARGEST_SEED + 1) if seed is None else whole("seed", seed, 0)
    if seed > LARGEST_SEED:
        raise StanadaptError("settings", f"seed must be at most {LARGEST_SEED}, got {seed}.")
    return Plan(
        chains, min(parallel, chains), threads, iter_warmup, iter_sampling, thin, seed,
        bool(save_warmup), bool(show_progress),
    )  # fmt: skip


def whole(name: str, value: Any, smallest: int) -> int:
    """Return value as an int; StanadaptError unless it is one, and at least `smallest`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < smallest:
        raise StanadaptError(
            "settings", f"{name} must be a whole number, at least {smallest}, got {value!r}."
        )
    return number


def between(name: str, value: Any, low: float, high: float) -> float:
    """Return value as a float; StanadaptError unless it lies strictly between the two."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = low
    if not low < number < high:
        raise StanadaptError(
            "settings", f"{name} must lie between {low:g} and {high:g}, got {value!r}."
        )
    return number
