"""Hamiltonian Monte Carlo with a fixed number of leapfrog steps and fixed masses, by default 1.

A baseline between `mala` (one leapfrog step) and NUTS, for smooth posteriors. In standardized
coordinates, the number of steps follows from their size and the length of a trajectory. In the
coordinates of the program, you choose it; these coordinates should have comparable scales.

References
----------
Neal (2011), MCMC using Hamiltonian dynamics, section 3.2; masses: section 2.1. Acceptance 0.7 and
the tuning rule are those of the tables of Titsias and Dellaportas (2019), preset=titsias2019.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, leapfrog
from stanadapt.engine.numerics.vectors import copy, fill_normal, squared_norm
from stanadapt.engine.protocol import KEEP_GRADIENT, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import (
    Between,
    CountOrZero,
    Fraction,
    Numbers,
    Positive,
    Probability,
    setting_error,
)

MOST_STEPS = 100
UNIT_MASS = Numbers((1.0,))


class Settings(NamedTuple):
    # Number of leapfrog steps per iteration, each one gradient; 0: the number that gives a
    # trajectory the length `trajectory_length`, at most 100. Default in standardized
    # coordinates: 0.
    leapfrogs: CountOrZero = 10
    # Length of a trajectory if leapfrogs is 0, in units of the unconstrained parameters. For
    # normal coordinates of unit scale, trajectories longer than 1.8 give better estimates of
    # means, but worse ones of all other expectations.
    trajectory_length: Positive = 1.8
    target_accept: Probability = 0.7  # acceptance rate to which the step size is tuned
    # The leapfrog's step starts as step_size / sqrt(dim), in units of the unconstrained
    # parameters. Default in standardized coordinates: dim^(1/4), so that the step starts as
    # dim^(-1/4).
    step_size: Positive = 0.1
    learning_rate: Probability = 0.01  # relative change of the step size per iteration
    # The step size of each iteration is drawn from step_size * (1 +- jitter), so that
    # trajectories do not keep returning to their start. Default in standardized coordinates:
    # 0.2.
    jitter: Fraction = 0.0
    # Mass m_i of each unconstrained parameter, in the order of the program: one number for
    # all, or one for each. The kinetic energy is the sum of p_i^2 / (2 m_i), and p_i is drawn
    # from N(0, m_i). Masses are best proportional to the inverse variances. Masses other than
    # 1 refer to the coordinates of the program, so the sampler then runs in these.
    mass: Annotated[Numbers, Between(0)] = UNIT_MASS


class State(NamedTuple):
    """The current point, the rejected one, the momentum, the scales, step size and steps.

    scale_i is 1 / sqrt(m_i), and momentum_i is p_i scale_i, which is N(0, 1); shape (dim,).
    """

    current: points.GradientPoint
    scratch: points.GradientPoint
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
    """Raise StanadaptError for no mass at all."""
    if not settings.mass:
        raise setting_error("hmc: mass must be one or more positive numbers, got none.")


def check_run(settings: Settings, dim: int, standardized: bool) -> None:
    """Raise StanadaptError for masses that do not belong to the parameters."""
    count = len(settings.mass)
    if count not in (1, dim):
        raise setting_error(
            f"hmc: mass must have one number, or one for each of {dim} unconstrained parameters, "
            f"got {count}."
        )
    if standardized and settings.mass != UNIT_MASS:
        raise setting_error(
            "hmc: mass belongs to the coordinates of the program, and standardize or warm_start "
            "asks for others: leave one of them out."
        )


@jit
def number_of_steps(settings, step_size):
    """Return `leapfrogs` of the settings, or the number of steps of one trajectory."""
    if settings.leapfrogs > 0:
        return settings.leapfrogs
    return min(max(int(settings.trajectory_length / step_size + 0.5), 1), MOST_STEPS)


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,)."""
    n, masses = density.dim, settings.mass
    step_size, scale = settings.step_size / np.sqrt(n), np.empty(n)
    for i in range(n):
        scale[i] = 1.0 / np.sqrt(masses[min(i, masses.shape[0] - 1)])
    return State(
        current=points.gradient_at(density, position),
        scratch=points.unused_gradient(n),
        momentum=np.empty(n),
        scale=scale,
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

    proposal = points.GradientPoint(y.position, log_density, y.gradient)
    rate = points.acceptance_probability(log_ratio)
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
    __name__,
    extra_output=KEEP_GRADIENT,
    workspace=("momentum",),
    standardize=lambda settings: "full" if settings.mass == UNIT_MASS else "no",
    when_standardized={
        "leapfrogs": lambda dim: 0, "jitter": lambda dim: 0.2,
        "step_size": lambda dim: dim**0.25,
    },
    # HMC-10; the tables also have 5 and 20 leapfrogs
    presets={
        "titsias2019": Preset({
            "leapfrogs": 10, "target_accept": 0.7, "step_size": 0.1, "learning_rate": 0.01,
            "jitter": 0.0,
        }),
    },
)  # fmt: skip
