"""Langevin moves with gradients computed from some of the data, for many rows: not exact.

The target is `Minibatches(target, rows=..., batches=...)`. Each move takes the gradient of one
batch of rows, drawn at random, and makes no acceptance step. R-hat and effective sample sizes do
not detect the bias of the draws. The bias decreases with the size of the steps, which are the
weights of the draws in `weighted_summary`. If a `Target` is given instead, each gradient uses all
rows.

References
----------
Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML:
theta' = theta + (e_t / 2) g + N(0, e_t), with steps e_t = a (b + t)^-gamma and means weighted by
e_t. For a normal coordinate with standard deviation s, a constant step e and gradients with noise
of variance V, draws have the variance s^2 (1 + e V / 4) / (1 - e / (4 s^2)). Deviations: steps are
in standardized coordinates, learned with all rows; warm-up runs at the first step size, and t
counts from its end.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Positive


class Settings(NamedTuple):
    """Settings of the sampler, with steps e_t = first_step (1 + t / delay)^-decay after warm-up."""

    # e_0, variance of the noise of a move, in squared units of the unconstrained parameters.
    # It is a (b + t)^-gamma with b = delay, gamma = decay, a = first_step delay^decay.
    first_step: Positive = 0.05
    delay: Positive = 1000.0  # number of draws after which steps become clearly smaller
    # Exponent. Above 0.5, the weighted means converge, more slowly for larger values. With 0,
    # the steps are constant, and so is the bias.
    decay: Annotated[float, Between(0, 1, "[]")] = 0.55


class Estimated(NamedTuple):
    """A position, shape (size,), with the batch in its last entry, and estimates there."""

    position: np.ndarray
    log_density: float
    gradient: np.ndarray


class State(NamedTuple):
    """The current point and memory for the next one; t counts draws, and is 0 in warm-up."""

    current: Estimated
    scratch: Estimated
    t: int
    warming_up: bool  # whether steps have the first size


class Info(NamedTuple):
    # 1, or 0 if the density failed at the next point, to which the chain then did not move
    acceptance_rate: float
    weight: float  # e_t, the weight of the draw in means


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), with a random batch."""
    point = np.empty(density.size)
    copy(position, point[: density.dim])
    gradient = np.empty(density.size)
    _draw_batch(density, point, rng)
    log_density = value_and_gradient(density, point, gradient)
    return State(
        current=Estimated(point, log_density, gradient),
        scratch=Estimated(np.empty(density.size), -np.inf, np.empty(density.size)),
        t=0,
        warming_up=True,
    )


@jit
def _draw_batch(density, position, rng):
    """Select the rows of the next gradient, if the target has batches."""
    for i in range(density.dim, density.size):
        position[i] = rng.random()


@jit
def step(density, settings, state, rng):
    """Move along the gradient at the current point, with noise, and draw the rows of the next."""
    x, y = state.current, state.scratch
    e = settings.first_step * (1.0 + state.t / settings.delay) ** -settings.decay
    noise = np.sqrt(e)
    for i in range(density.dim):
        y.position[i] = x.position[i] + 0.5 * e * x.gradient[i] + noise * rng.standard_normal()
    _draw_batch(density, y.position, rng)
    log_density = value_and_gradient(density, y.position, y.gradient)
    moved, t = log_density > -np.inf, state.t + (0 if state.warming_up else 1)
    proposal = Estimated(y.position, log_density, y.gradient)
    info = Info(acceptance_rate=1.0 if moved else 0.0, weight=e)
    if moved:
        return replace(state, current=proposal, scratch=x, t=t), info
    return replace(state, scratch=proposal, t=t), info


def freeze(settings: Settings, state: State) -> State:
    """Let steps become smaller from here on."""
    return state._replace(warming_up=False)


register(
    __name__,
    iter_warmup=2_000, iter_sampling=100_000, workspace=("t",), exact=False,
    samples_batches=True,
)  # fmt: skip
