"""Hamiltonian trajectories shared by the samplers that follow them."""

import numpy as np

from stanadapt._jit import jit
from stanadapt.density import value_and_gradient

# an energy error above this is a divergence, as in Stan
LARGEST_ENERGY_ERROR = 1000.0


@jit
def leapfrog(density, position, momentum, gradient, step_size, steps):
    """Follow Hamilton's equations with unit mass, `steps` leapfrogs of `step_size`.

    position, momentum and gradient, all of shape (dim,), are updated in place. Returns the log
    density at the end; -inf, at once, where the density fails on the way. (Stopping early keeps
    the move reversible: the way back fails at the same point.)
    """
    n, log_density = density.dim, -np.inf
    for i in range(n):
        momentum[i] += 0.5 * step_size * gradient[i]
    for k in range(steps):
        for i in range(n):
            position[i] += step_size * momentum[i]
        log_density = value_and_gradient(density, position, gradient)
        if not log_density > -np.inf:
            return -np.inf
        kick = 0.5 * step_size if k == steps - 1 else step_size
        for i in range(n):
            momentum[i] += kick * gradient[i]
    return log_density
