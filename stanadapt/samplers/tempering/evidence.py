"""Results of tempering samplers by chain, and standard errors of log evidences.

The numbers that a sampler has learned and counted form the group `tempering` of a result.

Errors of log evidences: chains are independent runs, each with its own path. If they kept the
weights of particles, the error is computed from the weights of all chains; otherwise from the
spread of at least four chains. (An estimate from the number of descendants of each ancestor holds
for multinomial resampling alone: with systematic resampling, which is better, it was 0 when the
truth was 0.05 or more.)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.samplers.tempering.ladder import BARRIER, LOG_STEP, LOG_Z, B, Ladder
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import DEGREES

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
