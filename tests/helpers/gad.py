"""Samplers that learn a factor L at a known L, and derivatives in L by differences."""

import numpy as np

from stanadapt.engine.density import value_and_gradient
from stanadapt.samplers import find
from tests.helpers.targets import Awkward

START = np.array([0.4, 1.2, -3.0])
DENSE = np.array([[0.9, 0, 0], [0.1, 0.3, 0], [-0.5, 1.0, 2.5]])


def prepared(name, scale, chosen):
    """Return sampler, settings, density and state with this L, which hardly moves, and L."""
    sampler, settings = find(name, learning_rate=1e-300, **chosen)
    density = Awkward().density()
    state = sampler.init(density, settings, START, np.random.default_rng(1))
    factor = state.tuning.factor
    if settings.diagonal:
        factor[:] = np.array([[0.9, 0.3, 2.5]]) * scale
        matrix = np.diag(factor[0])
    else:
        factor[:] = DENSE * scale
        matrix = factor.copy()
    if name == "gad_mala":
        state.current.scaled_gradient[:] = matrix.T @ state.current.gradient
    return sampler, settings, density, state, matrix


def evaluate(density, x):
    """Return the log density and its gradient."""
    out = np.empty(3)
    return value_and_gradient(density, np.ascontiguousarray(x), out), out


def differences(function, matrix, diagonal, h=1e-6):
    """Return central differences in the entries of L."""
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(i + 1):
            if not diagonal or i == j:
                shift = np.zeros((3, 3))
                shift[i, j] = h
                out[i, j] = (function(matrix + shift) - function(matrix - shift)) / (2 * h)
    return out


def agree(one, other, error):
    """Require equal matrices, up to an error in units of the largest entry."""
    np.testing.assert_allclose(one, other, rtol=error, atol=error * np.abs(other).max())
