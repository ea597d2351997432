"""Chains that a network moves while it is trained: new draws to learn from, and how good it is."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.efficiency import efficiency
from stanadapt.engine.chain import Chain, ChainDesign, run
from stanadapt.engine.density import VALUE_CALLS
from stanadapt.engine.plan import Plan
from stanadapt.engine.registry import find
from stanadapt.samplers.nice.network import Network
from stanadapt.targets.target import Target


class Rehearsal(NamedTuple):
    """What chains did with a network.

    draws
        Shape (chain, draw, dim), on the unconstrained scale.
    ess_per_draw
        Smallest bulk effective sample size of a coordinate, over the number of draws.
    acceptance
        Share of accepted proposals of the network.
    n_density
        Evaluations.

    """

    draws: np.ndarray
    ess_per_draw: float
    acceptance: float
    n_density: int


def rehearse(
    target: Target, network: Network, plan: Plan, positions: Any, rngs: list[np.random.Generator]
) -> Rehearsal | None:
    """Run `nice` from positions, one per chain; None after Ctrl-C."""
    sampler, settings = find("nice")
    compiled, begin = network.compiled(), sampler.init_from_network
    assert begin is not None

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        return begin(density, settings, position, rng, compiled)

    design = ChainDesign(sampler, settings, plan, 0, keep_unconstrained=True, init=init)
    chains = [
        Chain(design, target.density(i), np.array(position), rng, lambda: _constrain_nothing)
        for i, (position, rng) in enumerate(zip(positions, rngs, strict=True))
    ]
    if run(chains, plan.parallel_chains):
        return None
    kept = min(chain.sampling.rows for chain in chains)
    positions = [np.asarray(chain.sampling.unconstrained) for chain in chains]
    draws = np.stack([array[:kept] for array in positions])
    stats = np.concatenate([chain.sampling.stats[:kept] for chain in chains])
    local, accepted = (chains[0].stat_names.index(name) for name in ("local", "accepted"))
    return Rehearsal(
        draws,
        _smallest_ess(draws) / draws[..., 0].size,
        float(stats[stats[:, local] == 0, accepted].mean()),
        sum(int(chain.density.calls[VALUE_CALLS]) for chain in chains),
    )


def _smallest_ess(draws: np.ndarray) -> float:
    columns = {f"x[{i}]": draws[..., i] for i in range(draws.shape[-1])}
    found = efficiency(columns).ess_bulk  # a coordinate that never moved is left out there
    counts = len(found) == len(columns) and bool(np.isfinite(found).all())
    return float(found.min()) if counts else 0.0


def _constrain_nothing(positions: np.ndarray, out: np.ndarray) -> int:
    return 0
