"""Results of tempering samplers by chain, notes on them, and standard errors of log evidences.

The numbers that a sampler has learned and counted form the group `tempering` of a result; the notes
are also warnings at the end of a run. No diagnostic proves that all modes were found.

Errors of log evidences: chains are independent runs, each with its own path. If they kept the
weights of particles, the error is computed from the weights of all chains; otherwise from the
spread of at least four chains. (An estimate from the number of descendants of each ancestor holds
for multinomial resampling alone: with systematic resampling, which is better, it was 0 when the
truth was 0.05 or more.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.errors import Message
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_STEP, LOG_Z, B, Ladder
from stanadapt.samplers.tempering.levels import Walkers
from stanadapt.samplers.tempering.particles import ANCESTOR, DONE, MOST_STAGES, Population
from stanadapt.samplers.tempering.path import DISTRIBUTION, POSITION, POWER, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import DEGREES

# above this barrier, tempering needs more levels and time than it is worth
LARGEST_BARRIER = 15.0
# below this number of round trips, over all chains, the weights of modes are unreliable
FEWEST_TRIPS = 10
# above this mean largest weight, the other pseudo-samples contribute nothing
DEAD_WEIGHT = 0.9995
# a level with fewer visits than the mean by more than this factor is reported
UNEVEN = 10.0
# above this share of sweeps in which no two levels shared an energy ring, few swaps are left
OFTEN_ALONE = 0.5
# below this effective number of ancestors, modes may have been lost
FEWEST_ANCESTORS = 20.0
# above this spread of the log evidence of runs, their weights differ by more than half
LARGEST_SPREAD = 0.5
# smallest number of runs that gives an error
FEWEST_RUNS = 4

# dimensions of variables that have neither one value per chain nor one per level
DIMENSIONS = {
    "reference_mean": ("unconstrained",),
    "reference_sd": ("unconstrained",),
    "reference_covariance": ("unconstrained", "unconstrained_too"),
    "rejection": ("gap",),
    "ring_boundary": ("boundary",),
    "short_chain": ("start", "unconstrained"),
    "short_chain_lp": ("start",),
    "log_weight": ("particle",),
    "weighted_particle": ("particle", "unconstrained"),
    "coordinate_occupancy": ("tenth",),
}

Learned = dict[str, Any]


def describe_path(path: TemperingPath, ladder: Ladder, short_chain_ends: np.ndarray) -> Learned:
    """Return the ladder, the reference, and the ends of the short chains."""
    count, reference = int(ladder.size[0]), path.reference
    levels = ladder.levels[:count]
    learned: Learned = {
        "temperature": levels[:, B].copy(),
        "log_normalizer": levels[:, LOG_Z].copy(),
        "step_size": np.exp(levels[:, LOG_STEP]),
        "barrier": float(levels[-1, BARRIER]),
        "short_chain": short_chain_ends[:, :-1].copy(),
        "short_chain_lp": short_chain_ends[:, -1].copy(),
    }
    if path.kind == DISTRIBUTION:
        lower = reference.factor if reference.factor.shape[0] == 1 else np.tril(reference.factor).T
        learned["reference_mean"] = reference.mean.copy()
        learned["reference_sd"] = np.sqrt((lower**2).sum(axis=0))
        if reference.factor.shape[0] > 1:
            learned["reference_covariance"] = lower.T @ lower
        if reference.numbers[DEGREES] < np.inf:
            learned["reference_degrees"] = float(reference.numbers[DEGREES])
    # without a reference at its end the ratio of normalizing constants is not the evidence
    complete = path.kind != POWER and levels[0, B] == 0.0
    learned["log_evidence"] = float(levels[-1, LOG_Z]) if complete else float("nan")
    return learned


def describe_levels(walkers: Walkers, short_chain_ends: np.ndarray) -> Learned:
    """Return ladder and reference, and the visits to each level during sampling.

    Visits are proportional to Z / Zhat, so that they improve the constants from warm-up.
    """
    learned = describe_path(walkers.path, walkers.ladder, short_chain_ends)
    visits = walkers.visits[1, : len(learned["temperature"])].copy()
    if visits.any():
        learned["occupancy"] = visits
        if visits[0] > 0 and visits[-1] > 0:
            learned["log_evidence"] += float(np.log(visits[-1] / visits[0]))
    return learned


def group(learned: Sequence[Learned], constant: float) -> xr.Dataset:
    """Make the group `tempering`, one row per chain; levels that a chain does not have are NaN.

    constant
        Difference of value calls and gradient calls of the program's log density, if `~` drops
        constants.

    """
    variables = {}
    for name in learned[0]:
        rows = [np.asarray(one[name], dtype=float) for one in learned]
        if rows[0].ndim == 1:
            longest = max(map(len, rows))
            rows = [np.pad(row, (0, longest - len(row)), constant_values=np.nan) for row in rows]
        dims = DIMENSIONS.get(name, ("level",))[: rows[0].ndim]
        variables[name] = (("chain", *dims), np.stack(rows))
    dataset = xr.Dataset(variables, coords={"chain": np.arange(len(learned))})
    dataset["log_evidence"] = dataset["log_evidence"] + constant
    return dataset


def path_notes(
    name: str, tempering: xr.Dataset, stats: Mapping[str, np.ndarray], powers: bool = False
) -> list[str]:
    """Return notes on a run, each with a remedy.

    tempering is the group of that name; stats holds the sample statistics of all chains, shape
    (chain, draw), by name; powers says that the path has no reference.
    """
    notes: list[str] = []
    barrier = float(tempering["barrier"].max())
    trips, weights = int(stats["round_trips"].sum()), stats.get("largest_weight")
    if weights is not None and "occupancy" not in tempering:
        return []  # one pseudo-sample: nothing is tempered
    if powers:
        text = (
            f"{name}: with reference_family=power the hot chains sample pure powers of the "
            "density. For most programs these are improper (the power at the smallest inverse "
            "temperature has no finite integral), and the chains drift away. Use "
            "reference_family=gaussian, or raise the smallest inverse temperature."
        )
        notes.append(Message("improper_hot_chains", text))
    if barrier > LARGEST_BARRIER:
        text = (
            f"{name}: the barrier between reference and target is {barrier:.1f}, above "
            f"{LARGEST_BARRIER:g}: few states travel from one to the other. Give a reference "
            "closer to the target (reference_distribution or prior_data), or use "
            "parallel_tempering with more iterations."
        )
        notes.append(Message("large_barrier", text))
    if trips < FEWEST_TRIPS:
        text = (
            f"{name}: only {trips} round trips between reference and target over all chains: the "
            "weights of modes depend on the starting points. Sample longer, widen the reference "
            "(inflation), or give one (reference_distribution or prior_data)."
        )
        notes.append(Message("few_round_trips", text))
    if weights is not None and weights.mean() > DEAD_WEIGHT:
        text = (
            f"{name}: the largest weight is {weights.mean():.3f} on average: the other "
            "pseudo-samples never come close to the target. Try parallel_tempering, a longer "
            "warm-up, or a reference closer to the target."
        )
        notes.append(Message("idle_pseudo_samples", text))
    return notes + _level_notes(name, tempering, stats.get("returned"))


def _level_notes(name: str, tempering: xr.Dataset, returned: np.ndarray | None) -> list[str]:
    """Return notes on rare swaps, and on constants that were not learned."""
    notes: list[str] = []
    if "without_pair" in tempering and tempering["without_pair"].max() > OFTEN_ALONE:
        text = (
            f"{name}: in {float(tempering['without_pair'].max()):.0%} of iterations, no two "
            "temperatures had states in the same energy ring, so nothing was swapped. Use fewer "
            "rings."
        )
        notes.append(Message("empty_rings", text))
    if returned is not None and not returned.all():
        text = (
            f"{name}: {int((returned == 0).sum())} of {returned.size} draws are repeated: the "
            "chain did not return to the target within longest_excursion moves, because the "
            "normalizing constants were not learned. Lengthen warm-up."
        )
        notes.append(Message("repeated_draws", text))
    if "occupancy" in tempering:
        visits = tempering["occupancy"]
        shares = visits.values / visits.mean("level").values[:, None]
        if np.nanmin(shares) * UNEVEN < 1.0:
            text = (
                f"{name}: one temperature was visited only {np.nanmin(shares):.2f} times as often "
                "as the average one: its normalizing constant was not learned, and modes of very "
                "different widths may be missed. Lengthen warm-up."
            )
            notes.append(Message("uneven_visits", text))
    if "coordinate_occupancy" in tempering:
        least = float(tempering["coordinate_occupancy"].min()) * tempering.sizes["tenth"]
        if least * UNEVEN < 1.0:
            zeta = tempering["log_zeta"] + tempering["log_zeta_correction"]
            text = (
                f"{name}: a tenth of the coordinate was visited only {least:.2f} times as often as "
                "the average one: draws and round trips are rare. Use coordinate=barrier, a longer "
                "warm-up or, with coordinate=uniform, learn_log_zeta=false and "
                f"log_zeta={float(zeta.mean()):.1f}."
            )
            notes.append(Message("uneven_visits", text))
    return notes


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


def particle_notes(
    name: str, tempering: xr.Dataset, stats: Mapping[str, np.ndarray], given: bool = False
) -> list[str]:
    """Return notes on a run of `smc`, each with a remedy.

    given says that the user chose the stages; other arguments as in `path_notes`.
    """
    notes: list[str] = []
    evidence = tempering["log_evidence"].values
    ancestors = tempering["effective_ancestors"].values
    if not np.isfinite(evidence).all():
        text = (
            f"{name}: no draw of the reference has a positive density in "
            f"{int(np.sum(~np.isfinite(evidence)))} of {evidence.size} chains, which used their "
            "initial positions instead: their log evidence is unknown. Give a reference closer to "
            "the target (reference_distribution), or lengthen warm-up."
        )
        notes.append(Message("evidence_unknown", text))
    elif ancestors.min() < FEWEST_ANCESTORS:
        weighted = "log_weight" in tempering
        lost = "only the weights of few particles count" if weighted else "few were resampled"
        text = (
            f"{name}: the particles of a chain effectively descend from only {ancestors.min():.0f} "
            f"of the first ones, since {lost}: modes may be missing, and errors are "
            "underestimated. Use more particles or sweeps, a threshold nearer 1, or a reference "
            "closer to the target (reference_distribution)."
        )
        notes.append(Message("few_ancestors", text))
    if len(evidence) >= 2 and np.isfinite(evidence).all() and evidence.std(ddof=1) > LARGEST_SPREAD:
        text = (
            f"{name}: log evidence differs between chains, which are independent runs, by "
            f"{np.ptp(evidence):.1f}: neither it nor the weights of modes are known. Use more "
            "particles or sweeps, or a threshold nearer 1."
        )
        notes.append(Message("evidence_spread", text))
    if not given and tempering.sizes["level"] > MOST_STAGES:
        text = (
            f"{name}: {MOST_STAGES} stages did not reach the target, and the last one jumped to "
            "it. Give a reference closer to the target (reference_distribution), or lower the "
            "threshold."
        )
        notes.append(Message("too_many_stages", text))
    draws, particles = stats["particle"].shape[1], len(np.unique(stats["particle"][0]))
    if draws > particles:
        text = (
            f"{name}: {draws} draws of a chain come from {particles} particles in turn. Draws of "
            "the same particle are not independent, which R-hat and effective sample sizes do not "
            f"show. Raise particles to the number of draws, or take {particles} draws."
        )
        notes.append(Message("reused_particles", text))
    return notes


def add_errors(tempering: xr.Dataset) -> None:
    """Fill in `log_evidence_error` if chains do not have it: one number for all, or NaN.

    tempering is the group of that name, one row per chain.
    """
    if "log_evidence_error" in tempering:
        return
    evidence = tempering["log_evidence"].values
    error, usable = np.full(len(evidence), np.nan), np.isfinite(evidence)
    if "log_weight" in tempering:
        if usable.any():
            error[usable] = error_of_log_mean(tempering["log_weight"].values[usable])
    elif len(evidence) >= FEWEST_RUNS and usable.all():
        error[:] = error_of_spread(evidence)
    tempering["log_evidence_error"] = ("chain", error)


def error_of_log_mean(log_weights: np.ndarray) -> float:
    """Return the standard error of the log of the mean weight of one run, by the delta method.

    It uses the weights of all runs, shape (run, particle). A run that missed the few large weights
    underestimates the evidence and, from its own weights, the error as well: on a Boltzmann machine
    with 1000 particles such a run was off by 4.9 of its errors, but by 3.0 of those from four runs.
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.std() / weights.mean() / np.sqrt(weights.shape[1]))


def error_of_spread(evidence: np.ndarray) -> float:
    """Return the standard error of one of n > 3 runs: their standard deviation, raised for small n.

    With z = (evidence - truth) / standard deviation, of normal evidences, the mean of z^2 is
    (n - 1) (n - 2) / (n (n - 3)), which is 1.5 for four runs.
    """
    n = len(evidence)
    return float(evidence.std(ddof=1) * np.sqrt((n - 1) * (n - 2) / (n * (n - 3))))
