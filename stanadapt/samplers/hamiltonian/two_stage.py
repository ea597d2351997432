"""The two-stage splitting of Hamilton's equations with the smallest energy error.

One step costs two gradients, and is accepted about as often as leapfrogs of a third of its length
would be on a Gaussian whose covariance is the identity.

References
----------
Blanes, Casas and Sanz-Serna (2014), Numerical integrators for the hybrid Monte Carlo method, SIAM
Journal on Scientific Computing 36: the family of palindromic splittings with one parameter, and the
value of b at which the expected energy error is smallest.

"""

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value_and_gradient

KICK = 0.211781  # b of the reference


@jit
def move(density, leapfrog, phase, step_size):
    """Move a Phase by one step: kick b h, drift h / 2, kick (1 - 2 b) h, drift h / 2, kick b h.

    Works in place, and leaves the gradient at the end in `leapfrog`. Returns the log density at the
    end; -inf where it fails there or on the way, which the reverse step does as well.
    """
    position, momentum, force = phase
    velocity, n = leapfrog.velocity, density.dim
    kick, middle, drift = KICK * step_size, (1.0 - 2.0 * KICK) * step_size, 0.5 * step_size
    for i in range(n):
        momentum[i] += kick * force[i]
    metric_factor.times(leapfrog.factor, momentum, velocity)
    for i in range(n):
        position[i] += drift * velocity[i]
    if not value_and_gradient(density, position, leapfrog.gradient) > -np.inf:
        return -np.inf
    metric_factor.transposed_times(leapfrog.factor, leapfrog.gradient, force)
    for i in range(n):
        momentum[i] += middle * force[i]
    metric_factor.times(leapfrog.factor, momentum, velocity)
    for i in range(n):
        position[i] += drift * velocity[i]
    log_density = value_and_gradient(density, position, leapfrog.gradient)
    metric_factor.transposed_times(leapfrog.factor, leapfrog.gradient, force)
    for i in range(n):
        momentum[i] += kick * force[i]
    return log_density
