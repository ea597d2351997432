"""What a run will take of the machine's memory, said before the first draw.

A system may promise more memory than it has, and end the program when it is used: draws of hours
would be lost without a word.
"""

from typing import NamedTuple

import psutil

from stanadapt.engine.chain import ChainDesign, extra_size
from stanadapt.errors import StanadaptError, warn

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
    parts = _parts(design, dim, on_disk)
    total, free = sum(part.size for part in parts), psutil.virtual_memory().available
    if total < MUCH * free:
        return
    taken = ", ".join(f"{part.name} {part.size / 1e9:,.1f} GB" for part in parts)
    largest = max(parts, key=lambda part: part.size)
    found = f"{taken}, and {free / 1e9:,.1f} GB are free. {largest.advice}"
    if total > free:
        raise StanadaptError("settings", f"the run does not fit into memory: {found}")
    warn(f"the run takes much of the memory: {found}")


class Part(NamedTuple):
    """What takes memory: bytes of all chains, the beginning of a sentence, and what to do."""

    size: int
    name: str
    advice: str


def _parts(design: ChainDesign, dim: int, on_disk: bool) -> list[Part]:
    plan, sampler = design.plan, design.sampler
    kept = plan.chains * (plan.draws + plan.warmup_draws)
    draws = 0 if on_disk else NUMBER * kept * numbers_per_draw(design, dim)
    matrices = NUMBER * plan.chains * sampler.dense_matrices(design.settings) * dim**2
    parts = [
        Part(draws, f"{kept:,} draws take", "Keep fewer draws: iter_sampling, thin, chains."),
        Part(
            matrices,
            f"matrices of {sampler.name} for {dim} parameters",
            "Use the default sampler, which takes none, or diagonal=True where there is one.",
        ),
    ]
    if sampler.storage is not None:
        storage = sampler.storage
        lower = ", ".join([*storage.settings, "chains"])
        stored = plan.chains * storage.size(design.settings, dim)
        parts.append(Part(stored, f"{storage.name} of {sampler.name}", f"Lower {lower}."))
    return parts


def numbers_per_draw(design: ChainDesign, dim: int) -> int:
    """How many numbers are kept of each draw: parameters, quantities and statistics."""
    statistics = 2 + len(design.sampler.info._fields)
    unconstrained = dim if design.keep_unconstrained else 0
    return design.n_constrained + statistics + unconstrained + extra_size(design, dim)
