"""Adaptive Metropolis: a random walk with the covariance of the chain so far.

A baseline without gradients for correlated posteriors of moderate dimension. The proposal is N(x,
s^2 L L^T); L L^T follows the running covariance of the chain, and s is tuned to an acceptance rate.

References
----------
Haario, Saksman and Tamminen (2001), Bernoulli 7(2), with a fixed s. The form without matrix
decompositions is the baseline of Titsias and Dellaportas (2019):
L <- L + rho_t L [z z^T - I]_lower, z = L^-1 (x - mu), rho_t = rate / (1 + t / decay).
The defaults are the rates of their text; preset=titsias2019 has those of their programs, in which L
is diagonal only on Neal's Gaussian. preset=sejdinovic2014 is AM-LS of Kernel Adaptive
Metropolis-Hastings.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import fill_normal
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Fraction, Positive, Probability
from stanadapt.samplers.saved_factor import report_factor, whole


class Settings(NamedTuple):
    target_accept: Probability = 0.25  # acceptance rate to which s is tuned
    learning_rate: Probability = 0.01  # relative change of s per iteration
    # rho_0: the weight of the newest position in mean and covariance, falling as 1 / (1 + t /
    # decay) with the iteration t
    covariance_rate: Probability = 0.001
    decay: Positive = 4000.0  # number of iterations after which that weight is halved
    # constant weight of the newest position in the mean; 0: the same weight as in the
    # covariance
    mean_rate: Fraction = 0.0
    # L starts as initial_scale / sqrt(dim) times the identity. Default in standardized
    # coordinates: 2.38, the optimum for a normal posterior.
    initial_scale: Positive = 0.1
    # Whether s is tuned. Otherwise it is 2.38 / sqrt(dim) throughout, which is best for a
    # normal posterior.
    tune_scale: bool = True
    # learn a diagonal L: O(dim) instead of O(dim^2) operations per iteration, but no
    # correlations
    diagonal: bool = False
    save_factor: bool = False  # whether the result has s L, in the group `proposal_factor`


class State(NamedTuple):
    """The current point, the rejected one, the scale s, and the running mean and factor L.

    mean, noise, whitened have shape (dim,); factor, (dim, dim) or (1, dim), is updated in place.
    """

    current: points.ValuePoint
    scratch: points.ValuePoint
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


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (size,), with its parameters as the first mean."""
    n = density.dim
    return State(
        current=points.value_at(density, position),
        scratch=points.unused_value(density.size),
        scale=1.0 if settings.tune_scale else points.RANDOM_WALK_SCALE / np.sqrt(n),
        mean=position[:n].copy(),
        factor=factors.initial(n, settings.initial_scale / np.sqrt(n), settings.diagonal),
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
    proposal = points.proposed(density, x, y, rng)
    rate = points.acceptance_probability(proposal.log_density - x.log_density)
    accepted = rng.random() < rate
    info = Info(acceptance_rate=rate, accepted=accepted, step_size=scale)
    if accepted:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def _follow(factor, whitened, rate):
    """L <- L + rate * L [z z^T - I]_lower in O(n^2), by running sums along each row."""
    if factor.shape[0] < whitened.shape[0]:
        for i in range(whitened.shape[0]):
            factor[0, i] += rate * factor[0, i] * (whitened[i] * whitened[i] - 1.0)
        return
    for i in range(whitened.shape[0]):
        total = 0.0
        for j in range(i, -1, -1):
            total += factor[i, j] * whitened[j]
            factor[i, j] += rate * (whitened[j] * total - factor[i, j])


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Move mean and factor toward the current position, the scale toward its target."""
    position, mean = state.current.position, state.mean
    rate = settings.covariance_rate * settings.decay / (settings.decay + t)
    mean_rate = settings.mean_rate if settings.mean_rate > 0.0 else rate
    difference = state.noise
    for i in range(density.dim):
        difference[i] = position[i] - mean[i]
        mean[i] += mean_rate * difference[i]
    factors.solve(state.factor, difference, state.whitened)
    _follow(state.factor, state.whitened, rate)
    accepted, target = info.acceptance_rate, settings.target_accept
    scale = state.scale
    if settings.tune_scale:
        scale = rescaled(scale, accepted, target, settings.learning_rate, t, iter_warmup)
    return replace(state, scale=scale)


def report(view: RunView) -> Findings:
    """Report s L if it was asked for."""
    return report_factor(view, lambda state: state.scale * whole(state.factor))


register(
    __name__,
    memory=Memory(dense_matrices=lambda settings: 0 if settings.diagonal else 1),
    workspace=("noise", "whitened"),
    uses_gradient=False,
    when_standardized={"initial_scale": lambda dim: points.RANDOM_WALK_SCALE},
    presets={
        # the rates of the authors' programs, which gave the tables; L starts as the identity
        "titsias2019": Preset({
            "target_accept": 0.25, "learning_rate": 0.005, "covariance_rate": 5e-4,
            "decay": 5000.0, "mean_rate": 0.01, "tune_scale": True, "diagonal": False,
        }, {"initial_scale": np.sqrt}),
        # AM-LS
        "sejdinovic2014": Preset({"target_accept": 0.234, "tune_scale": True, "diagonal": False}),
    },
)  # fmt: skip
