"""Proposals from a neural network trained beforehand: for modes that lie far apart.

A network maps a position, together with auxiliary noise, to another position, and back. If it is
trained well, it jumps from mode to mode, and draws are nearly independent; an iteration costs one
density value and no gradient. Random-walk moves between the jumps reach regions that the network
does not reach. Without `network=`, the network has random weights: the draws are exact, but hardly
better than those of a random walk.

References
----------
Song, Zhao and Ermon (2017), A-NICE-MC: Adversarial Training for MCMC, NIPS. In each iteration
v ~ N(0, I) is drawn, and a fair coin proposes f(x, v) or its inverse, accepted with probability
min(1, p(x') N(v') / (p(x) N(v))): f preserves volume. Deviations: the coin is tossed by each chain,
not for all together; local moves are mixed in, since nothing makes the chain of f irreducible;
x is standardized before f. preset=song2017 leaves the local moves out after warm-up: from starts in
the tails hardly a proposal of f is accepted.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Preset, Sampler
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Count, CountOrZero, Fraction, Probability
from stanadapt.engine.starts import ChainInit, StartOption, register_start
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.samplers.nice import additive_couplings
from stanadapt.samplers.nice.additive_couplings import CompiledNetwork, Workspace
from stanadapt.samplers.nice.network import Network
from stanadapt.targets.target import Samplable

LOCAL_RATE = 0.05  # relative change of the scale of local moves per local move
# least share of local moves in warm-up: where a network was not trained, these alone move
WARMUP_SHARE = 0.2


class Settings(NamedTuple):
    # share of random-walk moves, at least 0.2 in warm-up; with 0, a chain may never reach a part of
    # the posterior
    local_share: Fraction = 0.2
    # acceptance rate of random-walk moves, to which their scale is tuned
    local_target: Probability = 0.234
    # number of hidden units in each coupling of the random network, if no network is given
    width: Count = 32
    # seed of the weights of this random network, the same for all chains
    network_seed: CountOrZero = 0


class State(NamedTuple):
    """The current point, the rejected one, the network, and the scale of local moves."""

    current: points.ValuePoint
    scratch: points.ValuePoint
    network: CompiledNetwork
    local_share: float
    local_scale: float
    work: Workspace


class Info(NamedTuple):
    """Statistics of one iteration; `local` is whether a random-walk move was tried."""

    acceptance_rate: float
    accepted: bool
    local: bool
    local_scale: float


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,), with a network of random weights."""
    network = additive_couplings.untrained(density.dim, settings.width, settings.network_seed)
    return init_from_network(density, settings, position, rng, network)


@jit
def init_from_network(density, settings, position, rng, network):
    """Start at position, shape (size,), with a given network."""
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        network=network,
        local_share=max(settings.local_share, WARMUP_SHARE),
        local_scale=points.RANDOM_WALK_SCALE / np.sqrt(density.dim),
        work=additive_couplings.workspace(network),
    )


@jit
def step(density, settings, state, rng):
    """Propose f(x, v), its inverse, or x + s L eps; accept or reject."""
    x, y, network, work = state.current, state.scratch, state.network, state.work
    n, log_ratio = density.dim, 0.0
    local = rng.random() < state.local_share
    if local:
        fill_normal(rng, work.z)
        triangular.times(network.factor, work.z, y.position[:n])
        for i in range(n):
            y.position[i] = x.position[i] + state.local_scale * y.position[i]
    else:
        fill_normal(rng, work.v)
        log_ratio += 0.5 * squared_norm(work.v)
        additive_couplings.standardize(network, x.position, work.z)
        additive_couplings.apply(network, rng.random() < 0.5, work)
        additive_couplings.restore(network, work.z, y.position)
        log_ratio -= 0.5 * squared_norm(work.v)
    proposal = points.proposed(density, x, y, rng)
    rate = points.acceptance_probability(log_ratio + proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(acceptance_rate=rate, accepted=accepted, local=local, local_scale=state.local_scale)
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune the scale of local moves; the network does not change."""
    if not info.local:
        return state
    scale = rescaled(
        state.local_scale, info.acceptance_rate, settings.local_target, LOCAL_RATE, t, iter_warmup
    )
    return replace(state, local_scale=scale)


def freeze(settings: Settings, state: State) -> State:
    """Make local moves as often as the settings ask for."""
    return state._replace(local_share=float(settings.local_share))


# --- chains that begin with a trained network: the keyword `network` of `sample` ------------------


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
        return init_from_network(density, settings, position, rng, compiled)

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


register(
    __name__,
    uses_gradient=False,
    init_from={"network": init_from_network},
    workspace=("work",),
    standardize="diagonal",  # keeps the dispersion of the starts: there may be many modes
    # moves of the network alone; its width holds if no network is given
    presets={"song2017": Preset({"local_share": 0.0, "width": 400})},
)  # fmt: skip
register_start(
    "network",
    StartOption(
        _with_network, used_by=lambda sampler: "network" in sampler.init_from, trial=_untrained
    ),
)
