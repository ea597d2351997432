"""Leapfrog integrators, with a diagonal scale and with a metric."""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import inlined, jit
from stanadapt.engine.compiled.vectors import fill_normal
from stanadapt.engine.density import value_and_gradient

# an energy error above this is a divergence, as in Stan
LARGEST_ENERGY_ERROR = 1000.0


@inlined
def leapfrog(density, position, momentum, gradient, scale, step_size, steps):
    """Follow Hamilton's equations for `steps` leapfrogs of `step_size`, in units of `scale`.

    position, momentum and gradient are updated in place; the mass of coordinate i is
    1 / scale[i]^2, and its momentum is stored multiplied by scale[i], so that it is N(0, 1). All
    arrays have shape (dim,). Returns the log density at the end, and the number of steps. Where
    the density fails on the way, it stops there and returns -inf. (Stopping early keeps the move
    reversible: the reverse trajectory fails at the same point.)
    """
    n, log_density = density.dim, -np.inf
    for i in range(n):
        momentum[i] += 0.5 * step_size * scale[i] * gradient[i]
    for k in range(steps):
        for i in range(n):
            position[i] += step_size * scale[i] * momentum[i]
        log_density = value_and_gradient(density, position, gradient)
        if not log_density > -np.inf:
            return -np.inf, k + 1
        kick = 0.5 * step_size if k == steps - 1 else step_size
        for i in range(n):
            momentum[i] += kick * scale[i] * gradient[i]
    return log_density, steps


class Phase(NamedTuple):
    """A point of a trajectory with metric (L L^T)^-1, updated in place; arrays of shape (dim,).

    For a momentum p under that metric, `momentum` is L^T p, which is N(0, I), and `force` is
    L^T g(x). The kinetic energy is then |momentum|^2 / 2, and only L is needed of the metric.
    """

    position: np.ndarray
    momentum: np.ndarray
    force: np.ndarray


class Leapfrog(NamedTuple):
    """What a leapfrog needs: the metric's factor L, stored as in `metric_factor`, and two arrays.

    gradient is that at the last point reached, velocity is workspace; both of shape (dim,).
    """

    factor: np.ndarray
    gradient: np.ndarray
    velocity: np.ndarray


@jit
def from_point(leapfrog, phase, point, rng):
    """Set a Phase to a GradientPoint, with a new momentum."""
    phase.position[:] = point.position
    fill_normal(rng, phase.momentum)
    metric_factor.transposed_times(leapfrog.factor, point.gradient, phase.force)


@jit
def move(density, leapfrog, phase, step_size):
    """Move a Phase by one leapfrog, in place; returns the log density, -inf where it fails."""
    position, momentum, force = phase
    n = density.dim
    for i in range(n):
        momentum[i] += 0.5 * step_size * force[i]
    metric_factor.times(leapfrog.factor, momentum, leapfrog.velocity)
    for i in range(n):
        position[i] += step_size * leapfrog.velocity[i]
    log_density = value_and_gradient(density, position, leapfrog.gradient)
    metric_factor.transposed_times(leapfrog.factor, leapfrog.gradient, force)
    for i in range(n):
        momentum[i] += 0.5 * step_size * force[i]
    return log_density
