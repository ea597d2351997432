"""The derivative of a trajectory's log acceptance ratio in the factor L of its metric.

A trajectory of N leapfrogs of step size 1 from q_0, with momenta in units of L (`leapfrog.Phase`)
and g_k = g(q_k), is

    a_k = v_k + L^T g_k / 2,    q_{k+1} = q_k + L a_k,    v_{k+1} = a_k + L^T g_{k+1} / 2,

and its log acceptance ratio is log pi(q_N) - |v_N|^2 / 2, up to terms that do not depend on L. Let
p and w be its derivatives in q_{k+1} and in the momentum there, and H_k the Hessian of log pi at
q_k. By the chain rule, from the end to the start,

    p = g_N + H_N L w / 2,    w = -v_N,            which adds  g_N w^T / 2,
    and for k = N - 1, ..., 0                      which adds  p a_k^T,
        w <- w + L^T p,                            which adds  c_k g_k w^T,
        p <- p + H_k L w,

with c_0 = 1/2 and other c_k = 1. The derivative is the sum of these 2 N + 1 outer products. Without
the products with H_k the gradients along the trajectory are held constant.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.numerics.vectors import copy

# relative to L w, itself of the size of the posterior: the truncation error is then about 1e-4 of
# the product, far below the noise of one trajectory, for half the gradients of central differences
DIFFERENCE_STEP = 1e-4


class Trajectory(NamedTuple):
    """The path of a trajectory of N leapfrogs, and workspace; rewritten in every iteration."""

    # positions, gradients: q_k and g_k, k = 0, ..., N; shape (N + 1, dim)
    positions: np.ndarray
    gradients: np.ndarray
    velocities: np.ndarray  # a_k, k = 0, ..., N - 1; shape (N, dim)
    # start, end: v_0 and v_N, shape (dim,)
    start: np.ndarray
    end: np.ndarray
    work: np.ndarray  # shape (5, dim)


@jit
def empty_trajectory(steps, dim):
    """Return memory for a trajectory."""
    return Trajectory(
        np.zeros((steps + 1, dim)), np.zeros((steps + 1, dim)), np.zeros((steps, dim)),
        np.zeros(dim), np.zeros(dim), np.zeros((5, dim)),
    )  # fmt: skip


@jit
def log_ratio_derivative(density, factor, trajectory, exact, left, right):
    """Write the terms' vectors into rows of left and right, shape (>= 2 N + 1, dim).

    `exact` adds the products with Hessians, as differences of two gradients. A product is omitted
    if the density fails near the trajectory. Returns 2 N + 1.
    """
    positions, gradients, velocities = trajectory[:3]
    (steps, n), work = velocities.shape, trajectory.work
    p, w, product, bend, shifted = work[0], work[1], work[2], work[3], work[4]
    for i in range(n):
        p[i], w[i] = gradients[steps, i], -trajectory.end[i]
        left[0, i], right[0, i] = 0.5 * p[i], w[i]
    row = 1
    for k in range(steps - 1, -1, -1):
        if exact:
            metric_factor.times(factor, w, product)
            position, gradient = positions[k + 1], gradients[k + 1]
            if hessian_product(density, position, gradient, product, bend, shifted):
                weight = 0.5 if k == steps - 1 else 1.0
                for i in range(n):
                    p[i] += weight * bend[i]
        metric_factor.transposed_times(factor, p, product)
        weight = 0.5 if k == 0 else 1.0
        copy(p, left[row])
        copy(velocities[k], right[row])
        for i in range(n):
            w[i] += product[i]
            left[row + 1, i], right[row + 1, i] = weight * gradients[k, i], w[i]
        row += 2
    return row


@jit
def hessian_product(density, position, gradient, direction, out, shifted):
    """Write the Hessian of the log density times a direction, a difference of gradients, into out.

    gradient is that at position, shifted is workspace; all have shape (dim,). Returns False, and
    leaves `out` undefined, if the density fails near position.
    """
    for i in range(density.dim):
        shifted[i] = position[i] + DIFFERENCE_STEP * direction[i]
    if not value_and_gradient(density, shifted, out) > -np.inf:
        return False
    for i in range(density.dim):
        out[i] = (out[i] - gradient[i]) / DIFFERENCE_STEP
    return True
