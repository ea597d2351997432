"""The groups `tempering` and `pseudo` of a result, and the notes on a run that tempered.

Two notes are about modes that tempering may lose unnoticed. At inverse temperature b, the share of
a mode of weight w and volume v is about proportional to w^b v^(1 - b): tempered states find modes
according to their volume. If the visited modes already differ a hundredfold, still smaller ones may
have been missed (`log_volumes`). The volume is that of the normal distribution with the curvature
at the mode.

A mode much narrower than the others has almost no mass at the temperatures at which states travel:
tempering leaves it and does not find it again, and no other diagnostic shows it. The short chains
of warm-up, each from a different start, may have ended in it (`count_unvisited`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import xarray as xr
from scipy.linalg import solve_triangular

from stanadapt.diagnostics.hill_climb import Evaluate, climb, make_frame
from stanadapt.diagnostics.mixing import mixing
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.engine.chain import Chain
from stanadapt.results import PSEUDO
from stanadapt.samplers.tempering import (
    continuous_tempering,
    equi_energy,
    evidence,
    notes,
    parallel_tempering,
    pseudo_extended,
    simulated_tempering,
    smc,
)
from stanadapt.samplers.tempering.settings import ReferenceFamily
from stanadapt.targets.pseudo_samples import pseudo_group
from stanadapt.targets.target import Samplable, Target

# number of climbs: in 93 % of runs at least two of them end in a mode with a fifth of the draws
CLIMBS = 20
# step of the differences, in units of the frame: far below the width of any mode that is visited
STEP = 1e-4
# ends nearer than this, in the same units, are one mode: a curvature takes 2 dim evaluations
NEAR = 0.01
# number of draws that represent all; and a quantile of the distances from the draws of one half to
# the nearest of the other half, beyond which a position counts as isolated
DRAWS, QUANTILE = 2000, 0.999
# A position counts if its log density exceeds this quantile of that of the draws (below it, a short
# chain had not yet arrived), and if the log density dips by DIP on the straight line to the nearest
# draw, evaluated at LINE.
ARRIVED = 0.05
DIP, LINE = 5.0, np.linspace(0.1, 0.9, 9)


def log_volumes(evaluate: Evaluate, draws: np.ndarray) -> np.ndarray:
    """Return log volumes of the modes that climbs from up to CLIMBS draws reach.

    d / 2 log(2 pi) - 1/2 log det(-Hessian) at ends that are maxima in all directions; draws have
    shape (draw, dim).
    """
    with np.errstate(over="ignore"):
        spread = draws.std(axis=0)
    # chains that never moved, or that drifted away, define no usable frame
    if not (spread.all() and np.isfinite(spread).all()):
        return np.empty(0)
    frame = make_frame(draws - draws.mean(axis=0), spread)
    starts = draws[np.linspace(0, len(draws) - 1, min(CLIMBS, len(draws))).astype(int)]
    starting = [evaluate(start) for start in starts]
    fine = [np.isfinite(value) and np.isfinite(slope).all() for value, slope, _ in starting]
    if not any(fine):
        return np.empty(0)
    ends = climb(evaluate, starts[fine], frame)
    modes = _distinct(ends.position[ends.inside], frame)
    volumes = np.array([_log_volume(evaluate, mode, frame) for mode in modes])
    return volumes[np.isfinite(volumes)]


def _distinct(positions: np.ndarray, frame: np.ndarray) -> list[np.ndarray]:
    """Drop positions next to an earlier one."""
    distinct: list[np.ndarray] = []
    for position in positions:
        gaps = [solve_triangular(frame, position - other, lower=True) for other in distinct]
        if all(np.linalg.norm(z) > NEAR for z in gaps):
            distinct.append(position)
    return distinct


def _log_volume(evaluate: Evaluate, position: np.ndarray, frame: np.ndarray) -> float:
    """Return the log volume of one mode; NaN unless the density falls off in every direction."""
    columns = []
    for direction in STEP * frame.T:
        _, up, _ = evaluate(position + direction)
        _, down, _ = evaluate(position - direction)
        columns.append((up - down) / (2.0 * STEP))
    curvature = -frame.T @ np.stack(columns, axis=1)
    if not np.isfinite(curvature).all():
        return np.nan
    values = np.linalg.eigvalsh(0.5 * (curvature + curvature.T))
    if values.min() <= 0.0:
        return np.nan
    half = 0.5 * (len(position) * np.log(2.0 * np.pi) - np.log(values).sum())
    return float(half + np.log(np.diag(frame)).sum())


def count_unvisited(
    positions: np.ndarray,
    lp: np.ndarray,
    draws: np.ndarray,
    draws_lp: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> int:
    """Count the positions of high density that are isolated from all draws.

    positions, shape (position, dim), have the log densities lp, and draws, shape (draw, dim), in
    their order, draws_lp; log_density may miss a constant.
    """
    arrived = lp > np.quantile(draws_lp, ARRIVED)
    spread = draws.std(axis=0)
    if not arrived.any() or not spread.any() or len(draws) < 4:
        return 0
    scale = np.where(spread > 0, spread, np.inf)
    half = len(draws) // 2
    usual = np.quantile(
        scipy.spatial.cKDTree(draws[:half] / scale).query(draws[half:] / scale)[0], QUANTILE
    )
    distance, nearest = scipy.spatial.cKDTree(draws / scale).query(positions / scale)
    count = 0
    for i in np.flatnonzero(arrived & (distance > usual)):
        one, other = positions[i], draws[nearest[i]]
        between = [log_density(one + share * (other - one)) for share in LINE]
        count += min(between) < min(log_density(one), log_density(other)) - DIP
    return count


@reports_for(equi_energy.Settings)
def report_jumps(view: RunView) -> Findings:
    """Report jumps that fail, and a number of chains that is too small to show the error."""
    jumped = notes.Tempered(view.sampler_name, xr.Dataset(), view.sample_stats)
    return Findings(messages=notes.apply(notes.JUMP_NOTES, jumped))


@reports_for(pseudo_extended.Settings)
def report_pseudo_samples(view: RunView) -> Findings:
    """Return the report on tempering, and the group of pseudo-samples if they were saved."""
    found = report(view)
    extra = np.stack([chain.sampling.extra[: view.length] for chain in view.chains])
    if not extra.size:
        return found
    positions, temperature, weight = split_extra_output(extra, view.target.dim)
    positions = view.target.original(positions)
    pseudo = pseudo_group(view.target.target, positions, temperature, weight)
    return found._replace(groups={PSEUDO: pseudo, **found.groups})


def split_extra_output(
    extra_output: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split the extra output of pseudo_extended, shape (chain, draw, N dim + 2 N).

    Returns positions, temperatures and weights as `pseudo_group` takes them.
    """
    count = extra_output.shape[2] // (dim + 2)
    positions = extra_output[..., : count * dim].reshape(*extra_output.shape[:2], count, dim)
    return positions, extra_output[..., count * dim : -count], extra_output[..., -count:]


@reports_for(
    continuous_tempering.Settings,
    parallel_tempering.Settings,
    simulated_tempering.Settings,
    smc.Settings,
)
def report(view: RunView) -> Findings:
    """Return the group `tempering`, and one note per kind of doubt."""
    target, chains = view.target, view.chains
    sampler, name = chains[0].sampler, view.sampler_name
    # constants are dropped only if the density comes with its gradient
    position = chains[0].state.current.position
    constant = target.dropped_constant(position) if sampler.uses_gradient else 0.0
    assert sampler.tempering is not None
    learned = [sampler.tempering.learned(chain.state) for chain in chains]
    powers = getattr(chains[0].settings, "reference_family", None) == ReferenceFamily.power
    if target.standard_coordinates is not None:
        learned = [_in_original_coordinates(target, one, powers) for one in learned]
    group = evidence.group(learned, constant)
    evidence.add_errors(group)
    given = bool(getattr(chains[0].settings, "inverse_temperatures", ()))
    tempered = notes.Tempered(
        name, group, view.sample_stats, powers, given, _largest_r_hat(chains, view.length)
    )
    # positions of a pseudo-extension are not those of its draws
    if target.base.moves_parameters:
        tempered = tempered._replace(**_modes(target.target, chains, group))
    return Findings({}, notes.of_run(tempered), {"tempering": group})


def _in_original_coordinates(
    target: Samplable, learned: dict[str, Any], powers: bool
) -> dict[str, Any]:
    """Translate results in coordinates z to x = m + L z, with a diagonal L.

    The reference is a density of z, that of x times |det L|: an integral over z of p^b p0^(1 - b)
    is |det L|^-b times that over x. Without a reference it is 1 / |det L| times that of p^b.
    """
    coordinates = target.standard_coordinates
    assert coordinates is not None
    volume, values = target.log_volume, dict(learned)
    power = 1.0 if powers else learned["temperature"]
    values["log_normalizer"] = learned["log_normalizer"] + power * volume
    values["log_evidence"] = learned["log_evidence"] + volume
    values["short_chain"] = target.original(learned["short_chain"])
    if "weighted_particle" in learned:
        values["weighted_particle"] = target.original(learned["weighted_particle"])
    if "reference_mean" in learned:
        values["reference_mean"] = target.original(learned["reference_mean"])
        values["reference_sd"] = learned["reference_sd"] * np.abs(coordinates.factor[0])
    return values


def _largest_r_hat(chains: list[Chain], length: int) -> float:
    """Return R-hat of the column, or of the log density, on which chains disagree most."""
    if len(chains) < 2 or length < 4:
        return 1.0
    draws = np.stack([chain.sampling.constrained[:length] for chain in chains])
    columns = [*np.moveaxis(draws, 2, 0), np.stack([c.sampling.stats[:length, 0] for c in chains])]
    moving = [x for x in columns if np.isfinite(x).all() and np.ptp(x) > 0]
    return max((mixing(x).r_hat for x in moving), default=1.0)


def _modes(target: Target, chains: list[Chain], group: xr.Dataset) -> dict[str, Any]:
    """Return what is known of modes: their volumes, and regions that only warm-up visited."""
    draws, draws_lp = _some_draws(target, chains)
    found: dict[str, Any] = {}
    if len(draws) and not target.noise_size:  # an estimated density cannot be climbed
        found["log_volumes"] = log_volumes(target.evaluate, draws)
    ends, lp = (group[n].values for n in ("short_chain", "short_chain_lp"))
    finite = np.isfinite(lp)
    if len(draws) and finite.any():
        count = count_unvisited(ends[finite], lp[finite], draws, draws_lp, target.value)
        found |= {"unvisited": count, "short_chains": int(finite.sum())}
    return found


def _some_draws(target: Target, chains: list[Chain]) -> tuple[np.ndarray, np.ndarray]:
    """Return positions evenly spaced in each chain, shape (draw, dim), and their log density."""
    rows, lps = [], []
    for chain in chains:
        count = DRAWS // len(chains)
        taken = np.linspace(0, chain.sampling.rows - 1, count).astype(int)
        lps.append(chain.sampling.stats[taken, 0])
        rows.append(chain.sampling.constrained[taken])
    draws = target.unconstrain_rows(np.concatenate(rows))
    fine = np.isfinite(draws).all(axis=1)
    return draws[fine], np.concatenate(lps)[fine]
