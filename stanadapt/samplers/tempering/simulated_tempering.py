"""Simulated tempering for posteriors with many modes: one chain that wanders along temperatures.

The chain moves at one temperature at a time, on a ladder between a reference distribution and the
target; the next temperature is drawn given its position. Its visits to the target are the draws,
and an iteration consists of the moves between two of them. The reference, the ladder, the constants
and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Marinari and Parisi (1992), Simulated tempering: a new Monte Carlo scheme, Europhysics Letters 19.
Geyer and Thompson (1995), Annealing Markov chain Monte Carlo with applications to ancestral
inference, JASA 90. The kernel, its errors, and how the constants are learned: `levels`.
Warm-up: `warmup_rounds`. Deviation: the level is drawn from its full conditional, not moved to a
neighbor, which gives 1.5 to 3 times as many effective draws from as many evaluations.
"""

from typing import Any, NamedTuple

from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.protocol import Preset
from stanadapt.engine.settings import CountOrZero, Numbers
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import ladder as ladders
from stanadapt.samplers.tempering import levels, on_the_path, tours
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_levels
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import point_of
from stanadapt.samplers.tempering.settings import EQUAL_STEPS, ReferenceFamily

# largest number of moves of an excursion per level
MOVES_PER_LEVEL = 1000


class Settings(NamedTuple):
    kernel: common.Kernel = MoveKernel.hmc
    leapfrogs: common.Leapfrogs = 0
    max_treedepth: common.TreeDepth = 6
    target_accept: common.TargetAccept = 0.0
    # Number of temperatures, at least 2; 0: two and a half times the barrier, but at least 16.
    # An iteration takes about this number of moves.
    levels: CountOrZero = 0
    inverse_temperatures: common.Ladder = Numbers()
    # Largest number of moves in an iteration; 0: 1000 per temperature. If the chain has not
    # returned to the target by then, the last draw is repeated, and the next iteration
    # continues from the current position.
    longest_excursion: CountOrZero = 0
    reference_family: common.Family = ReferenceFamily.gaussian
    inflation: common.Inflation = 0.0
    min_inverse_temperature: common.MinInverseTemperature = 0.0
    step_size: common.StepSize = 0.1


Info = levels.SimulatedTemperingInfo
check = common.check


def make(path: Any, options: Any, settings: Settings, tempering: Any) -> levels.Walkers:
    """Return the chain, without a position."""
    room = max(settings.levels, len(settings.inverse_temperatures))
    ladder = rounds.no_finer_ladder(room, path.target.dim)
    # without workers the chain's own thread makes every move
    return levels.no_walkers(path, options, ladder, 1, levels.NO_INDEX, as_python(no_queue)())


def place(settings: Settings, state: on_the_path.State) -> None:
    """Put the chain at the target, on a finer ladder or the given one."""
    walker, tempering = state.engine, state.tempering
    barrier = rounds.conclude(tempering, state.design)
    if len(settings.inverse_temperatures):
        ladders.place(tempering.ladder, walker.ladder, settings.inverse_temperatures)
    else:
        rounds.set_finer_ladder(tempering, barrier, settings.levels, walker.ladder)
    levels.place(walker, tempering)


@jit
def move(settings, state, learning, rng):
    """Move until the target is reached again."""
    walker, longest, current = state.engine, settings.longest_excursion, state.current
    if longest == 0:
        longest = MOVES_PER_LEVEL * walker.ladder.size[0]
    info = levels.excursion(walker, state.design.target_accept, learning, longest, rng)
    if info.returned:
        current = point_of(walker.replicas, 0, current.position)
    return current, info


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep of the parallel tempering."""
    redraws = int(levels.regenerates(tempering.path, tempering.ladder))
    return Info(
        done.acceptance_rate, done.n_steps, done.diverging, done.levels, redraws, True,
        done.round_trips, done.levels,
    )  # fmt: skip


def learned(state: on_the_path.State) -> dict[str, Any]:
    """Return ladder and reference, visits, and the log evidence with its error."""
    return describe_levels(state) | {
        "log_evidence_error": tours.log_ratio_error(state.engine.tours)
    }


on_the_path.register(
    __name__,
    workspace=(*levels.WORKSPACE, "tours"),
    presets={
        "nemeth2019": Preset({
            "inverse_temperatures": EQUAL_STEPS, "kernel": MoveKernel.hmc, "leapfrogs": 20,
            "step_size": 0.5,
        }),
    },
)  # fmt: skip
