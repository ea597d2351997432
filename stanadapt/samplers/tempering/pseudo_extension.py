"""The pseudo-extended density, also as C functions with BridgeStan's signatures.

The density is that of N copies of a target, each at its own temperature. With base log density
l(x), reference log density psi(x) = log p0(x), Delta = l - psi and inverse temperatures b_i, the
extended distribution of (x_1, b_1), ..., (x_N, b_N) is a mixture: one pair, chosen at random,
follows target(x) pi(b), every other pair the instrumental distribution

    q(x, b)  proportional to  target(x)^b p0(x)^(1 - b) g(b).

With a_i = (1 - b_i) Delta_i + log pi(b_i) - log g(b_i), the weights w = softmax(a) of one state
make its pseudo-samples weighted draws from the target: E[sum_i w_i f(x_i)] = E_target[f(x)].

Temperatures are "free" (coordinates u_i, b = low + (high - low) sigmoid(u), pi uniform), "fixed",
or "collapsed": summed over a ladder, q(x) = p0(x) sum_k exp(b_k Delta) / Z_k.

The C functions allow any sampler to use the density; `engine/wrapped_density` keeps the fields of
`Extension` for them. The base and the prior must be kept alive by the caller.

References
----------
That of `pseudo_extended`: psi = 0, free or fixed temperatures. Deviations: the reference
distribution, g = 1 / Z interpolated from a ladder, collapsed temperatures, and the estimate of the
constant that Stan's log densities lack are ours.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import (
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    call_value,
    make_density,
)
from stanadapt.engine.wrapped_density import Matrix, Vector, parts_at, parts_of, wrapped
from stanadapt.samplers.tempering import reference_distribution
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, PRIOR
from stanadapt.samplers.tempering.reference_distribution import CompiledReference

FREE, FIXED, COLLAPSED = 0, 1, 2


class Source(NamedTuple):
    """A density given by C functions: addresses, handle, and an offset of its values."""

    value_address: int
    gradient_address: int
    handle: int
    value_propto: int  # the `propto` flag of value calls
    # Excess of value calls over gradient calls, which leave constants out. It is subtracted, so
    # that both calls of the extended density, and its weights, have the same target.
    offset: float
    # Subtracted from the values of both calls: about the log of the density's integral, since
    # free temperatures without a ladder compare a density with its powers, and Stan's `~` drops
    # constants.
    level: float = 0.0


NO_SOURCE = Source(0, 0, 0, 0, 0.0, 0.0)


class ExtensionDesign(NamedTuple):
    """Number of pseudo-samples, and treatment of their temperatures."""

    pseudo_samples: int
    mode: int  # FREE, FIXED or COLLAPSED
    low: float  # range of a free temperature; both equal the fixed one
    high: float
    ladder: Vector  # b_k, shape (K,); K is 0 without a ladder
    log_normalizers: Vector  # log Z_k, shape (K,)
    cubics: Matrix  # coefficients of log Z between rungs, highest power first, shape (4, K - 1)


NO_LADDER = (np.empty(0), np.empty(0), np.empty((4, 0)))


class Extension(NamedTuple):
    """The extended density for compiled code; the last seven arrays are workspace."""

    base: Source  # the target
    prior: Source  # the reference density if `reference_kind` is PRIOR
    design: ExtensionDesign
    reference_kind: int  # POWER (psi = 0), DISTRIBUTION or PRIOR
    reference: CompiledReference  # of size 0 unless `reference_kind` is DISTRIBUTION
    log_base: Vector  # l; shape (N,), like the next five
    log_reference: Vector  # psi
    log_instrumental: Vector  # log q
    slope: Vector  # derivative of log q in b, if temperatures are free
    temperature: Vector  # b_i; if collapsed, its mean given x_i
    weight: Vector  # w_i
    reference_gradient: Matrix  # gradient of psi at x_i, shape (N, dim)


@jit
def extended_value(e, position):
    """Return (code, log density) at position: x_1, ..., x_N and, if free, u_1, ..., u_N."""
    count, dim = e.reference_gradient.shape
    for i in range(count):
        x = position[i * dim : (i + 1) * dim]
        if not _values(e, i, x):
            return -1, -np.inf
    return 0, _mixture(e, position)


@jit
def extended_gradient(e, position, gradient):
    """Return (code, log density) at position; its gradient is written into `gradient`."""
    count, dim = e.reference_gradient.shape
    for i in range(count):
        x, slope = position[i * dim : (i + 1) * dim], gradient[i * dim : (i + 1) * dim]
        if not _gradients(e, i, x, slope):
            return -1, -np.inf
    log_density = _mixture(e, position)
    for i in range(count):
        # 1 - kappa, with the effective inverse temperature kappa in [b_i, 1] of x_i
        rest = (1.0 - e.weight[i]) * (1.0 - e.temperature[i])
        for j in range(dim):
            k = i * dim + j
            gradient[k] = (1.0 - rest) * gradient[k] + rest * e.reference_gradient[i, j]
        if e.design.mode == FREE:
            u = position[count * dim + i]
            s, r = sigmoid(u), sigmoid(-u)
            chain = (e.design.high - e.design.low) * s * r
            gradient[count * dim + i] = chain * (1.0 - e.weight[i]) * e.slope[i] + (r - s)
    return 0, log_density


@jit
def _values(e, i, x):
    """Fill l_i and psi_i; return whether both are finite."""
    code, value = call_value(e.base.value_address, e.base.handle, e.base.value_propto, x)
    e.log_base[i] = value - e.base.offset - e.base.level
    fine = code == 0 and np.isfinite(value)
    e.log_reference[i] = 0.0
    if fine and e.reference_kind == DISTRIBUTION:
        e.log_reference[i] = reference_distribution.log_density(e.reference, x)
    if fine and e.reference_kind == PRIOR:
        prior = e.prior
        code, value = call_value(prior.value_address, prior.handle, prior.value_propto, x)
        e.log_reference[i] = value - prior.offset - prior.level
        fine = code == 0
    return fine and np.isfinite(e.log_reference[i])


@jit
def _gradients(e, i, x, gradient):
    """Fill l_i, psi_i, the gradient of l into `gradient`; return whether both are finite."""
    code, value = call_gradient(e.base.gradient_address, e.base.handle, x, gradient)
    e.log_base[i] = value - e.base.level
    fine = code == 0 and np.isfinite(e.log_base[i])
    slope = e.reference_gradient[i]
    if e.reference_kind == POWER:
        e.log_reference[i] = 0.0
        slope[:] = 0.0
    elif e.reference_kind == DISTRIBUTION:
        e.log_reference[i] = reference_distribution.log_density_and_gradient(e.reference, x, slope)
    elif fine:
        code, value = call_gradient(e.prior.gradient_address, e.prior.handle, x, slope)
        e.log_reference[i] = value - e.prior.level
        fine = code == 0
    return fine and np.isfinite(e.log_reference[i])


@jit
def _mixture(e, position):
    """Log density, from l and psi; fills temperatures, weights and log q."""
    mode, (count, dim) = e.design.mode, e.reference_gradient.shape
    log_width = np.log(e.design.high - e.design.low) if mode == FREE else 0.0  # log pi = -log_width
    best, log_jacobian = 0, 0.0
    for i in range(count):
        u = position[count * dim + i] if mode == FREE else 0.0
        _instrumental(e, i, u)
        # log of target(x_i) pi(b_i) / q(x_i, b_i)
        e.weight[i] = e.log_base[i] - log_width - e.log_instrumental[i]
        if e.weight[i] > e.weight[best]:
            best = i
        if mode == FREE:
            log_jacobian += log_width - abs(u) - 2.0 * np.log1p(np.exp(-abs(u)))
    total, largest, rest = 0.0, e.weight[best], 0.0
    for i in range(count):
        e.weight[i] = np.exp(e.weight[i] - largest)
        total += e.weight[i]
        if i != best:
            rest += e.log_instrumental[i]
    for i in range(count):
        e.weight[i] /= total
    # logsumexp(a) + sum log q, relative to the largest term: no cancellation, and N = 1 gives l
    return e.log_base[best] - log_width + rest + np.log(total / count) + log_jacobian


@jit
def _instrumental(e, i, u):
    """Fill log q(x_i, b_i), its derivative in b and the temperature."""
    log_reference = e.log_reference[i]
    delta = e.log_base[i] - log_reference
    if e.design.mode == COLLAPSED:
        log_sum, e.temperature[i] = over_ladder(e.design.ladder, e.design.log_normalizers, delta)
        e.log_instrumental[i] = log_reference + log_sum
        return
    b = e.design.low + (e.design.high - e.design.low) * sigmoid(u)
    e.temperature[i] = b
    e.log_instrumental[i] = b * e.log_base[i] + (1.0 - b) * log_reference
    e.slope[i] = delta
    if e.design.mode == FREE and e.design.ladder.shape[0] > 0:
        log_normalizer, slope = interpolate(e.design.ladder, e.design.cubics, b)
        e.log_instrumental[i] -= log_normalizer
        e.slope[i] -= slope


@jit
def over_ladder(ladder, log_normalizers, delta):
    """Return log sum_k exp(b_k delta) / Z_k, and the mean of b_k weighted by these terms."""
    largest = -np.inf
    for k in range(ladder.shape[0]):
        largest = max(largest, ladder[k] * delta - log_normalizers[k])
    total, moment = 0.0, 0.0
    for k in range(ladder.shape[0]):
        term = np.exp(ladder[k] * delta - log_normalizers[k] - largest)
        total += term
        moment += term * ladder[k]
    return largest + np.log(total), moment / total


@jit
def interpolate(ladder, cubics, b):
    """Return log Z(b) and its derivative; outside the ladder the outermost cubic is continued."""
    k = min(max(np.searchsorted(ladder, b, "right") - 1, 0), cubics.shape[1] - 1)
    t = b - ladder[k]
    c3, c2, c1, c0 = cubics[0, k], cubics[1, k], cubics[2, k], cubics[3, k]
    return ((c3 * t + c2) * t + c1) * t + c0, (3.0 * c3 * t + 2.0 * c2) * t + c1


@jit
def sigmoid(u):
    """1 / (1 + exp(-u)), accurate for both signs of u."""
    if u >= 0.0:
        return 1.0 / (1.0 + np.exp(-u))
    e = np.exp(u)
    return e / (1.0 + e)


@jit
def weigh(e, positions, temperatures, weights):
    """Fill the temperatures and weights, shape (row, N), of rows of positions.

    A row that repeats the previous one, as after a rejection, costs nothing. If the density fails,
    both are NaN.
    """
    for t in range(positions.shape[0]):
        if t > 0 and np.array_equal(positions[t], positions[t - 1]):
            temperatures[t], weights[t] = temperatures[t - 1], weights[t - 1]
            continue
        code, _ = extended_value(e, positions[t])
        if code == 0:
            temperatures[t], weights[t] = e.temperature, e.weight
        else:
            temperatures[t], weights[t] = np.nan, np.nan


@jit
def choose(positions, weights, rng, out):
    """Draw one x_i by weight from each row of positions, into out, shape (row, dim)."""
    dim = out.shape[1]
    for t in range(positions.shape[0]):
        u, i = rng.random() * np.sum(weights[t]), 0
        while i + 1 < weights.shape[1] and u >= weights[t, i]:
            u -= weights[t, i]
            i += 1
        out[t] = positions[t, i * dim : (i + 1) * dim]


def source_of(density: Density) -> Source:
    """Return the C functions of a Density."""
    addresses = density.value_address, density.gradient_address, density.handle
    return Source(*addresses, density.value_propto, 0.0)


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
    """Return the extended density with its own memory, for one chain.

    The base has `dim` parameters. The owners of base and prior must outlive the Density.
    """
    n = design.pseudo_samples
    kind = PRIOR if prior is not None else DISTRIBUTION if reference is not None else POWER
    work = np.zeros((6, n))
    parts = Extension(
        base, prior or NO_SOURCE, design, kind, reference or reference_distribution.no_reference(),
        *work, np.zeros((n, dim)),
    )  # fmt: skip
    density = make_density(0, 0, 0, extended_dim(design, dim))
    return wrapped(density, parts, value_of_extended, gradient_of_extended)


def extension_of(density: Density) -> Extension:
    """Return the Extension of a Density from `make_extended`."""
    return parts_of(density, Extension)


@c_function(VALUE_SIGNATURE)
def value_of_extended(handle, propto, jacobian, position, value, message):
    """`bs_log_density`; the flags are ignored, as the calls of the base pass their own."""
    e = parts_at(handle, Extension)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.design.mode == FREE))
    code, log_density = extended_value(e, carray(position, size))
    carray(value, 1)[0] = log_density
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_extended(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient`."""
    e = parts_at(handle, Extension)
    count, dim = e.reference_gradient.shape
    size = count * (dim + (e.design.mode == FREE))
    code, log_density = extended_gradient(e, carray(position, size), carray(gradient, size))
    carray(value, 1)[0] = log_density
    return code
