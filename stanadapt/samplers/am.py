"""Adaptive Metropolis: a random walk with the covariance of the chain so far.

A baseline without gradients for correlated posteriors of moderate dimension. The proposal is
N(x, s^2 L L^T); L L^T follows the running covariance, s the acceptance rate.

References
----------
Haario, Saksman and Tamminen (2001), Bernoulli 7(2), with a fixed s. The form without matrix
decompositions is the baseline of Titsias and Dellaportas (2019):
L <- L + rho_t L [z z^T - I]_lower, z = L^-1 (x - mu), rho_t = rate / (1 + t / 4000).

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled import triangular as factors
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.compiled.vectors import fill_normal
from stanadapt.engine.points import (
    RANDOM_WALK_SCALE,
    ValuePoint,
    acceptance_probability,
    proposed,
    unused_value,
    value_at,
)
from stanadapt.engine.protocol import Memory, Sampler
from stanadapt.engine.registry import register, require_positive, require_probability

DECAY = 4000.0


class Settings(NamedTuple):
    """Settings of the sampler.

    target_accept
        Acceptance rate to tune s to, in (0, 1).
    learning_rate
        Relative change of s per iteration, in (0, 1).
    covariance_rate
        rho_0 in (0, 1): the weight of the newest position in mean and covariance, falling as
        1 / (1 + t / 4000) with the iteration t.
    initial_scale
        L starts as initial_scale / sqrt(dim) times the identity; > 0. Standardized: 2.38, the
        optimum for a normal posterior.
    tune_scale
        Whether s is tuned. Otherwise it is 2.38 / sqrt(dim) throughout, which is best for a normal
        posterior.

    """

    target_accept: float = 0.25
    learning_rate: float = 0.01
    covariance_rate: float = 0.001
    initial_scale: float = 0.1
    tune_scale: bool = True


class State(NamedTuple):
    """The current point, the rejected one, the scale s, and the running mean and factor L.

    mean, noise, whitened have shape (dim,); factor (dim, dim) is updated in place.
    """

    current: ValuePoint
    scratch: ValuePoint
    scale: float
    mean: np.ndarray
    factor: np.ndarray
    noise: np.ndarray
    whitened: np.ndarray


class Info(NamedTuple):
    """Statistics of one iteration. `step_size` is s, the scale in front of L."""

    acceptance_rate: float
    accepted: bool
    step_size: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_probability(settings, "target_accept", "learning_rate", "covariance_rate")
    require_positive(settings, "initial_scale")


@jit
def init(density, settings, position, rng):
    """Start at position, shape (size,), with its parameters as the first mean."""
    n = density.dim
    return State(
        current=value_at(density, position),
        scratch=unused_value(density.size),
        scale=1.0 if settings.tune_scale else RANDOM_WALK_SCALE / np.sqrt(n),
        mean=position[:n].copy(),
        factor=factors.initial(n, settings.initial_scale / np.sqrt(n), False),
        noise=np.empty(n),
        whitened=np.empty(n),
    )


@jit
def step(density, settings, state, rng):
    """Propose y = x + s L eps and accept or reject it."""
    x, y, scale = state.current, state.scratch, state.scale
    fill_normal(rng, state.noise)
    factors.times(state.factor, state.noise, y.position)
    for i in range(density.dim):
        y.position[i] = x.position[i] + scale * y.position[i]
    proposal = proposed(density, x, y, rng)
    rate = acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(acceptance_rate=rate, accepted=accepted, step_size=scale)
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def _follow(factor, whitened, rate):
    """L <- L + rate * L [z z^T - I]_lower in O(n^2), by running sums along each row."""
    for i in range(whitened.shape[0]):
        total = 0.0
        for j in range(i, -1, -1):
            total += factor[i, j] * whitened[j]
            factor[i, j] += rate * (whitened[j] * total - factor[i, j])


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move mean and factor toward the current position, the scale toward its target."""
    position, mean, rate = state.current.position, state.mean, DECAY / (DECAY + t)
    rate *= settings.covariance_rate
    difference = state.noise
    for i in range(density.dim):
        difference[i] = position[i] - mean[i]
        mean[i] += rate * difference[i]
    factors.solve(state.factor, difference, state.whitened)
    _follow(state.factor, state.whitened, rate)
    accepted, target = info.acceptance_rate, settings.target_accept
    scale = state.scale
    if settings.tune_scale:
        scale = rescaled(scale, accepted, target, settings.learning_rate, t, iter_warmup)
    return replace(state, scale=scale)


register(
    Sampler(
        settings=Settings, state=State, info=Info, check=check, init=init, step=step, adapt=adapt,
        memory=Memory(dense_matrices=lambda settings: 1),
        workspace=("noise", "whitened"),
        uses_gradient=False,
        when_standardized={"initial_scale": lambda dim: RANDOM_WALK_SCALE},
    )
)  # fmt: skip
