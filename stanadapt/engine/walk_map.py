"""The states of an autoregressive process, in place of the innovations that a program declares.

With a scale s = exp(p) and a coefficient v, two hubs, the states z of innovations x are

    z_1 = s x_1 / r,     z_t = v z_(t-1) + s x_t

r being 1, or sqrt(1 - v^2) if the process is stationary. Given the hubs, z is a linear function of
x, so that this is a change of variables; the precision of states is sparse, that of innovations is
not if there are data. `block_map` goes on from z.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.wrapped_density import Integers, Vector


class Walk(NamedTuple):
    """Where innovations and hubs are; no process if there are no members."""

    members: Integers  # coordinates of the innovations, in their order
    scale: int  # the coordinate p
    coefficient: int
    bounds: Vector  # of the coefficient, as in `BlockMap.bounds`
    is_stationary: int


NO_WALK = Walk(np.empty(0, np.int64), 0, 0, np.zeros(3), 0)
SMALLEST_RATIO = 1e-14  # of r^2, where v is 1 to rounding


@inline
def _numbers(walk, x):
    """Return s, v, its derivative by its coordinate, and r^2."""
    rate, lower, width = walk.bounds[0], walk.bounds[1], walk.bounds[2]
    share = 1.0 / (1.0 + np.exp(-rate * x[walk.coefficient]))
    v, by = lower + width * share, rate * width * share * (1.0 - share)
    ratio = max(1.0 - v * v, SMALLEST_RATIO) if walk.is_stationary else 1.0
    return np.exp(x[walk.scale]), v, by, ratio


@inline
def enter(walk, x):
    """Replace x by z; return the log of the Jacobian |dx/dz|."""
    n = walk.members.shape[0]
    if n == 0:
        return 0.0
    s, v, _, ratio = _numbers(walk, x)
    z = 0.0
    for t in range(n):
        own = s * x[walk.members[t]]
        z = v * z + own if t > 0 else own / np.sqrt(ratio)
        x[walk.members[t]] = z
    return 0.5 * np.log(ratio) - n * x[walk.scale]


@inline
def leave(walk, x):
    """Replace z by x; return the log of the Jacobian |dx/dz|."""
    n = walk.members.shape[0]
    if n == 0:
        return 0.0
    s, v, _, ratio = _numbers(walk, x)
    for t in range(n - 1, 0, -1):
        x[walk.members[t]] = (x[walk.members[t]] - v * x[walk.members[t - 1]]) / s
    x[walk.members[0]] *= np.sqrt(ratio) / s
    return 0.5 * np.log(ratio) - n * x[walk.scale]


@inline
def _hand_on(walk, x, gradient, sign):
    """Add the part of the innovations to the gradient by both hubs, or take it away."""
    s, v, by, ratio = _numbers(walk, x)
    by_scale, by_coefficient, z = 0.0, 0.0, 0.0
    for t in range(walk.members.shape[0]):
        own, slope = x[walk.members[t]], gradient[walk.members[t]]
        by_scale -= slope * own + 1.0
        if t > 0:
            by_coefficient -= slope * z / s
            z = v * z + s * own
        else:
            z = s * own / np.sqrt(ratio)
            by_coefficient -= (slope * own + 1.0) * v / ratio if walk.is_stationary else 0.0
    gradient[walk.scale] += sign * by_scale
    gradient[walk.coefficient] += sign * by * by_coefficient


@inline
def pull_back(walk, x, gradient):
    """Replace the gradient in x by that in z, of the log density and the log Jacobian."""
    n = walk.members.shape[0]
    if n > 0:
        _hand_on(walk, x, gradient, 1.0)
        s, v, _, ratio = _numbers(walk, x)
        gradient[walk.members[0]] *= np.sqrt(ratio)
        for t in range(n):
            own = gradient[walk.members[t]]
            gradient[walk.members[t]] = own / s
            if t > 0:
                gradient[walk.members[t - 1]] -= v * own / s


@inline
def push_forward(walk, x, gradient):
    """Undo `pull_back`, x being the same."""
    n = walk.members.shape[0]
    if n > 0:
        s, v, _, ratio = _numbers(walk, x)
        after = 0.0
        for t in range(n - 1, -1, -1):
            after = s * gradient[walk.members[t]] + v * after
            gradient[walk.members[t]] = after
        gradient[walk.members[0]] /= np.sqrt(ratio)
        _hand_on(walk, x, gradient, -1.0)


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
