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
from typing import Annotated, Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.protocol import Preset, Threading
from stanadapt.engine.settings import Between, CountOrZero, Numbers
from stanadapt.samplers.tempering import energy_rings, on_the_path, swaps
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.moves import MoveKernel, Options, with_worker
from stanadapt.samplers.tempering.settings import ReferenceFamily

LARGEST_RINGS = 1000


class Swaps(IntEnum):
    """Levels that swap: neighbors, by turns even and odd pairs; or two with states in one ring."""

    neighbors = 0
    energy_rings = 1


# for compiled code, in which members of an enumeration are not integers
ENERGY_RINGS = int(Swaps.energy_rings)


class Settings(NamedTuple):
    kernel: common.Kernel = MoveKernel.hmc
    leapfrogs: common.Leapfrogs = 0
    max_treedepth: common.TreeDepth = 6
    target_accept: common.TargetAccept = 0.0
    # number of temperatures, at least 2; 0: one more than twice the barrier that warm-up
    # learns
    levels: CountOrZero = 0
    inverse_temperatures: common.Ladder = Numbers()
    reference_family: common.Family = ReferenceFamily.gaussian
    inflation: common.Inflation = 0.0
    min_inverse_temperature: common.MinInverseTemperature = 0.0
    step_size: common.StepSize = 0.1
    # neighbors, or energy_rings: after warm-up, one pair of chains, not necessarily neighbors,
    # whose log densities are in the same ring
    swaps: Swaps = Swaps.neighbors
    # Number of energy rings, each with the same number of draws of warm-up. On twenty modes in
    # the plane 5, 8 and 12 were equally good; 1, 2 and 3 had larger errors.
    rings: Annotated[int, Between(1, LARGEST_RINGS, "[]")] = 5


Info = swaps.ParallelTemperingInfo
check = common.check


def design_of_path(
    settings: Settings, dim: int, learns_reference: bool
) -> tuple[Options, rounds.WarmupDesign]:
    """Return that of the path, on which the chains stay."""
    given = settings.inverse_temperatures
    return common.design_of_path(
        settings,
        dim,
        learns_reference,
        levels=len(given) or settings.levels,
        given=given,
    )


def make(path: Any, options: Any, settings: Settings, tempering: Any) -> energy_rings.EnergyRings:
    """Return the energy rings, without room if neighbors swap."""
    rings = settings.swaps == ENERGY_RINGS
    return energy_rings.no_rings(settings.rings, tempering.order.shape[1] if rings else 0)


def place(settings: Settings, state: on_the_path.State) -> None:
    """End the last round, and learn the energy rings: the chains stay on the path."""
    rounds.tune(state.tempering, state.design, 0)
    energy_rings.learn(state.engine)


@jit
def move(settings, state, learning, rng):
    """Move all chains, then swap neighbors, or two that share an energy ring."""
    tempering = state.tempering
    if settings.swaps == ENERGY_RINGS:
        info = energy_rings.sweep(tempering, state.engine, rng)
    else:
        info = swaps.sweep(tempering, state.design.target_accept, state.parity, learning, rng)
    return swaps.coldest_point(tempering, state.current.position), info


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep."""
    return done


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Keep what the energy rings are learned from."""
    energy_rings.keep(state.engine, state.tempering, t, iter_warmup)
    return state


@jit
def make_worker(density, settings, state):
    """Return the state for a worker thread, with its own density, and the queue of tasks."""
    tempering = with_worker(density, state.tempering)
    return replace(state, tempering=tempering), tempering.mover.queue


@jit
def run_task(settings, state, kind, slot):
    """Move one chain."""
    swaps.run_task(state.tempering, slot)


def learned(state: on_the_path.State) -> dict[str, Any]:
    """Return ladder and reference; rejection rates, constants and round trips of sampling."""
    tempering, rings = state.tempering, state.engine
    values = describe_path(tempering.path, tempering.ladder, tempering.short_chain_ends)
    statistics = tempering.statistics
    sweeps, count = max(int(statistics.counts[swaps.SWEEPS]), 1), len(values["temperature"])
    rejection = statistics.levels[: count - 1, swaps.REJECTION] / sweeps
    swaps.log_normalizers(statistics, tempering.ladder, values["log_normalizer"])
    values["rejection"] = rejection
    values["barrier"] = float(rejection.sum())
    if np.isfinite(values["log_evidence"]):
        values["log_evidence"] = float(values["log_normalizer"][-1])
    if rings.members.size > 0:
        values["ring_boundary"] = rings.boundaries.copy()
        values["without_pair"] = float(rings.without_pair[0]) / sweeps
    return values


on_the_path.register(
    __name__,
    path_share=1.0,  # to its end, since the chains stay on the path
    workspace=("members", "without_pair"),
    presets={
        "kou2006": Preset({
            "kernel": MoveKernel.random_walk, "reference_family": ReferenceFamily.power,
            "inverse_temperatures": (1.0, 1 / 2.8, 1 / 7.7, 1 / 21.6, 1 / 60.0),
            "step_size": 0.25,
        }),
    },
    threading=Threading(
        make_worker, run_task, max_threads=lambda settings: (
            len(settings.inverse_temperatures) or settings.levels or rounds.ROOM
        ),
    ),
)  # fmt: skip
