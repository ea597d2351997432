"""Chains, iterations and seed of a run, checked once for our samplers and for Stan's NUTS."""

import os
import secrets
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError, require_flag, require_whole

LARGEST_SEED = 2**32 - 1  # CmdStan's
MOST_CHAINS = 10_000  # each has its memory, and is one thread


def usable_cores() -> int:
    """Return the number of cores that this process may use: batch systems give it only some."""
    usable = getattr(os, "sched_getaffinity", None)  # only on Linux
    return len(usable(0)) if usable else os.cpu_count() or 1


class Plan(NamedTuple):
    """Numbers and flags that determine a run, checked. Names are CmdStanPy's.

    A run continues until its draws suffice: until_ess is the smallest effective sample size to
    reach, until_mcse the largest standard error of a mean with control variates, in standard
    deviations, 0 for none; most_iterations is the largest that iter_sampling may become, 0 for any.
    """

    chains: int
    parallel_chains: int
    threads_per_chain: int
    iter_warmup: int
    iter_sampling: int
    thin: int
    seed: int
    save_warmup: bool
    show_progress: bool
    until_ess: float = 0.0
    most_iterations: int = 0
    until_mcse: float = 0.0

    @property
    def draws(self) -> int:
        """Number of draws kept per chain."""
        return self.thinned(self.iter_sampling)

    @property
    def warmup_draws(self) -> int:
        """Number of draws of warm-up kept per chain."""
        return self.thinned(self.iter_warmup) if self.save_warmup else 0

    def thinned(self, iterations: int) -> int:
        """Return how many iterations of a phase are kept: 0, thin, 2 thin, ..., as in CmdStan."""
        return -(-iterations // self.thin)

    def seeds(self) -> list[np.random.SeedSequence]:
        """Return one independent source of randomness per chain."""
        return np.random.SeedSequence(self.seed).spawn(self.chains)


def choose_seed(seed: Any) -> int:
    """Return a seed, checked; a random one for None."""
    if seed is None:
        return secrets.randbelow(LARGEST_SEED + 1)
    return require_whole("seed", seed, 0, LARGEST_SEED)


def require_numbers(*, iter_warmup: Any, iter_sampling: Any, thin: Any, **others: Any) -> None:
    """Check the numbers of a run before its sampler is known, which has defaults for None."""
    make_plan(
        iter_warmup=0 if iter_warmup is None else iter_warmup,
        iter_sampling=thin if iter_sampling is None else iter_sampling,
        thin=thin, save_warmup=False, show_progress=False, **others,
    )  # fmt: skip


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

    parallel_chains defaults to the number of cores over threads_per_chain, and seed to a random
    one, which the attributes of the result record.
    """
    chains = require_whole("chains", chains, 1, MOST_CHAINS)
    threads = require_whole("threads_per_chain", threads_per_chain, 1, MOST_CHAINS)
    if parallel_chains is None:
        parallel = max(usable_cores() // threads, 1)
    else:
        parallel = require_whole("parallel_chains", parallel_chains, 1)
    iter_warmup = require_whole("iter_warmup", iter_warmup, 0)
    thin = require_whole("thin", thin, 1)  # first: it may stand for iter_sampling
    iter_sampling = require_whole("iter_sampling", iter_sampling, 1)
    if thin > iter_sampling:
        raise StanadaptError(
            "out_of_range",
            f"thin must not exceed iter_sampling ({iter_sampling}), got {thin}: "
            "only one draw would be left.",
        )
    return Plan(
        chains, min(parallel, chains), threads, iter_warmup, iter_sampling, thin,
        choose_seed(seed), require_flag("save_warmup", save_warmup),
        require_flag("show_progress", show_progress),
    )  # fmt: skip
