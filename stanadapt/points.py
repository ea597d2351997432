"""A position and what is known there: what samplers compare, keep and overwrite."""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import jit
from stanadapt.density import value, value_and_gradient


class ValuePoint(NamedTuple):
    """A position, shape (dim,), and its log density."""

    position: np.ndarray
    log_density: float


class GradientPoint(NamedTuple):
    """A position with its log density and gradient; arrays of shape (dim,)."""

    position: np.ndarray
    log_density: float
    gradient: np.ndarray


@jit
def value_at(density, position):
    """Return a ValuePoint at a copy of position."""
    return ValuePoint(position.copy(), value(density, position))


@jit
def gradient_at(density, position):
    """Return a GradientPoint at a copy of position."""
    gradient = np.empty(density.dim)
    log_density = value_and_gradient(density, position, gradient)
    return GradientPoint(position.copy(), log_density, gradient)


@jit
def unused_value(dim):
    """Return a ValuePoint to write the first proposal into."""
    return ValuePoint(np.empty(dim), -np.inf)


@jit
def unused_gradient(dim):
    """Return a GradientPoint to write the first proposal into."""
    return GradientPoint(np.empty(dim), -np.inf, np.empty(dim))
