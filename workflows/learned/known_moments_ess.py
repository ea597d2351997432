"""Effective sample size against known moments: for tables of papers, not for judging a fit."""

import numpy as np

# correlations up to this count as noise, and end the sum when those of all coordinates are
SMALLEST_CORRELATION = 0.05


def ess_known_moments(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Effective draws of each chain, by autocorrelations around a mean that is known.

    A chain that is stuck in one of two symmetric modes has one. The estimate of ArviZ, which knows
    the chains alone, is to be preferred wherever the exact moments are not known, and cannot exceed
    this one's blindness for correlations below 0.05 and for antithetic chains.

    Parameters
    ----------
    draws
        Shape (chain, draw, coordinate).
    mean, sd
        Exact, shape (coordinate,).

    Returns
    -------
    Shape (coordinate,): from autocorrelations that are means over chains, at most the number of
    draws of a chain.

    References
    ----------
    The authors' code to Song, Zhao and Ermon (2017), A-NICE-MC: Adversarial Training for MCMC,
    NIPS: n / (1 + 2 sum_s (1 - s / n) rho_s), over the rho_s above 0.05.
    """
    n = draws.shape[1]
    z, totals = (draws - mean) / sd, np.ones(draws.shape[2])
    for lag in range(1, n):
        rho = np.einsum("cdi,cdi->i", z[:, :-lag], z[:, lag:]) / (z.shape[0] * (n - lag))
        if np.all(rho <= SMALLEST_CORRELATION):
            break
        totals += 2.0 * (1.0 - lag / n) * np.where(rho > SMALLEST_CORRELATION, rho, 0.0)
    return n / totals
