"""What a sampler that tempers has learned and counted, by chain, and what to make of it.

The numbers stand in the group `tempering` of a result; the sentences are told at the end of a run.
No diagnostic proves that all modes were found.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.ladder import BARRIER, LOG_STEP, LOG_Z, B, Ladder
from stanadapt.tempered_path import LAW, POWER, Path

# a barrier above this takes more levels and time than tempering is worth
LARGEST_BARRIER = 15.0
# round trips, all chains together, below which the weights of modes rest on next to nothing
FEWEST_TRIPS = 10
# a largest weight, on average, from which on the other pseudo-samples count for nothing
DEAD = 0.9995
# ratio of the visits of the level visited most to those of the one visited least
UNEVEN = 10.0

# of what is neither a number a chain nor one a level
DIMENSIONS = {
    "reference_mean": ("unconstrained",),
    "reference_sd": ("unconstrained",),
    "rejection": ("gap",),
    "short_chain": ("start", "unconstrained"),
    "short_chain_lp": ("start",),
}

Learned = dict[str, Any]


def of_path(path: Path, ladder: Ladder, ended: np.ndarray) -> Learned:
    """Temperatures and what belongs to them, the reference, and where short chains ended."""
    count, law = int(ladder.size[0]), path.law
    levels = ladder.levels[:count]
    found: Learned = {
        "temperature": levels[:, B].copy(),
        "log_normalizer": levels[:, LOG_Z].copy(),
        "step_size": np.exp(levels[:, LOG_STEP]),
        "barrier": float(levels[-1, BARRIER]),
        "short_chain": ended[:, :-1].copy(),
        "short_chain_lp": ended[:, -1].copy(),
    }
    if path.kind == LAW:
        lower = law.factor if law.factor.shape[0] == 1 else np.tril(law.factor).T
        found["reference_mean"] = law.mean.copy()
        found["reference_sd"] = np.sqrt((lower**2).sum(axis=0))
    # without a reference there is no ratio of normalising constants to tell
    found["log_evidence"] = float("nan") if path.kind == POWER else float(levels[-1, LOG_Z])
    return found


def group(learned: Sequence[Learned], constant: float) -> xr.Dataset:
    """Make the group `tempering`: a row a chain; levels a chain does not have are NaN.

    constant
        What the program's log density is above that of its gradient: `~` drops constants there.
    """
    variables = {}
    for name in learned[0]:
        rows = [np.asarray(one[name], dtype=float) for one in learned]
        if rows[0].ndim == 1:
            longest = max(map(len, rows))
            rows = [np.pad(row, (0, longest - len(row)), constant_values=np.nan) for row in rows]
        dims = DIMENSIONS.get(name, ("level",))[: rows[0].ndim]
        variables[name] = (("chain", *dims), np.stack(rows))
    found = xr.Dataset(variables, coords={"chain": np.arange(len(learned))})
    found["log_evidence"] = found["log_evidence"] + constant
    return found


def sentences(name: str, found: xr.Dataset, stats: Mapping[str, np.ndarray]) -> list[str]:
    """What is doubtful about a run, each with what to try.

    stats holds the statistics of all chains, shape (chain, draw), by name.
    """
    said, barrier = [], float(found["barrier"].max())
    trips, weights = int(stats["round_trips"].sum()), stats.get("largest_weight")
    if weights is not None and "occupancy" not in found:
        return []  # one pseudo-sample: nothing is tempered
    if np.isnan(found["log_evidence"]).all():
        said.append(
            f"{name}: with law=power hot chains follow powers of the density alone, which are "
            "improper for most programs (exactly: where the power at `lowest` has no finite "
            "integral), and then drift away for ever. Take law=gaussian, or raise `lowest`."
        )
    if barrier > LARGEST_BARRIER:
        said.append(
            f"{name}: the barrier between reference and target is {barrier:.1f}, above "
            f"{LARGEST_BARRIER:g}: states hardly travel. Give a reference nearer to the target "
            "(reference_law, or prior_data), or take parallel_tempering with more iterations."
        )
    if trips < FEWEST_TRIPS:
        said.append(
            f"{name}: {trips} round trips between reference and target in all chains together: the "
            "weights of modes rest on the places where chains began. Sample longer, widen the "
            "reference (inflation), or give one (reference_law, prior_data)."
        )
    if weights is not None and weights.mean() > DEAD:
        said.append(
            f"{name}: the largest weight is {weights.mean():.3f} on average: the "
            "other pseudo-samples never come near the target. Try parallel_tempering, a longer "
            "warm-up, or a reference nearer to the target."
        )
    if "occupancy" in found:
        shares = found["occupancy"].values / found["occupancy"].mean("level").values[:, None]
        if np.nanmin(shares) * UNEVEN < 1.0:
            said.append(
                f"{name}: a temperature was visited {np.nanmin(shares):.2f} times as often as it "
                "should be: its normalising constant was not learned, and modes that differ much "
                "in width may be missed. Lengthen warm-up."
            )
    return said
