"""The extended density behind BridgeStan's C signatures, so that every sampler runs on it.

The handle is the address of one block of memory, which holds the counters of the Density, what
`Extension` tells, and its workspace. The Density's own `calls` is a view of the block, so that it
lives as long as the Density does; what it points to must be kept alive by whoever made it.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt._jit import c_function, jit
from stanadapt.density import (
    COUNTERS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    make_density,
)
from stanadapt.extended_density import (
    FREE,
    NO_LAW,
    OWN_LAW,
    PRIOR,
    Extension,
    Source,
    extended_gradient,
    extended_value,
)
from stanadapt.reference_law import Law

# numbers of eight bytes each, after the counters
SIZE, PSEUDO, DIM, MODE, RUNGS, LAW_KIND, LAW_ROWS, BASE, PRIOR_AT = 0, 1, 2, 3, 4, 5, 6, 7, 11
INTEGERS, REALS = 16, 4
LOW, HIGH, BASE_OFFSET, PRIOR_OFFSET = 0, 1, 2, 3


class Design(NamedTuple):
    """What is extended, and how; `Extension` explains the fields.

    ladder, log_normalizers, cubics
        Of sizes K, K and (4, K - 1); empty without a ladder.

    """

    pseudo_samples: int
    mode: int
    low: float
    high: float
    ladder: np.ndarray
    log_normalizers: np.ndarray
    cubics: np.ndarray


NO_LADDER = (np.empty(0), np.empty(0), np.empty((4, 0)))


def source_of(density: Density, offset: float = 0.0) -> Source:
    """Return the C functions of a Density."""
    addresses = density.value_address, density.gradient_address, density.handle
    return Source(*addresses, density.value_propto, offset)


def extended_dim(design: Design, dim: int) -> int:
    """Length of a position over a base of `dim` parameters."""
    return design.pseudo_samples * (dim + (design.mode == FREE))


def make_extended(
    design: Design, dim: int, base: Source, law: Law | None = None, prior: Source | None = None
) -> Density:
    """Return the extended density with its own block of memory, for one chain.

    dim is that of the base, whose owner must outlive the Density, as must that of the prior.
    """
    n, rungs = design.pseudo_samples, design.ladder.size
    rows = 0 if law is None else law.factor.shape[0]
    own = 0 if law is None else dim * (rows + 3) + 2
    size = INTEGERS + REALS + 2 * rungs + design.cubics.size + own + 6 * n + n * dim
    block = np.zeros(COUNTERS + size, np.int64)
    kind = PRIOR if prior is not None else OWN_LAW if law is not None else NO_LAW
    block[COUNTERS : COUNTERS + BASE] = size, n, dim, design.mode, rungs, kind, rows
    for source, place in ((base, BASE), (prior, PRIOR_AT)):
        if source is not None:
            block[COUNTERS + place : COUNTERS + place + 4] = source[:4]
    reals = block[COUNTERS + INTEGERS :].view(np.float64)
    reals[:REALS] = design.low, design.high, base.offset, 0.0 if prior is None else prior.offset
    filled = [design.ladder, design.log_normalizers, design.cubics]
    if law is not None:
        filled += [law.mean, law.precision, law.factor, law.numbers]
    values = np.concatenate([array.ravel() for array in filled])
    reals[REALS : REALS + values.size] = values
    handle = block[COUNTERS:].ctypes.data
    made = make_density(
        value_of_extended.address, gradient_of_extended.address, handle, extended_dim(design, dim)
    )
    return made._replace(calls=block[:COUNTERS])


def extension_of(density: Density) -> Extension:
    """Return what lies behind the handle of a Density from `make_extended`, for compiled code."""
    block = density.calls.base[COUNTERS:]
    return _extension(block[:INTEGERS], block.view(np.float64))


@jit
def _extension(integers, numbers):
    """Cut the block; both are views of it, shapes (INTEGERS,) and (size,)."""
    n, dim, mode, rungs = integers[PSEUDO], integers[DIM], integers[MODE], integers[RUNGS]
    kind, rows, at = integers[LAW_KIND], integers[LAW_ROWS], INTEGERS
    reals = numbers[at : at + REALS]
    at += REALS
    ladder, log_normalizers = numbers[at : at + rungs], numbers[at + rungs : at + 2 * rungs]
    at += 2 * rungs
    between = max(rungs - 1, 0) if mode == FREE else 0
    cubics = numbers[at : at + 4 * between].reshape(4, between)
    at += 4 * between
    own = dim if kind == OWN_LAW else 0
    mean, precision = numbers[at : at + own], numbers[at + own : at + 2 * own]
    at += 2 * own
    factor = numbers[at : at + rows * own].reshape(rows, own)
    at += rows * own
    law_numbers = numbers[at : at + min(own, 1) * 2]
    at += min(own, 1) * 2
    law = Law(mean, factor, precision, law_numbers, numbers[at : at + own])
    at += own
    work = numbers[at : at + 6 * n].reshape(6, n)
    slopes = numbers[at + 6 * n : at + 6 * n + n * dim].reshape(n, dim)
    return Extension(
        _source(integers[BASE : BASE + 4], reals[BASE_OFFSET]),
        _source(integers[PRIOR_AT : PRIOR_AT + 4], reals[PRIOR_OFFSET]),
        mode, kind, law, reals[LOW], reals[HIGH], ladder, log_normalizers, cubics,
        work[0], work[1], work[2], work[3], work[4], work[5], slopes,
    )  # fmt: skip


@jit
def _source(numbers, offset):
    return Source(numbers[0], numbers[1], numbers[2], numbers[3], offset)


@jit
def _opened(handle):
    """Return the Extension at an address."""
    integers = carray(handle, INTEGERS, np.int64)
    return _extension(integers, carray(handle, integers[SIZE], np.float64))


@c_function(VALUE_SIGNATURE)
def value_of_extended(handle, propto, jacobian, position, value, message):
    """`bs_log_density`; the flags are those of the base's own calls, whatever is asked for."""
    e = _opened(handle)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.mode == FREE))
    code, log_density = extended_value(e, carray(position, size))
    carray(value, 1)[0] = log_density
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_extended(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient`."""
    e = _opened(handle)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.mode == FREE))
    code, log_density = extended_gradient(e, carray(position, size), carray(gradient, size))
    carray(value, 1)[0] = log_density
    return code
