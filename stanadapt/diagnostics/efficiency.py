"""Effective sample sizes and Monte Carlo errors that do not change with ArviZ's version."""

from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import mixing, of_each
from stanadapt.results import arviz_module


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
