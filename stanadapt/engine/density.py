"""The target: C functions behind integer addresses, with BridgeStan's signatures.

Samplers call `value` and `value_and_gradient`; the loop that runs a chain calls `constrain`.
Anything with two C functions of the signatures of `bs_log_density` and `bs_log_density_gradient`
can be sampled.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics.vectors import copy

# columns of Density.calls
VALUE_CALLS, GRADIENT_CALLS, FAILED_CALLS, FAILED_IN_A_ROW = 0, 1, 2, 3
# filled in by the driver: calls made until the last recorded draw
RECORDED_CALLS = 4
# 128 bytes: two chains' counters never share a cache line, which would slow down both
COUNTERS = 16


class Density(NamedTuple):
    """Log density on unconstrained parameters, Jacobian included, one per chain."""

    # value_address, gradient_address: addresses of `bs_log_density` and `bs_log_density_gradient`
    value_address: int
    gradient_address: int
    handle: int  # Address of the model instance. The Python owner must outlive this tuple.
    # number of unconstrained parameters, which a sampler moves: the first entries of a position
    dim: int
    # Length of a position. The entries after the first `dim` are the noise of an estimated density,
    # standard normal; every other density has no such entries, and size is dim.
    size: int
    # correlation between the noise of a proposal and that of the current point, in [0, 1)
    correlation: float
    # 1 or 0: the `propto` flag of value calls. A gradient-free sampler on a native library needs 0
    # (with 1 Stan builds autodiff types). Gradient calls always pass 1, so values of the two kinds
    # differ by a constant and must not be mixed in one ratio.
    value_propto: int
    # counters, int64, shape (16,): value calls, gradient calls, calls without a finite density,
    # calls of that kind since the last finite one; the rest is padding
    calls: np.ndarray
    # last position without a finite density, shape (size,): evaluated again to obtain the model's
    # error message
    failed_position: np.ndarray


def make_density(
    value_address: int,
    gradient_address: int,
    handle: int,
    dim: int,
    value_propto: int = 1,
    noise: int = 0,
    correlation: float = 0.0,
) -> Density:
    """Return a density with its own counters, for one chain; dim includes `noise` noise entries."""
    calls, failed = np.zeros(COUNTERS, np.int64), np.full(dim, np.nan)
    return Density(
        value_address, gradient_address, handle, dim - noise, dim, float(correlation),
        value_propto, calls, failed,
    )  # fmt: skip


# signatures of `bs_log_density` and `bs_log_density_gradient` as Numba types
_NUMBERS = types.CPointer(types.float64)
VALUE_SIGNATURE = types.int32(
    types.voidptr, types.int32, types.int32, _NUMBERS, _NUMBERS, types.voidptr
)
GRADIENT_SIGNATURE = types.int32(
    types.voidptr, types.int32, types.int32, _NUMBERS, _NUMBERS, _NUMBERS, types.voidptr
)

# a C bool is passed in an integer register: 32 bits leave no part of it undefined
_FLAG, _DOUBLE, _BYTE_POINTER = ir.IntType(32), ir.DoubleType(), cgutils.voidptr_t
_TRUE = ir.Constant(_FLAG, 1)
_NO_MESSAGE = ir.Constant(_BYTE_POINTER, None)  # with a message, every failure leaks a string


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _call(builder, address, handle, *rest):
    """Emit a call of int f(model, ..., error_msg)."""
    arguments = [builder.inttoptr(handle, _BYTE_POINTER), *rest, _NO_MESSAGE]
    function = ir.FunctionType(ir.IntType(32), [argument.type for argument in arguments])
    return builder.call(builder.inttoptr(address, function.as_pointer()), arguments)


@intrinsic
def call_value(context, address, handle, propto, position):
    """Call int f(model, propto, jacobian, theta, value, error_msg) -> (code, value)."""
    result = types.Tuple((types.int32, types.float64))

    def emit(context, builder, signature, arguments):
        address, handle, propto, theta = arguments
        theta = _data(context, builder, position, theta)
        out, propto = cgutils.alloca_once(builder, _DOUBLE), builder.trunc(propto, _FLAG)
        code = _call(builder, address, handle, propto, _TRUE, theta, out)
        return context.make_tuple(builder, signature.return_type, [code, builder.load(out)])

    return result(address, handle, types.int64, position), emit


@intrinsic
def call_gradient(context, address, handle, position, gradient):
    """Call int f(model, propto, jacobian, theta, value, gradient, error_msg) -> (code, value)."""
    result = types.Tuple((types.int32, types.float64))

    def emit(context, builder, signature, arguments):
        address, handle, theta, slope = arguments
        theta = _data(context, builder, position, theta)
        slope = _data(context, builder, gradient, slope)
        out = cgutils.alloca_once(builder, _DOUBLE)
        code = _call(builder, address, handle, _TRUE, _TRUE, theta, out, slope)
        return context.make_tuple(builder, signature.return_type, [code, builder.load(out)])

    return result(address, handle, position, gradient), emit


@intrinsic
def _call_unconstrain(context, address, handle, values, out):
    """Call int bs_param_unconstrain(model, theta, theta_unc, error_msg)."""

    def emit(context, builder, signature, arguments):
        address, handle, theta, free = arguments
        theta, free = _data(context, builder, values, theta), _data(context, builder, out, free)
        return _call(builder, address, handle, theta, free)

    return types.int32(address, handle, values, out), emit


@intrinsic
def _call_constrain(context, address, handle, quantities, position, out, rng):
    """Call int bs_param_constrain(model, tp, gq, theta_unc, theta, rng, error_msg)."""

    def emit(context, builder, signature, arguments):
        address, handle, quantities, free, theta, rng = arguments
        free, theta = _data(context, builder, position, free), _data(context, builder, out, theta)
        quantities, rng = builder.trunc(quantities, _FLAG), builder.inttoptr(rng, _BYTE_POINTER)
        return _call(builder, address, handle, _TRUE, quantities, free, theta, rng)

    return types.int32(address, handle, types.int64, position, out, rng), emit


@jit
def _record_failure(density, position):
    density.calls[FAILED_CALLS] += 1
    density.calls[FAILED_IN_A_ROW] += 1
    copy(position, density.failed_position)


def _value_of(density, position):
    raise NotImplementedError("only for compiled code")


def _gradient_of(density, position, gradient):
    raise NotImplementedError("only for compiled code")


# implementations by class of density; a module that defines a class adds its own here
VALUES, GRADIENTS = {}, {}


@overload(_value_of, inline="always")
def _choose_value(density, position):
    function = VALUES[density.instance_class]
    return lambda density, position: function(density, position)


@overload(_gradient_of, inline="always")
def _choose_gradient(density, position, gradient):
    function = GRADIENTS[density.instance_class]
    return lambda density, position, gradient: function(density, position, gradient)


@jit
def value(density, position):
    """Return the log density at position, shape (size,); -inf if it throws or is not finite."""
    return _value_of(density, position)


@jit
def value_and_gradient(density, position, gradient):
    """Return the log density at position, and write its gradient into `gradient`, shape (dim,).

    If the model throws, or value or gradient is not finite: -inf, and a zero gradient.
    """
    return _gradient_of(density, position, gradient)


@jit
def value_of_program(density, position):
    density.calls[VALUE_CALLS] += 1
    code, log_density = call_value(
        density.value_address, density.handle, density.value_propto, position
    )
    # after a failure the buffer still holds an old value: only the code shows it
    if code != 0 or not np.isfinite(log_density):
        _record_failure(density, position)
        return -np.inf
    density.calls[FAILED_IN_A_ROW] = 0
    return log_density


@jit
def gradient_of_program(density, position, gradient):
    """`value_and_gradient` of a `Density`."""
    density.calls[GRADIENT_CALLS] += 1
    code, log_density = call_gradient(density.gradient_address, density.handle, position, gradient)
    fine = code == 0 and np.isfinite(log_density)
    if fine:
        for i in range(density.dim):
            fine &= np.isfinite(gradient[i])
    if not fine:
        _record_failure(density, position)
        gradient[:] = 0.0
        return -np.inf
    density.calls[FAILED_IN_A_ROW] = 0
    return log_density


VALUES[Density], GRADIENTS[Density] = value_of_program, gradient_of_program


@jit
def gradients_at_rows(density, positions, values, gradients):
    """Write log densities and gradients at rows of positions: -inf and NaN where there are none."""
    for i in range(positions.shape[0]):
        values[i] = gradient_of_program(density, positions[i], gradients[i])
        if values[i] == -np.inf:
            gradients[i, :] = np.nan


@jit
def unconstrain(address, handle, rows, out):
    """Write the positions of rows of constrained parameters: NaN if Stan throws."""
    for i in range(rows.shape[0]):
        if _call_unconstrain(address, handle, rows[i], out[i]) != 0:
            out[i, :] = np.nan


@jit
def constrain(address, handle, rng, positions, out, failed_position):
    """Constrain rows of positions (draw, dim) into rows of out (draw, n_constrained).

    `rng` is the address of one of the model's random generators, used by generated quantities
    in the order of the rows. If these throw, they become NaN and the rest of the row is kept.
    Returns the number of rows in which they threw; the position of the last one is copied to
    `failed_position`.
    """
    failures = 0
    for i in range(positions.shape[0]):
        if _call_constrain(address, handle, 1, positions[i], out[i], rng) == 0:
            continue
        failures += 1
        copy(positions[i], failed_position)
        out[i, :] = np.nan
        if _call_constrain(address, handle, 0, positions[i], out[i], rng) != 0:
            out[i, :] = np.nan
    return failures


@jit
def constrain_parameters(address, handle, positions, out):
    """Constrain rows of positions (row, dim) into rows of out, without generated quantities.

    A row becomes NaN if its transformed parameters throw.
    """
    for i in range(positions.shape[0]):
        if _call_constrain(address, handle, 0, positions[i], out[i], 0) != 0:
            out[i, :] = np.nan
