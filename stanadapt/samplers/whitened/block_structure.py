"""Read the exact structure of a conditionally Gaussian block from positions and gradients.

Given the functions of the hubs (`block_terms`), each gradient of the block is a linear regression
without noise: what it leaves is rounding error, some 1e-14 of the gradient. Only such coordinates
are taken, and only if the matrices are symmetric and the precision is positive definite at the rows
and far beyond. So there are no statistics in what is accepted, and rows may come from anywhere:
from chains on their way, or from a fit that lacks a part of the posterior. That all this can be
read from gradients is ours.

"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from stanadapt.engine import block_map
from stanadapt.engine.block_map import PRECISION, SQUARE, BlockMap, pack, size_of_work
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.sparse_factor import narrow_order
from stanadapt.samplers.whitened.block_terms import (
    Function,
    Hints,
    Rows,
    hubs_of,
    search_functions,
)

# share of a gradient that may remain, in root mean squares: first and after small terms are left
# out; contributions to a gradient below the other share are rounding errors
NEARLY_EXACT, EXACT, NEGLIGIBLE = 1e-5, 1e-7, 1e-8
# relative asymmetry of a matrix, and distance from a whole number, at most; negative eigenvalues
# that are rounding errors, but would show in a neck
ASYMMETRY, WHOLE, NEGATIVE = 1e-5, 1e-6, (-1e-6, -1e-13)
# share of positions of hubs, up to this many standard deviations beyond the rows, at which the
# precision must be positive definite, and of rows; and the number of positions
DEFINITE, DEFINITE_ROWS, BEYOND, POSITIONS = 0.98, 0.99, 3.0, 400
# coordinates up to which a search is affordable, and the fewest members of a block
MOST_COORDINATES, LEAST_MEMBERS = 160, 2
# largest part of a member in the distance from a Gaussian at a draw that is rounding
ROUNDING = 1e-5
# multiplications of a Cholesky factor beyond which gradients take too long: as many as those of a
# full matrix of 180 rows. Where the likelihood has scales, a block saves less: those of 60
MOST_OPERATIONS, MOST_WITH_SCALES = 1e6, 4e4


class Splines(NamedTuple):
    """Logs of the scales by which the likelihood multiplies members, as in `engine.block_map`."""

    hubs: np.ndarray  # numbers, shape (hub,)
    grid: np.ndarray  # first knot and step of each, shape (hub, 2)
    values: np.ndarray  # at the knots, shape (hub, knot, dim)

    def coefficients(self, hubs: list[int], members: np.ndarray) -> np.ndarray:
        """Return those of natural cubic splines for hubs and members, shape (hub G, member)."""
        count = self.values.shape[1]
        system = np.zeros((count + 2, count + 2))
        rows = np.arange(count)
        system[rows, rows] = system[rows, rows + 2] = 1.0 / 6.0
        system[rows, rows + 1] = 2.0 / 3.0
        system[-2, :3] = system[-1, -3:] = 1.0, -2.0, 1.0  # the second derivative at both ends
        right = np.zeros((len(hubs), count + 2, len(members)))
        for row, hub in enumerate(hubs):
            if hub in self.hubs:
                right[row, :-2] = self.values[list(self.hubs).index(hub)][:, members]
        return np.linalg.solve(system, right).reshape(-1, len(members))


class GaussianBlock(NamedTuple):
    """A block map, and the functions that it is made of."""

    map: BlockMap
    functions: list[Function]


def rows_needed(dim: int) -> int:
    """Return how many rows show a structure of up to four functions."""
    return max(240, min(14 * (dim + 1), 400 + 4 * (dim + 1)))


def find_block(positions: np.ndarray, gradients: np.ndarray, hints: Hints) -> GaussianBlock | None:
    """Return the exact block of a posterior, if it has one.

    Parameters
    ----------
    positions, gradients
        Rows of any iterations, shape (row, dim).
    hints
        Coordinates that are declared with bounds; see `block_terms`.

    """
    usable = np.isfinite(positions).all(axis=1) & np.isfinite(gradients).all(axis=1)
    x, g = positions[usable], gradients[usable]
    if not LEAST_MEMBERS < x.shape[1] <= MOST_COORDINATES or len(x) < 3 * x.shape[1]:
        return None
    with one_blas_thread(), np.errstate(all="ignore"):
        rows = Rows.standardize(x, g, hints)
        functions = search_functions(rows)
        if functions == [()]:
            return None
        return block_of(rows, functions, _fit(rows, functions), x)


def block_of(
    rows: Rows, functions: list[Function], fitted: "Members | None", x: np.ndarray
) -> GaussianBlock | None:
    """Return the block that was fitted, if it depends on hubs and is definite at positions x."""
    if fitted is None:
        return None
    functions, fitted = _without_zeros(functions, fitted)
    found = assemble(rows, functions, fitted) if hubs_of(functions) else None
    return GaussianBlock(found, functions) if found is not None and is_definite(found, x) else None


# --- regressions without noise --------------------------------------------------------------------


class Members(NamedTuple):
    """Members of the block, free coordinates, and A, h and R of each function, in raw units."""

    members: np.ndarray
    free: np.ndarray
    precisions: list[sparse.csr_array]  # of each function, shape (member, member)
    shifts: np.ndarray  # shape (function, member)
    couplings: np.ndarray  # shape (function, member, free)


def _fit(rows: Rows, functions: list[Function]) -> Members | None:
    dim, count = rows.positions.shape[1], len(functions)
    columns = np.setdiff1d(np.arange(dim), hubs_of(functions))
    design = np.concatenate([rows.design(f, columns) for f in functions], axis=1)
    y = rows.gradients[:, columns] * rows.weights[:, None]
    first, left = _least_squares(design, y)
    exact = np.flatnonzero(left < NEARLY_EXACT)
    slopes = np.zeros((len(exact), design.shape[1]))
    size = np.sqrt(np.mean(design**2, axis=0))
    remains = np.zeros(len(exact))
    for row, i in enumerate(exact):
        size_of_y = np.sqrt(np.mean(y[:, i] ** 2))
        slope: np.ndarray = first[:, i]
        for _ in range(2):
            kept = np.abs(slope) * size > NEGLIGIBLE * size_of_y
            slope = np.zeros(len(slope))
            slope[kept], remains[row] = _least_squares(design[:, kept], y[:, i])
        slopes[row] = slope
    exact, slopes = exact[remains < EXACT], slopes[remains < EXACT]
    if len(exact) < LEAST_MEMBERS:
        return None
    by_function = slopes.reshape(len(exact), count, len(columns) + 1).transpose(1, 0, 2)
    # from standardized units, with exponentials that are 1 at the mean, to those of the program
    unit = [np.prod([np.exp(-c * rows.mean[h]) for h, e, c in f if e]) for f in functions]
    raw = by_function * np.array(unit)[:, None, None] / rows.sd[columns[exact]][:, None]
    whole = -raw[:, :, :-1] / rows.sd[columns]
    shifts = raw[:, :, -1] + whole @ rows.mean[columns]
    noise = np.abs(whole) @ np.abs(rows.mean[columns]) + np.abs(raw[:, :, -1])
    shifts = np.where(np.abs(shifts) < WHOLE * noise, 0.0, shifts)
    others = np.setdiff1d(np.arange(len(columns)), exact)
    matrices = _symmetric(whole[:, :, exact], functions)
    if matrices is None:
        return None
    precisions = [sparse.csr_array(matrix) for matrix in matrices]
    return Members(columns[exact], columns[others], precisions, shifts, whole[:, :, others])


def _without_zeros(functions: list[Function], found: Members) -> tuple[list[Function], Members]:
    """Leave out functions that were found on the way to others, and have no part in the end."""
    matrices = found.precisions
    there = np.array([m.count_nonzero() > 0 for m in matrices]) | found.shifts.any(axis=1)
    there |= found.couplings.any(axis=(1, 2))
    kept = np.flatnonzero(there)
    return [functions[k] for k in kept], found._replace(
        precisions=[matrices[k] for k in kept],
        shifts=found.shifts[kept], couplings=found.couplings[kept],
    )  # fmt: skip


def _least_squares(design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes, and the root mean square of the residual over that of y."""
    size = np.sqrt(np.mean(design**2, axis=0))
    size[size == 0.0] = 1.0
    slopes = np.linalg.lstsq(design / size, y, rcond=1e-12)[0]
    left = y - (design / size) @ slopes
    size = size[:, None] if y.ndim > 1 else size
    whole = np.maximum(np.sqrt(np.mean(y**2, axis=0)), 1e-300)
    return slopes / size, np.sqrt(np.mean(left**2, axis=0)) / whole


def _symmetric(precisions: np.ndarray, functions: list[Function]) -> np.ndarray | None:
    """Return symmetric matrices, whole numbers to the bit, semidefinite if the form implies it."""
    out = (precisions + precisions.transpose(0, 2, 1)) / 2.0
    scale = np.abs(out).max(axis=(1, 2), keepdims=True)
    if np.any(np.abs(precisions - out) > ASYMMETRY * scale):
        return None
    varies = np.array([f != () for f in functions])[:, None, None]
    out = np.where(varies, with_whole_numbers(out), out)
    for matrix, function in zip(out, functions, strict=True):
        on = np.flatnonzero(matrix.any(axis=1))
        if len(on) and all(e or number in (SQUARE, PRECISION) for _, e, number in function):
            values = np.linalg.eigvalsh(matrix[np.ix_(on, on)])
            if NEGATIVE[0] * values[-1] < values[0] < NEGATIVE[1] * values[-1]:
                matrix[on, on] -= values[0]
    return out


def with_whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return values, those that are whole numbers up to rounding to the bit."""
    near = np.rint(values)
    whole = np.abs(values - near) < WHOLE * np.maximum(1.0, np.abs(near))
    return np.where(whole & (near != 0.0), near, values)


# --- the map --------------------------------------------------------------------------------------


def assemble(
    rows: Rows, functions: list[Function], parts: Members, splines: Splines | None = None
) -> BlockMap | None:
    """Return the map, with members in an order that keeps the envelope small; None if it is not.

    With splines, the last function is multiplied with their exponentials.
    """
    members, free, precisions, shifts, couplings = parts
    n = len(members)
    pattern = sparse.csr_array(sum(matrix != 0 for matrix in precisions) + sparse.eye_array(n))
    order, _ = narrow_order(pattern)
    lower = [sparse.tril(matrix[order][:, order]).tocoo() for matrix in [pattern, *precisions]]
    first = np.arange(n)
    np.minimum.at(first, lower[0].row, lower[0].col)
    lengths = np.arange(n) - first + 1
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    # each row is multiplied with those before it, in the columns that both have
    shared = (np.arange(i, r) - np.maximum(i, first[i:r]) for r, i in enumerate(first))
    most = MOST_OPERATIONS if splines is None else MOST_WITH_SCALES
    if sum(int(columns.sum()) for columns in shared) > most:
        return None
    envelope = np.zeros((len(functions), lengths.sum()))
    for row, part in zip(envelope, lower[1:], strict=True):
        row[start[part.row] + part.col - first[part.row]] = part.data
    hubs = sorted({*hubs_of(functions), *(() if splines is None else splines.hubs.tolist())})
    exponents, powers = (np.zeros((len(functions), len(hubs))) for _ in range(2))
    for k, function in enumerate(functions):
        for hub, exponential, number in function:
            (exponents if exponential else powers)[k, hubs.index(hub)] = number
    bounds = [rows.hints.get(hub) or (0.0, 0.0, 0.0) for hub in hubs]
    found = BlockMap(
        np.array(hubs), members[order], free, exponents, powers, np.array(bounds, float),
        start, first, envelope, shifts[:, order],
        couplings[:, order].reshape(len(functions) * len(order), len(free)),
        1.0 / rows.sd[members[order]],
        np.zeros(size_of_work(len(functions), len(hubs), len(order), envelope.shape[1])),
    )  # fmt: skip
    if splines is None:
        return found
    grid = np.tile([0.0, 1.0], (len(hubs), 1))
    grid[np.searchsorted(hubs, splines.hubs)] = splines.grid
    coefficients = splines.coefficients(hubs, members[order])
    return found._replace(scaled=np.ones(1, int), grid=grid, splines=coefficients)


def times_scale(block: BlockMap, hub: int, at: float, by: np.ndarray) -> BlockMap | None:
    """Let a constant precision fall with a scale exp(p), and be the same at one p.

    That of a Student-t error falls with the square of a scale which is large, and hardly with one
    that is small beside the error. The scale has an influence on coordinates `by`, shape (dim,):
    that of others stays. None if there is none that is constant.
    """
    constant = np.flatnonzero(~(block.exponents.any(axis=1) | block.powers.any(axis=1)))
    falls, (terms, n), free = by[block.block], block.shifts.shape, len(block.free)
    if not len(constant) or not falls.any():
        return None
    k, place, (row, column) = constant[0], np.searchsorted(block.hubs, hub), _entries(block)
    kept = np.delete(np.arange(terms + 1), k if falls.all() else [])
    found = []
    for part, share in (
        (block.precisions, falls[row] & falls[column]),
        (block.shifts, falls),
        (block.couplings.reshape(terms, n, free), falls[:, None]),
    ):
        falling = part[k] * share
        whole = np.concatenate([part, np.exp(at) * falling[None]])
        whole[k] -= falling
        found.append(whole[kept])
    alone = np.zeros(len(block.hubs) + 1)
    exponents, powers = (
        np.vstack([np.insert(each, place, 0.0, axis=1), alone])[kept]
        for each in (block.exponents, block.powers)
    )
    exponents[-1, place] = -1.0
    return block._replace(
        hubs=np.insert(block.hubs, place, hub), exponents=exponents, powers=powers,
        bounds=np.insert(block.bounds, place, 0.0, axis=0),
        precisions=found[0], shifts=found[1], couplings=found[2].reshape(len(kept) * n, free),
        work=np.zeros(size_of_work(len(kept), len(alone), n, len(row))),
    )  # fmt: skip


def is_definite(block: BlockMap, x: np.ndarray) -> bool:
    """Whether the precision is positive definite at the rows, and at hubs far beyond."""
    hubs = x[:, block.hubs]
    low, high, sd = hubs.min(axis=0), hubs.max(axis=0), hubs.std(axis=0)
    far = np.repeat(x[:1], POSITIONS, axis=0)
    uniform = np.random.default_rng(0).uniform(size=(POSITIONS, len(block.hubs)))
    far[:, block.hubs] = low - BEYOND * sd + uniform * (high - low + 2.0 * BEYOND * sd)
    return definite_share(block, far) >= DEFINITE and definite_share(block, x) >= DEFINITE_ROWS


def definite_share(block: BlockMap, x: np.ndarray) -> float:
    """Return the share of positions at which the precision is positive definite."""
    rows = x.copy()
    logs = np.empty(len(rows))
    definite = block_map.enter_rows(pack(block), rows, np.zeros_like(rows), logs)
    return float(definite / len(rows))


def is_tied(block: BlockMap) -> bool:
    """Whether half of the members hang together without those that are tied to half of them."""
    n, (rows, columns) = len(block.block), _entries(block)
    tied = block.precisions.any(axis=0) & (rows != columns)
    ties = sparse.coo_array((tied[tied], (rows[tied], columns[tied])), shape=(n, n)).tocsr()
    few = (ties + ties.T).sum(axis=1) < n / 2
    _, labels = csgraph.connected_components(ties[few][:, few], directed=False)
    return bool(np.bincount(labels, minlength=1).max() > n / 2)


def _entries(block: BlockMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the envelope."""
    n = len(block.block)
    rows = np.repeat(np.arange(n), np.arange(n) - block.first + 1)
    return rows, np.arange(len(rows)) - block.start[rows] + block.first[rows]


def apply_block(
    block: BlockMap, positions: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of positions and gradients in y, and the log Jacobian of each, shape (row,)."""
    positions, gradients = (np.array(rows, float, order="C") for rows in (positions, gradients))
    log_jacobians = np.empty(len(positions))
    block_map.enter_rows(pack(block), positions, gradients, log_jacobians)
    return positions, gradients, log_jacobians


def is_exact(block: BlockMap, positions: np.ndarray, gradients: np.ndarray) -> bool:
    """Whether members are exactly standard normal in y at draws, shape (m, dim), given all others.

    In necks, rounding is larger, so that a few draws may differ.
    """
    with np.errstate(all="ignore"):
        y, slopes, _ = apply_block(block, positions, gradients)
        left = np.abs(y + slopes)[:, block.block].max(axis=1, initial=0.0)
        size = np.maximum(np.abs(y)[:, block.block].max(axis=1, initial=0.0), 1.0)
        return bool(np.mean(left < ROUNDING * size) >= DEFINITE_ROWS)
