"""Modes of very unequal volume, of which tempering loses the small ones.

At inverse temperature b, the share of a mode of weight w and volume v is about proportional to
w^b v^(1 - b): tempered states find modes according to their volume. Where the visited modes
already differ a hundredfold, still smaller ones may have been missed. The volume is that of the
normal distribution with the curvature at the mode.
"""

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.diagnostics.hill_climb import Evaluate, climb, frame_of

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


def messages(name: str, volumes: np.ndarray) -> list[str]:
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
