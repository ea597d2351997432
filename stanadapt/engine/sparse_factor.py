"""The factor L of a metric whose inverse Q, a precision matrix, is sparse: L L^T = Q^-1.

In an order P of the coordinates in which Q has a narrow band, but for a few coordinates with many
neighbors, which come last,

    P Q P^T = R R^T,     L = P^T R^-T

R is zero outside of the band and of its last rows, so that products with L^T, L and L^-1 take
O(n (b + k)) operations, for a band of b and k last coordinates. L itself, which may be full, is
never written out.

It is stored with shape (n + 1, 2 + b + k), less than n wide. Row i is that of the i-th coordinate
in this order: its number, 1 / R_ii, the b elements R_i,i-b ... R_i,i-1 and the elements of column i
in the k last rows, all but the first two divided by the diagonal element of their row of R; the
last row has b and k. A product then waits for one multiplication per coordinate, and for no
division.
"""

import numpy as np
from numba import carray, types
from scipy import linalg, sparse

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.on_demand import ADDRESS, on_demand

NUMBER, INVERSE, BAND = 0, 1, 2
# nodes with more neighbors than this, and this many times the median, come last, unless they are a
# larger share of all
HEAVY, HEAVY_TIMES, HEAVY_SHARE = 8, 4.0, 0.25
# band and last rows beyond which products take longer than most densities
LARGEST_WIDTH = 200
# which product `multiply` computes
TIMES, TRANSPOSED_TIMES, INVERSE_TIMES = 0, 1, 2


def narrow_order(pattern: sparse.csr_array) -> tuple[np.ndarray, int]:
    """Return reverse Cuthill-McKee order, but nodes with many neighbors, such as means, last.

    The second result is the number of these.
    """
    degree = np.diff(pattern.indptr)
    heavy = degree > max(HEAVY, HEAVY_TIMES * float(np.median(degree)))
    heavy &= heavy.mean() <= HEAVY_SHARE
    light, last = np.flatnonzero(~heavy), np.flatnonzero(heavy)
    graph = sparse.csr_matrix(pattern[light][:, light])
    ordered = sparse.csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)
    last = last[np.argsort(degree[last], kind="stable")]
    return np.concatenate([light[ordered], last]), len(last)


def sparse_factor(precision: sparse.csr_array) -> np.ndarray | None:
    """Return the factor of a precision matrix, shape (n, n); None if there is none.

    It must be positive definite, and have an order in which few numbers are stored.
    """
    n = precision.shape[0]
    order, last = narrow_order(precision)
    light = n - last
    lower = sparse.tril(precision[order][:, order]).tocoo()
    i, j = lower.row, lower.col
    band = int((i - j)[i < light].max(initial=0))
    if band + last > LARGEST_WIDTH or BAND + band + last >= n:
        return None
    banded, rest = np.zeros((band + 1, light)), np.zeros((last, n))
    banded[(i - j)[i < light], j[i < light]] = lower.data[i < light]
    rest[i[i >= light] - light, j[i >= light]] = lower.data[i >= light]
    try:
        root = linalg.cholesky_banded(banded, lower=True)
        left = linalg.solve_banded((band, 0), root, rest[:, :light].T).T
        corner = np.linalg.cholesky(rest[:, light:] - left @ left.T)  # reads the lower half
    except np.linalg.LinAlgError:
        return None
    diagonal = np.concatenate([root[0], np.diag(corner)])
    factor = np.zeros((n + 1, BAND + band + last))
    factor[:n, NUMBER], factor[:n, INVERSE], factor[n, :2] = order, 1.0 / diagonal, (band, last)
    for d in range(1, band + 1):
        factor[d:light, BAND + band - d] = root[d, : light - d] / diagonal[d:light]
    below = np.concatenate([left, np.tril(corner, -1)], axis=1) / diagonal[light:, None]
    factor[:n, BAND + band :] = below.T
    return factor if np.isfinite(factor).all() else None


# --- products, in compiled code: vectors of shape (n,), `out` another one -------------------------


@on_demand(types.float64(ADDRESS, types.intp, ADDRESS, ADDRESS, types.intp, types.intp))
def _multiplied(factor, columns, vector, out, n, product):
    numbers, given, made = carray(factor, (n + 1, columns)), carray(vector, n), carray(out, n)
    if product == TIMES:
        _times(numbers, given, made)
    elif product == TRANSPOSED_TIMES:
        _transposed_times(numbers, given, made)
    else:
        _inverse_times(numbers, given, made)
    return 0.0


@jit
def multiply(factor, vector, out, product):
    """Write TIMES, TRANSPOSED_TIMES or INVERSE_TIMES a vector into out."""
    _multiplied(factor, factor.shape[1], vector, out, vector.shape[0], product)


@inline
def _transposed_times(factor, vector, out):
    """Write L^T @ vector = R^-1 P vector into out."""
    n = vector.shape[0]
    band, last = int(factor[n, 0]), int(factor[n, 1])
    for i in range(n):
        entry = factor[i, INVERSE] * vector[int(factor[i, NUMBER])]
        if i < n - last:
            for d in range(max(0, band - i), band):
                entry -= factor[i, BAND + d] * out[i - band + d]
        else:
            for j in range(i):
                entry -= factor[j, BAND + band + i - n + last] * out[j]
        out[i] = entry


@inline
def _times(factor, vector, out):
    """Write L @ vector = P^T R^-T vector into out."""
    n = vector.shape[0]
    band, last = int(factor[n, 0]), int(factor[n, 1])
    for i in range(n):
        out[int(factor[i, NUMBER])] = vector[i]
    for step in range(n):
        i = n - 1 - step
        entry = out[int(factor[i, NUMBER])]
        out[int(factor[i, NUMBER])] = factor[i, INVERSE] * entry
        if i < n - last:
            for d in range(max(0, band - i), band):
                out[int(factor[i - band + d, NUMBER])] -= factor[i, BAND + d] * entry
        else:
            for j in range(i):
                out[int(factor[j, NUMBER])] -= factor[j, BAND + band + i - n + last] * entry


@inline
def _inverse_times(factor, vector, out):
    """Write L^-1 @ vector = R^T P vector into out."""
    n = vector.shape[0]
    band, last = int(factor[n, 0]), int(factor[n, 1])
    for i in range(n):
        entry = vector[int(factor[i, NUMBER])] / factor[i, INVERSE]
        out[i] = entry
        if i < n - last:
            for d in range(max(0, band - i), band):
                out[i - band + d] += factor[i, BAND + d] * entry
        else:
            for j in range(i):
                out[j] += factor[j, BAND + band + i - n + last] * entry


@jit
def over_rows(factor, rows, out, product):
    """Write a product with each of the rows into rows of out, shape (m, n) both."""
    for i in range(rows.shape[0]):
        multiply(factor, rows[i], out[i], product)


def products_with_rows(factor: np.ndarray, rows: np.ndarray, product: int) -> np.ndarray:
    """Return TIMES, TRANSPOSED_TIMES or INVERSE_TIMES of each row, shape (m, n)."""
    out = np.empty(rows.shape)
    over_rows(factor, np.ascontiguousarray(rows, dtype=float), out, product)
    return out
