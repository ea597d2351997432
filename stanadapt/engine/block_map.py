"""A map that makes a whole block of coordinates standard normal, given a few others, its hubs.

The block x_B of a conditionally Gaussian model has, given the hubs p and the free coordinates x_F,
the precision Q and the mean m of

    Q = sum_k f_k(p) A_k,     Q m = sum_k f_k(p) (h_k - R_k x_F),     k = 1, ..., K
    f_k = prod_h exp(E_kh p_h), or v_h, v_h^2, 1 / v_h, 1 / v_h^2, or of a correlation
          1 / (1 - v_h^2), v_h / (1 - v_h^2)

v_h being the value of a hub that is declared with two bounds, or of one without bounds. A local
level, effects of a hierarchy with their mean, a Gaussian process with an unknown amplitude, and
slopes with an unknown correlation are exactly of this form. With Q = L L^T,

    x_B = m + L^-T y,     log |dx/dy| = -sum_i log L_ii

and every other coordinate stays as it is. In noncentered programs, the likelihood knows products
s_i x_i with scales s_i(p), such as the spectral densities of a Gaussian process. So in the last
terms of these sums, A_k and h_k - R_k x_F are multiplied with s_i, and A_k also with s_j:

    log s_i = sum_h of a cubic spline in p_h, linear beyond its knots

Q is stored by rows from their first nonzero element to
the diagonal, an envelope, in which its Cholesky factor has its place too: n states of a random walk
take O(n) operations. If the program declares the innovations of a process, its states stand for
them, above (`walk_map`).

If Q is not positive definite, a constant diagonal takes the place of L, and m is 0. For each p this
is a change of variables, whatever the numbers.

Compiled code passes the map as one array (`pack`), and calls one function that is compiled for the
first program that has such a block. In it, nearly all functions are inlined: with two members, to
pass the arrays, and views of the workspace, from call to call took four times as long as the
arithmetic.

References
----------
Kleppe (2019), Dynamically rescaled Hamiltonian Monte Carlo for Bayesian hierarchical models,
Journal of Computational and Graphical Statistics 28, has the map, with matrices that the user
supplies. Reverse rule of the Cholesky factor: Smith (1995), same journal, 4.
"""

from typing import NamedTuple

import numpy as np
from numba import carray, types

from stanadapt.engine import walk_map
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.on_demand import ADDRESS, on_demand
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.walk_map import NO_WALK, Walk
from stanadapt.engine.wrapped_density import (
    Integers,
    Matrix,
    Vector,
    is_packed,
    packed,
    parts_at,
    parts_in,
)

# functions of the value v of a hub with two bounds or none, in BlockMap.powers; 0 for none
LINEAR, SQUARE, INVERSE, RATIO, RECIPROCAL, PRECISION = 1, 2, 3, 4, 5, 6
# columns of BlockMap.bounds: v = LOWER + WIDTH / (1 + exp(-SLOPE p)), or p if these are 0
SLOPE, LOWER, WIDTH = 0, 1, 2
# Q is not positive definite if this share of a diagonal element, or less, is left
SMALLEST_PIVOT = 1e-13
LARGEST_EXPONENT = 300.0


class BlockMap(NamedTuple):
    """The numbers of the map, for n coordinates of the block, in the order of the envelope."""

    hubs: Integers  # coordinates p, shape (H,)
    block: Integers  # coordinates x_B, shape (n,)
    free: Integers  # coordinates x_F, shape (F,)
    exponents: Matrix  # E, shape (K, H)
    powers: Matrix  # codes as above, shape (K, H)
    bounds: Matrix  # shape (H, 3)
    start: Integers  # where the rows of an envelope begin, shape (n,)
    first: Integers  # the first column of each row, shape (n,)
    precisions: Matrix  # A, shape (K, envelope)
    shifts: Matrix  # h, shape (K, n)
    couplings: Matrix  # R, shape (K n, F)
    constant: Vector  # diagonal of L where Q is not positive definite, shape (n,)
    work: Vector  # workspace of `size_of_work`
    scaled: Integers = np.zeros(1, np.int64)  # how many of the last terms have scales s, shape (1,)
    grid: Matrix = np.empty((0, 2))  # first knot of the splines of each hub, and step; shape (H, 2)
    splines: Matrix = np.empty((0, 0))  # their coefficients, shape (H G, n), of B-splines
    walk: Walk = NO_WALK  # among members


def size_of_work(terms: int, hubs: int, n: int, envelope: int) -> int:
    """Return the size of the workspace."""
    return 1 + terms * (1 + hubs) + 2 * envelope + 6 * n


def pack(block: BlockMap) -> np.ndarray:
    """Return a map as a single array of numbers, which `unpacked` views."""
    return packed(block).view(float)


def is_readable(array: np.ndarray) -> bool:
    """Whether an array is a map that `pack` makes, or empty; those of older versions are not."""
    return not array.size or is_packed(array, BlockMap)


def unpacked(array: np.ndarray) -> BlockMap:
    """Return the map of which `pack` has made an array, as views of it."""
    return parts_in(array, BlockMap)


@inline
def _views(block):
    """Return the parts of the workspace: f, df/dp, L, B, m, e, u, v, s, and by log s."""
    work, (terms, hubs), n = block.work, block.exponents.shape, block.block.shape[0]
    size, at = block.precisions.shape[1], 1
    f, at = work[at : at + terms], at + terms
    slope, at = work[at : at + terms * hubs].reshape((terms, hubs)), at + terms * hubs
    factor, at = work[at : at + size], at + size
    by_factor, at = work[at : at + size], at + size
    vectors = work[at : at + 6 * n].reshape((6, n))
    return (
        f, slope, factor, by_factor, vectors[0], vectors[1], vectors[2], vectors[3], vectors[4],
        vectors[5],
    )  # fmt: skip


@inline
def evaluate(block, x, f, slope):
    """Write f_k and df_k / dp_h of a position; return whether they are finite."""
    for k in range(f.shape[0]):
        exponent, product = 0.0, 1.0
        for h in range(block.hubs.shape[0]):
            exponent += block.exponents[k, h] * x[block.hubs[h]]
            slope[k, h] = block.exponents[k, h]
        if not abs(exponent) < LARGEST_EXPONENT:
            return False
        for h in range(block.hubs.shape[0]):
            code = int(block.powers[k, h])
            if code == 0:
                continue
            rate, width = block.bounds[h, SLOPE], block.bounds[h, WIDTH]
            share = 1.0 / (1.0 + np.exp(-rate * x[block.hubs[h]]))
            v, by = block.bounds[h, LOWER] + width * share, rate * width * share * (1.0 - share)
            if width == 0.0:
                v, by = x[block.hubs[h]], 1.0
            value, by = _power(code, v, by)
            for other in range(block.hubs.shape[0]):
                slope[k, other] *= value
            slope[k, h] += product * by
            product *= value
        base = np.exp(exponent)
        f[k] = base * product
        for h in range(block.hubs.shape[0]):
            slope[k, h] *= base
    return True


@inline
def _power(code, v, by):
    """Return a function of v, and its derivative, given that of v."""
    if code == LINEAR:
        return v, by
    if code == SQUARE:
        return v * v, 2.0 * v * by
    if code == RECIPROCAL:
        return 1.0 / v, -by / (v * v)
    if code == PRECISION:
        return 1.0 / (v * v), -2.0 * by / (v * v * v)
    inverse = 1.0 / max(1.0 - v * v, 1e-14)
    if code == INVERSE:
        return inverse, 2.0 * v * inverse * inverse * by
    return v * inverse, (inverse + 2.0 * v * v * inverse * inverse) * by


@inline
def _spline(block, h, p):
    """Return where the coefficients of the splines in hub h begin, their weights, and slopes."""
    knots = block.splines.shape[0] // block.hubs.shape[0]
    away = (p - block.grid[h, 0]) / block.grid[h, 1]
    inside = min(max(away, 0.0), knots - 3.0)
    cell = min(int(inside), knots - 4)
    u, out = inside - cell, away - inside
    v, rate = 1.0 - u, 1.0 / block.grid[h, 1]
    s = -0.5 * v * v, (1.5 * u - 2.0) * u, (1.5 * v - 2.0) * -v, 0.5 * u * u
    w = (
        v * v * v / 6.0 + out * s[0], 2.0 / 3.0 + (0.5 * u - 1.0) * u * u + out * s[1],
        2.0 / 3.0 + (0.5 * v - 1.0) * v * v + out * s[2], u * u * u / 6.0 + out * s[3],
    )  # fmt: skip
    return h * knots + cell, w, (rate * s[0], rate * s[1], rate * s[2], rate * s[3])


@inline
def _scales(block, x, scale):
    """Write s at the hubs of x."""
    scale[:] = 0.0
    for h in range(block.hubs.shape[0] if block.splines.shape[0] > 0 else 0):
        at, w, _ = _spline(block, h, x[block.hubs[h]])
        for q in range(4):
            for i in range(scale.shape[0]):
                scale[i] += w[q] * block.splines[at + q, i]
    for i in range(scale.shape[0]):
        scale[i] = np.exp(scale[i]) if block.splines.shape[0] > 0 else 1.0


@inline
def _factorize(block, f, scale, factor):
    """Write the Cholesky factor of Q; return whether Q is positive definite."""
    start, first = block.start, block.first
    terms = f.shape[0]
    plain = terms - block.scaled[0]
    for p in range(factor.shape[0]):
        entry = 0.0
        for k in range(plain):
            entry += f[k] * block.precisions[k, p]
        factor[p] = entry
    for i in range(first.shape[0] if plain < terms else 0):
        own = start[i] - first[i]
        for j in range(first[i], i + 1):
            entry = 0.0
            for k in range(plain, terms):
                entry += f[k] * block.precisions[k, own + j]
            factor[own + j] += scale[i] * scale[j] * entry
    for i in range(first.shape[0]):
        own = start[i] - first[i]
        for j in range(first[i], i):
            other, entry = start[j] - first[j], factor[own + j]
            for k in range(max(first[i], first[j]), j):
                entry -= factor[own + k] * factor[other + k]
            factor[own + j] = entry / factor[other + j]
        whole = pivot = factor[own + i]
        for k in range(first[i], i):
            pivot -= factor[own + k] ** 2
        if not SMALLEST_PIVOT * whole < pivot < np.inf:
            return False
        factor[own + i] = np.sqrt(pivot)
    return True


@inline
def _forward(block, factor, b):
    """Replace b by L^-1 b."""
    for i in range(b.shape[0]):
        own, entry = block.start[i] - block.first[i], b[i]
        for k in range(block.first[i], i):
            entry -= factor[own + k] * b[k]
        b[i] = entry / factor[own + i]


@inline
def _backward(block, factor, b):
    """Replace b by L^-T b."""
    for i in range(b.shape[0] - 1, -1, -1):
        own = block.start[i] - block.first[i]
        b[i] /= factor[own + i]
        for k in range(block.first[i], i):
            b[k] -= factor[own + k] * b[i]


@inline
def _moments(block, x):
    """Compute f, L and m at the hubs and free coordinates of x; return log |dx/dy|."""
    f, slope, factor, _, mean, _, _, _, scale, _ = _views(block)
    n, terms = mean.shape[0], f.shape[0]
    plain = terms - block.scaled[0]
    _scales(block, x, scale)
    definite = evaluate(block, x, f, slope) and _factorize(block, f, scale, factor)
    block.work[0] = 1.0 if definite else 0.0
    if not definite:
        factor[:] = 0.0
        for i in range(n):
            factor[block.start[i] + i - block.first[i]] = block.constant[i]
    for i in range(n):
        mean[i] = 0.0
        for k in range(terms if definite else 0):
            entry = block.shifts[k, i]
            for q in range(block.free.shape[0]):
                entry -= block.couplings[k * n + i, q] * x[block.free[q]]
            mean[i] += f[k] * entry if k < plain else f[k] * entry * scale[i]
    _forward(block, factor, mean)
    _backward(block, factor, mean)
    logs = 0.0
    for i in range(n):
        logs -= np.log(factor[block.start[i] + i - block.first[i]])
    return logs


# what `_mapped` does
PLACE, RESIDUAL, PULL_BACK, PUSH_FORWARD = 0, 1, 2, 3


@on_demand(types.float64(types.voidptr, ADDRESS, ADDRESS, types.intp, types.intp))
def _mapped(packed, given, out, size, task):
    """Do one of the functions below, for vectors of shape (size,)."""
    block = parts_at(packed, BlockMap)
    return _do(block, carray(given, size), carray(out, size), task)


@inline
def _do(block, given, out, task):
    logs = 0.0
    if task <= RESIDUAL:
        logs = _moments(block, given)
        if task == PLACE:
            _place(block, given, out)
            logs += walk_map.leave(block.walk, out)
        else:
            copy(given, out)
            logs += walk_map.enter(block.walk, out)
            _residual(block, out)
    else:
        if task == PULL_BACK:
            walk_map.pull_back(block.walk, given, out)
            _pull_back(block, out)
        else:
            _push_forward(block, out)
        if block.work[0] != 0.0:
            _hand_on(block, given, out, 1.0 if task == PULL_BACK else -1.0)
        if task == PUSH_FORWARD:
            walk_map.push_forward(block.walk, given, out)
    return logs


@jit
def place(block, y, x):
    """Write x of y, which may be the same array; return the log of the Jacobian |dx/dy|."""
    return _mapped(block, y, x, x.shape[0], PLACE)


@jit
def residual(block, x, y):
    """Write y of x, another array; return the log of the Jacobian |dx/dy|."""
    return _mapped(block, x, y, y.shape[0], RESIDUAL)


@jit
def pull_back(block, x, gradient):
    """Replace the gradient in x by that in y, of the log density and the log Jacobian.

    The workspace must be that of x.
    """
    _mapped(block, x, gradient, gradient.shape[0], PULL_BACK)


@jit
def push_forward(block, x, gradient):
    """Undo `pull_back`: replace the gradient in y by that of the log density of x."""
    _mapped(block, x, gradient, gradient.shape[0], PUSH_FORWARD)


@inline
def _place(block, y, x):
    _, _, factor, _, mean, away, _, _, _, _ = _views(block)
    for i in range(away.shape[0]):
        away[i] = y[block.block[i]]
    _backward(block, factor, away)
    copy(y, x)
    for i in range(away.shape[0]):
        x[block.block[i]] = mean[i] + away[i]


@inline
def _residual(block, y):
    _, _, factor, _, mean, away, _, _, _, _ = _views(block)
    for i in range(away.shape[0]):
        away[i] = y[block.block[i]] - mean[i]
        y[block.block[i]] = 0.0
    for i in range(away.shape[0]):
        own = block.start[i] - block.first[i]
        for k in range(block.first[i], i + 1):
            y[block.block[k]] += factor[own + k] * away[i]


@inline
def _pull_back(block, gradient):
    _, _, factor, _, _, _, u, v, _, _ = _views(block)
    for i in range(u.shape[0]):
        u[i] = gradient[block.block[i]]
    _forward(block, factor, u)
    for i in range(u.shape[0]):
        gradient[block.block[i]] = v[i] = u[i]


@inline
def _push_forward(block, gradient):
    _, _, factor, _, _, _, u, v, _, _ = _views(block)
    for i in range(u.shape[0]):
        u[i] = v[i] = gradient[block.block[i]]
    for i in range(u.shape[0]):
        own, entry = block.start[i] - block.first[i], 0.0
        for k in range(block.first[i], i + 1):
            entry += factor[own + k] * u[k]
        gradient[block.block[i]] = entry


@inline
def _hand_on(block, x, gradient, sign):
    """Add the block's part to the gradient by hubs and free coordinates, or take it away.

    u, and v to begin with, are the gradient in y.
    """
    f, slope, factor, by_factor, mean, away, u, v, _, _ = _views(block)
    plain = f.shape[0] - block.scaled[0]
    n, start, first = mean.shape[0], block.start, block.first
    _backward(block, factor, v)
    # the derivative by L, then by the lower half of Q
    for i in range(n):
        own = start[i] - first[i]
        for j in range(first[i], i + 1):
            by_factor[own + j] = -away[i] * u[j]
        by_factor[own + i] -= 1.0 / factor[own + i]
    _reverse(block, factor, by_factor)
    for i in range(n):
        own = start[i] - first[i]
        for j in range(first[i], i):
            by_factor[own + j] -= v[i] * mean[j] + v[j] * mean[i]
        by_factor[own + i] -= v[i] * mean[i]
    for k in range(f.shape[0]):
        if k == plain:
            _hand_to_scales(block, x, gradient, sign)
        by_function = 0.0
        for p in range(factor.shape[0]):
            by_function += by_factor[p] * block.precisions[k, p]
        for i in range(n):
            entry, row = block.shifts[k, i], k * n + i
            for q in range(block.free.shape[0]):
                entry -= block.couplings[row, q] * x[block.free[q]]
                gradient[block.free[q]] -= sign * f[k] * block.couplings[row, q] * v[i]
            by_function += v[i] * entry
        for h in range(block.hubs.shape[0]):
            gradient[block.hubs[h]] += sign * slope[k, h] * by_function


@inline
def _hand_to_scales(block, x, gradient, sign):
    """Hand on the part of s; derivatives by Q and m become those by their last terms without s."""
    f, _, _, by_factor, _, _, _, v, scale, by_scale = _views(block)
    n, start, first, terms = scale.shape[0], block.start, block.first, f.shape[0]
    by_scale[:] = 0.0
    for i in range(n):
        own = start[i] - first[i]
        v[i] *= scale[i]
        for j in range(first[i], i + 1):
            by_factor[own + j] *= scale[i] * scale[j]
        for k in range(terms - block.scaled[0], terms):
            shift, row = block.shifts[k, i], k * n + i
            for q in range(block.free.shape[0]):
                shift -= block.couplings[row, q] * x[block.free[q]]
            by_scale[i] += f[k] * v[i] * shift
            for j in range(first[i], i + 1):
                part = f[k] * by_factor[own + j] * block.precisions[k, own + j]
                by_scale[i] += part
                by_scale[j] += part
    for h in range(block.hubs.shape[0]):
        at, _, slopes = _spline(block, h, x[block.hubs[h]])
        for q in range(4):
            for i in range(n):
                gradient[block.hubs[h]] += sign * slopes[q] * block.splines[at + q, i] * by_scale[i]


@inline
def _reverse(block, factor, by):
    """Replace the derivative by L, in `by`, by that by the lower half of Q = L L^T."""
    start, first = block.start, block.first
    for i in range(first.shape[0] - 1, -1, -1):
        own = start[i] - first[i]
        by[own + i] /= 2.0 * factor[own + i]
        for k in range(first[i], i):
            by[own + k] -= 2.0 * factor[own + k] * by[own + i]
        for j in range(i - 1, first[i] - 1, -1):
            other = start[j] - first[j]
            by[own + j] /= factor[other + j]
            by[other + j] -= by[own + j] * factor[own + j]
            for k in range(max(first[i], first[j]), j):
                by[own + k] -= by[own + j] * factor[other + k]
                by[other + k] -= by[own + j] * factor[own + k]


@jit
def enter_rows(block, positions, gradients, log_jacobians):
    """Replace rows of positions and gradients in x by those in y; return how often Q was definite.

    Writes the log of the Jacobian of each.
    """
    y, definite = np.empty(positions.shape[1]), 0
    for i in range(positions.shape[0]):
        log_jacobians[i] = residual(block, positions[i], y)
        pull_back(block, positions[i], gradients[i])
        copy(y, positions[i])
        definite += int(parts_at(block, BlockMap).work[0])
    return definite
