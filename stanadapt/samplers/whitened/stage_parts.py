"""What the stages of the default sampler's warm-up share: memory, lengths, and set-ups of blocks.

The functions of a stage have the arguments and results of `engine.warmup.Stage`. Names of stages
are those of the table in `schedule`, which describes them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import adaptation, metric_factor
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.triangular_map import with_memory
from stanadapt.engine.warmup import Change, Progress, Result, States
from stanadapt.samplers.whitened import around_gaussian
from stanadapt.samplers.whitened.choose_metric import (
    LATER,
    choose_metric,
    draws_of,
    metric_outside,
)
from stanadapt.samplers.whitened.choose_trajectory import UNDECIDED, Choice
from stanadapt.samplers.whitened.climb import Climb, no_climb
from stanadapt.samplers.whitened.fisher_metric import (
    MANY,
    FisherMetric,
    Metric,
    diagonal_metric,
    use_standard_deviations,
)
from stanadapt.samplers.whitened.straightened import UNCHANGED, Straightened, in_coordinates_of
from stanadapt.samplers.whitened.window import MANY_CHAINS, Record, Window, make_room, make_window

FIRST_WINDOW, CLIMB, TRAVEL, SURVEY = "first window", "climb", "travel", "survey"
EARLIER, EARLIER_BLOCK = "earlier", "earlier block"
SPAN = "span"
FIRST_METRIC, FIND_STEP, METRIC = "first metric", "find step", "metric"
STRAIGHTEN, JUDGE_MAP = "straighten", "judge map"
TUNE_STEP, TWO_STEPS, PILOT = "tune step", "two steps", "pilot"
NUTS_METRIC, NUTS_STEP, NUTS_PILOT, REST = "nuts metric", "nuts step", "nuts pilot", "rest"
AGAIN = "shorter steps"

# iterations that four chains usually need at most: with a lower ceiling blocks are shorter
USUAL_LENGTH = 500
# iterations reserved for the last stage if iter_warmup cuts the others short; shortest other block
LAST, LAST_SHARE, SHORTEST = 50, 4, 4
# the shortest blocks with more than MANY_CHAINS, relative to those with four
LEAST_STRETCH = 1 / 8
# lengths of windows for the metric on which trajectories have fixed length
METRIC_WINDOWS = (30, 60)
# largest first step of a search for the step size of fixed trajectories
FIRST_STEP = 1.2
# dual averaging of NUTS and of two-stage steps is centered at these multiples of the first step;
# that of NUTS far away is centered higher
NUTS_CENTER, FAR_CENTER, TWO_STAGE_CENTER = 2.0, 10.0, 1.3


# --- memory ---------------------------------------------------------------------------------------


class Alone(NamedTuple):
    """What one chain does in the next block, unlike the others."""

    factor: np.ndarray | None = None  # separate metric
    climb: Climb | None = None  # climb, or return to its start, before its first iteration


def back_to(position: np.ndarray) -> Alone:
    """Let a chain return to a position, shape (n,), before its next iteration, without a climb."""
    # a copy: checkpoints refuse arrays that share memory
    return Alone(climb=no_climb()._replace(begin=position.copy()))


class Travel(NamedTuple):
    """Memory of the stages on the way to the typical set."""

    windows: int = 0  # of TRAVEL
    quiet: int = 0  # the last of these in which chains were not clearly moving
    rounds: int = 0  # of CLIMB
    returned: int = 0  # returns of a chain to its start
    spanned: bool = False  # whether SPAN is over
    span_level: float = np.nan  # mean log density in the first SPAN, until there is a second one
    searched: bool = False  # whether chains were asked to climb from further starts
    # moves of a chain to the end of a climb from a further start, and how many ended there, with
    # chains that had been there
    moved: int = 0
    reached: int = 0


class Fixed(NamedTuple):
    """Memory of the stages that try fixed trajectories: FIND_STEP, METRIC, TUNE_STEP and PILOT."""

    step_size: float
    n_steps: int
    target_accept: float
    windows: tuple[int, ...] = METRIC_WINDOWS  # lengths of those of METRIC
    done: int = 0  # number of these that are over
    piloted: np.ndarray = np.empty(0)  # acceptance probabilities in the first part of a pilot


class Nuts(NamedTuple):
    """Memory of the stages of NUTS."""

    windows: tuple[int, ...] = ()  # lengths of those of NUTS_METRIC
    # share of trajectories that diverged within the support in its last window for metric or map
    steep_share: float = 0.0
    shortened: bool = False  # whether steps are shorter, since trajectories diverged in its pilot
    target_accept: float = 0.0  # acceptance rate that it is tuned to, if above that of the settings


class Reviewed(NamedTuple):
    """How draws were made that were thrown away, in case that they are the result after all."""

    choice: Choice
    nuts: Nuts


class Earlier(NamedTuple):
    """Log densities of draws of an earlier fit, and their metric for NUTS, if there is no map.

    While a block is looked for, `records` are the draws of each chain with their gradients.
    """

    mean: float
    lowest: float
    highest: float
    metric: FisherMetric | None
    records: tuple[Record, ...] = ()


class Learned(NamedTuple):
    """What the stages exchange."""

    metric: FisherMetric
    location: np.ndarray  # mean of the draws that the metric was learned from, shape (dim,)
    stretch: float  # factor of the lengths of blocks for few chains
    fixed: Fixed
    travel: Travel = Travel()
    nuts: Nuts = Nuts()
    straightened: Straightened = UNCHANGED  # the map, and the distances from a Gaussian
    attempts: int = 0  # searches for a map that were made without one
    # of many parameters: the share of squared forces that a Gaussian with this metric leaves
    rest: float = np.inf
    linear: bool = False  # whether gradients are, of many parameters, where bounded ones stay
    block_sought: bool = False  # whether a Gaussian block was searched for
    probes_seek_block: bool = False  # whether the gradients that are due are to show one
    loadings: np.ndarray = np.empty(0, int)  # coordinates without bounds that are its hubs, too
    # places and gradients that show a process, if no block of its states was near enough a Gaussian
    # while chains traveled
    process: np.ndarray = np.empty((0, 2, 0))
    settled: bool = False  # whether TRAVEL ended because the log density had settled
    # of the draws of an earlier fit from which metric and map were first learned
    earlier: Earlier | None = None
    divergences: int = 0  # in the last window of METRIC, or while a map was judged
    choice: Choice = UNDECIDED  # the kernel, and the reason for it
    reviewed: Reviewed | None = None
    unbounded: np.ndarray = np.empty(0, int)  # coordinates that drifted in the last NUTS_METRIC
    alone: tuple[Alone | None, ...] = ()  # by chain, until the next block is set up

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.location)

    @property
    def members_aside(self) -> np.ndarray:
        """Members of a Gaussian block of which nothing more is learned."""
        return self.straightened.members_aside(self.dim)


def anew(settings: Any, learned: Learned, **changes: Any) -> Learned:
    """Return the memory for a warm-up that begins again, in the coordinates of the same block.

    What is known of climbs and searches remains.
    """
    found, travel = learned.straightened, learned.travel
    return Learned(
        metric=learned.metric, location=learned.location, stretch=learned.stretch,
        fixed=Fixed(FIRST_STEP, 1, settings.target_accept),
        travel=travel._replace(windows=0, quiet=0, spanned=False, span_level=np.nan),
        straightened=found.without_map() if found.block_is_used else UNCHANGED,
        attempts=learned.attempts, block_sought=learned.block_sought,
    )._replace(**changes)  # fmt: skip


class Chains(NamedTuple):
    """What is known of each chain; arrays with a row for each."""

    starts: np.ndarray  # shape (chain, dim)
    level: np.ndarray  # mean log density in the last window of TRAVEL, or so far, shape (chain,)
    # whether it has returned to its start from a lower level than that of others, shape (chain,)
    restarted: np.ndarray


def window_of(progress: Progress, states: States) -> Window:
    """Return the block of all chains, in the coordinates of the map."""
    return in_coordinates_of(progress.learned.straightened.straightening, make_window(states))


def with_levels_of(progress: Progress, window: Window) -> Progress:
    """Keep the mean log density of each chain."""
    level = window.log_density.mean(axis=1)
    return progress._replace(chains=progress.chains._replace(level=level))


def learn_metric(
    settings: Any,
    progress: Progress,
    whole: Window,
    handicap: float = LATER,
    left_out: np.ndarray | None = None,
    *,
    nuts_follows: bool = False,
) -> Progress:
    """Learn location and metric from a window, or scales alone if the settings ask for them.

    The factor by which earlier knowledge must be better is `handicap`. Chains that are left out
    count for the location only.
    """
    window = whole.within_modes
    former, chains = progress.learned.metric, draws_of(window, left_out)
    members = progress.learned.members_aside
    if settings.metric == Metric.automatic and not len(members):
        metric = choose_metric(former, chains, handicap)
    elif settings.metric == Metric.automatic and progress.learned.dim > MANY:
        metric = metric_outside(former, chains, members, handicap)
    else:
        positions, gradients = (np.concatenate(arrays) for arrays in zip(*chains, strict=True))
        metric = diagonal_metric(positions, gradients, former.scales)
        metric.factor[0, members] = 1.0
    location, slope = (rows.mean(axis=0) for rows in window.pooled)
    if len(location) > MANY or len(members):
        # of a Gaussian, x + L L^T g is the mean at every draw
        factor = metric_factor.products(metric.factor, len(location))
        location = location + factor.times(factor.transposed_times(slope))
    if nuts_follows:
        metric = metric_for_nuts(metric, window)
        metric.factor[0, members] = 1.0
    learned = progress.learned._replace(metric=metric, location=location)
    # between separate modes is no Gaussian for NUTS to move around
    rest = around_gaussian.unexplained(metric, location, whole if nuts_follows else window)
    return progress._replace(learned=learned._replace(rest=rest))


def metric_for_nuts(metric: FisherMetric, window: Window) -> FisherMetric:
    """Return a metric of a window for NUTS.

    If curvature varies, gradients are large in narrow regions, and scales learned from them small;
    NUTS then crosses the wide regions slowly.
    """
    diagonal = metric.kind == "diagonal"
    return use_standard_deviations(metric, window.pooled[0]) if diagonal else metric


def own_scales(states: States, window: Window, former: list[np.ndarray]) -> list[np.ndarray]:
    """Return a factor for each chain with scales from its own draws.

    former are the factors used for these draws.
    """
    found = []
    for state, positions, gradients, factor in zip(
        states, window.positions, window.gradients, former, strict=True
    ):
        scales = metric_factor.scales(factor, len(state.current.position))
        found.append(diagonal_metric(positions, gradients, scales).factor)
    return found


# --- lengths of blocks ----------------------------------------------------------------------------

Length = Callable[[Any, Progress], int]


def shrunk(length: float, progress: Progress) -> int:
    """Return a length, shorter if iter_warmup is low."""
    shrink = progress.ceiling / (USUAL_LENGTH * progress.learned.stretch)
    return round(length * min(1.0, max(shrink, 0.1)))


def stretch_for(chains: int) -> float:
    """Return the factor of the lengths of blocks: many chains together fill them sooner."""
    return max(1.0, 4.0 / chains) if chains <= MANY_CHAINS else max(LEAST_STRETCH, 4.0 / chains)


def fitting(
    length: int | Callable[[Progress], int], *, stretched: bool = True, least: float = 0.0
) -> Length:
    """Return a function for the length of a block, or for 0 if the last stage has to begin.

    Lengths are those for four chains; with fewer chains, blocks are longer if `stretched`, and with
    many shorter, by a factor of at least `least`.
    """

    def block(settings: Any, progress: Progress) -> int:
        usual = length(progress) if callable(length) else length
        stretch = max(progress.learned.stretch, least)
        stretch = stretch if stretched else min(stretch, 1.0)
        block = max(shrunk(usual * stretch, progress), SHORTEST)
        reserved = max(min(LAST, progress.ceiling // LAST_SHARE), 1)
        return block if block <= progress.left - reserved else 0

    return block


# --- set-ups of blocks ----------------------------------------------------------------------------


def nuts_block(
    depth: int | Callable[[Progress], int] | None = None, center: float = NUTS_CENTER
) -> Change:
    """Return a function that sets up NUTS: each chain searches for its step size, and tunes it.

    `depth` is the largest depth of trees, by default that of the settings. Trajectories of many
    parameters move around the Gaussian that was learned, if most of the force is that of it.
    """

    def set_up(settings: Any, progress: Progress, states: States) -> Result:
        most = depth(progress) if callable(depth) else depth
        target = max(settings.nuts_target_accept, progress.learned.nuts.target_accept)
        alone = progress.learned.alone or (None,) * len(states)
        explained = progress.learned.rest < around_gaussian.MOST_UNEXPLAINED
        around = progress.learned.settled and explained and not any(alone)
        target = max(target, around_gaussian.TARGET) if around else target
        factor = metric_factor.twofold(progress.learned.metric.factor)
        prepared = [
            _differing(own, _prepare(
                state, progress, factor, two_stage=False, learns_step=True, search=center,
                max_treedepth=min(most or len(state.tree.stack), len(state.tree.stack)),
                nuts_target_accept=target,
            ))
            for state, own in zip(states, alone, strict=True)
        ]  # fmt: skip
        if around:
            prepared = _around(progress.learned, prepared)
        return progress.learning(alone=()), prepared

    return set_up


def two_stage_block(*, learns: bool) -> Change:
    """Return a function that sets up two-stage trajectories with the steps in `Fixed`."""

    def set_up(settings: Any, progress: Progress, states: States) -> Result:
        fixed = progress.learned.fixed
        averaging = as_python(adaptation.centered)(fixed.step_size, TWO_STAGE_CENTER)
        factor = metric_factor.twofold(progress.learned.metric.factor)
        prepared = [
            _prepare(
                state, progress, factor, two_stage=True, learns_step=learns,
                step_size=fixed.step_size, n_steps=fixed.n_steps, averaging=averaging, search=0.0,
            )
            for state in states
        ]  # fmt: skip
        return progress, _around(progress.learned, prepared)

    return set_up


def _prepare(state: Any, progress: Progress, factor: np.ndarray, **tuning: Any) -> Any:
    """Give a chain the metric that all share, its tuning, and room for the block."""
    learned = progress.learned
    leapfrog = state.leapfrog._replace(factor=factor)
    straightening = with_memory(learned.straightened.straightening, len(state.current.position))
    around = around_gaussian.nowhere(learned.dim, len(learned.members_aside) > 0)
    return make_room(state, progress.block)._replace(
        leapfrog=leapfrog, straightening=straightening, around=around,
        tuning=state.tuning._replace(force_known=False, **tuning),
    )  # fmt: skip


def _around(learned: Learned, states: States) -> States:
    found = learned.metric, learned.location, learned.straightened
    return [around_gaussian.around_mean(*found, state) for state in states]


def _differing(own: Alone | None, state: Any) -> Any:
    """Let a chain do its own work."""
    if own is None:
        return state
    if own.factor is not None:
        state = state._replace(leapfrog=state.leapfrog._replace(factor=own.factor))
    return state if own.climb is None else state._replace(climb=own.climb)
