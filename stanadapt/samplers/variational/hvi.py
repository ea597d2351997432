"""Draws by a few leapfrogs from a variational approximation, made exact; a bound on log Z.

Warm-up fits a Gaussian q_0 to the posterior (ADVI), and then finds the step size and the masses of
leapfrog steps that bring its draws closer to the posterior. A whole path of such steps is the
proposal of an independent Metropolis step, so draws are exact. They are nearly independent if the
approximation is good; in regions that it misses, a chain stays for a long time. Each path also
gives a lower bound on the log evidence, and an unbiased estimate of the evidence. Attributes of the
result record both with their errors: `bound`, `bound_error`, `log_evidence`, `log_evidence_error`
(NaN if the largest weights dominate). With exact=False, every path is accepted: the draws then have
the distribution of the approximation, and are not exact.

References
----------
Salimans, Kingma and Welling (2015), Markov chain Monte Carlo and variational inference: bridging
the gap, ICML; the paths and their weights: `samplers/variational/hamiltonian_path.py`. Deviations:
the Metropolis step; q_0 is fitted first, by ADVI, or has the mean and covariance of an earlier
fit's draws (`warm_start`), such as those of `approximate` by Pathfinder; and the reverse model is a
linear regression.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import fill_normal
from stanadapt.engine.points import acceptance_probability, start_at
from stanadapt.engine.protocol import Memory
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Count, NotNegative, Probability
from stanadapt.samplers.variational import advi, hamiltonian_path
from stanadapt.samplers.variational.advi import Climber, Family, fit_to_draws

FIT_SHARE = 0.5  # share of warm-up in which q_0 is fitted


class Settings(NamedTuple):
    # Whether paths are accepted or rejected. If not, draws come from the approximation: they
    # are independent, but not exact.
    exact: bool = True
    # mean_field: a q_0 without correlations, which the leapfrog steps introduce; or full_rank
    approximation: Family = Family.mean_field
    # Number T of times that a momentum is drawn in a path. The bound rises with it.
    transitions: Count = 4
    leapfrogs: Count = 3  # number of leapfrog steps for each momentum
    # Size of a leapfrog step, in units of the standard deviations of q_0. With 0, the step
    # size with the highest bound is used.
    step_size: NotNegative = 0.0
    # Number of paths to which the reverse model is fitted. A larger number raises the bound.
    paths: Annotated[int, Between(100, ends="[)")] = 4000
    grad_samples: Count = 10  # number of gradients per iteration of the first half of warm-up
    # length of the first steps of q_0, in units of the coordinates
    learning_rate: Probability = 0.05


class Weighed(NamedTuple):
    """End of a path with its log density, and the log weight of the path."""

    position: np.ndarray
    log_density: float
    log_weight: float


class State(NamedTuple):
    """The current point and the rejected one, the model of paths, and the state of the ascent."""

    current: Weighed
    scratch: Weighed
    model: hamiltonian_path.PathModel
    climber: Climber
    averaged: int  # number of iterates in the sums of `climber`
    fitting: bool  # whether q_0 is still being fitted: not if it comes from an earlier fit
    training_due: bool  # whether paths are to be trained before the next one
    work: hamiltonian_path.PathWork


class Info(NamedTuple):
    # Acceptance probability of the path. If every path is accepted: 1, or 0 if the density failed.
    acceptance_rate: float
    # L of the proposed path: its mean is a lower bound on the log evidence, and exp(L) an unbiased
    # estimate of the evidence, up to constants that the attributes of a result include. If the
    # density failed, the lowest number.
    log_weight: float
    leapfrogs: int  # gradients of the path: one at its start, and one for each leapfrog


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start at position, shape (dim,), with q_0 = N(position, I) and paths that end there."""
    n, point = density.dim, start_at(density, position)
    factor = as_python(triangular.initial)(n, 1.0, settings.approximation == 1)
    return State(
        # a start is not the end of a path: its weight is 0, and the first proposal is accepted
        current=Weighed(point.position, point.log_density, -np.inf),
        scratch=Weighed(np.empty(n), -np.inf, -np.inf),
        model=hamiltonian_path.path_model(position, factor, settings.transitions),
        climber=as_python(advi.climber_at)(position, factor.copy(), settings.grad_samples),
        averaged=0,
        fitting=True,
        training_due=False,
        work=hamiltonian_path.path_work(n, settings.transitions),
    )


@jit
def init_from_draws(density, settings, state, positions, rng):
    """Give q_0 the mean and covariance of draws, shape (draw, dim), and fix it."""
    fit_to_draws(positions, state.model.location, state.model.factor)
    return replace(state, fitting=False)


@jit
def step(density, settings, state, rng):
    """Propose the end of a new path; accept or reject it by the ratio of weights."""
    if state.training_due:
        hamiltonian_path.train(density, settings, state.model, state.work, rng)
        state = _forget_weight(replace(state, training_due=False))
    x, y, work = state.current, state.scratch, state.work
    for t in range(work.noise.shape[0]):
        fill_normal(rng, work.noise[t])
    if state.fitting:
        advi.draw_noise(state.climber, rng)
    log_density, base, count = hamiltonian_path.walk(
        density, state.model, settings.leapfrogs, work, y.position
    )
    log_weight, rate = hamiltonian_path.LOWEST, 0.0
    if log_density > -np.inf:
        log_weight = log_density + base + hamiltonian_path.log_reverse(state.model, work.ends, work)
        rate = 1.0
        if settings.exact and x.log_weight > -np.inf:
            rate = acceptance_probability(log_weight - x.log_weight)
    proposal = Weighed(y.position, log_density, log_weight)
    info = Info(acceptance_rate=rate, log_weight=log_weight, leapfrogs=count)
    if rng.random() < rate:
        return replace(state, current=proposal, scratch=x), info
    return replace(state, scratch=proposal), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Fit q_0 in the first half of warm-up; then train the paths, which the second half uses."""
    half = int(FIT_SHARE * iter_warmup)
    if state.fitting and t < half:
        averaged, ends = advi.climb_in_window(
            density, state.climber, state.averaged, settings.learning_rate, t, half
        )
        state = replace(state, averaged=averaged)
        if ends:
            state = _update_q(state)
    if t == half:
        state = replace(state, fitting=False, training_due=True)
    return state


@jit
def _update_q(state):
    """Set q_0 to the mean of the iterates of a window, and begin the next window."""
    model = state.model
    advi.average_into(state.climber, state.averaged, model.location, model.factor)
    return _forget_weight(replace(state, averaged=0))


@jit
def _forget_weight(state):
    """Forget the weight of the current point, which belongs to another model."""
    x = state.current
    return replace(state, current=Weighed(x.position, x.log_density, -np.inf))


freeze = advi.stop_fitting


register(
    __name__,
    iter_warmup=2000, iter_sampling=5000,
    init_from={"warm_start": init_from_draws},
    workspace=("work", "climber.noise"),
    standardize=advi.coordinates,
    # two matrices per transition, and six for a q_0 with correlations
    memory=Memory(lambda s: 2 * s.transitions + 6 * (s.approximation == Family.full_rank)),
    exact=lambda settings: settings.exact,
)  # fmt: skip
