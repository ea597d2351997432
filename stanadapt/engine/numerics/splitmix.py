"""A small stream of random numbers for one trajectory, which any thread may run.

A NUTS trajectory draws random numbers as it grows, so with a shared generator it would depend on
the order in which trajectories run. Each gets its own stream, seeded from the chain's generator.

References
----------
Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators, OOPSLA: SplitMix64.
Box and Muller (1958), Annals of Mathematical Statistics 29, for normals.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload_method

from stanadapt.engine.compiled.jit import OVERLOAD_OPTIONS, jit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))
_UNIT = 2.0**-53


class SplitMix64(NamedTuple):
    """A generator for compiled code, with the methods `random` and `standard_normal`."""

    state: np.ndarray  # the seed at first; updated in place; int64, shape (1,)


@jit
def bits(state):
    """Return the next 64 bits."""
    z = np.uint64(state[0]) + _STEP
    state[0] = np.int64(z)
    z = (z ^ (z >> _BITS[0])) * _FIRST
    z = (z ^ (z >> _BITS[1])) * _SECOND
    return z ^ (z >> _BITS[2])


@jit
def _uniform(state):
    return _UNIT * (bits(state) >> _BITS[3])


# Numba types a NamedTuple as NamedUniTuple if all of its fields have the same type
@overload_method(types.NamedUniTuple, "random", jit_options=OVERLOAD_OPTIONS)
def _random(rng):
    if rng.instance_class is SplitMix64:
        return lambda rng: _uniform(rng.state)
    return None


@overload_method(types.NamedUniTuple, "standard_normal", jit_options=OVERLOAD_OPTIONS)
def _standard_normal(rng):
    if rng.instance_class is SplitMix64:
        return lambda rng: _normal(rng.state)
    return None


@jit
def _normal(state):
    radius = np.sqrt(-2.0 * np.log(1.0 - _uniform(state)))
    return radius * np.cos(2.0 * np.pi * _uniform(state))
