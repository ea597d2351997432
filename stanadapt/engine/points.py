"""Points of a chain, the Metropolis-Hastings decision, and the Langevin move.

A point is a position with its log density, and its gradient if the sampler uses one. Moves are
scaled for n standard normal coordinates, n large: the best size is RANDOM_WALK_SCALE n^(-1/2) for a
random walk (Roberts, Gelman and Gilks 1997), and LANGEVIN_SCALE n^(-1/6) for a Langevin step
(Roberts and Rosenthal 1998).

A density may be an estimate that depends on standard normal noise u; a position (x, u) then holds
u after the parameters x. The program's log density includes log N(u), so that

    log estimate(x, u) = log density(x, u) - log N(u).

A chain on (x, u) may propose x' by any rule, and u' = rho u + sqrt(1 - rho^2) eps, which leaves
N(u) invariant; it accepts by the ratio of the estimates: log N(u) cancels. If the estimate is
unbiased, the x are draws from the exact target, however noisy it is (Andrieu and Roberts 2009,
Annals of Statistics 37; with rho > 0: Deligiannidis, Doucet and Pitt 2018, JRSS B 80). The estimate
at the current point is kept, never redrawn.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.density import Density, gradient_of_program, value, value_and_gradient
from stanadapt.engine.numerics.vectors import fill_normal

RANDOM_WALK_SCALE, LANGEVIN_SCALE = 2.38, 1.65


class ValuePoint(NamedTuple):
    """A position, shape (size,), and its log density or an estimate of it."""

    position: np.ndarray
    log_density: float


class GradientPoint(NamedTuple):
    """A position with its log density and gradient; arrays of shape (dim,)."""

    position: np.ndarray
    log_density: float
    gradient: np.ndarray


@jit
def _estimate(density, position):
    """Return the log density minus that of the noise, if any, up to a constant."""
    total = value(density, position)
    for i in range(density.dim, density.size):
        total += 0.5 * position[i] * position[i]
    return total


@jit
def value_at(density, position):
    """Return a ValuePoint at a copy of position, shape (size,)."""
    return ValuePoint(position.copy(), _estimate(density, position))


@jit
def proposed(density, current, proposal, rng):
    """Evaluate a proposal with its first dim coordinates set, after its noise is drawn.

    current and proposal are ValuePoints; the position of the proposal is completed in place.
    Returns the proposal with its log density.
    """
    rho = density.correlation
    scale = np.sqrt(1.0 - rho * rho)
    for i in range(density.dim, density.size):
        proposal.position[i] = rho * current.position[i] + scale * rng.standard_normal()
    return ValuePoint(proposal.position, _estimate(density, proposal.position))


@jit
def gradient_at(density, position):
    """Return a GradientPoint at a copy of position."""
    gradient = np.empty(density.dim)
    log_density = value_and_gradient(density, position, gradient)
    return GradientPoint(position.copy(), log_density, gradient)


def start_at(density: Density, position: np.ndarray) -> GradientPoint:
    """Return the GradientPoint at a copy of position; for Python code, in which chains begin."""
    gradient = np.empty(density.dim)
    position = np.array(position, order="C")
    return GradientPoint(position, gradient_of_program(density, position, gradient), gradient)


@jit
def unused_value(size):
    """Return a ValuePoint to write the first proposal into, its position of shape (size,)."""
    return ValuePoint(np.empty(size), -np.inf)


@jit
def unused_gradient(dim):
    """Return a GradientPoint to write the first proposal into."""
    return GradientPoint(np.empty(dim), -np.inf, np.empty(dim))


# --- decision and move ----------------------------------------------------------------------------


@inline
def acceptance_probability(log_ratio):
    """Return min(1, exp(log_ratio)); zero if the ratio is NaN or the proposal failed."""
    if log_ratio >= 0.0:
        return 1.0
    if log_ratio > -np.inf:
        return np.exp(log_ratio)
    return 0.0


@inline
def propose(density, x, y, noise, s, rng):
    """Set y to x + s^2 g(x) / 2 + s noise, with new noise; s is sqrt(h) of the diffusion.

    The end of the move and the gradient there are written to the `GradientPoint` y. Returns the log
    density at y, and the log of pi(y) q(x | y) / (pi(x) q(y | x)).
    """
    fill_normal(rng, noise)
    for i in range(density.dim):
        y.position[i] = x.position[i] + 0.5 * s * s * x.gradient[i] + s * noise[i]
    log_density = value_and_gradient(density, y.position, y.gradient)
    # the reverse move needs the noise -(noise + s (g(x) + g(y)) / 2)
    log_ratio = log_density - x.log_density
    for i in range(density.dim):
        reverse = noise[i] + 0.5 * s * (x.gradient[i] + y.gradient[i])
        log_ratio += 0.5 * (noise[i] * noise[i] - reverse * reverse)
    return log_density, log_ratio
