"""Adaptive Metropolis with a covariance that all chains learn together, in a few warm-up blocks.

For posteriors without a usable gradient, of moderate dimension and any scales. Chains first move
one parameter at a time, each with its own scale, until the log density has settled. Then they move
all parameters together; the proposals have the covariance of the draws of all chains in blocks of
increasing length.

References
----------
One parameter at a time: Roberts and Rosenthal (2009), Examples of adaptive MCMC, section 3. All
together: Haario, Saksman and Tamminen (2001), Bernoulli 7(2), see `am`; pooled over chains as in
Craiu, Rosenthal and Yang (2009), JASA 104. Blocks, lengths and shrinkage are ours. After warm-up
nothing adapts.

The draws of a chain depend on the number of chains, since they learn together.

Stages of warm-up:

- SWEEPS: blocks in which each parameter moves alone, with its own scale that is tuned throughout,
  until the log density has settled; chains pool the logarithms of the scales.
- WALK: blocks of increasing length in which all parameters move together, by the covariance of the
  draws of all chains in the last block.
- TUNE: only the size of the moves is tuned; chains then pool it.

The covariance of few, correlated draws is noise in many dimensions: its correlations are shrunk by
a weight that counts one effective draw per AUTOCORRELATION * dim iterations.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy, fill_normal
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Probability
from stanadapt.engine.warmup import END, Progress, Result, Stage, States, Warmup, all_left
from stanadapt.samplers.whitened.fisher_metric import FisherMetric, scales_alone
from stanadapt.samplers.whitened.window import (
    ACCEPTANCE,
    LOG_DENSITY,
    Record,
    make_room,
    make_window,
    no_record,
)

# Log scales of single moves change by SINGLE_GAIN times the excess of the acceptance rate; that of
# joint moves by the excess divided by a power GAIN_POWER of the iteration within the block.
SINGLE_GAIN, SINGLE_TARGET, GAIN_POWER = 0.7, 0.44, 0.6
# sweeps in a block, largest number of blocks, and their largest share of warm-up
MOST_SWEEPS, MOST_BLOCKS, SWEEP_SHARE = 10, 30, 0.5
# relative lengths of the blocks of WALK, and of TUNE, which share the rest of warm-up
WALKS = (1, 2, 4, 8, 12)
TUNES = 5
AUTOCORRELATION, LARGEST_DENSE = 7.0, 200
# scale of single moves at an acceptance rate of 0.44, over the conditional standard deviation
SINGLE_OVER_SD = 2.4


class Settings(NamedTuple):
    # acceptance rate to which the scale of the proposals is tuned
    target_accept: Probability = 0.25
    # learn only scales: O(dim) instead of O(dim^2) operations per iteration, but no
    # correlations
    diagonal: bool = False


class State(NamedTuple):
    """The current point, the rejected one, the tuning of moves, and the record of the block."""

    current: points.ValuePoint
    scratch: points.ValuePoint
    noise: np.ndarray
    # single, coordinate, scales: whether one parameter moves at a time; the next one to move; their
    # scales, shape (dim,), updated in place
    single: bool
    coordinate: int
    scales: np.ndarray
    # scale, factor: joint moves are N(x, scale^2 L L^T), with L of shape (dim, dim) or (1, dim)
    scale: float
    factor: np.ndarray
    t: int  # number of iterations in this block
    record: Record


class Info(NamedTuple):
    """Statistics of one iteration; `step_size` is the scale of joint moves, 0 for single moves."""

    acceptance_rate: float
    accepted: bool
    step_size: float


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,)."""
    n = density.dim
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        noise=np.empty(n),
        single=False,
        coordinate=0,
        scales=np.ones(n),
        scale=points.RANDOM_WALK_SCALE / np.sqrt(n),
        factor=factors.initial(n, 1.0, True),
        t=0,
        record=no_record(n),
    )


@jit
def step(density, settings, state, rng):
    """Propose a move of one parameter or of all, and accept or reject it."""
    x, y, n = state.current, state.scratch, density.dim
    if state.single:
        k = state.coordinate
        copy(x.position, y.position)
        y.position[k] += state.scales[k] * rng.standard_normal()
    else:
        fill_normal(rng, state.noise)
        factors.times(state.factor, state.noise, y.position[:n])
        for i in range(n):
            y.position[i] = x.position[i] + state.scale * y.position[i]
    proposal = points.proposed(density, x, y, rng)
    rate = points.acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate, accepted=accepted, step_size=0.0 if state.single else state.scale
    )  # fmt: skip
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Adjust the scale of moves, and record the draws that the chains are to learn from."""
    n, k, scale, record = density.dim, state.coordinate, state.scale, state.record
    if state.single:
        state.scales[k] *= np.exp(SINGLE_GAIN * (info.acceptance_rate - SINGLE_TARGET))
        k = (k + 1) % n
    else:
        excess = info.acceptance_rate - settings.target_accept
        scale *= np.exp(excess / (1.0 + state.t) ** GAIN_POWER)
    row = record.rows[0]
    # with single moves, one row is recorded per sweep
    if k == 0 and row < record.positions.shape[0]:
        copy(state.current.position, record.positions[row])
        record.numbers[row, ACCEPTANCE] = info.acceptance_rate
        record.numbers[row, LOG_DENSITY] = state.current.log_density
        record.rows[0] = row + 1
    return replace(state, coordinate=k, scale=scale, t=state.t + 1)


# --- stages of warm-up ----------------------------------------------------------------------------

SWEEPS, WALK, TUNE = "sweeps", "walk", "tune"


class Learned(NamedTuple):
    """What the stages exchange."""

    metric: FisherMetric
    location: np.ndarray  # mean of the draws that the metric was learned from
    left: int  # iterations that WALK and TUNE share
    settled: bool = False  # whether SWEEPS ended because the log density had settled


class Chains(NamedTuple):
    """What is known of each chain."""

    level: np.ndarray  # mean log density in the last block of SWEEPS, shape (chain,)


def begin(settings: Settings, progress: Progress, states: States) -> Result:
    """Begin with scales of 1."""
    dim = len(states[0].scales)
    location = np.mean([state.current.position[:dim] for state in states], axis=0)
    learned = Learned(scales_alone(np.ones(dim)), location, progress.ceiling)
    chains = Chains(np.full(len(states), np.nan))
    return progress._replace(learned=learned, chains=chains), states


def sweeps_length(settings: Settings, progress: Progress) -> int:
    """Return the length of a block of whole sweeps; 0 once the share of sweeps is used up."""
    dim, most = len(progress.learned.location), SWEEP_SHARE * progress.ceiling
    length = int(np.clip(most / (2 * dim), 1, MOST_SWEEPS)) * dim
    over = progress.used + length > most or progress.window == MOST_BLOCKS
    return 0 if over else length


def set_up_sweeps(settings: Settings, progress: Progress, states: States) -> Result:
    """Let each parameter move alone."""
    sweeps = progress.block // len(progress.learned.location)
    return progress, [
        make_room(state, sweeps)._replace(single=True, coordinate=0, t=0) for state in states
    ]


def learn_scales(settings: Settings, progress: Progress, states: States) -> Result:
    """Pool the scales of single moves, until the log density has settled."""
    window = make_window(states)
    scales = np.exp(np.mean([np.log(state.scales) for state in states], axis=0))
    settled = window.settled(progress.chains.level)
    progress = progress.to(
        WALK if settled else SWEEPS, metric=scales_alone(scales / SINGLE_OVER_SD),
        location=window.pooled[0].mean(axis=0), left=progress.left, settled=settled,
    )  # fmt: skip
    return progress._replace(chains=Chains(window.log_density.mean(axis=1))), states


def walk_length(settings: Settings, progress: Progress) -> int:
    """Return the length of the next block of WALK."""
    part = progress.learned.left / (sum(WALKS) + TUNES)
    return max(int(part * WALKS[progress.window]), 1)


def set_up_walk(settings: Settings, progress: Progress, states: States) -> Result:
    """Let all parameters move together; draws are recorded if they are learned from."""
    factor, dim = np.ascontiguousarray(progress.learned.metric.factor), len(states[0].scales)
    scale, room = (
        points.RANDOM_WALK_SCALE / np.sqrt(dim),
        progress.block if progress.stage == WALK else 0,
    )
    return progress, [
        make_room(state, room)._replace(
            single=False, coordinate=0, t=0, scale=scale, factor=factor.copy()
        )
        for state in states
    ]


def learn_covariance(settings: Settings, progress: Progress, states: States) -> Result:
    """Learn the covariance of proposals from the draws of all chains."""
    positions, dim = make_window(states).pooled[0], len(progress.learned.location)
    location, former = positions.mean(axis=0), progress.learned.metric.scales
    spread = positions.std(axis=0)
    scales = np.where(np.isfinite(spread) & (spread > 0.0), spread, former)
    metric = scales_alone(scales)
    if not settings.diagonal and 1 < dim <= LARGEST_DENSE:
        with one_blas_thread():
            z = (positions - location) / scales
            effective = len(z) / (AUTOCORRELATION * dim)
            weight = effective / (effective + dim)
            matrix = weight * (z.T @ z) / len(z) + (1.0 - weight) * np.eye(dim)
            factor = np.linalg.cholesky(matrix) * scales[:, None]
        metric = FisherMetric(np.ascontiguousarray(factor), "dense", dim, np.empty(0, int))
    then = WALK if progress.window + 1 < len(WALKS) else TUNE
    return progress.to(then, metric=metric, location=location), states


def finish(settings: Settings, progress: Progress, states: States) -> Result:
    """Pool the scales of moves, and end warm-up."""
    scale = float(np.exp(np.mean([np.log(state.scale) for state in states])))
    return progress, [
        make_room(state, 0)._replace(single=False, coordinate=0, scale=scale) for state in states
    ]


def for_scales(
    settings: Settings, before: Progress, progress: Progress, states: States
) -> Progress:
    """Stop once metric and location are known, for another sampler."""
    return progress.to(END) if progress.then == TUNE else progress


STAGES = {
    SWEEPS: Stage("moving to the typical set", sweeps_length, set_up_sweeps, learn_scales),
    WALK: Stage("learning the covariance", walk_length, set_up_walk, learn_covariance),
    TUNE: Stage("tuning the scale", all_left, set_up_walk),
}

register(
    __name__,
    workspace=("noise",),
    uses_gradient=False, standardize="no",
    warmup=Warmup(STAGES, SWEEPS, begin, finish, without_room=WALK, for_scales=for_scales),
)  # fmt: skip
