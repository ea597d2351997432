"""Hamiltonian trajectories with a mass matrix learned from gradients (entropy-based HMC).

For smooth posteriors with strong correlations or unequal scales: use it instead of `gad_mala` if a
few gradients per draw are worth their cost. A trajectory has N leapfrog steps. During warm-up, the
factor L of the inverse mass matrix, which includes the step size, climbs the generalized speed
measure. With one step, the moves are the same as those of `gad_mala`. In standardized coordinates,
L starts at its optimum for a normal posterior, and the climb gains little; in the coordinates of
the program, L has to learn all scales and correlations.

References
----------
Hirt, Titsias and Dellaportas (2021), Entropy-based adaptive Hamiltonian Monte Carlo, NeurIPS.

The objective is E[min(0, log ratio)] + beta E[log |det d q_N / d v|]; `log_ratio_derivative` has
the derivative of the first term. For the second, with a constant Hessian -H, and S = L^T H L,

    d q_N / d v = N L P(S),    N P(S) = U_{N-1}(I - S / 2),

U the Chebyshev polynomial of the second kind: a direction in which S is s = 2 (1 - cos t) adds
log |sin(N t)|, up to terms of the size of an energy error. That is largest if a trajectory is a
quarter of a period, t = pi / (2 N), and forgets its start, and -inf if it is half of one and ends
at the opposite point. The paper takes P(S) = I - (N^2 - 1) / 6 S and the series of its logarithm,
stopped at random, with a penalty near the pole at N t = 2.4. We take

    log |det d q_N / d v| = log det L - tr(S^2) / (4 s_N^2) + constant,  s_N = 4 sin^2(pi / (4 N)),

for N > 1 (for N = 1 it is log det L). This is largest exactly at the quarter period; its slope in
log s follows that of log |sin(N t)| up to 0.9 of half a period, and is -6 there; it has no pole,
and no series to stop. (A multiple of tr(S) alone has a slope of -1.3 there, too little: an energy
error is zero at half a period, and chains would end there.) With e ~ N(0, I) the derivative of
tr(S^2) in L, 4 H L S, is the mean of 4 (H L e) (L^T H L e)^T, one product with a Hessian; it is
taken at q_0, and e is the initial momentum, which is independent of q_0. The step rule is that of
`gad_mala`; the paper uses Adam.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.diagnostics.sampler_checks import FAR_BELOW
from stanadapt.engine import metric_factor, points
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density, value_and_gradient
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, Leapfrog, Phase, from_point, move
from stanadapt.engine.numerics.vectors import copy, squared_norm
from stanadapt.engine.protocol import Memory
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Count, NotNegative, Positive, Probability
from stanadapt.samplers.gad import speed_measure

# bound of beta, as in the authors' code, if trajectories reach a quarter of a period first
LARGEST_WEIGHT = 100.0
# a whole trajectory is kept in memory
MOST_STEPS = 1000


# relative to L w, itself of the size of the posterior: the truncation error is then about 1e-4 of
# the product, far below the noise of one trajectory, for half the gradients of central differences
DIFFERENCE_STEP = 1e-4


class Settings(NamedTuple):
    # Number N of leapfrog steps per iteration, each one gradient. Default in standardized
    # coordinates: (dim / 2)^(1/4), rounded, at least 2. For a normal posterior, a quarter of a
    # period in this number of steps is accepted at about the target rate, or more often.
    leapfrogs: Annotated[int, Between(1, MOST_STEPS, "[]")] = 4
    # Acceptance rate to which L is tuned. The rate stays higher if trajectories of N steps
    # reach a quarter of a period first.
    target_accept: Probability = 0.65
    # eta, the size of a step of L, in units of the unconstrained parameters: roughly the
    # distance that an entry of L moves per iteration. Without standardization, the default
    # number of warm-up iterations is too small for the default rate: use 20,000.
    learning_rate: Positive = 1.5e-4
    # L starts as initial_scale / sqrt(dim) times the identity; with 0, the trajectory is a
    # quarter of the period of standard normal parameters. Default in standardized coordinates:
    # 0. Diagonal entries of L stay above 1e-3, as in the paper (in units of the parameters if
    # these are not standardized).
    initial_scale: NotNegative = 0.1
    # Number of iterations of warm-up between steps of L: a step takes one gradient and O(N
    # dim^2) operations. Default in standardized coordinates: 4, since L starts near its
    # optimum.
    adapt_every: Count = 1
    diagonal: speed_measure.Diagonal = False
    # Also differentiate the gradients along the trajectory, which the authors' code treats as
    # constants. This takes N more gradients if L climbs after a negative log ratio. The steps
    # of L are better, but the gain is smaller than the additional cost.
    exact: bool = False
    save_factor: speed_measure.SaveFactor = False


class Trajectory(NamedTuple):
    """The path of a trajectory of N leapfrogs, and workspace; rewritten in every iteration."""

    # positions, gradients: q_k and g_k, k = 0, ..., N; shape (N + 1, dim)
    positions: np.ndarray
    gradients: np.ndarray
    velocities: np.ndarray  # a_k, k = 0, ..., N - 1; shape (N, dim)
    # start, end: v_0 and v_N, shape (dim,)
    start: np.ndarray
    end: np.ndarray
    work: np.ndarray  # shape (5, dim)


class State(NamedTuple):
    """The current point, the rejected one, a moving point, its trajectory, and the tuning."""

    current: points.GradientPoint
    scratch: points.GradientPoint
    phase: Phase
    velocity: np.ndarray
    trajectory: Trajectory
    log_ratio: float
    tuning: speed_measure.Tuning


class Info(NamedTuple):
    """Statistics of one iteration. `diverging`: energy error above 1000, or a failed density."""

    acceptance_rate: float
    accepted: bool
    diverging: bool
    leapfrogs: int
    entropy_weight: float


@jit
def empty_trajectory(steps, dim):
    """Return memory for a trajectory."""
    return Trajectory(
        np.zeros((steps + 1, dim)), np.zeros((steps + 1, dim)), np.zeros((steps, dim)),
        np.zeros(dim), np.zeros(dim), np.zeros((5, dim)),
    )  # fmt: skip


@jit
def log_ratio_derivative(density, factor, trajectory, exact, left, right):
    """Write the terms' vectors into rows of left and right, shape (>= 2 N + 1, dim).

    `exact` adds the products with Hessians, as differences of two gradients. A product is omitted
    if the density fails near the trajectory. Returns 2 N + 1.

    A trajectory of N leapfrogs of step size 1 from q_0, with momenta in units of L (`Phase`) and
    g_k = g(q_k), is

        a_k = v_k + L^T g_k / 2,    q_{k+1} = q_k + L a_k,    v_{k+1} = a_k + L^T g_{k+1} / 2,

    and its log acceptance ratio is log pi(q_N) - |v_N|^2 / 2, up to terms that do not depend on L.
    Let p and w be its derivatives in q_{k+1} and in the momentum there, and H_k the Hessian of
    log pi at q_k. By the chain rule, from the end to the start,

        p = g_N + H_N L w / 2,    w = -v_N,            which adds  g_N w^T / 2,
        and for k = N - 1, ..., 0                      which adds  p a_k^T,
            w <- w + L^T p,                            which adds  c_k g_k w^T,
            p <- p + H_k L w,

    with c_0 = 1/2 and other c_k = 1. The derivative is the sum of these 2 N + 1 outer products.
    Without the products with H_k the gradients along the trajectory are held constant.
    """
    positions, gradients, velocities = trajectory[:3]
    (steps, n), work = velocities.shape, trajectory.work
    p, w, product, bend, shifted = work[0], work[1], work[2], work[3], work[4]
    for i in range(n):
        p[i], w[i] = gradients[steps, i], -trajectory.end[i]
        left[0, i], right[0, i] = 0.5 * p[i], w[i]
    row = 1
    for k in range(steps - 1, -1, -1):
        if exact:
            metric_factor.times(factor, w, product)
            position, gradient = positions[k + 1], gradients[k + 1]
            if hessian_product(density, position, gradient, product, bend, shifted):
                weight = 0.5 if k == steps - 1 else 1.0
                for i in range(n):
                    p[i] += weight * bend[i]
        metric_factor.transposed_times(factor, p, product)
        weight = 0.5 if k == 0 else 1.0
        copy(p, left[row])
        copy(velocities[k], right[row])
        for i in range(n):
            w[i] += product[i]
            left[row + 1, i], right[row + 1, i] = weight * gradients[k, i], w[i]
        row += 2
    return row


@jit
def hessian_product(density, position, gradient, direction, out, shifted):
    """Write the Hessian of the log density times a direction, a difference of gradients, into out.

    gradient is that at position, shifted is workspace; all have shape (dim,). Returns False, and
    leaves `out` undefined, if the density fails near position.
    """
    for i in range(density.dim):
        shifted[i] = position[i] + DIFFERENCE_STEP * direction[i]
    if not value_and_gradient(density, shifted, out) > -np.inf:
        return False
    for i in range(density.dim):
        out[i] = (out[i] - gradient[i]) / DIFFERENCE_STEP
    return True


@jit
def quarter_period(leapfrogs):
    """Return the step size for which `leapfrogs` steps are a quarter of a period of N(0, 1)."""
    return 2.0 * np.sin(0.25 * np.pi / leapfrogs)


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,); not compiled, since it makes one evaluation."""
    n, steps = density.dim, settings.leapfrogs
    scale = settings.initial_scale
    if scale == 0.0:
        scale = as_python(quarter_period)(steps) * np.sqrt(n)
    return State(
        current=points.start_at(density, position),
        scratch=as_python(points.unused_gradient)(n),
        phase=Phase(np.empty(n), np.empty(n), np.empty(n)),
        velocity=np.empty(n),
        trajectory=as_python(empty_trajectory)(steps, n),
        log_ratio=0.0,
        tuning=speed_measure.start(n, scale, settings.diagonal, 2 * steps + 2),
    )


@jit
def step(density, settings, state, rng):
    """Draw a momentum, follow it for N leapfrog steps, accept or reject the end."""
    x, y, phase, path = state.current, state.scratch, state.phase, state.trajectory
    leapfrog = Leapfrog(state.tuning.factor, y.gradient, state.velocity)
    from_point(leapfrog, phase, x, rng)
    copy(x.position, path.positions[0])
    copy(x.gradient, path.gradients[0])
    copy(phase.momentum, path.start)
    log_ratio = 0.5 * squared_norm(phase.momentum) - x.log_density
    log_density = -np.inf
    for k in range(settings.leapfrogs):
        log_density = move(density, leapfrog, phase, 1.0)
        if not log_density > -np.inf:
            break
        copy(phase.position, path.positions[k + 1])
        copy(y.gradient, path.gradients[k + 1])
        for i in range(density.dim):
            path.velocities[k, i] = phase.momentum[i] - 0.5 * phase.force[i]
    copy(phase.position, y.position)
    copy(phase.momentum, path.end)
    log_ratio += log_density - 0.5 * squared_norm(phase.momentum)

    proposal = points.GradientPoint(y.position, log_density, y.gradient)
    rate = points.acceptance_probability(log_ratio)
    accepted = rng.random() < rate
    info = Info(
        acceptance_rate=rate,
        accepted=accepted,
        diverging=not log_ratio > -LARGEST_ENERGY_ERROR,
        leapfrogs=settings.leapfrogs,
        entropy_weight=state.tuning.entropy_weight,
    )
    if accepted:
        return replace(state, current=proposal, scratch=x, log_ratio=log_ratio), info
    return replace(state, scratch=proposal, log_ratio=log_ratio), info


@jit
def entropy_term(density, steps, tuning, path, row):
    """Write the derivative of -beta tr(S^2) / (4 s_N^2) into a row of left and right.

    Returns the number of rows in use afterwards.
    """
    w, direction, shifted = tuning.left[row], path.work[0], path.work[1]
    metric_factor.times(tuning.factor, path.start, direction)
    start, gradient = path.positions[0], path.gradients[0]
    if steps == 1 or not hessian_product(density, start, gradient, direction, w, shifted):
        return row
    metric_factor.transposed_times(tuning.factor, w, tuning.right[row])
    weight = -tuning.entropy_weight / quarter_period(steps) ** 4
    for i in range(density.dim):
        w[i] *= weight
    return row + 1


@jit
def _climb(density, settings, state):
    """Take one step up the objective; L is updated in place."""
    tuning, path = state.tuning, state.trajectory
    rank = 0
    if -np.inf < state.log_ratio < 0.0:
        rank = log_ratio_derivative(
            density, tuning.factor, path, settings.exact, tuning.left, tuning.right
        )
    if state.log_ratio > -np.inf:
        rank = entropy_term(density, settings.leapfrogs, tuning, path, rank)
    speed_measure.ascend(tuning, rank, state.log_ratio, settings.learning_rate)


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Climb one step after every `adapt_every` iterations, and tune beta."""
    if t % settings.adapt_every == 0:
        _climb(density, settings, state)
    tuning = speed_measure.after_step(
        state.tuning, info.accepted, settings.target_accept, LARGEST_WEIGHT
    )
    return replace(state, tuning=tuning)


def report(view: RunView) -> Findings:
    """Report L, and a range without an upper bound: a tuned chain may accept more than its target.

    The entropy of proposals, not the target, bounds the length of trajectories. A rate counts as
    wrong only if it is too low.
    """
    rate = view.settings.target_accept
    attributes = {"acceptance_target": rate, "acceptance_range": [FAR_BELOW * rate, 1.0]}
    return Findings(attributes, groups=speed_measure.report(view).groups)


register(
    __name__,
    workspace=(
        "phase", "velocity", "trajectory", "log_ratio", "tuning.left", "tuning.right",
    ),
    when_standardized={
        "leapfrogs": lambda dim: max(2, round((dim / 2) ** 0.25)),
        "initial_scale": lambda dim: 0.0, "adapt_every": lambda dim: 4,
    },
    memory=Memory(dense_matrices=lambda settings: 0 if settings.diagonal else 2),
    iter_warmup=1000, iter_sampling=5000,
)  # fmt: skip
