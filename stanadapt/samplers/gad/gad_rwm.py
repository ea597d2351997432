"""Random-walk Metropolis with a proposal covariance learned from gradients.

For posteriors with strong correlations or very unequal scales, if the gradient is cheap but too
rough for Langevin moves. The proposal is N(x, L L^T); during warm-up, L climbs the generalized
speed measure.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS:
section 3.1 (gadRWM). The defaults are ours.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density, value_and_gradient
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy, fill_normal
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Positive, Probability
from stanadapt.samplers.gad import speed_measure


class Settings(NamedTuple):
    target_accept: Probability = 0.25  # acceptance rate to which L is tuned
    # eta, the size of a step of L, in units of the unconstrained parameters: roughly the
    # distance that an entry of L moves per iteration. If it is too large, L never settles; if
    # it is too small, L has not settled at the end of warm-up, and the acceptance rate is then
    # far from its target. The paper's default suits scales near 0.1: an entry moves about 1 in
    # 20,000 iterations, so that standard deviations of 1 and more need 2e-4 or more.
    learning_rate: Positive = 5e-5
    # L starts as initial_scale / sqrt(dim) times the identity. Default in standardized
    # coordinates: 2.38, the optimum for a normal posterior. Diagonal entries of L stay above
    # 1e-3, as in the paper (in units of the parameters if these are not standardized).
    initial_scale: Positive = 0.1
    adapt_every: speed_measure.AdaptEvery = 1
    diagonal: speed_measure.Diagonal = False
    save_factor: speed_measure.SaveFactor = False


class State(NamedTuple):
    """The current point, the rejected one, the noise of the last proposal, and the tuning."""

    current: points.GradientPoint
    scratch: points.GradientPoint
    noise: np.ndarray
    log_ratio: float
    tuning: speed_measure.Tuning


class Info(NamedTuple):
    acceptance_rate: float
    accepted: bool
    entropy_weight: float


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,); not compiled, since it makes one evaluation."""
    n = density.dim
    return State(
        current=points.start_at(density, position),
        scratch=as_python(points.unused_gradient)(n),
        noise=np.empty(n),
        log_ratio=0.0,
        tuning=speed_measure.start(n, settings.initial_scale, settings.diagonal),
    )


@jit
def step(density, settings, state, rng):
    """Propose y = x + L eps and accept or reject it."""
    x, y, noise, tuning = state.current, state.scratch, state.noise, state.tuning
    fill_normal(rng, noise)
    factors.times(tuning.factor, noise, y.position)
    for i in range(density.dim):
        y.position[i] += x.position[i]
    log_density = value_and_gradient(density, y.position, y.gradient)
    log_ratio = log_density - x.log_density

    proposal = points.GradientPoint(y.position, log_density, y.gradient)
    rate = points.acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate, accepted=accepted, entropy_weight=tuning.entropy_weight
    )  # fmt: skip
    if accepted:
        return replace(state, current=proposal, scratch=x, log_ratio=log_ratio), info
    return replace(state, scratch=proposal, log_ratio=log_ratio), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Climb: dF = [g(y) eps^T]_lower when log ratio < 0, and the entropy term always."""
    tuning = state.tuning
    if t % settings.adapt_every == 0:
        y = state.current if info.accepted else state.scratch
        rank = 0
        if -np.inf < state.log_ratio < 0.0:
            rank = 1
            copy(y.gradient, tuning.left[0])
            copy(state.noise, tuning.right[0])
        speed_measure.ascend(tuning, rank, state.log_ratio, settings.learning_rate)
    tuning = speed_measure.after_step(tuning, info.accepted, settings.target_accept)
    return replace(state, tuning=tuning)


register(
    __name__,
    report=speed_measure.report,
    memory=Memory(dense_matrices=lambda settings: 0 if settings.diagonal else 2),
    workspace=("noise", "log_ratio", "tuning.left", "tuning.right"),
    when_standardized={
        "initial_scale": lambda dim: points.RANDOM_WALK_SCALE, "adapt_every": lambda dim: 4,
    },
    presets={
        "titsias2019": Preset({
            "target_accept": 0.25, "learning_rate": 5e-5, "initial_scale": 0.1,
            "adapt_every": 1, "diagonal": False,
        }),
    },
)  # fmt: skip
