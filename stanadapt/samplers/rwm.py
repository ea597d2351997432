"""Random-walk Metropolis with one scale for all directions, tuned during warm-up.

A baseline, and the file to copy for a new sampler: it needs no gradient, and mixes only as fast
as the narrowest direction of the posterior allows.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS: the
baseline RWM of the tables, and preset=titsias2019. preset=sejdinovic2014 is SM of Kernel Adaptive
Metropolis-Hastings (ICML).
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.protocol import Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Positive, Probability


class Settings(NamedTuple):
    target_accept: Probability = 0.25  # acceptance rate to which the scale is tuned
    # The proposal's standard deviation starts as initial_scale / sqrt(dim), in units of the
    # unconstrained parameters. Default in standardized coordinates: 2.38, the optimum for a
    # normal posterior.
    initial_scale: Positive = 0.1
    learning_rate: Probability = 0.01  # relative change of the scale per iteration
    # Whether the scale is tuned. Otherwise it keeps its initial value; initial_scale = 2.38 is
    # then best for a normal posterior with covariance I.
    tune_scale: bool = True


class State(NamedTuple):
    """The current point, the rejected one, and the proposal's standard deviation."""

    current: points.ValuePoint
    scratch: points.ValuePoint
    scale: float


class Info(NamedTuple):
    """Statistics of one iteration. `step_size` is the proposal's standard deviation."""

    acceptance_rate: float
    accepted: bool
    step_size: float


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,)."""
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        scale=settings.initial_scale / np.sqrt(density.dim),
    )


@jit
def step(density, settings, state, rng):
    """Propose y = x + scale * eps and accept or reject it."""
    x, y, scale = state.current, state.scratch, state.scale
    for i in range(density.dim):
        y.position[i] = x.position[i] + scale * rng.standard_normal()
    proposal = points.proposed(density, x, y, rng)
    rate = points.acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(acceptance_rate=rate, accepted=accepted, step_size=scale)
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move the scale toward the target acceptance rate."""
    if not settings.tune_scale:
        return state
    rate, target = info.acceptance_rate, settings.target_accept
    scale = rescaled(state.scale, rate, target, settings.learning_rate, t, iter_warmup)
    return replace(state, scale=scale)


register(
    __name__,
    uses_gradient=False,
    when_standardized={"initial_scale": lambda dim: points.RANDOM_WALK_SCALE},
    presets={
        "titsias2019": Preset({
            "target_accept": 0.25, "initial_scale": 0.1, "learning_rate": 0.01,
            "tune_scale": True,
        }),
        # SM: standard deviation 2.38 / sqrt(dim)
        "sejdinovic2014": Preset({"tune_scale": False, "initial_scale": 2.38}),
    },
)  # fmt: skip
