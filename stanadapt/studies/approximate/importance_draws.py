"""Draws of an approximation, their importance weights, and what these say."""

from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.importance import largest_usable
from stanadapt.engine.density import Density
from stanadapt.samplers.variational.gaussian import Gaussian, log_densities
from stanadapt.samplers.variational.pathfinder import mixture_log_density

# weights are judged by at least so many draws of each Gaussian, however few are kept
JUDGED = 1000


class Draws(NamedTuple):
    """Draws that are kept, in the coordinates of the target.

    positions
        Shape (draw, dim).
    log_density, log_approximation
        Of the target, Jacobian included, and of the approximation, shape (draw,).
    log_weight
        Smoothed importance weights, their sum over all judged draws 1; all equal where draws were
        chosen by weight.
    pareto_k
        Of the weights before smoothing.
    judged
        How many draws these were.
    distinct
        Different draws among those that are kept.
    failed
        Judged draws without a finite density.

    """

    positions: np.ndarray
    log_density: np.ndarray
    log_approximation: np.ndarray
    log_weight: np.ndarray
    pareto_k: float
    judged: int
    distinct: int
    failed: int


def importance_draws(
    parts: list[Gaussian], density: Density, rng: np.random.Generator, count: int
) -> Draws:
    """Draw from the mixture of Gaussians.

    Of one Gaussian, the draws are its own. Of several, they are chosen from those of all by their
    smoothed weights, with replacement: paths that ended in poor places do not count.
    """
    each = max(count, JUDGED)
    positions = np.concatenate([part.draw(rng, each) for part in parts])
    with np.errstate(over="ignore"):  # beyond the largest number the density fails anyway
        own = mixture_log_density(parts, positions)
    lp = log_densities(density, positions)
    with np.errstate(invalid="ignore"):
        weights = np.where(np.isfinite(lp) & np.isfinite(own), lp - own, -np.inf)
    smoothed, k = results.pareto_smoothed(weights)
    chosen = np.arange(count)
    if len(parts) > 1:
        if np.isfinite(smoothed).any():
            chosen = np.sort(rng.choice(len(weights), size=count, p=np.exp(smoothed)))
        smoothed = np.full(len(weights), -np.log(count))
    return Draws(
        positions[chosen], lp[chosen], own[chosen], smoothed[chosen], k, len(weights),
        len(np.unique(chosen)), int(np.sum(~np.isfinite(lp))),
    )  # fmt: skip


def notes_on(draws: Draws, parts: int) -> list[str]:
    """What should be said of draws, beside their Pareto k."""
    notes = []
    if draws.failed:
        notes.append(
            f"{draws.failed} of {draws.judged} draws of the approximation have no finite density: "
            "it reaches where the posterior does not. Their weight is zero."
        )
    kept = len(draws.positions)
    if parts > 1 and draws.distinct < 0.5 * kept and draws.pareto_k > largest_usable(draws.judged):
        notes.append(
            f"only {draws.distinct} of {kept} draws differ: the weights with which they were "
            "chosen from the paths are too unequal."
        )
    return notes
