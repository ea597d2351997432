"""Langevin moves with a preconditioner learned from gradients (gadMALA).

For smooth posteriors with strong correlations or very unequal scales, if a draw should cost only
one gradient and a few products with a triangular n x n matrix. The proposal is N(x + L L^T g(x) /
2, L L^T), with g the gradient; during warm-up, L climbs the generalized speed measure.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS:
section 3.2; the fast form drops the Hessian (gadMALAf), `exact` keeps it (gadMALAe). The defaults
and the factor of low rank, `proposal_factor`, are ours. The Hessian-vector product is a central
difference of two gradients. A bounded drift (`largest_drift`): Roberts and Tweedie (1996),
Bernoulli 2(4), the truncated algorithm, here entry by entry; L climbs as if none was cut off.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density, value_and_gradient
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm
from stanadapt.engine.points import LANGEVIN_SCALE, acceptance_probability, start_at
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import (
    CountOrZero,
    NotNegative,
    Positive,
    Probability,
    setting_error,
)
from stanadapt.samplers.gad import proposal_factor as factors
from stanadapt.samplers.gad import speed_measure

# relative to the move L m, itself of the size of the posterior: the truncation error is then
# about 1e-8 of the product and the rounding error about 1e-12
DIFFERENCE_STEP = 1e-4


class Settings(NamedTuple):
    target_accept: Probability = 0.55  # acceptance rate to which L is tuned
    # eta, the size of a step of L, in units of the unconstrained parameters: roughly the
    # distance that an entry of L moves per iteration. The paper uses 1e-5 for 785 parameters.
    learning_rate: Positive = 1.5e-4
    # L starts as initial_scale / sqrt(dim) times the identity. Default in standardized
    # coordinates: 1.65 dim^(1/3), the optimum for a normal posterior. Diagonal entries of L
    # stay above 1e-3, as in the paper (in units of the parameters if these are not
    # standardized).
    initial_scale: Positive = 0.1
    adapt_every: speed_measure.AdaptEvery = 1
    diagonal: speed_measure.Diagonal = False
    # Learn L = diag(s) + U V^T with `rank` columns in U and V: O(rank dim) per iteration, for
    # hundreds of parameters, if only a few combinations of them differ from the rest. If it is
    # 0, or at least half the dimension, L is a full triangular matrix.
    rank: CountOrZero = 0
    # Keep the Hessian term of the derivative, which takes two more gradients in about half of
    # the iterations of warm-up. Rarely better; see the paper's tables.
    exact: bool = False
    # Largest entry of the drift L^T g / 2, in standard deviations of the noise; 0: no bound. In a
    # steep tail moves overshoot without a bound, and a chain may stay for hundreds of iterations.
    # Default in standardized coordinates: 2.5, which draws of a normal posterior hardly reach.
    largest_drift: NotNegative = 0.0
    save_factor: speed_measure.SaveFactor = False


class Point(NamedTuple):
    """A position, its log density, gradient g, and L^T g, bounded; arrays of shape (dim,)."""

    position: np.ndarray
    log_density: float
    gradient: np.ndarray
    scaled_gradient: np.ndarray


class State(NamedTuple):
    """The current point, the rejected one, the ingredients of the last proposal, and the tuning.

    noise is eps, drift_and_noise is u / 2 + eps, both of shape (dim,); work has shape (3, dim).
    """

    current: Point
    scratch: Point
    noise: np.ndarray
    drift_and_noise: np.ndarray
    log_ratio: float
    tuning: speed_measure.Tuning
    work: np.ndarray


class Info(NamedTuple):
    acceptance_rate: float
    accepted: bool
    entropy_weight: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for two forms of L."""
    if settings.diagonal and settings.rank:
        raise setting_error(
            "gad_mala: L can be diagonal or of low rank, but not both, got diagonal=True and "
            f"rank={settings.rank}. Omit one of them."
        )


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,); not compiled, since it makes one evaluation."""
    n, point = density.dim, start_at(density, position)
    tuning = speed_measure.start(n, settings.initial_scale, settings.diagonal, 3, settings.rank)
    scaled = tuning.factor[0, 0] * point.gradient  # L is a multiple of I
    as_python(_bound)(settings, scaled)
    return State(
        current=Point(*point, scaled),
        scratch=Point(np.empty(n), -np.inf, np.empty(n), np.empty(n)),
        noise=np.empty(n),
        drift_and_noise=np.empty(n),
        log_ratio=0.0,
        tuning=tuning,
        work=np.empty((3, n)),
    )


@jit
def _bound(settings, scaled_gradient):
    """Bound the entries of L^T g, in place."""
    largest = 2.0 * settings.largest_drift
    if largest > 0.0:
        for i in range(scaled_gradient.shape[0]):
            scaled_gradient[i] = min(max(scaled_gradient[i], -largest), largest)


@jit
def step(density, settings, state, rng):
    """Propose y = x + L (u / 2 + eps), u = L^T g(x), and accept or reject it."""
    x, y, tuning = state.current, state.scratch, state.tuning
    eps, forward = state.noise, state.drift_and_noise
    u, v = x.scaled_gradient, y.scaled_gradient
    fill_normal(rng, eps)
    for i in range(density.dim):
        forward[i] = 0.5 * u[i] + eps[i]
    factors.times(tuning.factor, forward, y.position)
    for i in range(density.dim):
        y.position[i] += x.position[i]
    log_density = value_and_gradient(density, y.position, y.gradient)
    factors.transposed_times(tuning.factor, y.gradient, v)
    _bound(settings, v)

    # the reverse move needs the noise -m, m = (u + v) / 2 + eps
    m = state.work[0]
    for i in range(density.dim):
        m[i] = forward[i] + 0.5 * v[i]
    log_ratio = log_density - x.log_density - 0.5 * (squared_norm(m) - squared_norm(eps))

    proposal = Point(y.position, log_density, y.gradient, v)
    rate = acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate, accepted=accepted, entropy_weight=tuning.entropy_weight
    )  # fmt: skip
    if accepted:
        return replace(state, current=proposal, scratch=x, log_ratio=log_ratio), info
    return replace(state, scratch=proposal, log_ratio=log_ratio), info


@jit
def _hessian_terms(density, state, x, y):
    """Set the other two outer products, w = H(y) L m: -w/2 (u/2 + eps)^T, -g(x)/4 (L^T w)^T.

    Return 3, the number of products; 1 if a gradient near y failed.
    """
    tuning, n = state.tuning, density.dim
    left, right = tuning.left, tuning.right
    m, direction, shifted = state.work[0], state.work[1], state.work[2]
    factors.times(tuning.factor, m, direction)
    w, backward = left[1], left[2]
    for i in range(n):
        shifted[i] = y.position[i] + DIFFERENCE_STEP * direction[i]
    ahead = value_and_gradient(density, shifted, w)
    for i in range(n):
        shifted[i] = y.position[i] - DIFFERENCE_STEP * direction[i]
    behind = value_and_gradient(density, shifted, backward)
    if not (ahead > -np.inf and behind > -np.inf):
        return 1
    for i in range(n):
        w[i] = (w[i] - backward[i]) / (2.0 * DIFFERENCE_STEP)
    factors.transposed_times(tuning.factor, w, right[2])
    for i in range(n):
        left[1, i] = -0.5 * w[i]
        right[1, i] = state.drift_and_noise[i]
        left[2, i] = -0.25 * x.gradient[i]
    return 3


@jit
def _climb(density, settings, state, info):
    """Take one step up the speed measure; L is updated in place."""
    current = state.current
    x, y = (state.scratch, current) if info.accepted else (current, state.scratch)
    rank = 0
    if -np.inf < state.log_ratio < 0.0:
        rank, left, right = 1, state.tuning.left[0], state.tuning.right[0]
        # -(g(x) - g(y)) / 2 times ((u - v) / 2 + eps)^T
        for i in range(density.dim):
            left[i] = -0.5 * (x.gradient[i] - y.gradient[i])
            right[i] = state.drift_and_noise[i] - 0.5 * y.scaled_gradient[i]
        if settings.exact:
            rank = _hessian_terms(density, state, x, y)
    speed_measure.ascend(state.tuning, rank, state.log_ratio, settings.learning_rate)


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Climb one step, then recompute u = L^T g(x), since L has moved."""
    tuning, current = state.tuning, state.current
    if t % settings.adapt_every == 0:
        _climb(density, settings, state, info)
        factors.transposed_times(tuning.factor, current.gradient, current.scaled_gradient)
        _bound(settings, current.scaled_gradient)
    tuning = speed_measure.after_step(tuning, info.accepted, settings.target_accept)
    return replace(state, tuning=tuning)


register(
    __name__,
    report=speed_measure.report,
    memory=Memory(lambda settings: 0 if settings.diagonal or settings.rank else 2),
    workspace=(
        "noise", "drift_and_noise", "log_ratio", "work", "tuning.left", "tuning.right",
        "tuning.slope", "tuning.inverse",
    ),
    when_standardized={
        "initial_scale": lambda dim: LANGEVIN_SCALE * dim ** (1.0 / 3.0),
        "adapt_every": lambda dim: 4, "largest_drift": lambda dim: 2.5,
    },
    # gadMALAf; exact=true is gadMALAe
    presets={
        "titsias2019": Preset({
            "target_accept": 0.55, "learning_rate": 1.5e-4, "initial_scale": 0.1,
            "adapt_every": 1, "diagonal": False, "rank": 0, "exact": False, "largest_drift": 0.0,
        }),
    },
)  # fmt: skip
