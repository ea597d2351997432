"""Which of many columns mix worst: cheap measures for all, so that ArviZ's are needed for a few."""

import numpy as np

KEPT = 8  # columns that are worst by each measure
BLOCK = 128  # columns at once: what is in the processor's cache, and Ctrl-C is not kept waiting


def worst_columns(columns: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the columns, shape (chain, draw), that are worst by any measure.

    Measured for all at once: split R-hat of the draws and of their distances from the median, and
    the effective sample size by batch means of the draws and of these distances.
    """
    names = list(columns)
    if len(names) <= 2 * KEPT:
        return names
    blocks = [names[first : first + BLOCK] for first in range(0, len(names), BLOCK)]
    measured = np.concatenate(
        [_measures(np.stack([columns[name] for name in block], axis=2)) for block in blocks], axis=1
    )
    chosen: set[int] = set()
    for badness in measured:
        badness = np.where(np.isnan(badness), np.inf, badness)
        chosen.update(np.argsort(badness)[-KEPT:].tolist())
    return [names[i] for i in sorted(chosen)]


def _measures(table: np.ndarray) -> np.ndarray:
    """How bad columns are by each measure, shape (measure, column)."""
    folded = np.abs(table - np.median(table, axis=(0, 1)))
    return np.stack([m for x in (table, folded) for m in (_split_r_hat(x), -_batch_ess(x))])


def _split_r_hat(x: np.ndarray) -> np.ndarray:
    """Split R-hat without ranks, x of shape (chain, draw, column)."""
    half = x.shape[1] // 2
    parts = np.concatenate([x[:, :half], x[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1) / half + between / within)


def _batch_ess(x: np.ndarray) -> np.ndarray:
    """Effective sample size from the variance of means of batches of sqrt(draws)."""
    chains, draws, columns = x.shape
    size = max(int(np.sqrt(draws)), 1)
    count = draws // size
    means = x[:, : count * size].reshape(chains * count, size, columns).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return chains * count * x.var(axis=(0, 1)) / means.var(axis=0, ddof=1)
