"""The states of autoregressive processes, in place of the innovations that a program declares.

With a scale s = exp(p) and a coefficient v, two hubs, the states z of innovations x are

    z_1 = s x_1 / r,     z_t = v z_(t-1) + s x_t

r being 1, or sqrt(1 - v^2) if the process is stationary. Given the hubs, z is a linear function of
x, so that this is a change of variables; the precision of states is sparse, that of innovations is
not if there are data. `block_map` goes on from z. Several processes may share hubs.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.wrapped_density import Integers, Matrix


class Walk(NamedTuple):
    """Where innovations and hubs of P processes are."""

    members: Integers  # coordinates of the innovations, one process after the other, in their order
    ends: Integers  # where those of each process end among them, shape (P,)
    scale: Integers  # the coordinates p, shape (P,)
    coefficient: Integers  # shape (P,)
    bounds: Matrix  # of coefficients, as in `BlockMap.bounds`, shape (P, 3)
    is_stationary: Integers  # shape (P,)


NOTHING = np.empty(0, np.int64)
NO_WALK = Walk(NOTHING, NOTHING, NOTHING, NOTHING, np.empty((0, 3)), NOTHING)
SMALLEST_RATIO = 1e-14  # of r^2, where v is 1 to rounding


@inline
def _numbers(walk, k, x):
    """Return the innovations of a process, s, v, its derivative by its coordinate, and r^2."""
    members = walk.members[walk.ends[k - 1] if k > 0 else 0 : walk.ends[k]]
    rate, lower, width = walk.bounds[k, 0], walk.bounds[k, 1], walk.bounds[k, 2]
    share = 1.0 / (1.0 + np.exp(-rate * x[walk.coefficient[k]]))
    v, by = lower + width * share, rate * width * share * (1.0 - share)
    ratio = max(1.0 - v * v, SMALLEST_RATIO) if walk.is_stationary[k] else 1.0
    return members, np.exp(x[walk.scale[k]]), v, by, ratio


@inline
def enter(walk, x):
    """Replace x by z; return the log of the Jacobian |dx/dz|."""
    logs = 0.0
    for k in range(walk.ends.shape[0]):
        members, s, v, _, ratio = _numbers(walk, k, x)
        z = 0.0
        for t in range(members.shape[0]):
            own = s * x[members[t]]
            z = v * z + own if t > 0 else own / np.sqrt(ratio)
            x[members[t]] = z
        logs += 0.5 * np.log(ratio) - members.shape[0] * x[walk.scale[k]]
    return logs


@inline
def leave(walk, x):
    """Replace z by x; return the log of the Jacobian |dx/dz|."""
    logs = 0.0
    for k in range(walk.ends.shape[0]):
        members, s, v, _, ratio = _numbers(walk, k, x)
        for t in range(members.shape[0] - 1, 0, -1):
            x[members[t]] = (x[members[t]] - v * x[members[t - 1]]) / s
        x[members[0]] *= np.sqrt(ratio) / s
        logs += 0.5 * np.log(ratio) - members.shape[0] * x[walk.scale[k]]
    return logs


@inline
def _hand_on(walk, k, x, gradient, sign):
    """Add the part of the innovations to the gradient by both hubs, or take it away."""
    members, s, v, by, ratio = _numbers(walk, k, x)
    by_scale, by_coefficient, z = 0.0, 0.0, 0.0
    for t in range(members.shape[0]):
        own, slope = x[members[t]], gradient[members[t]]
        by_scale -= slope * own + 1.0
        if t > 0:
            by_coefficient -= slope * z / s
            z = v * z + s * own
        else:
            z = s * own / np.sqrt(ratio)
            by_coefficient -= (slope * own + 1.0) * v / ratio if walk.is_stationary[k] else 0.0
    gradient[walk.scale[k]] += sign * by_scale
    gradient[walk.coefficient[k]] += sign * by * by_coefficient


@inline
def pull_back(walk, x, gradient):
    """Replace the gradient in x by that in z, of the log density and the log Jacobian."""
    for k in range(walk.ends.shape[0]):
        _hand_on(walk, k, x, gradient, 1.0)
        members, s, v, _, ratio = _numbers(walk, k, x)
        gradient[members[0]] *= np.sqrt(ratio)
        for t in range(members.shape[0]):
            own = gradient[members[t]]
            gradient[members[t]] = own / s
            if t > 0:
                gradient[members[t - 1]] -= v * own / s


@inline
def push_forward(walk, x, gradient):
    """Undo `pull_back`, x being the same."""
    for k in range(walk.ends.shape[0]):
        members, s, v, _, ratio = _numbers(walk, k, x)
        after = 0.0
        for t in range(members.shape[0] - 1, -1, -1):
            after = s * gradient[members[t]] + v * after
            gradient[members[t]] = after
        gradient[members[0]] /= np.sqrt(ratio)
        _hand_on(walk, k, x, gradient, -1.0)


@jit
def enter_rows(walk, positions, gradients):
    """Replace rows of positions and gradients in x by those in z."""
    for i in range(positions.shape[0]):
        pull_back(walk, positions[i], gradients[i])
        enter(walk, positions[i])


@jit
def leave_rows(walk, positions):
    """Replace rows of positions in z by those in x."""
    for i in range(positions.shape[0]):
        leave(walk, positions[i])
