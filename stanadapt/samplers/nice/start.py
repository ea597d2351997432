"""Chains that begin with a trained network: the keyword `network` of `sample`.

A file of its own, so that an edit does not make Numba recompile the sampler.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.starts import ChainInit, StartOption, register_start
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.samplers.nice import nice
from stanadapt.samplers.nice.network import Network
from stanadapt.targets.target import Samplable


def _with_network(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, given: Any
) -> ChainInit:
    """Return how chains begin with a `Network`, or its file."""
    network = Network.load(given) if isinstance(given, str | PathLike) else given
    _require_use(target, network)
    trained = network.description
    data = target.target.data_hash
    if trained.get("data_hash", data) != data:
        warn(
            Message(
                "network_other_data",
                f"the network was trained on {target.name} with other data: draws are exact, but "
                "sampling may be far less efficient. If it is, train the network again.",
            )
        )
    return ChainInit(init_with(network), {"network": repr(network)})


def init_with(network: Network) -> Callable[..., Any]:
    """Return the `init` of chains that begin with a network."""
    compiled = network.compiled()

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        return nice.init_from_network(density, settings, position, rng, compiled)

    return init


def _require_use(target: Samplable, network: Any) -> None:
    """Raise StanadaptError unless a network is one, for this program."""
    if not isinstance(network, Network):
        raise StanadaptError(
            "wrong_network", f"network must be a Network, or the file of one, got {network!r}."
        )
    moved = target.dim - target.target.noise_size
    if network.dim != moved:
        raise StanadaptError(
            "wrong_network",
            f"the network moves {network.dim} parameters, but {target.name} has {moved} on the "
            "unconstrained scale: train one for it.",
        )
    ours = target.target.program.hash
    theirs = network.description.get("program_hash", ours)
    if not target.moves_parameters or theirs != ours:
        raise StanadaptError(
            "wrong_network",
            f"the network was trained for {network.description.get('program', 'another program')} "
            f"(hash {theirs}), not for {target!r} (hash {ours}): train one for it.",
        )


def _untrained(target: Samplable) -> Network:
    return Network.untrained(dim=target.target.dim, auxiliary=2, widths=[[8], [8]], seed=1)


register_start(
    "network",
    StartOption(
        _with_network, used_by=lambda sampler: "network" in sampler.init_from, trial=_untrained
    ),
)
