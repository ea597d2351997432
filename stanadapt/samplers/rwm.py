"""Random-walk Metropolis with one scale for all directions, tuned during warm-up.

A baseline, and the file to copy for a new sampler: it needs no gradient, and mixes only as fast
as the narrowest direction of the posterior allows.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS: the
baseline RWM of the tables.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import jit
from stanadapt.adaptation import rescaled
from stanadapt.metropolis import acceptance_probability
from stanadapt.points import ValuePoint, proposed, unused_value, value_at
from stanadapt.protocol import Sampler, register, require_positive, require_probability


class Settings(NamedTuple):
    """What the user chooses.

    target_accept
        Acceptance rate to tune to, in (0, 1).
    initial_scale
        The proposal's standard deviation starts as initial_scale / sqrt(dim), in units of the
        unconstrained parameters; > 0.
    learning_rate
        Relative change of the scale an iteration, in (0, 1).
    tune_scale
        Else the scale stays as it starts; initial_scale = 2.38 is best where the posterior is
        normal with covariance I.

    """

    target_accept: float = 0.25
    initial_scale: float = 0.1
    learning_rate: float = 0.01
    tune_scale: bool = True


class State(NamedTuple):
    """The current point, the losing point, and the proposal's standard deviation."""

    current: ValuePoint
    other: ValuePoint
    scale: float


class Info(NamedTuple):
    """What one iteration reports. `step_size` is the proposal's standard deviation."""

    acceptance_rate: float
    accepted: bool
    step_size: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_probability(settings, "target_accept", "learning_rate")
    require_positive(settings, "initial_scale")


@jit
def init(density, settings, position, rng):
    """Start at position, shape (size,)."""
    return State(
        value_at(density, position),
        unused_value(density.size),
        settings.initial_scale / np.sqrt(density.dim),
    )


@jit
def step(density, settings, state, rng):
    """Propose y = x + scale * eps and accept or reject it."""
    x, y, scale = state.current, state.other, state.scale
    for i in range(density.dim):
        y.position[i] = x.position[i] + scale * rng.standard_normal()
    proposal = proposed(density, x, y, rng)
    rate = acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(rate, accepted, scale)
    if accepted:
        return State(proposal, x, state.scale), info
    return State(x, proposal, state.scale), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the scale towards the target acceptance rate."""
    if not settings.tune_scale:
        return state
    rate, target = info.acceptance_rate, settings.target_accept
    scale = rescaled(state.scale, rate, target, settings.learning_rate, t, iter_warmup)
    return State(state.current, state.other, scale)


register(Sampler(Settings, Info, check, init, step, adapt, uses_gradient=False))
