"""The group `tempering` of a result, and the messages on a run that tempered.

Modes of very unequal volume, of which tempering loses the small ones.

At inverse temperature b, the share of a mode of weight w and volume v is about proportional to
w^b v^(1 - b): tempered states find modes according to their volume. Where the visited modes
already differ a hundredfold, still smaller ones may have been missed. The volume is that of the
normal distribution with the curvature at the mode.

Modes that warm-up found and the draws never visited: tempering may lose them unnoticed.

A mode much narrower than the others has almost no mass at the temperatures at which states
travel: tempering leaves it and does not find it again, and no other diagnostic shows it. The short
chains of warm-up, each from its own start, may have ended in it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import solve_triangular
from scipy.spatial import cKDTree

from stanadapt.diagnostics.hill_climb import Evaluate, climb, frame_of
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.engine.chain import Chain
from stanadapt.results import arviz_module
from stanadapt.samplers.tempering import (
    continuous_tempering,
    equi_energy,
    evidence,
    parallel_tempering,
    pseudo_extended,
    simulated_tempering,
    smc,
)
from stanadapt.targets.target import Samplable, Target

# climbs: in 93 % of runs at least two of them end in a mode with a fifth of the draws
CLIMBS = 20
# in units of the frame: far below the width of any mode that a run could visit
STEP = 1e-4
# ends nearer than this, in the same units, are one mode: a curvature takes 2 dim evaluations
NEAR = 0.01
LARGEST_RATIO = 100.0


def log_volumes(evaluate: Evaluate, draws: np.ndarray) -> np.ndarray:
    """Log volumes of the modes that climbs from some of the draws reach.

    Parameters
    ----------
    evaluate
        Returns log density (-inf where it fails), gradient and a message, not used, at a position.
    draws
        Shape (draw, dim).

    Returns
    -------
    numpy.ndarray
        d / 2 log(2 pi) - 1/2 log det(-Hessian) at each position where climbs from up to CLIMBS
        draws ended, if it is a maximum with curvature in all directions.

    """
    with np.errstate(over="ignore"):
        spread = draws.std(axis=0)
    # chains that never moved, or that drifted away, have no usable frame
    if not (spread.all() and np.isfinite(spread).all()):
        return np.empty(0)
    frame = frame_of(draws - draws.mean(axis=0), spread)
    starts = draws[np.linspace(0, len(draws) - 1, min(CLIMBS, len(draws))).astype(int)]
    found = [evaluate(start) for start in starts]
    fine = [np.isfinite(value) and np.isfinite(slope).all() for value, slope, _ in found]
    if not any(fine):
        return np.empty(0)
    ends = climb(evaluate, starts[fine], frame)
    modes = _distinct(ends.position[ends.inside], frame)
    volumes = np.array([_log_volume(evaluate, mode, frame) for mode in modes])
    return volumes[np.isfinite(volumes)]


def _distinct(positions: np.ndarray, frame: np.ndarray) -> list[np.ndarray]:
    """Positions, without those next to an earlier one."""
    kept: list[np.ndarray] = []
    for position in positions:
        apart = [solve_triangular(frame, position - other, lower=True) for other in kept]
        if all(np.linalg.norm(z) > NEAR for z in apart):
            kept.append(position)
    return kept


def _log_volume(evaluate: Evaluate, position: np.ndarray, frame: np.ndarray) -> float:
    """Log volume of one mode; NaN where the density does not fall off in every direction."""
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


def volume_messages(name: str, volumes: np.ndarray) -> list[str]:
    """Report, in one sentence, modes that differ much in volume; nothing otherwise."""
    ratio = np.ptp(volumes) if volumes.size else 0.0
    if ratio <= np.log(LARGEST_RATIO):
        return []
    return [
        f"{name}: the visited modes differ in volume by {ratio / np.log(10.0):.1f} orders of "
        "magnitude. Tempering finds modes according to their volume: smaller ones may have been "
        "missed without any other sign, and weights converge slowly. Start chains where you expect "
        "narrow modes (inits), and compare."
    ]


# draws that represent all, and the quantile of the distances from the draws of one half to the
# nearest of the other beyond which a position lies apart
DRAWS, QUANTILE = 2000, 0.999
# a position counts if its log density exceeds this quantile of that of the draws: below it, a short
# chain was still on its way from a remote start
ARRIVED = 0.05
# and if the log density dips by this much on the straight line to the nearest draw, evaluated here
DIP, LINE = 5.0, np.linspace(0.1, 0.9, 9)


def count_unvisited(
    positions: np.ndarray,
    lp: np.ndarray,
    draws: np.ndarray,
    draws_lp: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> int:
    """Count the positions of high density that lie apart from all draws.

    Parameters
    ----------
    positions, lp
        Shape (position, dim) and (position,): where short chains ended, and the log density there.
    draws, draws_lp
        Shape (draw, dim) and (draw,), in the order in which they were drawn.
    log_density
        Of a position, shape (dim,), up to a constant.

    """
    arrived = lp > np.quantile(draws_lp, ARRIVED)
    spread = draws.std(axis=0)
    if not arrived.any() or not spread.any() or len(draws) < 4:
        return 0
    scale = np.where(spread > 0, spread, np.inf)
    half = len(draws) // 2
    usual = np.quantile(cKDTree(draws[:half] / scale).query(draws[half:] / scale)[0], QUANTILE)
    distance, nearest = cKDTree(draws / scale).query(positions / scale)
    apart = np.flatnonzero(arrived & (distance > usual))
    return sum(_dips(positions[i], draws[nearest[i]], log_density) for i in apart)


def _dips(one: np.ndarray, other: np.ndarray, log_density: Callable) -> bool:
    """Whether the log density dips between two positions."""
    between = [log_density(one + share * (other - one)) for share in LINE]
    return min(between) < min(log_density(one), log_density(other)) - DIP


def unvisited_messages(name: str, count: int, total: int) -> list[str]:
    """Report, in one sentence, short chains that ended where there are no draws; else nothing."""
    if not count:
        return []
    return [
        f"{name}: {count} of the {total} short chains of warm-up ended in regions of high density "
        "where the run has no draws. If these are modes, they have little weight, or are too "
        "narrow for tempering to find again: start chains there (inits), and compare."
    ]


# as in diagnostics.compare
LARGEST_R_HAT = 1.05


# what is told of: fewer of the jumps accepted, more of them from an empty ring, fewer chains
FEW_ACCEPTED, OFTEN_EMPTY, FEWEST_CHAINS = 0.5, 0.05, 4


@reports_for(equi_energy.Settings)
def report_jumps(view: RunView) -> Findings:
    """Report jumps that fail, and a number of chains that is too small to show the error."""
    said, stats = [], view.sample_stats
    jumps, empty = stats["n_jumps"].sum(), stats["n_empty"].sum()
    if empty > OFTEN_EMPTY * (jumps + empty):
        said.append(
            f"equi_energy: {empty / (jumps + empty):.0%} of jumps found their energy ring empty "
            "in the file of the hotter chain. Lengthen warm-up, or raise levels."
        )
    if jumps and stats["n_jumps_accepted"].sum() < FEW_ACCEPTED * jumps:
        said.append(
            f"equi_energy: {stats['n_jumps_accepted'].sum() / jumps:.0%} of jumps were accepted: "
            "rings are too wide. Raise levels, or lower highest_temperature."
        )
    if len(stats["ring"]) < FEWEST_CHAINS:
        said.append(
            "equi_energy: the error of its files is common to all draws of a chain, and only "
            f"several chains tell how large it is: run at least {FEWEST_CHAINS}."
        )
    return Findings(messages=said)


@reports_for(
    continuous_tempering.Settings,
    parallel_tempering.Settings,
    pseudo_extended.Settings,
    simulated_tempering.Settings,
    smc.Settings,
)
def report(view: RunView) -> Findings:
    """Return the group `tempering`, and one message per kind of doubt."""
    target, chains, stats = view.target, view.chains, view.sample_stats
    found, name = chains[0].sampler, view.sampler_name
    # constants are dropped only where the density comes with its gradient
    position = chains[0].state.current.position
    constant = target.dropped_constant(position) if found.uses_gradient else 0.0
    assert found.tempering is not None  # of samplers without, nothing is asked here
    learned = [found.tempering.learned(chain.state) for chain in chains]
    if target.factor is not None:
        learned = [_in_original_coordinates(target, one) for one in learned]
    group = evidence.group(learned, constant)
    evidence.add_errors(group)
    if "ancestors" in group:
        messages = evidence.particle_sentences(name, group, stats)
    else:
        messages = evidence.sentences(name, group, stats)
    messages += _on_chains(name, chains, view.length)
    # positions of a pseudo-extension are not those of its draws
    if target.base.moves_parameters:
        messages += _on_modes(target.target, chains, group)
    return Findings({}, messages, {"tempering": group})


def _in_original_coordinates(target: Samplable, learned: dict[str, Any]) -> dict[str, Any]:
    """Translate what was learned in coordinates z, x = m + L z with a diagonal L.

    The reference is a density of z, that of x times |det L|: an integral over z of p^b p0^(1 - b)
    is |det L|^-b times that over x. Without a reference it is 1 / |det L| times that of p^b.
    """
    assert target.factor is not None
    volume, found = target.log_volume, dict(learned)
    referred = np.isfinite(learned["log_evidence"])
    power = learned["temperature"] if referred else 1.0
    found["log_normalizer"] = learned["log_normalizer"] + power * volume
    found["log_evidence"] = learned["log_evidence"] + volume
    found["short_chain"] = target.original(learned["short_chain"])
    if "weighted_particle" in learned:
        found["weighted_particle"] = target.original(learned["weighted_particle"])
    if "reference_mean" in learned:
        found["reference_mean"] = target.original(learned["reference_mean"])
        found["reference_sd"] = learned["reference_sd"] * np.abs(target.factor[0])
    return found


def _on_chains(name: str, chains: list[Chain], length: int) -> list[str]:
    """Report chains that disagree, in any column or in the log density."""
    if len(chains) < 2 or length < 4:
        return []
    draws = np.stack([chain.sampling.constrained[:length] for chain in chains])
    columns = [*np.moveaxis(draws, 2, 0), np.stack([c.sampling.stats[:length, 0] for c in chains])]
    moving = [x for x in columns if np.isfinite(x).all() and np.ptp(x) > 0]
    largest = max((float(arviz_module().rhat(x)) for x in moving), default=1.0)
    if largest <= LARGEST_R_HAT:
        return []
    return [
        f"{name}: R-hat is {largest:.2f}: chains disagree on the weights of modes, or are stuck in "
        "some. Sample longer, lengthen warm-up, or give a reference distribution "
        "(reference_distribution, prior_data); stanadapt.modes shows which chain visited what."
    ]


def _on_modes(target: Target, chains: list[Chain], group: xr.Dataset) -> list[str]:
    """Report modes that differ much in volume, and regions that only warm-up visited."""
    name, messages = chains[0].sampler.name, []
    draws, draws_lp = _some_draws(target, chains)
    if not len(draws):
        return []
    if not target.noise_size:  # an estimated density cannot be climbed
        messages += volume_messages(name, log_volumes(target.evaluate, draws))
    ends, lp = (group[n].values for n in ("short_chain", "short_chain_lp"))
    finite = np.isfinite(lp)
    if finite.any():
        count = count_unvisited(ends[finite], lp[finite], draws, draws_lp, target.value)
        messages += unvisited_messages(name, count, int(finite.sum()))
    return messages


def _some_draws(target: Target, chains: list[Chain]) -> tuple[np.ndarray, np.ndarray]:
    """Positions, evenly spaced in each chain, shape (draw, dim), and their log density."""
    rows, lps = [], []
    for chain in chains:
        count = DRAWS // len(chains)
        kept = np.linspace(0, chain.sampling.rows - 1, count).astype(int)
        lps.append(chain.sampling.stats[kept, 0])
        rows.append(chain.sampling.constrained[kept])
    draws = target.unconstrain_rows(np.concatenate(rows))
    fine = np.isfinite(draws).all(axis=1)
    return draws[fine], np.concatenate(lps)[fine]
