"""The precision matrix of many parameters, read from a few gradients if it is sparse.

The gradient of a Gaussian is -Q (x - m). Where each coordinate depends directly on a few others
only, as the states of a time series, the rows of Q are found by regressions of the gradient at a
hundred places, however many parameters there are: places are independent normal, so that the
coordinates of a row stand out one after the other. Only exact rows are taken, which leave nothing
but rounding error. So places may be anywhere, and chains compute these gradients before their first
iteration; the metric is known before they travel.

A sample of rows is looked at first. If few of them are exact, nothing more is done. Those that are
show which coordinates others may depend on: in long vectors, those at the same distances. A row of
a coordinate that many depend on, such as a mean, is known from the rows of these, by symmetry.

References
----------
Tropp and Gilbert (2007), Signal recovery from random measurements via orthogonal matching pursuit,
IEEE Transactions on Information Theory 53. The use of gradients, distances and symmetry is ours.

"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.sparse_factor import BAND, INVERSE, NUMBER, sparse_factor
from stanadapt.engine.warmup import Progress, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.fisher_metric import MANY, FisherMetric, Metric, diagonal_metric
from stanadapt.samplers.whitened.probes import Probes
from stanadapt.samplers.whitened.window import make_window

# gradients of all chains; and the most coordinates in a row that is found by itself
PLACES, MOST_IN_A_ROW = 96, 24
# share of a gradient that may remain in an exact row, in root mean squares; relative to the
# diagonal, elements below the second are rounding errors, and the matrix is symmetric up to the
# third
EXACT, NEGLIGIBLE, ASYMMETRY = 1e-7, 1e-7, 1e-5
# share of the change of a linear gradient by which that of the opposite move may differ from it
BENT = 1e-6
# rows that are looked at first, and the share of them that must be exact
SAMPLE, LEAST_SHARE = 100, 0.8
# a coordinate is offered to all rows if it is in this share of the sample, and a distance if it is
# there twice
COMMON = 0.1
# multiplications per step of a search of all coordinates, in all rows
AFFORDABLE = 1e10
# numbers in the largest temporary array
CHUNK = 4_000_000


def ask_for_precision(settings: Any, progress: Progress, states: States) -> States:
    """Give each chain places around one, if there are many parameters.

    Coordinates that are declared with bounds, such as scales, are the same in all places: others
    may be Gaussian given these.
    """
    learned, first = progress.learned, states[0].current.position
    scales = learned.metric.scales
    dim = len(scales)
    wanted = dim > MANY and settings.metric == Metric.automatic
    found = learned.straightened
    if not wanted or len(first) != dim or found.map_is_used or found.block_is_used:
        return states
    around = learned.location if learned.settled else first
    rng, count = np.random.default_rng(0), -(-PLACES // len(states))
    width = scales.copy()
    width[progress.bounds[:, 0].astype(int)] = 0.0
    asked = []
    for state in states:
        rows = np.full((2 + count, 2, dim), np.nan)
        rows[:, 0] = around
        rows[1:-1, 0] += width * rng.standard_normal((count, dim))
        rows[-1, 0] = 2.0 * rows[0, 0] - rows[1, 0]
        asked.append(state._replace(probes=Probes(rows)))
    return asked


def ask_again(settings: Any, progress: Progress, states: States) -> States:
    """Give chains places around the present mean, if the metric depends on their positions."""
    known = progress.learned.metric.kind == "sparse" and len(progress.bounds)
    if known and progress.then in (parts.TRAVEL, parts.FIND_STEP, parts.NUTS_METRIC):
        return ask_for_precision(settings, progress, states)
    return states


def with_precision(progress: Progress, states: States, probes: Sequence[np.ndarray]) -> Progress:
    """Use the metric of a sparse precision matrix if the gradients at these places show one.

    Coordinates that are the same in all places have scales from the last block.
    """
    scales = progress.learned.metric.scales
    if len(scales) <= MANY:
        return progress
    with np.errstate(all="ignore"):
        moves = np.concatenate([(rows[1:-1, 0] - rows[0, 0]) / scales for rows in probes])
        slopes = np.concatenate([(rows[0, 1] - rows[1:-1, 1]) * scales for rows in probes])
        bent = [bent_share(rows[0, 1] - rows[[1, -1], 1]) for rows in probes]
    progress = progress.learning(linear=bool(np.mean(bent) <= 1.0 - LEAST_SHARE))
    usable = np.isfinite(moves).all(axis=1) & np.isfinite(slopes).all(axis=1)
    moved = np.flatnonzero(moves.any(axis=0))
    with one_blas_thread():
        try:
            found = find_precision(moves[usable][:, moved], slopes[usable][:, moved])
        except np.linalg.LinAlgError:  # places that do not differ
            return progress
        factor = None if found is None else sparse_factor(_among(found, moved, len(scales)))
    if factor is None or factor.shape[1] == BAND:  # scales alone are learned from draws as well
        return progress
    still = ~moves.any(axis=0)
    scales[still] = diagonal_metric(*make_window(states).pooled, scales).factor[0, still]
    factor[:-1, INVERSE] *= scales[factor[:-1, NUMBER].astype(int)]
    return progress.learning(
        metric=FisherMetric(factor, "sparse", factor.shape[1] - BAND, np.empty(0, int))
    )


def bent_share(changes: np.ndarray) -> float:
    """Return in which share of coordinates gradients are not linear.

    `changes` are those of the gradient by a move and its opposite, shape (2, n).
    """
    size = np.sqrt(np.square(changes).sum(axis=0))
    return float(np.mean(~(np.abs(changes.sum(axis=0)) <= BENT * size)))


def _among(precision: sparse.csr_array, members: np.ndarray, n: int) -> sparse.csr_array:
    """Return a matrix of these coordinates among all, with ones for the others."""
    found, others = precision.tocoo(), np.setdiff1d(np.arange(n), members)
    rows = np.concatenate([members[found.row], others])
    columns = np.concatenate([members[found.col], others])
    values = np.concatenate([found.data, np.ones(len(others))])
    return sparse.csr_array((values, (rows, columns)), shape=(n, n))


class Entries(NamedTuple):
    """Elements of a matrix: rows, columns, values."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray


def find_precision(
    x: np.ndarray, y: np.ndarray, most: int = MOST_IN_A_ROW
) -> sparse.csr_array | None:
    """Return Q if y = Q x exactly, and all but a few of its rows have `most` elements or fewer.

    Parameters
    ----------
    x, y
        Moves, with independent entries of about the same size, and minus the changes of the
        gradient, shape (m, n) each.

    """
    m, n = x.shape
    if m < PLACES // 2 or not n:
        return None
    most = min(most, m // 3)
    sample = np.unique(np.linspace(0, n - 1, SAMPLE).round().astype(int))
    found, open_rows = _pursue(x, y, sample, most)
    if len(open_rows) > (1.0 - LEAST_SHARE) * len(sample):
        return None
    others = np.setdiff1d(np.arange(n), sample)
    costly = len(others) * m * n > AFFORDABLE / MOST_IN_A_ROW
    # a pursuit leaves out what is small in a row, such as a mean, of which all together are not
    for guesses in (True,) if costly else (False, True):
        parts, rest = [found], others
        if guesses:
            guessed, rest = _guess(x, y, rest, found, len(sample))
            parts.append(guessed)
        if len(rest) * m * n > AFFORDABLE:
            return None
        pursued, more = _pursue(x, y, rest, most)
        known = Entries(*(np.concatenate(each) for each in zip(*parts, pursued, strict=True)))
        last = np.concatenate([open_rows, more])
        whole = _symmetric(x, y, known, last) if len(last) <= most else None
        if whole is not None or not len(last):
            return whole
    return None


def _pursue(
    x: np.ndarray, y: np.ndarray, rows: np.ndarray, most: int
) -> tuple[Entries, np.ndarray]:
    """Add to each row the coordinate that explains most of the rest, until it is exact.

    Returns the elements of exact rows, and the others.
    """
    parts = [exact_rows(x, y, rows[:0], rows[:0, None])[0]]
    support = rows[:, None]
    size = np.sqrt(np.mean(x**2, axis=0))
    for _ in range(most):
        if not len(rows):
            break
        found, exact, left = exact_rows(x, y, rows, support)
        parts.append(found)
        rows, support, left = rows[~exact], support[~exact], left[~exact]
        best = np.empty(len(rows), int)
        step = max(1, CHUNK // x.shape[1])
        for start in range(0, len(rows), step):
            chunk = slice(start, start + step)
            scores = np.abs(left[chunk] @ x) / size
            np.put_along_axis(scores, support[chunk], 0.0, axis=1)
            best[chunk] = scores.argmax(axis=1)
        support = np.column_stack([support, best])
    return Entries(*(np.concatenate(each) for each in zip(*parts, strict=True))), rows


def _guess(
    x: np.ndarray, y: np.ndarray, rows: np.ndarray, known: Entries, sampled: int
) -> tuple[Entries, np.ndarray]:
    """Find the rows that have elements at the same distances as known ones, or the same columns."""
    n = x.shape[1]
    columns, counts = np.unique(known.column, return_counts=True)
    common = columns[counts >= COMMON * sampled]
    distances, counts = np.unique(
        (known.column - known.row)[~np.isin(known.column, common)], return_counts=True
    )
    distances = distances[counts > 1]
    inside = (rows + distances.min(initial=0) >= 0) & (rows + distances.max(initial=0) < n)
    support = rows[:, None] + distances
    inside &= ~np.isin(support, common).any(axis=1) & ~np.isin(rows, common)
    if len(distances) + len(common) > len(x) // 2:
        inside[:] = False
    support = np.column_stack([support, np.broadcast_to(common, (len(rows), len(common)))])[inside]
    found, exact, _ = exact_rows(x, y, rows[inside], support)
    return found, np.concatenate([rows[~inside], rows[inside][~exact]])


def exact_rows(
    x: np.ndarray, y: np.ndarray, rows: np.ndarray, support: np.ndarray
) -> tuple[Entries, np.ndarray, np.ndarray]:
    """Regress rows on coordinates, shape (row, column).

    Returns the elements of the rows that are exact, which these are, and the rest, shape (row, m).
    """
    left, slopes = np.empty((len(rows), len(x))), np.empty(support.shape)
    step = max(1, CHUNK // max(support.shape[1] * len(x), 1))
    for start in range(0, len(rows), step):
        chunk = slice(start, start + step)
        columns, target = x.T[support[chunk]], y.T[rows[chunk], :, None]
        gram = columns @ columns.transpose(0, 2, 1)
        slope = np.linalg.solve(gram, columns @ target)
        for _ in range(2):  # the second time, rounding errors of the first are left
            rest = target - columns.transpose(0, 2, 1) @ slope
            slope += np.linalg.solve(gram, columns @ rest)
        left[chunk] = (target - columns.transpose(0, 2, 1) @ slope)[:, :, 0]
        slopes[chunk] = slope[:, :, 0]
    exact = np.square(left).mean(axis=1) <= EXACT**2 * np.square(y[:, rows]).mean(axis=0)
    row = np.broadcast_to(rows[exact, None], support[exact].shape)
    kept = Entries(row.ravel(), support[exact].ravel(), slopes[exact].ravel())
    return kept, exact, left


def _symmetric(
    x: np.ndarray, y: np.ndarray, known: Entries, last: np.ndarray
) -> sparse.csr_array | None:
    """Return the matrix of known rows, and of the last ones, which follow from symmetry."""
    n = x.shape[1]
    if len(last):
        among = np.isin(known.column, last)
        above = sparse.csr_array(
            (known.value[among], (known.column[among], known.row[among])), shape=(n, n)
        )[last]
        rest = y[:, last] - (above @ x.T).T
        corner = np.linalg.lstsq(x[:, last], rest, rcond=None)[0]
        left = rest - x[:, last] @ corner
        if np.any(np.square(left).mean(axis=0) > EXACT**2 * np.square(y[:, last]).mean(axis=0)):
            return None
        above = above.tocoo()
        i, j = (each.ravel() for each in np.meshgrid(last, last, indexing="ij"))
        known = Entries(
            np.concatenate([known.row, last[above.row], i]),
            np.concatenate([known.column, above.col, j]),
            np.concatenate([known.value, above.data, corner.T.ravel()]),
        )
    diagonal = np.zeros(n)
    on = known.row == known.column
    diagonal[known.row[on]] = known.value[on]
    if not (diagonal > 0.0).all():
        return None
    root = np.sqrt(diagonal)
    relative = np.abs(known.value) / (root[known.row] * root[known.column])
    kept = relative > NEGLIGIBLE
    found = sparse.csr_array(
        (known.value[kept], (known.row[kept], known.column[kept])), shape=(n, n)
    )
    asymmetry = (found - found.T).tocoo()
    i, j = asymmetry.row, asymmetry.col
    if np.any(np.abs(asymmetry.data) > ASYMMETRY * root[i] * root[j]):
        return None
    return sparse.csr_array((found + found.T) / 2.0)
