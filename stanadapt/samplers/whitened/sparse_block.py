"""The exact Gaussian block of many parameters, read from a thousand gradients.

`block_structure` regresses each gradient on all coordinates times each function of the hubs. Where
there are many, each depends on few: the states of a time series, or effects and their means. So
gradients are computed at three sets of places:

1. Coordinates that are declared with bounds, among which are the hubs, stay, and all others move.
   This gives the precision matrix at one place, and so the neighbors of each coordinate
   (`sparse_precision`).
2. These and some others, a slice, move, and all the rest stay. A slice of a conditionally Gaussian
   posterior is one of few coordinates, whose functions of the hubs `block_terms` finds.
3. All move. The gradient of each coordinate is regressed on its neighbors and a constant, times
   these functions: this is exact, for all of them, or there is no block.

A row of a coordinate with many neighbors, such as a mean, follows from those of these, by symmetry.

Where the likelihood is not Gaussian, the same is done with the second order of the log density
around one position, which is exactly of this form if the likelihood does not depend on the hubs: so
the precision of the prior, a function of these, is separated from that of the likelihood. Effects
that are multiplied with a scale in the likelihood, as in noncentered programs, move so that their
products with it stay: the likelihood then does not depend on the scale.
"""

import numpy as np
from scipy import sparse

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.block_structure import (
    ASYMMETRY,
    EXACT,
    NEGLIGIBLE,
    WHOLE,
    GaussianBlock,
    Members,
    block_of,
    with_whole_numbers,
)
from stanadapt.samplers.whitened.block_terms import (
    UNBOUNDED,
    Function,
    Hints,
    Rows,
    hubs_of,
    search_functions,
)
from stanadapt.samplers.whitened.hub_functions import (
    MANY_HUBS,
    functions_of_hubs,
    moves_of_hubs,
)
from stanadapt.samplers.whitened.sparse_precision import (
    LEAST_SHARE,
    MOST_IN_A_ROW,
    PLACES,
    Entries,
    bent_share,
    exact_rows,
    find_precision,
)

# coordinates up to which this is tried, and those with bounds
MOST_IN_SPARSE_BLOCK, MOST_BOUNDED = 5000, 12
# gradients of the sets, and further ones of draws in the third; and how far bounded coordinates
# move, the logs of scales for example: if they move less, functions of them are much alike
FIRST, SECOND, THIRD, OF_DRAWS, AWAY = 240, 640, 256, 64, 0.8
# pairs of a slice, and the most neighbors of a coordinate that is found by itself
SPOTS, MOST_NEIGHBORS = 16, 40
LITTLE = 1e-4  # relative size of moves by which gradients change linearly up to 1e-8
ROWS_PER_COLUMN = 1.2  # gradients per column of a regression
NOTHING = np.empty(0, int)


def places(x: np.ndarray, g: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """Return places, with gradients that are due (NaN) or those of draws, shape (row, 2, dim).

    Parameters
    ----------
    x, g
        Draws and their gradients, shape (m, dim).
    bounded
        Numbers of the coordinates that are declared with bounds.

    """
    m, dim = x.shape
    middle, moves, rng = moves_of_sets(x, bounded, (FIRST, SECOND, THIRD))
    moves[: FIRST + SECOND] += middle
    moves[FIRST + SECOND :] += x[rng.integers(m, size=THIRD)]
    kept = min(m, OF_DRAWS)
    rows = np.full((len(moves) + kept, 2, dim), np.nan)
    rows[:, 0] = np.concatenate([moves, x[-kept:]])
    rows[-kept:, 1] = g[-kept:]
    return rows


def pairs_of_places(
    x: np.ndarray,
    bounded: np.ndarray,
    by: np.ndarray,
    still: np.ndarray = NOTHING,
    loadings: np.ndarray = NOTHING,
    process: bool = False,
) -> np.ndarray:
    """Return pairs of places, whose gradients are due, for `find_nearly_block`, (row, 2, dim).

    Bounded coordinates move as in `places`; others move by little, forth and back, from the mean of
    the draws `x`. Those that bounded ones multiply, `by`, are divided by the moves of these. Those
    that are `still` do not move, and `loadings` move as bounded ones, in standard deviations. With
    states of a `process`, bounded coordinates move alone, as where there are many.
    """
    dim, bounded = x.shape[1], np.union1d(bounded, loadings)
    many_hubs = len(loadings) > 0 or has_many_hubs(bounded, by, process)
    first, second, third = pairs_needed(dim, bounded, many_hubs)
    middle, moves, rng = moves_of_sets(x, bounded, (first, second, third))
    others = np.setdiff1d(np.arange(dim), bounded)
    if many_hubs:
        moves[first : first + second] = moves[-1]
        moves[first : first + second, bounded] = moves_of_hubs(len(bounded), rng)
    moves[:, loadings] *= x[:, loadings].std(axis=0)
    middle[others] = x[:, others].mean(axis=0)
    moves[:, still] = 0.0
    around, little = middle + np.zeros_like(moves), LITTLE * moves
    around[:, bounded] += moves[:, bounded]
    little[:, bounded] = 0.0
    if by.any():
        share = np.exp(-moves[:, bounded] @ by[:, others])
        around[:, others] *= share
        little[:, others] *= share
    rows = np.full((2 * len(moves), 2, dim), np.nan)
    rows[::2, 0], rows[1::2, 0] = around + little, around - little
    return rows


def has_many_hubs(bounded: np.ndarray, by: np.ndarray | None, process: bool = False) -> bool:
    """Whether functions are read from moves of hubs alone, in place of a slice."""
    return (process or len(bounded) >= MANY_HUBS) and (by is None or not by.any())


def pairs_needed(dim: int, bounded: np.ndarray, many_hubs: bool) -> tuple[int, int, int]:
    """Return how many pairs of each set show a structure of up to six functions, or of many."""
    second = 12 * (len(_slice(dim, bounded)) - len(bounded) + 1)
    if many_hubs:
        second = len(moves_of_hubs(len(bounded), np.random.default_rng(0)))
    return min(128, PLACES // 2 + 2 * dim), second, min(128, 64 + 2 * dim)


def moves_of_sets(
    x: np.ndarray, bounded: np.ndarray, counts: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return the draw in the middle of bounded coordinates, moves of all sets, and a generator."""
    m, dim = x.shape
    rng, sd, chosen = np.random.default_rng(m), x.std(axis=0), _slice(dim, bounded)
    sd[~(sd > 0.0)] = 1.0
    from_middle = (x - np.median(x, axis=0))[:, bounded] / sd[bounded]
    middle = x[np.argmin(np.square(from_middle).sum(axis=1))].copy()
    sd[bounded] = AWAY
    alone, beside = np.ones(dim), np.zeros(dim)
    alone[bounded], beside[chosen] = 0.0, 1.0
    first, second, third = (rng.standard_normal((each, dim)) * sd for each in counts)
    first[0], first[2] = 0.0, -first[1]
    return middle, np.concatenate([alone * first, beside * second, third]), rng


def _slice(dim: int, bounded: np.ndarray) -> np.ndarray:
    """Return bounded coordinates and some pairs of others, from first to last."""
    others = np.setdiff1d(np.arange(dim), bounded)
    spots = np.linspace(0, len(others) - 2, SPOTS).round().astype(int)
    return np.union1d(others[np.union1d(spots, spots + 1)], bounded)


def find_nearly_block(
    pairs: np.ndarray,
    hints: Hints,
    by: np.ndarray | None = None,
    process: bool = False,
) -> GaussianBlock | None:
    """Return the block of a posterior that is Gaussian but for functions of the other coordinates.

    The gradients of a pair follow a line through its middle, on which they are linear. So rows at
    the ends of such lines have an exact block, of the posterior's second order around the middle,
    whichever the hubs: the precision of counts, for example, adds to that of their prior.

    Parameters
    ----------
    pairs
        Places and their gradients, shape (row, 2, dim), in the order of `pairs_of_places`.
    hints
        Coordinates that are declared with bounds; see `block_terms`.
    by
        Which others these multiply, if any, as for `pairs_of_places`.
    process
        Whether there are states of a process. Negative precisions of the likelihood may then be
        left out, if the whole is not definite.

    """
    rows, bounded = ends(pairs), np.array(sorted(hints))
    many_hubs = UNBOUNDED in hints.values() or has_many_hubs(bounded, by, process)
    counts = pairs_needed(rows.shape[2], bounded, many_hubs)
    return find_sparse_block(rows, hints, counts, many_hubs, without_negative=process)


def ends(pairs: np.ndarray) -> np.ndarray:
    """Return positions and gradients at the ends of lines through the middle of pairs."""
    forth, back = pairs[::2], pairs[1::2]
    with np.errstate(all="ignore"):
        return (forth + back) / 2.0 + (forth - back) / (2.0 * LITTLE)


def find_sparse_block(
    rows: np.ndarray,
    hints: Hints,
    counts: tuple[int, int, int] = (FIRST, SECOND, THIRD),
    many_hubs: bool = False,
    without_negative: bool = False,
) -> GaussianBlock | None:
    """Return the exact block of a posterior of many parameters, if it has one.

    Parameters
    ----------
    rows
        Places and their gradients, shape (row, 2, dim), in the order of `places`.
    hints
        Coordinates that are declared with bounds; see `block_terms`.
    counts
        How many rows each set has.
    many_hubs
        Whether in the second, hubs move as in `moves_of_hubs`.
    without_negative
        Whether negative precisions of the likelihood may be left out, if the whole is not definite.
        Gradients are then those of the second order around the first row.

    """
    bounded = np.array(sorted(hints))
    members = np.setdiff1d(np.arange(rows.shape[2]), bounded)
    first, second, third = np.split(rows, np.cumsum(counts[:2]))
    third = third[np.isfinite(third).all(axis=(1, 2))]
    with one_blas_thread(), np.errstate(all="ignore"):
        pattern = pattern_of(first[:, :, members])
        if pattern is None or len(third) < counts[2] // 2:
            return None
        functions = _functions(second, hints, many_hubs)
        if functions == [()] or not np.isin(hubs_of(functions), bounded).all():
            return None
        whole = Rows.standardize(third[:, 0], third[:, 1], hints)
        fitted = _fit(whole, functions, members, pattern)
        many = np.diff(pattern.indptr) > MOST_NEIGHBORS
        if fitted is None and many.any():
            columns = sparse.csr_array(np.ones((len(many), 1))) @ sparse.csr_array(many[None] * 1.0)
            full = sparse.csr_array(abs(pattern) + columns + columns.T)
            fitted = _fit(whole, functions, members, full, NEGLIGIBLE / len(many))
        found = block_of(whole, functions, fitted, third[:, 0])
        if found is None and fitted is not None and without_negative and () in functions:
            fitted = leave_out_negative(fitted, functions.index(()), rows[0, 0])
            found = block_of(whole, functions, fitted, third[:, 0])
        return found


def leave_out_negative(found: Members, constant: int, middle: np.ndarray) -> Members:
    """Leave out the members to which the likelihood gives a negative precision in the middle.

    That of a Student-t error is negative where its datum is an outlier. If each datum knows one
    state, whatever else it knows, elimination of this state takes all of its part away. Gradients
    in the middle stay.
    """
    matrix = found.precisions[constant].tolil(copy=True)
    for i in np.flatnonzero(matrix.diagonal() < 0.0):
        column = sparse.csr_array(matrix[[i]])
        if matrix[i, i] < 0.0 and column.nnz <= MOST_NEIGHBORS:
            matrix = (matrix - column.T @ column / matrix[i, i]).tolil()
    kept = sparse.csr_array(matrix)
    shifts = found.shifts.copy()
    shifts[constant] -= (found.precisions[constant] - kept) @ middle[found.members]
    precisions = [kept if k == constant else each for k, each in enumerate(found.precisions)]
    return found._replace(precisions=precisions, shifts=shifts)


def _functions(rows: np.ndarray, hints: Hints, many_hubs: bool) -> list[Function]:
    """Return the functions that the second set of places shows; [()] if none do."""
    bounded = np.array(sorted(hints))
    chosen = bounded if many_hubs else _slice(rows.shape[2], bounded)
    known = {row: hints[j] for row, j in enumerate(chosen.tolist()) if j in hints}
    if many_hubs:
        slopes = np.delete(rows[:, 1], bounded, axis=1)
        found = functions_of_hubs(rows[:, 0, bounded], slopes, known)
    else:
        usable = np.isfinite(rows).all(axis=(1, 2))
        if usable.mean() < 0.5:
            return [()]
        sliced = Rows.standardize(rows[usable, 0][:, chosen], rows[usable, 1][:, chosen], known)
        found = search_functions(sliced)
    return [
        tuple((int(chosen[hub]), kind, number) for hub, kind, number in function)
        for function in found
    ]


def pattern_of(rows: np.ndarray) -> sparse.csr_array | None:
    """Return the precision matrix where bounded coordinates stay, of moves in units of their sd."""
    moves, slopes = rows[1:, 0] - rows[0, 0], rows[0, 1] - rows[1:, 1]
    sd = moves.std(axis=0)
    moves, slopes = moves / sd, slopes * sd
    usable = np.isfinite(slopes).all(axis=1)
    if bent_share(slopes[:2]) > 1.0 - LEAST_SHARE:
        return None
    return find_precision(moves[usable], slopes[usable], MOST_NEIGHBORS)


def _fit(
    rows: Rows,
    functions: list[Function],
    members: np.ndarray,
    pattern: sparse.csr_array,
    negligible: float = NEGLIGIBLE,
) -> Members | None:
    """Return the matrices of all functions, in raw units, if every row is exact.

    What is negligible in a row may not be so in all rows together: in that of their mean.
    """
    n, count, m = len(members), len(functions), len(rows.positions)
    columns = np.concatenate([rows.design(f, members) for f in functions], axis=1)
    y = rows.gradients[:, members] * rows.weights[:, None]
    degree = np.diff(pattern.indptr)
    last = np.flatnonzero(count * (degree + 1) * ROWS_PER_COLUMN > m)
    if len(last) > MOST_IN_A_ROW:
        return None
    found = []
    for size in np.unique(np.delete(degree, last)):
        alike = np.setdiff1d(np.flatnonzero(degree == size), last)
        near = pattern.indices[pattern.indptr[alike][:, None] + np.arange(size)]
        near = np.column_stack([near, np.full(len(alike), n)])  # and the constant
        support = (near[:, None, :] + (n + 1) * np.arange(count)[:, None]).reshape(len(alike), -1)
        entries, exact, _ = exact_rows(columns, y, alike, support)
        if not exact.all():
            return None
        found.append(entries)
    slopes = Entries(*(np.concatenate(each) for each in zip(*found, strict=True)))
    if len(last):
        slopes = _with_last(slopes, columns, y, last, count)
    size_of_y = np.sqrt(np.mean(y**2, axis=0))
    share = np.sqrt(np.mean(columns**2, axis=0))[slopes.column] / size_of_y[slopes.row]
    kept = np.abs(slopes.value) * share > negligible
    slopes = Entries(*(part[kept] for part in slopes))
    there = slopes.column, slopes.row
    left = y - columns @ sparse.csr_array((slopes.value, there), shape=(columns.shape[1], n))
    if not np.all(np.square(left).mean(axis=0) < np.square(EXACT * size_of_y)):
        return None
    return _in_raw_units(rows, functions, members, slopes)


def _with_last(
    known: Entries, columns: np.ndarray, y: np.ndarray, last: np.ndarray, count: int
) -> Entries:
    """Add the rows of coordinates with many neighbors: by symmetry, and among themselves."""
    n = y.shape[1]
    k, j = np.divmod(known.column, n + 1)
    among = np.isin(j, last)
    there = k[among] * (n + 1) + known.row[among], j[among]
    above = sparse.csr_array((known.value[among], there), shape=(columns.shape[1], n))[:, last]
    own = (np.append(last, n) + (n + 1) * np.arange(count)[:, None]).ravel()
    rest = y[:, last] - columns @ above
    slopes = np.linalg.lstsq(columns[:, own], rest, rcond=None)[0]
    above, (column, row) = above.tocoo(), np.meshgrid(own, last, indexing="ij")
    return Entries(
        np.concatenate([known.row, last[above.col], row.ravel()]),
        np.concatenate([known.column, above.row, column.ravel()]),
        np.concatenate([known.value, above.data, slopes.ravel()]),
    )


def _in_raw_units(
    rows: Rows, functions: list[Function], members: np.ndarray, slopes: Entries
) -> Members | None:
    """Return matrices and shifts from slopes of standardized gradients, with whole numbers."""
    row, column, value = slopes
    n, count = len(members), len(functions)
    mean, sd = rows.mean[members], rows.sd[members]
    k, j = np.divmod(column, n + 1)
    unit = [np.prod([np.exp(-c * rows.mean[h]) for h, e, c in f if e]) for f in functions]
    value = value * np.array(unit)[k] / sd[row]
    inside = j < n
    shifts, noise = np.zeros((count, n)), np.zeros((count, n))
    np.add.at(shifts, (k[~inside], row[~inside]), value[~inside])
    k, row, j, value = k[inside], row[inside], j[inside], -value[inside] / sd[j[inside]]
    noise += np.abs(shifts)
    np.add.at(shifts, (k, row), value * mean[j])
    np.add.at(noise, (k, row), np.abs(value * mean[j]))
    shifts[np.abs(shifts) < WHOLE * noise] = 0.0
    matrices = []
    for number, function in enumerate(functions):
        of = k == number
        matrix = sparse.csr_array((value[of], (row[of], j[of])), shape=(n, n))
        mirrored = sparse.csr_array((matrix + matrix.T) / 2.0)
        if np.abs(matrix - mirrored).max() > ASYMMETRY * np.abs(mirrored).max():
            return None
        if function:
            mirrored.data = with_whole_numbers(mirrored.data)
        matrices.append(mirrored)
    return Members(members, np.empty(0, int), matrices, shifts, np.zeros((count, n, 0)))
