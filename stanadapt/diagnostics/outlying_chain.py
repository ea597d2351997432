"""Which of several chains is the one that disagrees, where it is one."""

import numpy as np

from stanadapt.results import arviz_module

# a mean stands out from that of the other chains beyond these joint Monte Carlo errors, if no other
# chain's does half as far
FEWEST_ERRORS, SECOND = 5.0, 0.5
# without the chain that disagrees, R-hat keeps less than this of its excess over 1
EXCESS_LEFT = 0.25


def outlying_chain(draws: np.ndarray, r_hat: float) -> str:
    """Say which chain of a column stands out; "" where none or several do.

    Parameters
    ----------
    draws
        Shape (chain, draw).
    r_hat
        That of all chains.

    """
    if len(draws) < 3 or not np.isfinite(r_hat):
        return ""
    without = _r_hat_without(draws)
    chain = _by_mean(draws)
    if chain is None:
        chain = _by_r_hat(without, r_hat)
    if chain is None:
        return ""
    others = np.delete(draws, chain, axis=0)
    return (
        f"Chain {chain + 1} stands out: its mean is {draws[chain].mean():.4g}, that of the others "
        f"{others.mean():.4g}, and without it R-hat is {without[chain]:.3f}. "
    )


def _r_hat_without(draws: np.ndarray) -> np.ndarray:
    arviz = arviz_module()
    return np.array([float(arviz.rhat(np.delete(draws, c, axis=0))) for c in range(len(draws))])


def _by_mean(draws: np.ndarray) -> int | None:
    """Find the chain whose mean alone lies far from that of the others.

    Among the others of any other chain is the one that stands out: their effective sample size is
    small, and their Monte Carlo error large.
    """
    apart = np.empty(len(draws))
    for c in range(len(draws)):
        others = np.delete(draws, c, axis=0)
        error = np.hypot(_error(draws[c : c + 1]), _error(others))
        apart[c] = np.abs(draws[c].mean() - others.mean()) / error
    second, first = np.argsort(apart)[-2:]
    alone = apart[first] > FEWEST_ERRORS and apart[second] < SECOND * apart[first]
    return int(first) if alone else None


def _error(draws: np.ndarray) -> float:
    return draws.std(ddof=1) / np.sqrt(float(arviz_module().ess(draws, method="mean")))


def _by_r_hat(without: np.ndarray, r_hat: float) -> int | None:
    """Find the chain without which the others agree: it may differ in its spread alone."""
    agree = without - 1.0 < EXCESS_LEFT * (r_hat - 1.0)
    return int(np.argmax(agree)) if agree.sum() == 1 else None
