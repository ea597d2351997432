"""How well independent proposals suit a target: their importance weights, and how long chains stay.

After the run, each chain's proposal distribution q is drawn from anew and its weights p / q are
judged: a chain stays where they are large, and their Pareto k tells whether there is an end to it.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from stanadapt import results
from stanadapt.diagnostics.importance import HIGHEST
from stanadapt.engine.chain import Chain
from stanadapt.samplers.variational.gaussian import LOG_2PI, Gaussian, log_densities
from stanadapt.targets.target import Samplable

DRAWS = 2000
# share of all weight that one of these draws may have, and of its length that a chain may stay;
# shorter stays than this are not told of
LARGEST_SHARE, LONGEST_STAY, SHORT = 0.1, 0.01, 20


def on_proposals(
    target: Samplable, chains: list[Chain], length: int
) -> tuple[dict[str, Any], list[str]]:
    """Return attributes with what was found for each chain, and sentences on what is wrong."""
    weights = [_log_weights(target, i, chain) for i, chain in enumerate(chains)]
    return on_weights(chains, weights, length)


def on_weights(
    chains: list[Chain], weights: list[np.ndarray], length: int
) -> tuple[dict[str, Any], list[str]]:
    """`on_proposals`, from log weights of independent proposals of each chain."""
    k = np.array([results.pareto_smoothed(w)[1] for w in weights])
    shares = np.array([_largest_share(w) for w in weights])
    stays = np.array([_longest_stay(chain, length) for chain in chains]) * chains[0].plan.thin
    attributes = {
        "proposal_pareto_k": k,
        "proposal_largest_weight": shares,
        "longest_stay": stays,
    }
    said = [*_on_weights(chains[0], k, shares, len(weights[0]))]
    return attributes, [*said, *_on_stays(chains[0], stays, length)]


def _log_weights(target: Samplable, number: int, chain: Chain) -> np.ndarray:
    """Log weights of draws of a chain's proposal distribution, up to a constant; -inf for none."""
    proposal = chain.sampler.proposal
    assert proposal is not None  # of samplers without, nothing is asked here
    location, factor, degrees = proposal(chain.compiled_settings, chain.state)
    q, rng = Gaussian(location, factor), np.random.default_rng((chain.plan.seed, number, DRAWS))
    z = rng.standard_normal((DRAWS, q.dim))
    if degrees:
        z *= np.sqrt(degrees / rng.chisquare(degrees, (DRAWS, 1)))
    own = _log_density(np.sum(z**2, axis=1), q.dim, degrees) - q.log_volume
    log_density = log_densities(target.density(number), q.placed(z))
    return np.where(np.isfinite(log_density), log_density - own, -np.inf)


def _log_density(distance: np.ndarray, n: int, degrees: float) -> np.ndarray:
    """Log density at these squared distances from the centre, the scale matrix being I."""
    if not degrees:
        return -0.5 * (distance + n * LOG_2PI)
    constant = gammaln(0.5 * (degrees + n)) - gammaln(0.5 * degrees)
    constant -= 0.5 * n * np.log(degrees * np.pi)
    return constant - 0.5 * (degrees + n) * np.log1p(distance / degrees)


def _largest_share(log_weights: np.ndarray) -> float:
    high = log_weights.max()
    return float(1.0 / np.exp(log_weights - high).sum()) if np.isfinite(high) else 1.0


def _longest_stay(chain: Chain, length: int) -> int:
    """Most draws in a row that are the same."""
    draws = chain.sampling.constrained[:length]
    moved = np.flatnonzero(np.any(draws[1:] != draws[:-1], axis=1)) + 1
    ends = np.concatenate([[0], moved, [len(draws)]])
    return int(np.diff(ends).max())


def _on_weights(chain: Chain, k: np.ndarray, shares: np.ndarray, count: int) -> list[str]:
    worst = int(np.argmax(np.where(np.isnan(k), np.inf, k)))
    # of one chain k is too uncertain; a q that failed shows in its largest weight
    if np.median(k) <= HIGHEST and shares.max() <= LARGEST_SHARE:
        return []
    return [
        f"{chain.sampler.name}: the distribution of its independent proposals misses a part of the "
        f"posterior. The Pareto k of its importance weights is {k[worst]:.2f} in chain {worst + 1} "
        f"(where it is above {HIGHEST}, a chain can stay in one place for any time), and the "
        f"largest of {count} weights is {shares.max():.0%} of their sum. Use "
        "approximation='full_rank', kernel='mixture' or degrees above 0 where these are not set; "
        "else another sampler."
    ]


def _on_stays(chain: Chain, stays: np.ndarray, length: int) -> list[str]:
    worst, total = int(np.argmax(stays)), length * chain.plan.thin
    if stays[worst] <= max(LONGEST_STAY * total, SHORT * chain.plan.thin):
        return []
    return [
        f"{chain.sampler.name}: chain {worst + 1} did not move for {stays[worst]:,} of {total:,} "
        "iterations: it was where the posterior has more mass than the approximation. Means and "
        "intervals depend on how often that happened."
    ]
