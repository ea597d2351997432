"""Leapfrog integrators, a two-stage integrator, and the search for a first step size.

- `leapfrog`: several steps with a diagonal scale.
- `move`: one step with a metric, or around a Gaussian near the density, along its exact motion.
- `two_stage_move`: the two-stage splitting of Hamilton's equations with the smallest energy error.
  One step costs two gradients, and is accepted about as often as leapfrogs of a third of its length
  on a Gaussian with identity covariance.
- `rotating_move`: the same stages around a Gaussian near the density, whose motion is exact.
- `first_step`: a step size for which one leapfrog is accepted with probability about 0.8.

References
----------
Two stages: Blanes, Casas and Sanz-Serna (2014), Numerical integrators for the hybrid Monte Carlo
method, SIAM Journal on Scientific Computing 36: the family of palindromic splittings with one
parameter, and the value of b that minimizes the expected energy error. Rotations: Shahbaba, Lan,
Johnson and Neal (2014), Split Hamiltonian Monte Carlo, Statistics and Computing 24. First step
size: Hoffman and Gelman (2014), JMLR 15, algorithm 4, in the form of stan/mcmc/hmc/base_hmc.hpp:
0.8 instead of 0.5, and a new momentum for each trial.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.numerics.vectors import copy, fill_normal, squared_norm

# --- leapfrogs ------------------------------------------------------------------------------------

# an energy error above this is a divergence, as in Stan
LARGEST_ENERGY_ERROR = 1000.0


@inline
def leapfrog(density, position, momentum, gradient, scale, step_size, steps):
    """Follow Hamilton's equations for `steps` leapfrogs of `step_size`, in units of `scale`.

    position, momentum and gradient are updated in place; the mass of coordinate i is
    1 / scale[i]^2, and its momentum is stored multiplied by scale[i], so that it is N(0, 1). All
    arrays have shape (dim,). Returns the log density at the end, and the number of steps. If the
    density fails, the trajectory stops there, and the log density is -inf. (Stopping early keeps
    the move reversible: the reverse trajectory fails at the same point.)
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
    """The factor L of the metric, stored as in `metric_factor`, and two arrays of shape (dim,).

    gradient is that at the end of the last step, velocity is workspace.
    """

    factor: np.ndarray
    gradient: np.ndarray
    velocity: np.ndarray


@jit
def from_point(leapfrog, phase, point, rng, around=None):
    """Set a Phase to a GradientPoint, with a new momentum."""
    copy(point.position, phase.position)
    if around is not None and moves_around(around):
        copy(around.here, phase.position)
    fill_normal(rng, phase.momentum)
    metric_factor.transposed_times(leapfrog.factor, point.gradient, phase.force)


@jit
def _kick(phase, size):
    """Move the momentum along the force."""
    for i in range(phase.momentum.shape[0]):
        phase.momentum[i] += size * phase.force[i]


@jit
def _drift(density, leapfrog, phase, size):
    """Move the position along the momentum; compute the force there, and return the log density."""
    metric_factor.times(leapfrog.factor, phase.momentum, leapfrog.velocity)
    for i in range(density.dim):
        phase.position[i] += size * leapfrog.velocity[i]
    return _set_force(density, leapfrog, phase)


@jit
def _set_force(density, leapfrog, phase):
    """Compute the force at the position; return the log density, -inf if it fails."""
    log_density = value_and_gradient(density, phase.position, leapfrog.gradient)
    metric_factor.transposed_times(leapfrog.factor, leapfrog.gradient, phase.force)
    return log_density


@jit
def move(density, leapfrog, phase, step_size, around=None):
    """Move a Phase by one leapfrog, in place; return the log density, -inf if it fails.

    Around a Gaussian, the position of the Phase is z, and a rotation takes the place of the drift.
    """
    if around is not None and moves_around(around):
        return _leap_around(density, leapfrog, around, phase, step_size)
    _kick(phase, 0.5 * step_size)
    log_density = _drift(density, leapfrog, phase, step_size)
    _kick(phase, 0.5 * step_size)
    return log_density


# --- two stages -----------------------------------------------------------------------------------

KICK = 0.211781  # b of the reference


@jit
def two_stage_move(density, leapfrog, phase, step_size):
    """Move a Phase by one step: kick b h, drift h / 2, kick (1 - 2 b) h, drift h / 2, kick b h.

    Works in place, and leaves the gradient at the end in `leapfrog`. Returns the log density at the
    end, -inf if it fails there or at the midpoint; the reverse step then fails too.
    """
    _kick(phase, KICK * step_size)
    if not _drift(density, leapfrog, phase, 0.5 * step_size) > -np.inf:
        return -np.inf
    _kick(phase, (1.0 - 2.0 * KICK) * step_size)
    log_density = _drift(density, leapfrog, phase, 0.5 * step_size)
    _kick(phase, KICK * step_size)
    return log_density


# --- two stages around a Gaussian -----------------------------------------------------------------


class Around(NamedTuple):
    """The mean of a Gaussian with the covariance L L^T, and places z = L^-1 (x - mean).

    All of shape (dim,), or of shape (0,) if trajectories do not move around one.
    """

    mean: np.ndarray
    here: np.ndarray  # z of the current point
    moving: np.ndarray  # z of a Phase


@jit
def rotating_move(density, leapfrog, around, phase, step_size):
    """Move a Phase as `two_stage_move`, with rotations in place of drifts.

    A rotation of z and momentum is the exact motion in that Gaussian, and kicks are made by the
    rest of the force. Without one, the energy does not change, however many dimensions there are.
    """
    momentum, force = phase.momentum, phase.force
    z, n = around.moving, density.dim
    kick, middle = KICK * step_size, (1.0 - 2.0 * KICK) * step_size
    for i in range(n):
        momentum[i] += kick * (force[i] + z[i])
    log_density = _rotate(density, leapfrog, around, phase, 0.5 * step_size)
    if not log_density > -np.inf:
        return -np.inf
    for i in range(n):
        momentum[i] += middle * (force[i] + z[i])
    log_density = _rotate(density, leapfrog, around, phase, 0.5 * step_size)
    for i in range(n):
        momentum[i] += kick * (force[i] + z[i])
    return log_density


@jit
def _rotate(density, leapfrog, around, phase, angle):
    """Rotate z and momentum; compute position and force there, and return the log density."""
    position, momentum = phase.position, phase.momentum
    z, c, s = around.moving, np.cos(angle), np.sin(angle)
    for i in range(density.dim):
        was = z[i]
        z[i] = c * was + s * momentum[i]
        momentum[i] = c * momentum[i] - s * was
    place(leapfrog, around, z, position)
    return _set_force(density, leapfrog, phase)


@jit
def moves_around(around):
    """Whether trajectories move around a Gaussian; never with None."""
    return around is not None and around.mean.shape[0] > 0


@jit
def place(leapfrog, around, z, position):
    """Write mean + L z into position, for z of shape (dim,)."""
    metric_factor.times(leapfrog.factor, z, position)
    for i in range(position.shape[0]):
        position[i] += around.mean[i]


@jit
def _leap_around(density, leapfrog, around, phase, step_size):
    """Move a Phase of z by a kick of half a step, a rotation, and another kick."""
    z, momentum, force = phase.position, phase.momentum, phase.force
    half, c, s = 0.5 * step_size, np.cos(step_size), np.sin(step_size)
    for i in range(density.dim):
        pushed = momentum[i] + half * (force[i] + z[i])
        momentum[i] = c * pushed - s * z[i]
        z[i] = c * z[i] + s * pushed
    place(leapfrog, around, z, leapfrog.velocity)
    log_density = value_and_gradient(density, leapfrog.velocity, leapfrog.gradient)
    metric_factor.transposed_times(leapfrog.factor, leapfrog.gradient, force)
    for i in range(density.dim):
        momentum[i] += half * (force[i] + z[i])
    return log_density


# --- a first step size ----------------------------------------------------------------------------

TARGET = np.log(0.8)
# beyond these step sizes Stan ends the run; here only the search ends, and the run shows the fault
SMALLEST, LARGEST, MOST_TRIALS = 1e-300, 1e7, 100


@jit
def first_step(density, leapfrog, phase, point, step_size, rng, around=None):
    """Double or halve a step size until the log acceptance of one leapfrog crosses TARGET.

    point is the GradientPoint from which every trial starts; phase is workspace. If none of a
    hundred trials crosses TARGET, the result is LARGEST for doubling. For halving it is step_size,
    since the density then fails everywhere near the point.
    """
    first = tried = min(max(step_size, SMALLEST), LARGEST)
    larger = _log_acceptance(density, leapfrog, phase, point, tried, rng, around) > TARGET
    for _ in range(MOST_TRIALS):
        rate = _log_acceptance(density, leapfrog, phase, point, tried, rng, around)
        if (rate > TARGET) != larger:
            return tried
        tried *= 2.0 if larger else 0.5
        if not SMALLEST < tried < LARGEST:
            break
    return LARGEST if larger else first


@jit
def _log_acceptance(density, leapfrog, phase, point, step_size, rng, around):
    """Return the energy before minus that after one leapfrog, with a new momentum; -inf if NaN."""
    from_point(leapfrog, phase, point, rng, around)
    before = 0.5 * squared_norm(phase.momentum) - point.log_density
    log_density = move(density, leapfrog, phase, step_size, around)
    change = before - 0.5 * squared_norm(phase.momentum) + log_density
    return change if change == change else -np.inf
