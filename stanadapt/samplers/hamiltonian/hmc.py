"""Hamiltonian Monte Carlo with a fixed number of leapfrog steps and unit mass.

A baseline between `mala` (one leapfrog step) and NUTS, for smooth posteriors. In standardized
coordinates the number of steps follows from their size and the length of a trajectory. In the
coordinates of the program, which should have comparable scales, the user chooses it.

References
----------
Neal (2011), MCMC using Hamiltonian dynamics, section 3.2. Acceptance 0.7 and the tuning rule are
those of the tables of Titsias and Dellaportas (2019).

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import jit, seldom
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.compiled.vectors import copy, fill_normal, squared_norm
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, leapfrog
from stanadapt.engine.points import (
    GradientPoint,
    acceptance_probability,
    gradient_at,
    unused_gradient,
)
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import (
    register,
    require_at_least,
    require_fraction,
    require_positive,
    require_probability,
)

MOST_STEPS = 100


class Settings(NamedTuple):
    """Settings of the sampler.

    leapfrogs
        Number of leapfrog steps per iteration, each one gradient; 0: the number that makes a
        trajectory of `trajectory_length`, at most 100. Standardized: 0.
    trajectory_length
        Length of a trajectory if leapfrogs is 0, in units of the unconstrained parameters; > 0. For
        normal coordinates of unit scale, trajectories above 1.8 estimate means better, and all
        other expectations worse.
    target_accept
        Acceptance rate to tune to, in (0, 1).
    step_size
        The leapfrog's step starts as step_size / sqrt(dim), in units of the unconstrained
        parameters; > 0. Standardized: dim^(1/4), which makes it dim^(-1/4).
    learning_rate
        Relative change of the step size per iteration, in (0, 1).
    jitter
        Each iteration's step size is drawn from step_size * (1 +- jitter), in [0, 1), so that
        trajectories do not keep returning to their start. Standardized: 0.2.

    """

    leapfrogs: int = 10
    trajectory_length: float = 1.8
    target_accept: float = 0.7
    step_size: float = 0.1
    learning_rate: float = 0.01
    jitter: float = 0.0


class State(NamedTuple):
    """The current point, the rejected one, the momentum, the unit mass, step size and steps."""

    current: GradientPoint
    scratch: GradientPoint
    momentum: np.ndarray
    scale: np.ndarray
    step_size: float
    leapfrogs: int


class Info(NamedTuple):
    """Statistics of one iteration. `diverging`: energy error above 1000, or a failed density."""

    acceptance_rate: float
    accepted: bool
    diverging: bool
    step_size: float
    leapfrogs: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_at_least(settings, 0, "leapfrogs")
    require_probability(settings, "target_accept", "learning_rate")
    require_positive(settings, "step_size", "trajectory_length")
    require_fraction(settings, "jitter")


@jit
def number_of_steps(settings, step_size):
    """Return `leapfrogs` of the settings, or the number of steps of one trajectory."""
    if settings.leapfrogs > 0:
        return settings.leapfrogs
    return min(max(int(settings.trajectory_length / step_size + 0.5), 1), MOST_STEPS)


@seldom
def init(density, settings, position, rng):
    """Start at position, shape (dim,)."""
    n = density.dim
    step_size = settings.step_size / np.sqrt(n)
    return State(
        current=gradient_at(density, position),
        scratch=unused_gradient(n),
        momentum=np.empty(n),
        scale=np.ones(n),
        step_size=step_size,
        leapfrogs=number_of_steps(settings, step_size),
    )


@jit
def step(density, settings, state, rng):
    """Draw a momentum, follow it for all leapfrog steps, accept or reject the end."""
    x, y, momentum = state.current, state.scratch, state.momentum
    step_size = state.step_size
    fill_normal(rng, momentum)
    if settings.jitter > 0.0:
        step_size *= 1.0 + settings.jitter * (2.0 * rng.random() - 1.0)
    kinetic = 0.5 * squared_norm(momentum)
    copy(x.position, y.position)
    copy(x.gradient, y.gradient)
    log_density, _ = leapfrog(
        density, y.position, momentum, y.gradient, state.scale, step_size, state.leapfrogs
    )
    log_ratio = log_density - x.log_density + kinetic - 0.5 * squared_norm(momentum)

    proposal = GradientPoint(y.position, log_density, y.gradient)
    rate = acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate,
        accepted=accepted,
        diverging=not log_ratio > -LARGEST_ENERGY_ERROR,
        step_size=step_size,
        leapfrogs=state.leapfrogs,
    )
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the step size toward the target acceptance rate, and the number of steps with it."""
    rate, target = info.acceptance_rate, settings.target_accept
    step_size = rescaled(state.step_size, rate, target, settings.learning_rate, t, iter_warmup)
    leapfrogs = number_of_steps(settings, step_size)
    return replace(state, step_size=step_size, leapfrogs=leapfrogs)


register(
    Sampler(
        settings=Settings, state=State, info=Info, check=check, init=init, step=step, adapt=adapt,
        workspace=("momentum",),
        when_standardized={
            "leapfrogs": lambda dim: 0, "jitter": lambda dim: 0.2,
            "step_size": lambda dim: dim**0.25,
        },
    )
)  # fmt: skip
