"""What a run will take of the machine's memory, said before the first draw.

A system may promise more memory than it has, and end the program when it is used: draws of hours
would be lost without a word.
"""

import psutil

from stanadapt.errors import StanadaptError, warn
from stanadapt.sampling.chain import ChainDesign, extra_size

NUMBER = 8  # bytes
# a run that takes more than this share of what is free is told of
MUCH = 0.5


def require_memory(design: ChainDesign, dim: int, on_disk: bool = False) -> None:
    """Refuse a run that does not fit into memory, and tell of one that takes much of it.

    Parameters
    ----------
    design
        Sampler, numbers of chains and draws, and what is kept of these.
    dim
        Number of parameters on the unconstrained scale.
    on_disk
        Whether draws go to a run folder, which takes the space for them itself.

    Raises
    ------
    StanadaptError
        Stage "settings".

    """
    plan, sampler = design.plan, design.sampler
    kept = plan.chains * (plan.draws + plan.warmup_draws)
    draws = 0 if on_disk else NUMBER * kept * numbers_per_draw(design, dim)
    matrices = NUMBER * plan.chains * sampler.dense_matrices(design.settings) * dim**2
    free = psutil.virtual_memory().available
    if draws + matrices < MUCH * free:
        return
    needed = (
        f"{kept:,} draws take {draws / 1e9:,.1f} GB, matrices of {sampler.name} for {dim} "
        f"parameters {matrices / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free. "
    )
    if draws >= matrices:
        advice = "Keep fewer draws: iter_sampling, thin, chains."
    else:
        advice = "Use the default sampler, which takes none, or diagonal=True where there is one."
    if draws + matrices > free:
        raise StanadaptError("settings", f"the run does not fit into memory: {needed}{advice}")
    warn(f"the run takes much of the memory: {needed}{advice}")


def numbers_per_draw(design: ChainDesign, dim: int) -> int:
    """How many numbers are kept of each draw: parameters, quantities and statistics."""
    statistics = 2 + len(design.sampler.info._fields)
    unconstrained = dim if design.keep_unconstrained else 0
    return design.n_constrained + statistics + unconstrained + extra_size(design, dim)
