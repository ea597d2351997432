"""Moves from a variational approximation, made exact: for posteriors close to a Gaussian.

During warm-up, stochastic gradients fit a Gaussian q, with all correlations or none, to the
posterior (ADVI). A proposal from q does not depend on the position of the chain: if q is good,
draws are nearly independent, and each costs one density evaluation. In a region to which q gives
less mass than the posterior, the chain stays for a long time; local moves in between help it to
leave. The result reports the Pareto k of the importance weights of q, and the longest stays of the
chains. After each fit of q, the chain continues from a draw of q, because independent proposals
would never bring it back from far out in the tails of q.

References
----------
de Freitas, Højen-Sørensen, Jordan and Russell (2001), Variational MCMC, UAI: block moves, the
mixture with a random walk, refitting. Deviations: q comes from ADVI (`advi.py`) in place of a
bound for sigmoid belief networks; it is refitted in windows of warm-up and then fixed, so that no
condition on diminishing adaptation is needed. With `warm_start`, q has the mean and covariance of
an earlier fit's draws, such as those of `approximate` by Pathfinder, and is not refitted.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density, value_and_gradient
from stanadapt.engine.numerics import triangular
from stanadapt.engine.points import RANDOM_WALK_SCALE, acceptance_probability, start_at
from stanadapt.engine.protocol import Memory
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Count, NotNegative, Probability
from stanadapt.samplers.variational import advi
from stanadapt.samplers.variational.advi import Climber, Family, fit_to_draws
from stanadapt.samplers.variational.proposal import (
    Approximation,
    Workspace,
    draw,
    draw_block,
    draw_local,
    log_approximation,
    log_local,
    log_mixture,
    log_shape,
    update_precision,
    workspace,
)

LOCAL_RATE = 0.1  # relative change of the scale of local moves per local move


class Kernel(IntEnum):
    """Kinds of moves."""

    independence = 0
    mixture = 1
    block = 2
    mixture_proposal = 3


class Settings(NamedTuple):
    # full_rank: a q with all correlations. mean_field: a q with none, which is cheaper with
    # thousands of parameters, but nearly always too narrow.
    approximation: Family = Family.full_rank
    # independence: each proposal is a draw from q. mixture: a draw from q or a local move,
    # each with its own acceptance probability. mixture_proposal: one proposal from the mixture
    # of both distributions. block: some coordinates at a time, drawn from q given the others.
    kernel: Kernel = Kernel.mixture
    local_share: Probability = 0.5  # share of local moves, for the two mixtures
    block_size: Count = 5  # number of coordinates in a block; no more than all coordinates are used
    # degrees of freedom of a Student t distribution instead of the Gaussian q, for posteriors
    # with heavier tails; 0 for the Gaussian
    degrees: NotNegative = 0.0
    # acceptance rate of local moves, to which their scale is tuned
    local_target: Probability = 0.234
    grad_samples: Count = 10  # number of gradients per iteration of warm-up
    learning_rate: Probability = 0.05  # length of the first steps of q, in units of the coordinates


class Weighed(NamedTuple):
    """A position with its log density and that of q, up to a constant."""

    position: np.ndarray
    log_density: float
    log_approximation: float


class State(NamedTuple):
    """The current point and the rejected one, q, and the state of its ascent."""

    current: Weighed
    scratch: Weighed
    q: Approximation
    climber: Climber
    averaged: int  # number of iterates in the sums of `climber`
    # whether q is still being fitted: not after warm-up, nor if it comes from an earlier fit
    fitting: bool
    local_scale: float
    gradient: np.ndarray
    work: Workspace


class Info(NamedTuple):
    acceptance_rate: float
    accepted: bool
    local: bool  # whether a local move was tried
    local_scale: float
    # log density minus that of q at the draw, up to a constant of each chain: if it is large, q has
    # too little mass there, and the chain stays
    log_weight: float


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,), with q = N(position, I)."""
    n, diagonal, point = density.dim, settings.approximation == 1, start_at(density, position)
    unit, blocks = as_python(triangular.initial), settings.kernel == 2 and not diagonal
    log_q = as_python(log_shape)(0.0, n, settings.degrees)
    return State(
        current=Weighed(point.position, point.log_density, log_q),
        scratch=Weighed(np.empty(n), -np.inf, -np.inf),
        q=Approximation(position.copy(), unit(n, 1.0, diagonal), unit(n, 1.0, not blocks)),
        climber=as_python(advi.climber_at)(position, unit(n, 1.0, diagonal), settings.grad_samples),
        averaged=0,
        fitting=True,
        local_scale=RANDOM_WALK_SCALE / np.sqrt(n),
        gradient=point.gradient,
        work=as_python(workspace)(n, min(settings.block_size, n)),
    )


@jit
def init_from_draws(density, settings, state, positions, rng):
    """Give q the mean and covariance of draws, shape (draw, dim), and fix it."""
    fit_to_draws(positions, state.q.location, state.q.factor)
    return _refresh(settings, replace(state, fitting=False))


@jit
def _refresh(settings, state):
    """Recompute all that depends on q, such as its log density at the current point."""
    update_precision(state.q)
    x = state.current
    log_q = log_approximation(state.q, settings.degrees, x.position, state.work)
    return replace(state, current=Weighed(x.position, x.log_density, log_q))


@jit
def step(density, settings, state, rng):
    """Propose from q, from q given all coordinates but a block, or nearby; accept or reject."""
    x, y, q, work, nu = state.current, state.scratch, state.q, state.work, settings.degrees
    local, log_ratio, scale = False, 0.0, state.local_scale
    if settings.kernel == 2:
        log_ratio = draw_block(q, nu, x.position, rng, work, y.position)
    else:
        if settings.kernel != 0:
            local = rng.random() < settings.local_share
        if local:
            draw_local(q, x.position, scale, rng, work, y.position)
        else:
            draw(q, nu, rng, work, y.position)
    if state.fitting:
        advi.draw_noise(state.climber, rng)
    log_density = value_and_gradient(density, y.position, state.gradient)
    log_q = log_approximation(q, nu, y.position, work)

    # log of the reverse proposal's density over that of the proposal
    if settings.kernel == 3:
        near, share = log_local(q, x.position, y.position, scale, work), 1.0 - settings.local_share
        log_ratio = log_mixture(x.log_approximation, near, share) - log_mixture(log_q, near, share)
    elif settings.kernel != 2 and not local:
        log_ratio = x.log_approximation - log_q

    rate = acceptance_probability(log_ratio + log_density - x.log_density)
    accepted = rng.random() < rate
    proposal = Weighed(y.position, log_density, log_q)
    if accepted:
        state = replace(state, current=proposal, scratch=x)
    else:
        state = replace(state, scratch=proposal)
    weight = state.current.log_density - state.current.log_approximation
    return state, Info(
        acceptance_rate=rate, accepted=accepted, local=local, local_scale=scale, log_weight=weight
    )


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune local moves; climb the ELBO, and update q at the end of a window."""
    if info.local:
        scale = rescaled(
            state.local_scale, info.acceptance_rate, settings.local_target, LOCAL_RATE, t,
            iter_warmup,
        )  # fmt: skip
        state = replace(state, local_scale=scale)
    if not state.fitting:
        return state
    averaged, ends = advi.climb_in_window(
        density, state.climber, state.averaged, settings.learning_rate, t, iter_warmup
    )
    state = replace(state, averaged=averaged)
    return _update_q(density, settings, state) if ends else state


@jit
def _update_q(density, settings, state):
    """Set q to the mean of the iterates of a window, continue from a draw of q, begin the next."""
    q, climber = state.q, state.climber
    advi.average_into(climber, state.averaged, q.location, q.factor)
    x, y = state.current, state.scratch
    triangular.times(q.factor, climber.noise[0], y.position)
    for i in range(q.location.shape[0]):
        y.position[i] += q.location[i]
    log_density = value_and_gradient(density, y.position, state.gradient)
    if log_density > -np.inf:
        state = replace(state, current=Weighed(y.position, log_density, 0.0), scratch=x)
    return _refresh(settings, replace(state, averaged=0))


freeze = advi.stop_fitting


register(
    __name__,
    iter_warmup=2000, iter_sampling=10_000,
    init_from={"warm_start": init_from_draws}, starts_at_draws=True,
    workspace=("gradient", "work", "climber.noise"),
    standardize=advi.coordinates,
    # q, its precision, the ascent, its average, three of Adam
    memory=Memory(
        lambda s: (6 + (s.kernel == Kernel.block)) * (s.approximation == Family.full_rank)
    ),
)  # fmt: skip
