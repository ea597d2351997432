"""Find the one chain that disagrees with the others.

A file of its own, since `draw_checks` would hold two ideas with it.
"""

import numpy as np

from stanadapt.diagnostics.mixing import mixing
from stanadapt.diagnostics.ranked import MANY_CHAINS, lone_chain, size_of_mean

# a chain stands out if its mean differs from that of the others by more than FEWEST_ERRORS joint
# Monte Carlo errors, and that of no other chain by more than SECOND times as many
FEWEST_ERRORS, SECOND = 5.0, 0.5
# or if R-hat without the chain keeps less than this share of its excess over 1
EXCESS_LEFT = 0.25
# a message names means that differ by more standard deviations, or widths that do by this factor
FAR, WIDER = 0.1, 1.25


def outlying_chain(draws: np.ndarray, r_hat: float) -> int | None:
    """Return the index of the one chain that disagrees with the others, if there is one.

    `draws` is a column, shape (chain, draw), and `r_hat` that of all its chains.
    """
    if len(draws) < 3 or not np.isfinite(r_hat):
        return None
    if len(draws) >= MANY_CHAINS:
        lone = lone_chain(draws)
        several = lone is not None and lone_chain(np.delete(draws, lone, axis=0)) is not None
        return None if several else lone
    chain = _outlier_by_mean(draws)
    if chain is not None:
        return chain
    # the only chain without which the others agree: it may differ only in its spread
    without = np.array([_r_hat_without(draws, c) for c in range(len(draws))])
    agree = without - 1.0 < EXCESS_LEFT * (r_hat - 1.0)
    return int(np.argmax(agree)) if agree.sum() == 1 else None


def describe_outlying_chain(draws: np.ndarray, r_hat: float, nested: bool = False) -> str:
    """Describe the chain that disagrees with the others; "" if none or several do.

    `nested` R-hat without one chain is not given: a superchain would be shorter.
    """
    chain = outlying_chain(draws, r_hat)
    if chain is None:
        return ""
    others = np.delete(draws, chain, axis=0)
    said = [f"Chain {chain + 1} stands out", _difference(draws[chain], others)]
    if not nested:
        left = _r_hat_without(draws, chain)
        rest = f"without it R-hat is {left:.3f}" if np.isfinite(left) else "none of these moved"
        said[1] += f", and {rest}" if said[1] else rest
    return f"{': '.join(filter(None, said))}. "


def _difference(chain: np.ndarray, others: np.ndarray) -> str:
    """Name what differs, the mean or the width; "" if both are close: it drifts, or has tails."""
    mean, sd = chain.mean(), chain.std()
    if abs(mean - others.mean()) > FAR * max(sd, others.std()):
        return f"its mean is {mean:.4g}, that of the others {others.mean():.4g}"
    if max(sd, others.std()) > WIDER * min(sd, others.std()):
        return f"its standard deviation is {sd:.4g}, that of the others {others.std():.4g}"
    return ""


def _r_hat_without(draws: np.ndarray, chain: int) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):  # none of the others moved
        return mixing(np.delete(draws, chain, axis=0)).r_hat


def _outlier_by_mean(draws: np.ndarray) -> int | None:
    """Find the only chain with a mean far from that of the others.

    For any other chain, the others include the outlier: their effective sample size is small and
    their Monte Carlo error large, so that the difference is not significant.
    """
    errors = np.empty(len(draws))
    for c in range(len(draws)):
        others = np.delete(draws, c, axis=0)
        error = np.hypot(_error(draws[c : c + 1]), _error(others))
        errors[c] = np.abs(draws[c].mean() - others.mean()) / error
    second, first = np.argsort(errors)[-2:]
    alone = errors[first] > FEWEST_ERRORS and errors[second] < SECOND * errors[first]
    return int(first) if alone else None


def _error(draws: np.ndarray) -> float:
    return draws.std(ddof=1) / np.sqrt(size_of_mean(draws))
