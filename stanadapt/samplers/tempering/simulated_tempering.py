"""Simulated tempering for posteriors with many modes: one chain that wanders along temperatures.

The chain moves at one temperature at a time, on a ladder between a reference distribution and the
target; the next temperature is drawn given its position. Its visits to the target are the draws,
and an iteration consists of the moves between two of them. The reference, the ladder, the constants
and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Marinari and Parisi (1992), Simulated tempering: a new Monte Carlo scheme, Europhysics Letters 19.
Geyer and Thompson (1995), Annealing Markov chain Monte Carlo with applications to ancestral
inference, JASA 90. The kernel and its errors: the function `excursion` of this file. How the
constants are learned: `levels`. Warm-up: `warmup_rounds`. Deviation: the level is drawn from its
full conditional, not moved to a neighbor, which gives 1.5 to 3 times as many effective draws from
as many evaluations.
"""

from typing import Any, NamedTuple

from stanadapt.engine.compiled.jit import as_python, inline, jit
from stanadapt.engine.protocol import Preset
from stanadapt.engine.settings import CountOrZero, Numbers
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import ladder as ladders
from stanadapt.samplers.tempering import levels, moves, on_the_path, tours
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.levels import LEVEL
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


class Info(NamedTuple):
    # acceptance_rate, n_steps, diverging: mean acceptance rate of the moves without redraws from
    # the reference; leapfrogs (or steps) of all; whether a trajectory on the target ended in an
    # energy error above 1000, or the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    # n_moves, n_redraws: moves from one visit of the target to the next, and the number of redraws
    # from the reference among them
    n_moves: int
    n_redraws: int
    returned: bool  # whether the target was reached; otherwise the last draw is repeated
    round_trips: int  # 1 if the chain came back to the target from the hottest level
    levels: int  # number of temperatures


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
    info = excursion(walker, state.design.target_accept, learning, longest, rng)
    if info.returned:
        current = point_of(walker.replicas, 0, current.position)
    return current, info


@jit
def excursion(walkers, target_accept, learning, longest, rng):
    """Move the only row until it is at the coldest level, at most `longest` times.

    While `learning`, tune step sizes and normalizing constants. The positions at b = 1 are draws of
    the target, for any Zhat of `levels`: wrong constants only make visits uneven, and draws rarer.
    The mean of P(K | x) over that of P(1 | x), K being the coldest level and 1 the hottest, is the
    ratio of Z(1) / Zhat(1) to Z(0) / Zhat(0) (Rao-Blackwell in place of visits); its error is that
    of `tours`.
    """
    where, outcome = walkers.where[LEVEL], walkers.mover.numbers[0]
    coldest = walkers.ladder.size[0] - 1
    rates, n_moved, steps, made, trips, diverging = 0.0, 0, 0, 0, 0, False
    while True:
        level = where[0]
        moves.move(moves.TASK_LEVELS, walkers, 1, None, where, rng)
        made += 1
        if outcome[moves.STEPS] > 0.0:
            rates += outcome[moves.ACCEPTANCE_RATE]
            n_moved += 1
            steps += int(outcome[moves.STEPS])
            diverging = diverging or (level == coldest and moves.diverged(outcome))
            if learning:
                moves.tune_step(
                    walkers.ladder, level, walkers.visits[0, level], outcome, target_accept
                )
        trips += _choose_level(walkers, learning, rng)
        if where[0] == coldest or made >= longest:
            break
    return Info(
        rates / max(n_moved, 1), steps, diverging, made, made - n_moved, where[0] == coldest,
        trips, walkers.ladder.size[0],
    )  # fmt: skip


@inline
def _choose_level(walkers, learning, rng):
    """Draw the level given the position; returns 1 if that ends a round trip, otherwise 0."""
    coldest, sums = walkers.ladder.size[0] - 1, walkers.tours
    redrawn = walkers.mover.numbers[0, moves.STEPS] == 0.0
    if not learning and redrawn and moves.redraws(walkers):
        tours.end_tour(sums)
    levels.weigh_row(walkers, 0)
    levels.count_visits(walkers, learning)
    if learning:
        levels.learn_normalizers(walkers)
    else:
        sums[tours.COLD] += walkers.probabilities[0, coldest]
        sums[tours.HOT] += walkers.probabilities[0, 0]
    levels.draw_level(walkers, 0, rng)
    return levels.end_trip(walkers, 0) if walkers.where[LEVEL, 0] == coldest else 0


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep of the parallel tempering."""
    return Info(
        done.acceptance_rate, done.n_steps, done.diverging, done.levels, moves.redraws(tempering),
        True, done.round_trips, done.levels,
    )  # fmt: skip


def learned(state: on_the_path.State) -> dict[str, Any]:
    """Return ladder and reference, visits, and the log evidence with its error."""
    return levels.describe(state) | {
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
