"""The extended density as C functions with BridgeStan's signatures, so that any sampler can use it.

The handle is the address of one block of memory, which follows the counters of the Density and
holds the fields of `Extension`, workspace included. The Density's `calls` is a view of the same
memory, which therefore lives as long as the Density; the base and the prior that the block points
to must be kept alive by the caller.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import (
    COUNTERS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    make_density,
)
from stanadapt.samplers.tempering.density import (
    DISTRIBUTION,
    FREE,
    NO_REFERENCE,
    PRIOR,
    Extension,
    Source,
    extended_gradient,
    extended_value,
)
from stanadapt.samplers.tempering.reference_distribution import CompiledReference

# layout of the block, in numbers of eight bytes, after the counters
SIZE, PSEUDO, DIM, MODE, RUNGS, REFERENCE_KIND, REFERENCE_ROWS = 0, 1, 2, 3, 4, 5, 6
BASE, PRIOR_AT = 7, 11
INTEGERS, REALS = 16, 4
LOW, HIGH, BASE_OFFSET, PRIOR_OFFSET = 0, 1, 2, 3


class ExtensionDesign(NamedTuple):
    """How a target is extended; `Extension` explains the fields.

    ladder, log_normalizers, cubics
        Shapes (K,), (K,) and (4, K - 1); empty without a ladder.

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


def extended_dim(design: ExtensionDesign, dim: int) -> int:
    """Length of a position for a base with `dim` parameters."""
    return design.pseudo_samples * (dim + (design.mode == FREE))


def make_extended(
    design: ExtensionDesign,
    dim: int,
    base: Source,
    reference: CompiledReference | None = None,
    prior: Source | None = None,
) -> Density:
    """Return the extended density with its own block of memory, for one chain.

    dim is that of the base. The owners of base and prior must outlive the Density.
    """
    n, rungs = design.pseudo_samples, design.ladder.size
    rows = 0 if reference is None else reference.factor.shape[0]
    reference_size = 0 if reference is None else dim * (rows + 3) + 2
    size = INTEGERS + REALS + 2 * rungs + design.cubics.size + reference_size + 6 * n + n * dim
    block = np.zeros(COUNTERS + size, np.int64)
    kind = PRIOR if prior is not None else DISTRIBUTION if reference is not None else NO_REFERENCE
    block[COUNTERS : COUNTERS + BASE] = size, n, dim, design.mode, rungs, kind, rows
    for source, at in ((base, BASE), (prior, PRIOR_AT)):
        if source is not None:
            block[COUNTERS + at : COUNTERS + at + 4] = source[:4]
    reals = block[COUNTERS + INTEGERS :].view(np.float64)
    reals[:REALS] = design.low, design.high, base.offset, 0.0 if prior is None else prior.offset
    arrays = [design.ladder, design.log_normalizers, design.cubics]
    if reference is not None:
        arrays += [reference.mean, reference.precision, reference.factor, reference.numbers]
    values = np.concatenate([array.ravel() for array in arrays])
    reals[REALS : REALS + values.size] = values
    handle = block[COUNTERS:].ctypes.data
    density = make_density(
        value_of_extended.address, gradient_of_extended.address, handle, extended_dim(design, dim)
    )
    return density._replace(calls=block[:COUNTERS])


def extension_of(density: Density) -> Extension:
    """Return the Extension that the handle of a Density from `make_extended` points to."""
    block = density.calls.base[COUNTERS:]
    return _extension(block[:INTEGERS], block.view(np.float64))


@jit
def _extension(integers, numbers):
    """Return the Extension in a block; both are views of it, shapes (INTEGERS,) and (size,)."""
    n, dim, mode, rungs = integers[PSEUDO], integers[DIM], integers[MODE], integers[RUNGS]
    kind, rows, at = integers[REFERENCE_KIND], integers[REFERENCE_ROWS], INTEGERS
    reals = numbers[at : at + REALS]
    at += REALS
    ladder, log_normalizers = numbers[at : at + rungs], numbers[at + rungs : at + 2 * rungs]
    at += 2 * rungs
    intervals = max(rungs - 1, 0) if mode == FREE else 0
    cubics = numbers[at : at + 4 * intervals].reshape(4, intervals)
    at += 4 * intervals
    width = dim if kind == DISTRIBUTION else 0
    mean, precision = numbers[at : at + width], numbers[at + width : at + 2 * width]
    at += 2 * width
    factor = numbers[at : at + rows * width].reshape(rows, width)
    at += rows * width
    reference_numbers = numbers[at : at + min(width, 1) * 2]
    at += min(width, 1) * 2
    reference = CompiledReference(
        mean, factor, precision, reference_numbers, numbers[at : at + width]
    )
    at += width
    work = numbers[at : at + 6 * n].reshape(6, n)
    slopes = numbers[at + 6 * n : at + 6 * n + n * dim].reshape(n, dim)
    return Extension(
        _source(integers[BASE : BASE + 4], reals[BASE_OFFSET]),
        _source(integers[PRIOR_AT : PRIOR_AT + 4], reals[PRIOR_OFFSET]),
        mode, kind, reference, reals[LOW], reals[HIGH], ladder, log_normalizers, cubics,
        work[0], work[1], work[2], work[3], work[4], work[5], slopes,
    )  # fmt: skip


@jit
def _source(numbers, offset):
    return Source(numbers[0], numbers[1], numbers[2], numbers[3], offset)


@jit
def _extension_at(handle):
    """Return the Extension at an address."""
    integers = carray(handle, INTEGERS, np.int64)
    return _extension(integers, carray(handle, integers[SIZE], np.float64))


@c_function(VALUE_SIGNATURE)
def value_of_extended(handle, propto, jacobian, position, value, message):
    """`bs_log_density`; the flags are ignored, as the calls of the base pass their own."""
    e = _extension_at(handle)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.mode == FREE))
    code, log_density = extended_value(e, carray(position, size))
    carray(value, 1)[0] = log_density
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_extended(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient`."""
    e = _extension_at(handle)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.mode == FREE))
    code, log_density = extended_gradient(e, carray(position, size), carray(gradient, size))
    carray(value, 1)[0] = log_density
    return code
