"""Parallel tempering (non-reversible) for posteriors with many modes, with the log evidence.

One chain samples at each inverse temperature between a reference distribution and the target;
neighbors swap. The reference, the spacing and number of the temperatures and all step sizes are
learned during warm-up. The draws are those of the coldest chain.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, JRSS B 84. Its parts, in `samplers/tempering`: `path`, `moves`,
`ladder`, `swaps`, `warmup_rounds`. preset=kou2006 has the temperatures and random walks of Kou,
Zhou and Wong (2006), Annals of Statistics 34, on powers of the density; the hottest one must have a
finite integral.

"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Numbers, Preset, Tempering, Threading
from stanadapt.engine.registry import register, require_at_least, require_at_most
from stanadapt.samplers.tempering import energy_rings
from stanadapt.samplers.tempering import swaps as engine
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import TemperingPath
from stanadapt.samplers.tempering.settings import (
    ReferenceFamily,
    add_common_settings,
    check_tempering,
    first_path,
    hottest_of,
    options_of,
    target_rate,
    warmup_design,
)

LARGEST_RINGS = 1000


class Swaps(IntEnum):
    """Levels that swap: neighbors, by turns even and odd pairs; or two with states in one ring."""

    neighbors = 0
    energy_rings = 1


# for compiled code, in which members of an enumeration are not integers
ENERGY_RINGS = int(Swaps.energy_rings)


# the docstring lists the settings that differ from `settings.COMMON`, which the decorator adds
@add_common_settings
class Settings(NamedTuple):
    """Settings of the sampler.

    levels
        Number of temperatures, at least 2; 0: one more than twice the barrier that warm-up learns.
    swaps
        neighbors, or energy_rings: after warm-up, one pair of chains, not necessarily neighbors,
        whose log densities are in the same ring.
    rings
        Number of energy rings, 1 to 1000, each with the same number of draws of warm-up. On twenty
        modes in the plane 5, 8 and 12 were equally good; 1, 2 and 3 had larger errors.

    """

    kernel: MoveKernel = MoveKernel.hmc
    leapfrogs: int = 0
    max_treedepth: int = 6
    target_accept: float = 0.0
    levels: int = 0
    inverse_temperatures: Numbers = Numbers()
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: float = 0.0
    min_inverse_temperature: float = 0.0
    step_size: float = 0.1
    swaps: Swaps = Swaps.neighbors
    rings: int = 5


class State(NamedTuple):
    """All chains and the tuning, updated in place; the coldest chain is `current`.

    parity
        Parity of the pairs that swap next: even (0) or odd (1).
    learning, learns_reference
        Whether warm-up is in progress; whether the reference is learned in it.
    rings
        The energy rings; without room if neighbors swap.

    """

    current: ValuePoint
    tempering: engine.Tempering
    parity: int
    learning: bool
    learns_reference: bool
    rings: energy_rings.EnergyRings


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate, swap_rate
        Mean acceptance rate of the moves over levels; that of the swaps over all pairs of neighbors
        or, with energy rings, of the one pair that was picked: 0 if no two states shared a ring.
    n_steps
        Leapfrogs (steps of the random walk) of all levels.
    diverging
        Whether the coldest chain's trajectory ended in an energy error above 1000, or the density
        failed.
    round_trips
        Number of chains that came back to the coldest level from the hottest.
    levels
        Number of temperatures.

    """

    acceptance_rate: float
    swap_rate: float
    n_steps: int
    diverging: bool
    round_trips: int
    levels: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    check_tempering(settings)
    require_at_least(settings, 1, "rings")
    require_at_most(settings, LARGEST_RINGS, "rings")


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start all chains at b = 1, the first at position, shape (dim,), the others at random."""
    return init_from_path(density, settings, position, rng, first_path(density, settings), True)


def init_from_path(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator,
    path: TemperingPath, learns_reference: bool,
) -> State:  # fmt: skip
    """As `init`, on a path with a given reference, which is not learned."""
    given = settings.inverse_temperatures
    tempering, current = rounds.begin(
        path, options_of(settings, density.dim), len(given) or settings.levels, settings.step_size,
        position, rng,
    )  # fmt: skip
    levels = tempering.order.shape[1] if settings.swaps == ENERGY_RINGS else 0
    return State(
        current=current,
        tempering=tempering,
        parity=0,
        learning=True,
        learns_reference=learns_reference,
        rings=energy_rings.no_rings(settings.rings, levels),
    )


@jit
def _design(settings, learns_reference):
    given = settings.inverse_temperatures
    levels = settings.levels if given.shape[0] == 0 else given.shape[0]
    return warmup_design(settings, levels, learns_reference, hottest_of(settings), given)


@jit
def step(density, settings, state, rng):
    """Move all chains, then swap neighbors, or, after warm-up, two that share an energy ring."""
    tempering, learning = state.tempering, state.learning
    if not learning and rounds.in_short_chains(tempering.ladder):  # there was no warm-up
        rounds.end_short_chains(tempering, _design(settings, state.learns_reference))
    if learning or settings.swaps != ENERGY_RINGS:
        done = engine.sweep(tempering, target_rate(settings), state.parity, learning, rng)
    else:
        done = energy_rings.sweep(tempering, state.rings, rng)
    info = Info(
        acceptance_rate=done.acceptance_rate,
        swap_rate=done.swap_rate,
        n_steps=done.steps,
        diverging=done.diverging,
        round_trips=done.round_trips,
        levels=tempering.ladder.size[0],
    )
    current = engine.coldest_point(tempering, state.current.position)
    return replace(state, current=current, parity=1 - state.parity), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune at the end of a round; in the last one, learn the energy rings."""
    energy_rings.learn(state.rings, state.tempering, t, iter_warmup)
    design = _design(settings, state.learns_reference)
    rounds.after_sweep(state.tempering, design, t, iter_warmup)
    current = engine.coldest_point(state.tempering, state.current.position)
    return replace(state, current=current)


def freeze(settings: Settings, state: State) -> State:
    """Stop tuning."""
    return state._replace(learning=False)


@jit
def make_worker(density, settings, state):
    """Return the state for a worker thread, with its own density, and the queue of tasks."""
    tempering = engine.tempering_of_worker(density, state.tempering)
    return replace(state, tempering=tempering), tempering.mover.queue


@jit
def run_task(settings, state, kind, slot):
    """Move one chain."""
    engine.run_task(state.tempering, slot)


def learned(state: State) -> dict:
    """Return ladder and reference; rejection rates, constants and round trips of sampling."""
    tempering = state.tempering
    values = describe_path(tempering.path, tempering.ladder, tempering.short_chain_ends)
    statistics = tempering.statistics
    sweeps, count = max(int(statistics.counts[engine.SWEEPS]), 1), len(values["temperature"])
    rejection = statistics.levels[: count - 1, engine.REJECTION] / sweeps
    engine.log_normalizers(statistics, tempering.ladder, values["log_normalizer"])
    values["rejection"] = rejection
    values["barrier"] = float(rejection.sum())
    if np.isfinite(values["log_evidence"]):
        values["log_evidence"] = float(values["log_normalizer"][-1])
    if state.rings.members.size > 0:
        values["ring_boundary"] = state.rings.boundaries.copy()
        values["without_pair"] = float(state.rings.without_pair[0]) / sweeps
    return values


register(
    __name__,
    workspace=(
        "tempering.replicas", "tempering.order", "tempering.statistics", "tempering.mover",
        "tempering.path.target", "tempering.path.reference.work", "parity", "rings.members",
        "rings.without_pair",
    ),
    iter_warmup=3_000, iter_sampling=5_000,
    uses_gradient=lambda settings: settings.kernel != MoveKernel.random_walk,
    standardize="no", tempering=Tempering(init_from_path, learned),
    threading=Threading(
        make_worker, run_task, max_threads=lambda settings: (
            len(settings.inverse_temperatures) or settings.levels or rounds.ROOM
        ),
    ),
    in_place_except=(),
    presets={
        "kou2006": Preset(
            {
                "kernel": MoveKernel.random_walk, "reference_family": ReferenceFamily.power,
                "inverse_temperatures": (1.0, 1 / 2.8, 1 / 7.7, 1 / 21.6, 1 / 60.0),
                "step_size": 0.25,
            }
        ),
    },
)  # fmt: skip
