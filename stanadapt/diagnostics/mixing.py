"""How well chains mix in a column: R-hat and effective sample sizes, once for the same draws.

A run looks whether it has enough draws, the verdict judges them, and tables show them: three looks
at the same draws, whose ranks and Fourier transforms take 0.3 s per column of 4 x 80,000. So what
was found is kept by what a column contains, for the columns of some fits.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16.

Which of many columns mix worst: cheap measures for all, so that ArviZ's are needed for a few.

Effective sample sizes and Monte Carlo errors that do not change with ArviZ's version.

"""

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from stanadapt.results import arviz_module

TAILS = (0.05, 0.95)  # ArviZ 0.23's; 1.x would take 5.5 % and 94.5 %
# columns that are kept, of a hundred bytes each
KEPT = 2000
# draws of a column from which on threads gain more than they cost: below, Python's own part is most
LONG = 20_000


class Mixing(NamedTuple):
    """Of one column; NaN where ArviZ cannot compute it.

    r_hat
        Split, rank-normalized and folded; NaN for a single chain.
    ess_bulk, ess_tail
        Rank-normalized effective sample sizes of all chains together, the latter the smaller one of
        the two `TAILS`.

    """

    r_hat: float
    ess_bulk: float
    ess_tail: float


_found: dict[bytes, Mixing] = {}
_changing = threading.Lock()  # which column is the oldest cannot be asked while others are added


def mixing(draws: np.ndarray) -> Mixing:
    """Return the `Mixing` of a column, shape (chain, draw): finite draws, at least four a chain."""
    draws = np.ascontiguousarray(draws, dtype=float)
    shape = np.array(draws.shape, dtype=np.int64).tobytes()
    key = hashlib.blake2b(draws.data, digest_size=16, salt=shape).digest()
    found = _found.get(key)
    if found is None:
        found = _computed(draws)
        with _changing:
            while len(_found) >= KEPT:
                del _found[next(iter(_found))]
            _found[key] = found
    return found


def _computed(draws: np.ndarray) -> Mixing:
    arviz = arviz_module()
    with np.errstate(divide="ignore", invalid="ignore"):  # chains of which none moved
        return Mixing(
            float(arviz.rhat(draws)) if len(draws) > 1 else np.nan,
            float(arviz.ess(draws, method="bulk")),
            float(arviz.ess(draws, method="tail", prob=TAILS)),
        )


def of_each(measure: Callable[[np.ndarray], Any], columns: Iterable[np.ndarray]) -> list[Any]:
    """Return what `measure` finds of each column, in threads where columns are long."""
    columns = list(columns)
    # ArviZ ignores warnings for moments: threads that leave these in another order than they
    # entered would have all later warnings ignored, ours of bad fits among them
    with warnings.catch_warnings():
        if not columns or columns[0].size < LONG:
            return [measure(draws) for draws in columns]
        with ThreadPoolExecutor() as pool:
            try:  # sorting and Fourier transforms release the GIL
                return list(pool.map(measure, columns))
            except BaseException:  # Ctrl-C is not to wait for columns that have not been begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def of_columns(columns: dict[str, np.ndarray]) -> dict[str, Mixing]:
    """Return the `Mixing` of columns that move, by name."""
    return dict(zip(columns, of_each(mixing, columns.values()), strict=True))


WORST_KEPT = 8  # columns that are worst by each measure
BLOCK = 128  # columns at once: what is in the processor's cache, and Ctrl-C is not kept waiting


def worst_columns(columns: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the columns, shape (chain, draw), that are worst by any measure.

    Measured for all at once: split R-hat of the draws and of their distances from the median, and
    the effective sample size by batch means of the draws and of these distances.
    """
    names = list(columns)
    if len(names) <= 2 * WORST_KEPT:
        return names
    blocks = [names[first : first + BLOCK] for first in range(0, len(names), BLOCK)]
    measured = np.concatenate(
        [_measures(np.stack([columns[name] for name in block], axis=2)) for block in blocks], axis=1
    )
    chosen: set[int] = set()
    for badness in measured:
        badness = np.where(np.isnan(badness), np.inf, badness)
        chosen.update(np.argsort(badness)[-WORST_KEPT:].tolist())
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


class Efficiency(NamedTuple):
    """Summary of each column of one fit; arrays of shape (column,).

    mean, sd
        Posterior mean and standard deviation.
    mcse_mean, mcse_sd
        Their Monte Carlo standard errors.
    ess_bulk, ess_tail
        Rank-normalized effective sample sizes of all chains together (Vehtari et al., 2021).
    r_hat
        NaN for a single chain.

    """

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    r_hat: np.ndarray


def efficiency(columns: dict[str, np.ndarray]) -> Efficiency:
    """Compute `Efficiency` of columns of shape (chain, draw), leaving out constant ones."""
    moving = {name: x for name, x in columns.items() if not np.all(x == x.flat[0])}
    rows = of_each(_row, moving.values())
    table = np.array(rows, dtype=float).reshape(len(moving), 7).T
    return Efficiency(list(moving), *table)


def _row(draws: np.ndarray) -> tuple[float, ...]:
    arviz = arviz_module()
    draws = np.asarray(draws, dtype=float)
    if not np.isfinite(draws).all():
        return (np.nan,) * 7  # shown as NaN, so that a failed quantity is seen
    mean, sd = draws.mean(), draws.std(ddof=1)
    mixed = mixing(draws)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains of which none moved
        return (
            mean,
            sd,
            sd / np.sqrt(float(arviz.ess(draws, method="mean"))),
            _error_of_sd(draws, float(arviz.ess((draws - mean) ** 2, method="mean"))),
            mixed.ess_bulk,
            mixed.ess_tail,
            mixed.r_hat,
        )


def _error_of_sd(draws: np.ndarray, ess: float) -> float:
    """Monte Carlo error of the standard deviation, by the delta method from that of the variance.

    As in ArviZ's mcse(method="sd"), which in 0.23 fails on arrays under current NumPy. `ess` is
    that of the squared deviations.
    """
    squares = (draws - draws.mean()) ** 2
    return float(np.sqrt(squares.var() / ess / squares.mean()) / 2)


def ess_of_chain(draws: np.ndarray) -> float:
    """Effective sample size of one chain, shape (draw,), by Geyer's monotone sequence.

    The estimator of the tables of Titsias and Dellaportas (2019): the chain is neither split
    nor rank-normalized, so that a poorly mixing chain scores higher here than in ArviZ.
    Source: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3.
    """
    n = len(draws)
    centered = draws - draws.mean()
    spectrum = np.fft.rfft(centered, 2 * n)
    covariance = np.fft.irfft(spectrum * spectrum.conj())[:n] / n
    if covariance[0] <= 0:
        return np.nan
    even = n // 2 * 2
    pairs = covariance[0:even:2] + covariance[1:even:2]
    negative = pairs <= 0
    pairs = pairs[: np.argmax(negative)] if negative.any() else pairs
    total = np.minimum.accumulate(pairs).sum()
    # as in Stan: an antithetic chain would otherwise be worth any number of draws
    time = max((2 * total - covariance[0]) / covariance[0], 1 / np.log10(n))
    return float(n / time)
