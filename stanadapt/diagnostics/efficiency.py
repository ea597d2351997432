"""Effective sample sizes and Monte Carlo errors that do not change with ArviZ's version."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from stanadapt.results import arviz_module

TAILS = (0.05, 0.95)  # ArviZ 0.23's; 1.x would take 5.5 % and 94.5 %


class Efficiency(NamedTuple):
    """Summary of each column of one fit; arrays of shape (column,).

    mean, sd
        Posterior mean and standard deviation.
    mcse_mean, mcse_sd
        Their Monte Carlo standard errors.
    ess_bulk, ess_tail
        Rank-normalised effective sample sizes of all chains together (Vehtari et al., 2021).
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
    # ArviZ ignores warnings for moments: threads that leave these in another order than they
    # entered would have all later warnings ignored, ours of bad fits among them
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        try:  # sorting and Fourier transforms release the GIL
            rows = list(pool.map(_row, moving.values()))
        except BaseException:  # Ctrl-C is not to wait for columns that have not been begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    table = np.array(rows, dtype=float).reshape(len(moving), 7).T
    return Efficiency(list(moving), *table)


def _row(draws: np.ndarray) -> tuple[float, ...]:
    arviz = arviz_module()
    draws = np.asarray(draws, dtype=float)
    if not np.isfinite(draws).all():
        return (np.nan,) * 7  # shown as NaN, so that a failed quantity is seen
    mean, sd = draws.mean(), draws.std(ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains of which none moved
        return (
            mean,
            sd,
            sd / np.sqrt(float(arviz.ess(draws, method="mean"))),
            _error_of_sd(draws, float(arviz.ess((draws - mean) ** 2, method="mean"))),
            float(arviz.ess(draws, method="bulk")),
            float(arviz.ess(draws, method="tail", prob=TAILS)),
            float(arviz.rhat(draws)) if len(draws) > 1 else np.nan,
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
    nor rank-normalised, so that a poorly mixing chain scores higher here than in ArviZ.
    Source: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3.
    """
    n = len(draws)
    centred = draws - draws.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
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
