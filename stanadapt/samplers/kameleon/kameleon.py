"""MCMC Kameleon: a random walk with a covariance that depends on the position, learned by a kernel.

For strongly curved posteriors without a usable gradient, if one density evaluation takes far more
than 0.05 ms: a proposal needs sums over 1000 points of the chain's past. From y, the proposal is
N(y, R(y)) with R(y) = gamma^2 I + nu^2 M H M^T, which is wide in the directions in which the past
of the chain near y was wide. The densities of the move and of its reverse enter the acceptance
probability.

References
----------
Sejdinovic, Strathmann, Lomeli, Andrieu and Gretton (2014), Kernel Adaptive Metropolis-Hastings,
ICML: algorithm 1, and the schedule of the authors' code, preset=sejdinovic2014. Deviations: both
directions use the same subsample and scale (their code caches the proposal at the current point
from an earlier iteration); subsamples are spread evenly over the past instead of drawn with
replacement; and the scale is given as s, nu = s / (2 w(0) sqrt(n)) (see `kernel_proposal`), which
starts near its optimum instead of at nu^2 = 0.1. The median heuristic: Gretton, Borgwardt, Rasch,
Schölkopf and Smola (2012), JMLR 13, section 8.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import fill_normal
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import (
    Between,
    Count,
    NotNegative,
    Positive,
    Probability,
    Share,
    setting_error,
)
from stanadapt.samplers.kameleon import history as histories
from stanadapt.samplers.kameleon import kernel_proposal
from stanadapt.samplers.kameleon.kernel_proposal import Kernel

# iterations; in a shorter warm-up, units are not learned at closer intervals than in this one
SHORT = 1000
# Standardization does not make parameters alike: the widest ones dominate distances, and are often
# the curved ones. With all scales equal, coverage of the bananas and the flower was off by 1.5 to
# 2.5 times as much. Without any standardization, scales from 0.001 to 1000 gave an R-hat of 1.13
KEPT_RATIO = 10.0


class Settings(NamedTuple):
    """Settings of the sampler. The defaults are ours; preset=sejdinovic2014 has the authors'."""

    # gaussian, matern32, matern52, inverse_multiquadric, which is (1 + r^2 /
    # bandwidth^2)^(-1/2) and has the heaviest tails, or linear, which is Adaptive Metropolis
    # with a minimum variance
    kernel: Kernel = Kernel.gaussian
    # n, the number of past positions that a proposal uses; it takes O(n dim^2) operations.
    # Before positions are recorded, proposals are isotropic.
    subsample: Annotated[int, Between(2, ends="[)")] = 1000
    # Bandwidth of the kernel, in the units of its distances. With 0, it is learned from the
    # median distance after a quarter and after half of warm-up, and is infinite before. If it
    # is small, proposals follow the curvature, but use few points; if it is large, the sampler
    # is Adaptive Metropolis.
    bandwidth: NotNegative = 0.0
    # A learned bandwidth is this factor times the median distance divided by sqrt(2). The
    # median heuristic, 1, is the safe choice. With 0.5, proposals follow a closed ridge better
    # (the flower), but cover regions that warm-up rarely visited less well (Glass). Chains that
    # start in a tail of the strongly bent banana, 2.8 standard deviations out, return after 291
    # iterations (the median), with 0.5 after 2345, and with 2 after 153.
    bandwidth_factor: Positive = 1.0
    # Keep proposals as wide as the nearest part of the past, no matter how far they are from
    # it. Otherwise they shrink to gamma, as in the paper (see `kernel_proposal`).
    normalize_weights: bool = True
    # Take gamma in units of the covariance of the past, which is learned when the bandwidth
    # is. Otherwise gamma is in units of the unconstrained parameters.
    whiten: bool = True
    # Measure the kernel's distances in units of that covariance too: use this if the scales of
    # parameters differ by orders of magnitude. Otherwise the widest parameters dominate the
    # distances, which is better if the posterior is curved in these, as in the paper's
    # examples.
    whiten_kernel: bool = False
    # standard deviation of the isotropic part, well below 2.38 / sqrt(dim) if whitened
    gamma: Positive = 0.05
    initial_scale: Positive = 2.38  # the scale s starts as initial_scale / sqrt(dim)
    target_accept: Probability = 0.234  # acceptance rate to which s is tuned
    # log s^2 moves by (a - target_accept) / t^learning_power in its t-th update
    learning_power: Share = 0.6
    # end warm-up with the mean of log s over its second half instead of the last value
    average: bool = True
    # number of iterations at the beginning that are never part of a subsample, at most a
    # quarter of warm-up
    discard: Count = 500
    # tune the isotropic proposals too; otherwise their standard deviation is gamma
    tune_early: bool = True
    redraw: Share = 0.05  # probability of taking another subsample, per iteration of warm-up
    # largest number of past positions that are kept (evenly thinned), at least twice the
    # subsample; each takes 8 dim bytes per chain
    history: Count = 60_000
    # Continue to adapt while draws are kept: subsamples are then redrawn with a probability
    # that falls as 1 / t (diminishing adaptation). Otherwise nothing changes after warm-up.
    adapts_forever: bool = False


# the paper's experiments set the bandwidth by hand: 5 or 10, by target
PUBLISHED = Settings(
    bandwidth=10.0, normalize_weights=False, whiten=False, gamma=0.2, learning_power=0.5,
    average=False, tune_early=False, redraw=1.0,
)  # fmt: skip


# s stays within this factor of its start, so that an uninformative past cannot drive it away
LARGEST_CHANGE = 1e3


class Scale(NamedTuple):
    """The scales of the proposal; gamma is tuned before the first subsample, s after it."""

    # gamma, s: R = gamma^2 F + s^2 S
    gamma: float
    s: float
    updates: int  # number of updates since tuning started or restarted
    # log_mean, averaged: mean of the logarithm of the tuned scale, and the number of updates that
    # it averages
    log_mean: float
    averaged: int


@jit
def fresh_scale(settings, dim):
    """Return the initial scales of proposals in dim dimensions."""
    return Scale(settings.gamma, settings.initial_scale / np.sqrt(dim), 0, 0.0, 0)


@jit
def tuned_scale(settings, scale, tunes_gamma, dim, acceptance_rate, averaging):
    """Move log gamma^2, if `tunes_gamma`, or log s^2, to bring acceptance to its target."""
    updates = scale.updates + 1
    gain = 0.5 / updates**settings.learning_power
    change = np.exp(gain * (acceptance_rate - settings.target_accept))
    start = settings.initial_scale / np.sqrt(dim)
    gamma, s = scale.gamma, scale.s
    if tunes_gamma:
        gamma *= change
    else:
        s = min(max(s * change, start / LARGEST_CHANGE), start * LARGEST_CHANGE)
    averaged, log_mean = 0, 0.0
    if averaging:
        averaged, log_mean = scale.averaged + 1, scale.log_mean
        log_mean += (np.log(gamma if tunes_gamma else s) - log_mean) / averaged
    return Scale(gamma, s, updates, log_mean, averaged)


@jit
def averaged_scale(scale, tunes_gamma):
    """Return the final scales, with the tuned one replaced by its mean if there is a mean."""
    if scale.averaged == 0:
        return scale
    tuned = np.exp(scale.log_mean)
    if tunes_gamma:
        return Scale(tuned, scale.s, scale.updates, 0.0, 0)
    return Scale(scale.gamma, tuned, scale.updates, 0.0, 0)


class Past(NamedTuple):
    """Tuning that was learned from the positions so far. Arrays are updated in place."""

    history: histories.History
    subsample: kernel_proposal.Subsample
    floor: np.ndarray  # f, lower triangle of shape (dim, dim)
    redraw: float  # probability that the next step takes another subsample


class State(NamedTuple):
    """The current point, the rejected one, the proposals from them, and the tuning.

    here and there belong to current and scratch; noise and move are workspace, shape (dim,).
    """

    current: points.ValuePoint
    scratch: points.ValuePoint
    here: kernel_proposal.Local
    there: kernel_proposal.Local
    past: Past
    scale: Scale
    noise: np.ndarray
    move: np.ndarray


class Info(NamedTuple):
    """Statistics of one iteration. `step_size` is s, or gamma before the first subsample."""

    acceptance_rate: float
    accepted: bool
    step_size: float
    bandwidth: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a history that is too short for the subsample."""
    least = 2 * settings.subsample
    if settings.history < least:
        raise setting_error(f"kameleon: history must be at least {least}, got {settings.history}.")


@jit
def _learns_units(settings):
    return settings.whiten or settings.whiten_kernel or settings.bandwidth == 0.0


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,), with isotropic proposals."""
    n = density.dim
    bandwidth = 0.0 if _learns_units(settings) else settings.bandwidth
    past = Past(
        history=histories.no_past(settings.history, n),
        subsample=kernel_proposal.no_points(n, settings.subsample, bandwidth),
        floor=factors.initial(n, 1.0, False),
        redraw=0.0,
    )
    here, scale = kernel_proposal.unused_local(n), fresh_scale(settings, n)
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        here=here,
        there=kernel_proposal.unused_local(n),
        past=_factorized(here, past, scale),
        scale=scale,
        noise=np.empty(n),
        move=np.empty(n),
    )


@jit
def _factorized(here, past, scale):
    """Fill here.factor from here.spread; if that is not finite, drop the subsample."""
    if kernel_proposal.factorize(here, past.floor, scale.gamma, scale.s):
        return past
    here.spread[:] = 0.0
    kernel_proposal.factorize(here, past.floor, scale.gamma, scale.s)
    return replace(past, subsample=replace(past.subsample, count=0))


@jit
def _redrawn(settings, past, rng):
    """Take another subsample."""
    count = histories.draw_columns(past.history, past.subsample.points, rng)
    subsample = replace(past.subsample, count=count)
    kernel_proposal.place_landmarks(subsample)
    return replace(past, subsample=subsample)


@jit
def init_from_draws(density, settings, state, positions, rng):
    """Begin with past positions, shape (n, dim), oldest first, which all chains share."""
    x, here, past, scale = state.current, state.here, state.past, state.scale
    history = past.history
    for i in range(positions.shape[0]):
        history = histories.record(history, positions[i])
    past = replace(past, history=history)
    if _learns_units(settings):
        past = _with_new_units(settings, past, True)
    if past.subsample.bandwidth > 0.0:  # it is 0 if all positions are equal
        past = _redrawn(settings, past, rng)
        kernel_proposal.measure(settings, past.subsample, x.position[: density.dim], here)
        past = _factorized(here, past, scale)
    return replace(state, past=past)


@jit
def step(density, settings, state, rng):
    """Propose y = x + L(x) eps, L L^T = gamma^2 F + s^2 S(x), and accept or reject it."""
    x, y, here, there = state.current, state.scratch, state.here, state.there
    past, scale, noise, move = state.past, state.scale, state.noise, state.move
    if past.redraw > 0.0 and rng.random() < past.redraw:
        if past.subsample.count == 0:
            scale = fresh_scale(settings, density.dim)
        past = _redrawn(settings, past, rng)
        kernel_proposal.measure(settings, past.subsample, x.position[: density.dim], here)
        past = _factorized(here, past, scale)

    fill_normal(rng, noise)
    factors.times(here.factor, noise, move)
    for i in range(density.dim):
        y.position[i] = x.position[i] + move[i]
    proposal = points.proposed(density, x, y, rng)
    log_ratio = proposal.log_density - x.log_density
    if log_ratio > -np.inf:
        kernel_proposal.measure(settings, past.subsample, y.position[: density.dim], there)
        fine = kernel_proposal.factorize(there, past.floor, scale.gamma, scale.s)
        log_ratio += (
            kernel_proposal.log_proposal_ratio(here, there, noise, move) if fine else -np.inf
        )

    rate = points.acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    step_size = scale.s if past.subsample.count > 0 else scale.gamma
    info = Info(
        acceptance_rate=rate,
        accepted=accepted,
        step_size=step_size,
        bandwidth=past.subsample.bandwidth,
    )
    state = replace(state, past=past, scale=scale)
    if accepted:
        return replace(state, current=proposal, scratch=x, here=there, there=here), info
    return replace(state, scratch=proposal), info


@jit
def _is_window(count, iter_warmup, known):
    """Whether units are learned after `count` iterations: at 1/2, 1/4, 1/8, ... of warm-up.

    Before the first units are learned, also at about every sixteenth.
    """
    if not known and count % (1 + max(iter_warmup, SHORT) // 16) == 0:
        return count != iter_warmup
    border = iter_warmup // 2
    while border > count:
        border //= 2
    return border == count


@jit
def _with_new_units(settings, past, settled):
    """Learn whitening and bandwidth from the newer half of the past, and ask for a subsample.

    If the chain has not moved there, the former values are kept. If the past has not settled, the
    bandwidth is infinite, since a kernel would keep proposals as narrow as the past.
    """
    history, old = past.history, past.subsample
    rows, dim = history.rows[history.count // 2 : history.count], past.floor.shape[0]
    floor, units, bandwidth = past.floor, old.units, settings.bandwidth
    if settings.whiten or settings.whiten_kernel:
        matrix = np.empty((dim, dim))
        histories.covariance(rows, matrix)
        factor = matrix.copy()
        if not factors.cholesky(factor):
            return past
        floor = matrix if settings.whiten else floor
        units = factor if settings.whiten_kernel else units
    if bandwidth == 0.0:
        bandwidth = old.bandwidth if old.bandwidth > 0.0 else np.inf
        if settled:
            bandwidth = (
                settings.bandwidth_factor * histories.median_distance(rows, units) / np.sqrt(2.0)
            )
    if not bandwidth > 0.0:
        return past
    subsample = replace(old, units=units, bandwidth=bandwidth)
    return replace(past, subsample=subsample, floor=floor, redraw=1.0)


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Learn the scale, record the position, and set the probability of another subsample."""
    past, scale, count, here = state.past, state.scale, t + 1, state.here
    early, known = past.subsample.count == 0, past.subsample.bandwidth > 0.0
    discard = min(settings.discard, iter_warmup // 4)
    if settings.tune_early or not early:
        averaging, rate = 2 * count > iter_warmup, info.acceptance_rate
        scale = tuned_scale(settings, scale, early, density.dim, rate, averaging)
        past = _factorized(here, past, scale)
    if count > discard:
        history = histories.record(past.history, state.current.position)
        share = min(1.0, max(iter_warmup, 1) / count)
        redraw = settings.redraw * share if known else 0.0
        past = replace(past, history=history, redraw=redraw)
        if (
            _learns_units(settings)
            and count >= 2 * discard
            and _is_window(count, iter_warmup, known)
        ):
            past = _with_new_units(settings, past, 4 * count >= iter_warmup)
            scale = Scale(scale.gamma, scale.s, 0, 0.0, 0)
    return replace(state, past=past, scale=scale)


@rarely_called
def freeze(settings, state):
    """Keep the subsample, and end with the mean scale if `average` is set."""
    past, scale, here = state.past, state.scale, state.here
    if settings.average:
        scale = averaged_scale(scale, past.subsample.count == 0)
    past = _factorized(here, replace(past, redraw=0.0), scale)
    return replace(state, past=past, scale=scale)


register(
    __name__,
    memory=Memory(dense_matrices=lambda settings: 5),
    workspace=(
        "here", "there", "noise", "move", "past.subsample.columns", "past.subsample.weights",
    ),
    uses_gradient=False, init_from={"warm_start": init_from_draws},
    standardize="diagonal",
    kept_ratio=KEPT_RATIO, presets={"sejdinovic2014": Preset(PUBLISHED._asdict())},
)  # fmt: skip
