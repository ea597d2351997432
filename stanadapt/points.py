"""A position and what is known there: what samplers compare, keep and overwrite.

A density may be an estimate, made with noise u of standard normal law that stands behind the
parameters x in a position (x, u). Its program's log density holds log N(u), so that

    log estimate(x, u) = log density(x, u) - log N(u).

A chain on (x, u) that proposes x' as it likes and u' = rho u + sqrt(1 - rho^2) eps, which leaves
N(u) invariant, accepts by the ratio of the estimates: log N(u) cancels. Its x then have the exact
law, however noisy the estimate, if the estimate is unbiased (Andrieu and Roberts 2009, Annals of
Statistics 37; with rho > 0: Deligiannidis, Doucet and Pitt 2018, JRSS B 80). The estimate of the
current point is kept, never made anew.
"""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import inlined, jit
from stanadapt.density import value, value_and_gradient


class ValuePoint(NamedTuple):
    """A position, shape (size,), and its log density, or the estimate of it."""

    position: np.ndarray
    log_density: float


class GradientPoint(NamedTuple):
    """A position with its log density and gradient; arrays of shape (dim,)."""

    position: np.ndarray
    log_density: float
    gradient: np.ndarray


@inlined
def copy(source, target):
    """Copy one vector into another: a plain loop, a third of what a slice assignment takes."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@jit
def _estimate(density, position):
    """Log density, less that of the noise (up to a constant), where there is noise."""
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
    """Evaluate a proposal whose first dim coordinates are set; its noise is drawn here.

    current is the ValuePoint that it is proposed from, proposal the one whose position is
    written; returns it with its log density.
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


@jit
def unused_value(size):
    """Return a ValuePoint to write the first proposal into, its position of shape (size,)."""
    return ValuePoint(np.empty(size), -np.inf)


@jit
def unused_gradient(dim):
    """Return a GradientPoint to write the first proposal into."""
    return GradientPoint(np.empty(dim), -np.inf, np.empty(dim))
