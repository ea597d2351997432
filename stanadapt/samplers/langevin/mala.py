"""Metropolis-adjusted Langevin with one step size for all directions, tuned during warm-up.

A baseline, and the simplest use of a gradient: good if all unconstrained parameters have about the
same scale and little correlation.

References
----------
Roberts and Tweedie (1996), Bernoulli 2(4), 341-363. Target 0.55 as in the tables of Titsias and
Dellaportas (2019); the theoretical optimum is 0.574 (Roberts and Rosenthal, 1998).
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.protocol import KEEP_GRADIENT, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Positive, Probability


class Settings(NamedTuple):
    target_accept: Probability = 0.55  # acceptance rate to which the step size is tuned
    # The noise's standard deviation starts as step_size / sqrt(dim), in units of the
    # unconstrained parameters. Default in standardized coordinates: 1.65 dim^(1/3), the
    # optimum for a normal posterior.
    step_size: Positive = 0.1
    learning_rate: Probability = 0.01  # relative change of the step size per iteration


class State(NamedTuple):
    """The current point, the rejected one, the last noise, and the step size."""

    current: points.GradientPoint
    scratch: points.GradientPoint
    noise: np.ndarray
    step_size: float


class Info(NamedTuple):
    acceptance_rate: float
    accepted: bool
    step_size: float


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,)."""
    n = density.dim
    return State(
        current=points.gradient_at(density, position),
        scratch=points.unused_gradient(n),
        noise=np.empty(n),
        step_size=settings.step_size / np.sqrt(n),
    )


@jit
def step(density, settings, state, rng):
    """Propose y = x + s^2 g(x) / 2 + s eps and accept or reject it."""
    x, y, s = state.current, state.scratch, state.step_size
    log_density, log_ratio = points.propose(density, x, y, state.noise, s, rng)
    proposal = points.GradientPoint(y.position, log_density, y.gradient)
    rate = points.acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(acceptance_rate=rate, accepted=accepted, step_size=s)
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the step size toward the target acceptance rate."""
    rate, target = info.acceptance_rate, settings.target_accept
    step_size = rescaled(state.step_size, rate, target, settings.learning_rate, t, iter_warmup)
    return replace(state, step_size=step_size)


register(
    __name__,
    extra_output=KEEP_GRADIENT,
    workspace=("noise",),
    when_standardized={"step_size": lambda dim: points.LANGEVIN_SCALE * dim ** (1.0 / 3.0)},
    presets={
        "titsias2019": Preset({"target_accept": 0.55, "step_size": 0.1, "learning_rate": 0.01}),
    },
)  # fmt: skip
