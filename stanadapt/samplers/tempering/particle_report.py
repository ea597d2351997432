"""What annealed particles have found, per chain, and warnings based on it.

The numbers join the group `tempering` of a result. A run's particles descend from the first ones:
with few ancestors left, it knows little. The error of the log evidence: `evidence_error`.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from stanadapt.samplers.tempering.particles import ANCESTOR, DONE, MOST_STAGES, Population
from stanadapt.samplers.tempering.path import POSITION
from stanadapt.samplers.tempering.report import Learned, describe_path

# below this effective number of ancestors, modes may have been lost
FEWEST_ANCESTORS = 20.0
# above this spread of the log evidence of runs, their weights differ by more than half
LARGEST_SPREAD = 0.5


def describe_particles(population: Population, short_chain_ends: np.ndarray) -> Learned:
    """Return stages, reference, log evidence, ancestors and, if they were kept, weights."""
    learned = describe_path(population.path, population.ladder, short_chain_ends)
    learned.pop("barrier")
    particles = len(population.log_weights)
    counts = np.bincount(population.indices[ANCESTOR], minlength=particles)
    learned["ancestors"] = float(np.count_nonzero(counts))
    learned["effective_ancestors"] = particles**2 / float(np.sum(counts.astype(float) ** 2))
    if population.counts[DONE] and population.log_weights.any():
        learned["log_weight"] = population.log_weights.copy()
        learned["weighted_particle"] = population.spare.vectors[:particles, POSITION].copy()
    return learned


def particle_sentences(
    name: str, tempering: xr.Dataset, stats: Mapping[str, np.ndarray]
) -> list[str]:
    """Warnings about a run of `smc`, each with what to try; arguments as in `report.sentences`."""
    messages, evidence = [], tempering["log_evidence"].values
    ancestors = tempering["effective_ancestors"].values
    weighted = "log_weight" in tempering
    if not np.isfinite(evidence).all():
        messages.append(
            f"{name}: no draw of the reference has a positive density in "
            f"{int(np.sum(~np.isfinite(evidence)))} of {evidence.size} chains, which began where "
            "they were started instead: their log evidence is unknown. Give a reference closer to "
            "the target (reference_distribution), or lengthen warm-up."
        )
    elif ancestors.min() < FEWEST_ANCESTORS:
        lost = "the weights of so few particles count" if weighted else "so few were resampled"
        messages.append(
            f"{name}: the particles of a chain descend from only {ancestors.min():.0f} of the "
            f"first ones, effectively, since {lost}: modes may be missing, and errors are "
            "underestimated. Use more particles or sweeps, a threshold nearer 1, or a reference "
            "closer to the target (reference_distribution)."
        )
    if len(evidence) >= 2 and np.isfinite(evidence).all() and evidence.std(ddof=1) > LARGEST_SPREAD:
        messages.append(
            f"{name}: log evidence differs between chains, which are independent runs, by "
            f"{np.ptp(evidence):.1f}: neither it nor the weights of modes are known. Use more "
            "particles or sweeps, or a threshold nearer 1."
        )
    if tempering.sizes["level"] > MOST_STAGES:
        messages.append(
            f"{name}: {MOST_STAGES} stages did not lead to the target, and the last one went there "
            "at once. Give a reference closer to the target (reference_distribution), or lower "
            "the threshold."
        )
    draws, particles = stats["particle"].shape[1], len(np.unique(stats["particle"][0]))
    if draws > particles:
        messages.append(
            f"{name}: {draws} draws of a chain come from {particles} particles in turn. Those of "
            "one particle are not independent, which R-hat and effective sample sizes do not show. "
            f"Raise particles to the number of draws, or take {particles} draws."
        )
    return messages
