"""Langevin moves without an acceptance step: not exact, its bias grows with the step.

Every move is made, x' = x + (h / 2) g(x) + sqrt(h) eps. R-hat and effective sample sizes do not
detect the bias of the draws, and it does not vanish with more draws. Use this sampler for
comparison with `mala`, which corrects the bias. The step follows from the bias that is allowed.

References
----------
Roberts and Tweedie (1996), Exponential convergence of Langevin distributions and their discrete
approximations, Bernoulli 2(4). For a normal coordinate with standard deviation s, the variance of
the draws is s^2 / (1 - h / (4 s^2)), and infinite from h = 4 s^2 on. The step rule is ours: h = 4 b
/ (1 + b) makes the variance too large by the share b if s = 1, as in standardized coordinates. For
densities that are steeper in places, warm-up reduces it until a Metropolis test accepts nearly all
moves. The test is made only during warm-up: without it, steps that are still too large would take a
chain far out.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import points
from stanadapt.engine.adaptation import rescaled
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Probability
from stanadapt.errors import Message

LEARNING_RATE = 0.01  # relative change of the step per iteration of warm-up


class Settings(NamedTuple):
    # Relative error of the variance of a normal coordinate of unit scale, which is too large
    # by this share. The smaller it is, the more the draws are correlated.
    variance_bias: Probability = 0.02
    # share of moves that a Metropolis test must accept in warm-up; the step is reduced until
    # it does
    least_accept: Probability = 0.9


class State(NamedTuple):
    """The current point, memory for the next one, the last noise, and the sd of the noise."""

    current: points.GradientPoint
    scratch: points.GradientPoint
    noise: np.ndarray
    step_size: float
    testing: bool  # whether moves are tested, which is the case during warm-up


class Info(NamedTuple):
    # probability that a Metropolis test would have accepted the move, which is made in any case
    # except during warm-up
    acceptance_rate: float
    step_size: float  # sqrt(h), the standard deviation of the noise


@jit
def _largest_step(settings):
    """Return sqrt(h) with h / 4 / (1 - h / 4) = b."""
    return np.sqrt(4.0 * settings.variance_bias / (1.0 + settings.variance_bias))


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,)."""
    n = density.dim
    return State(
        current=points.gradient_at(density, position),
        scratch=points.unused_gradient(n),
        noise=np.empty(n),
        step_size=_largest_step(settings),
        testing=True,
    )


@jit
def step(density, settings, state, rng):
    """Move to y = x + s^2 g(x) / 2 + s eps, unless the density fails there; test it in warm-up."""
    x, y, s = state.current, state.scratch, state.step_size
    log_density, log_ratio = points.propose(density, x, y, state.noise, s, rng)
    rate = points.acceptance_probability(log_ratio)
    info = Info(acceptance_rate=rate, step_size=s)
    moved = points.GradientPoint(y.position, log_density, y.gradient)
    if log_density > -np.inf and (not state.testing or rng.random() < rate):
        return replace(state, current=moved, scratch=x), info
    return replace(state, scratch=moved), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Reduce the step if a test would reject too many moves; never exceed that of the rule."""
    step_size = rescaled(
        state.step_size, info.acceptance_rate, settings.least_accept, LEARNING_RATE, t, iter_warmup
    )
    return replace(state, step_size=min(step_size, _largest_step(settings)))


def freeze(settings: Settings, state: State) -> State:
    """Stop testing moves."""
    return state._replace(testing=False)


def report(view: RunView) -> Findings:
    """Report a bias that is larger than allowed: a Metropolis test would reject many moves."""
    settings = view.settings
    rate = float(np.mean(view.sample_stats["acceptance_rate"]))
    if rate >= settings.least_accept - 0.5 * (1.0 - settings.least_accept):
        return Findings()
    text = (
        f"A Metropolis test would reject {1.0 - rate:.0%} of the moves: the bias is larger than "
        f"variance_bias={settings.variance_bias:g} allows. Lengthen warm-up (iter_warmup), or use "
        "mala, which makes the test."
    )
    return Findings(messages=[Message("bias_above_setting", text)])


register(
    __name__,
    iter_warmup=2_000, workspace=("noise",), exact=False,
)  # fmt: skip
