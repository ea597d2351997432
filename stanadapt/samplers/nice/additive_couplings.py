"""A map of (z, v) onto itself that preserves volume: additive couplings with ReLU networks t.

    z-coupling: z <- z + t(v);    v-coupling: v <- v + t(z).

The inverse applies the couplings in reverse order with the opposite sign; the Jacobian determinant
of both is 1 for all weights. z represents a position x in coordinates with mean 0 and covariance I:
x = mean + L z.

References
----------
Dinh, Krueger and Bengio (2015), NICE: Non-linear Independent Components Estimation, ICLR workshop;
on (x, v): that of `nice`.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.splitmix import SplitMix64
from stanadapt.engine.numerics.vectors import copy

# columns of CompiledNetwork.couplings
MOVES_Z, LAYERS, FIRST_WIDTH, FIRST_WEIGHT = 0, 1, 2, 3


class CompiledNetwork(NamedTuple):
    """Couplings for compiled code; read only, so that chains may share one."""

    # int64, shape (coupling, 4): whether z is moved, or v; number of layers of t; offsets of its
    # widths and of its weights
    couplings: np.ndarray
    # int64: for each t, the widths of its input, its hidden layers and its output
    widths: np.ndarray
    # for each layer the matrix, shape (input, output) in row-major order, then the biases
    weights: np.ndarray
    # mean, factor: mean of x, shape (dim,), and L as in `engine/numerics/triangular`
    mean: np.ndarray
    factor: np.ndarray


class Workspace(NamedTuple):
    """Arguments of the map, z and v, and the activations of two layers, shape (2, ample)."""

    z: np.ndarray
    v: np.ndarray
    activations: np.ndarray


@jit
def workspace(network):
    z_size, v_size, units = network.mean.shape[0], 0, 0
    for k in range(network.widths.shape[0]):
        units += network.widths[k]
    for k in range(network.couplings.shape[0]):
        row = network.couplings[k]
        end = network.widths[row[FIRST_WIDTH] + row[LAYERS]]
        begin = network.widths[row[FIRST_WIDTH]]
        v_size = begin if row[MOVES_Z] else end
    return Workspace(np.empty(z_size), np.empty(v_size), np.empty((2, units)))


@jit
def apply(network, forward, work):
    """Replace work.z and work.v by their image or, if not `forward`, by their preimage."""
    count, sign = network.couplings.shape[0], 1.0 if forward else -1.0
    for k in range(count):
        coupling = network.couplings[k if forward else count - 1 - k]
        if coupling[MOVES_Z]:
            _shift(network, coupling, work.v, sign, work.activations, work.z)
        else:
            _shift(network, coupling, work.z, sign, work.activations, work.v)


@jit
def _shift(network, coupling, source, sign, activations, target):
    """Add sign * t(source) to target."""
    first, begin, layers = coupling[FIRST_WIDTH], coupling[FIRST_WEIGHT], coupling[LAYERS]
    left, right = activations[0], activations[1]
    for i in range(source.shape[0]):
        left[i] = source[i]
    for layer in range(layers):
        inputs, outputs = network.widths[first + layer], network.widths[first + layer + 1]
        bias = network.weights[begin + inputs * outputs : begin + (inputs + 1) * outputs]
        copy(bias, right[:outputs])
        for i in range(inputs):
            activation = left[i]
            if activation == 0.0:  # true of half of the hidden units, after a ReLU
                continue
            row = network.weights[begin + i * outputs : begin + (i + 1) * outputs]
            for j in range(outputs):
                right[j] += activation * row[j]
        if layer < layers - 1:
            for j in range(outputs):
                right[j] = max(right[j], 0.0)
        begin += (inputs + 1) * outputs
        left, right = right, left
    for j in range(target.shape[0]):
        target[j] += sign * left[j]


@jit
def standardize(network, position, z):
    """Write L^-1 (x - mean) into z, shape (dim,)."""
    for i in range(z.shape[0]):
        z[i] = position[i] - network.mean[i]
    triangular.solve(network.factor, z, z)


@jit
def restore(network, z, position):
    """Write mean + L z into the first entries of a position."""
    n = z.shape[0]
    triangular.times(network.factor, z, position[:n])
    for i in range(n):
        position[i] += network.mean[i]


@jit
def untrained(dim, width, seed):
    """Return a network with random weights: v-, z-, v-coupling, one hidden layer each.

    Uniform weights with variance 2 / (inputs + outputs) (Glorot and Bengio 2010), biases 0; v has
    as many coordinates as z.
    """
    rng, size = SplitMix64(np.array([seed])), (dim + 1) * width + (width + 1) * dim
    couplings, widths = np.empty((3, 4), np.int64), np.empty(9, np.int64)
    weights, bound = np.zeros(3 * size), np.sqrt(6.0 / (dim + width))
    for k in range(3):
        couplings[k, MOVES_Z], couplings[k, LAYERS] = k == 1, 2
        couplings[k, FIRST_WIDTH], couplings[k, FIRST_WEIGHT] = 3 * k, size * k
        widths[3 * k : 3 * k + 3] = dim
        widths[3 * k + 1] = width
        begin, second = size * k, size * k + (dim + 1) * width
        for i in range(dim * width):
            weights[begin + i] = bound * (2.0 * rng.random() - 1.0)
            weights[second + i] = bound * (2.0 * rng.random() - 1.0)
    return CompiledNetwork(
        couplings, widths, weights, np.zeros(dim), triangular.initial(dim, 1.0, True)
    )
