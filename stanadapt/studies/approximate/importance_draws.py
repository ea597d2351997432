"""Draws of an approximation and their importance weights."""

from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.importance import largest_usable
from stanadapt.engine.density import Density
from stanadapt.errors import Message
from stanadapt.samplers.variational.gaussian import Gaussian, log_densities
from stanadapt.samplers.variational.pathfinder import mixture_log_density

# weights are judged by at least this many draws of each Gaussian, however few are returned
JUDGED = 1000


class Draws(NamedTuple):
    """The draws of a result, in the coordinates of the target."""

    positions: np.ndarray  # shape (draw, dim); the next three have shape (draw,)
    log_density: np.ndarray  # Jacobian included
    log_approximation: np.ndarray
    # smoothed, with sum 1 over all judged draws; all equal if draws were resampled by weight
    log_weight: np.ndarray
    pareto_k: float  # of the weights before smoothing
    judged: int  # number of draws that the weights were judged by
    distinct: int  # number of different draws in the result
    failed: int  # number of judged draws without a finite density


def importance_draws(
    parts: list[Gaussian], density: Density, rng: np.random.Generator, count: int
) -> Draws:
    """Draw from the mixture of Gaussians.

    With one Gaussian, its draws are returned as they are. With several, draws of all are resampled
    by their smoothed weights, with replacement: paths that ended in poor places do not count.
    """
    each = max(count, JUDGED)
    positions = np.concatenate([part.draw(rng, each) for part in parts])
    with np.errstate(over="ignore"):  # beyond the largest number the density fails anyway
        lp_approximation = mixture_log_density(parts, positions)
    lp = log_densities(density, positions)
    usable = np.isfinite(lp) & np.isfinite(lp_approximation)
    with np.errstate(invalid="ignore"):
        weights = np.where(usable, lp - lp_approximation, -np.inf)
    smoothed, k = results.pareto_smoothed(weights)
    picks = np.arange(count)
    if len(parts) > 1:
        if np.isfinite(smoothed).any():
            picks = np.sort(rng.choice(len(weights), size=count, p=np.exp(smoothed)))
        smoothed = np.full(len(weights), -np.log(count))
    return Draws(
        positions[picks], lp[picks], lp_approximation[picks], smoothed[picks], k, len(weights),
        len(np.unique(picks)), int(np.sum(~np.isfinite(lp))),
    )  # fmt: skip


def describe_draws(draws: Draws, parts: int) -> list[Message]:
    """Return notes on draws without density and on repeated draws."""
    notes = []
    if draws.failed:
        text = (
            f"{draws.failed} of {draws.judged} draws of the approximation have no finite density: "
            "it extends beyond the support of the posterior. Their weight is zero."
        )
        notes.append(Message("draws_without_density", text))
    count = len(draws.positions)
    if parts > 1 and draws.distinct < 0.5 * count and draws.pareto_k > largest_usable(draws.judged):
        text = (
            f"only {draws.distinct} of {count} draws are distinct: the weights with which they "
            "were resampled from the paths are too unequal."
        )
        notes.append(Message("few_distinct_draws", text))
    return notes
