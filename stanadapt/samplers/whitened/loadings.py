"""Find coordinates without bounds that multiply others: slopes of latent predictors, and loadings.

Given them, the others may be Gaussian. At pairs of places on a short line, the difference of two
gradients is the second order of the log density in one direction. Where it changes as a coordinate
moves, in its own row and in that of another, which changes its own, too, the square of their
product is there. Of each product, one is held: the one that is in most of them. A loading enters
with its first and second power, so that third differences vanish: of the mean of counts, for
example, they do not. This search is ours.

A file of its own, since it looks for hubs, where `sparse_block` looks for functions of known ones.
"""

import numpy as np

from stanadapt.samplers.whitened.sparse_block import LITTLE, moves_of_sets

# moves of a coordinate, in standard deviations; relative change of a row that is none
MOVES, UNCHANGED = (-1.0, 1.0, 2.0), 1e-5


def pairs_to_find_loadings(x: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """Return pairs of places, whose gradients are due, shape (row, 2, dim), around draws `x`."""
    others = np.setdiff1d(np.arange(x.shape[1]), bounded)
    middle, moves, _ = moves_of_sets(x, bounded, (3, 0, 0))
    middle[others] = x[:, others].mean(axis=0)
    around = np.tile(middle, (1 + len(MOVES) * len(others), 1))
    for row, j in enumerate(np.repeat(others, len(MOVES)), 1):
        around[row, j] += MOVES[(row - 1) % len(MOVES)] * x[:, j].std()
    rows = np.full((2 * len(around), 2, x.shape[1]), np.nan)
    rows[::2, 0], rows[1::2, 0] = around + LITTLE * moves[1], around - LITTLE * moves[1]
    return rows


def find_loadings(pairs: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """Return the coordinates that multiply others, if others are linear in them and their squares.

    Parameters
    ----------
    pairs
        Places and their gradients, shape (row, 2, dim), in the order of `pairs_to_find_loadings`.
    bounded
        Numbers of the coordinates that are declared with bounds.

    """
    others = np.setdiff1d(np.arange(pairs.shape[2]), bounded)
    slopes = pairs[:, 1][:, others]
    if not np.isfinite(slopes).all():
        return others[:0]
    second = slopes[::2] - slopes[1::2]
    size = np.abs(second).max(axis=0)
    there, moved = second[0], second[1:].reshape(len(others), len(MOVES), -1)
    changes = np.abs(moved[:, 1] - there) > UNCHANGED * size
    third = moved[:, 2] - 3.0 * moved[:, 1] + 3.0 * there - moved[:, 0]
    bent = (np.abs(third) > UNCHANGED * size) & ~np.eye(len(others), dtype=bool)
    squared = np.diag(changes)  # of a product, either factor changes its own row
    together = (changes | changes.T) & ~np.eye(len(others), dtype=bool)
    together &= squared & squared[:, None]
    found = np.empty(0, int)
    for _ in others:  # each is held once at most
        if not together.any():
            break
        most = int(together.sum(axis=1).argmax())
        together[most], together[:, most] = False, False
        found = np.append(found, most)
    return others[:0] if bent[found].any() else others[np.sort(found)]
