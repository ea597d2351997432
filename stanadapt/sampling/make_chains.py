"""The chains of a run, at their starting positions, with memory for their draws."""

from functools import partial
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.sampling.chain import Chain, ChainDesign
from stanadapt.sampling.initial_values import initial_positions
from stanadapt.targets.target import Samplable


def make_chains(target: Samplable, design: ChainDesign, inits: Any) -> list[Chain]:
    """Return one chain per seed of the plan.

    Raises
    ------
    StanadaptError
        Stage "initialisation" where a chain finds no place to start; "settings" where the draws
        do not fit into memory.

    """
    try:
        return _make(target, design, inits)
    except MemoryError:
        plan, columns = design.plan, len(target.target.column_names)
        kept = plan.chains * (plan.draws + plan.warmup_draws)
        raise StanadaptError(
            "settings",
            f"{kept} draws of {columns} numbers each do not fit into memory "
            f"({8e-9 * kept * columns:.1f} GB). Keep fewer: iter_sampling, thin, chains.",
        ) from None


def _make(target: Samplable, design: ChainDesign, inits: Any) -> list[Chain]:
    plan = design.plan
    sources = [source.spawn(2) for source in plan.seeds()]
    rngs = [np.random.default_rng(moves) for moves, _ in sources]
    positions = initial_positions(target, inits, rngs, bool(design.sampler.uses_gradient))
    quantities = [int(source.generate_state(1, np.uint32)[0]) for _, source in sources]
    last = plan.chains * plan.threads_per_chain  # each worker gets a number as a chain does
    chains = [
        Chain(
            design, target.density(i), position, rng, partial(target.constrainer, seed, i),
            [target.density(number) for number in range(plan.chains + i, last, plan.chains)],
        )
        for i, (position, rng, seed) in enumerate(zip(positions, rngs, quantities, strict=True))
    ]  # fmt: skip
    _share_arrays(chains)
    return chains


def _share_arrays(chains: list[Chain]) -> None:
    """Let all chains write their draws into one array, so that none is copied at the end."""
    for phase in ("warmup", "sampling"):
        whole = np.empty((len(chains), *getattr(chains[0], phase).constrained.shape))
        for chain, share in zip(chains, whole, strict=True):
            getattr(chain, phase).constrained = share
