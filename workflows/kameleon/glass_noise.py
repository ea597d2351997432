"""The noise in the estimate of Glass's likelihood, and earlier measurements of it.

Two standard deviations slow a pseudo-marginal chain down: of log phat over its noise u, and, if
noise is correlated (rho), of log phat(y, u') / phat(x, u) for one move from x to y. The second
does not vanish as rho approaches 1, because y differs from x.
"""

import json

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets import noise
from stanadapt.targets.stan import bundled

# our earlier implementation, convention 1: mean sd of log phat over 20 draws, by M; and, by rho,
# sd of the error of the log ratio for "one typical move" at M = 1, of a size not recorded
LEVELS = {1: 0.51, 5: 0.235, 100: 0.056}
RATIOS = {0.0: 0.74, 0.5: 0.59, 0.9: 0.31, 0.99: 0.21}
DIM = 9
# of moves, in posterior standard deviations: those proposed, and half of that, which is closer to
# those accepted
SIZES = {"whole": 2.38 / np.sqrt(DIM), "half": 1.19 / np.sqrt(DIM)}
NOTE = (
    "M importance samples; sd of log phat at the posterior's center (the earlier mean), then mean "
    "and largest sd over draws of the benchmark. Move: from a draw x of the benchmark to y = x + "
    "2.38 / sqrt(9) sd z, z ~ N(0, I), with the benchmark's sd of each coordinate, or half as far; "
    "noise u ~ N(0, I) at x, rho u + sqrt(1 - rho^2) eps at y. For rho near 1, the remaining sd is "
    "due to the move."
)


def bound(convention: int, samples: int) -> sa.Target:
    """Bind the program to the data, with M = samples and the given convention of theta."""
    program, data = bundled.find("glass")
    content = json.loads(data.read_text(encoding="utf-8"))
    changed = {**content, "convention": convention, "M": samples}
    return sa.Target(program, changed, noise=["u"])


def levels(
    convention: int, center: np.ndarray, positions: np.ndarray, draws: int, seed: int
) -> pd.DataFrame:
    """Measure the sd of log phat, one row per number of importance samples.

    Parameters
    ----------
    convention
        Convention of theta; the earlier numbers are for convention 1.
    center, positions
        Values of theta, shapes (9,) and (n, 9).
    draws
        Number of estimates at each of them, under each of two seeds.
    seed
        Random seed of all estimates.
    """
    rows = []
    for samples, expected in LEVELS.items():
        target = bound(convention, samples)
        middle, *others = [
            noise.estimate(target, _with_noise(target, theta), draws, seed + i)
            for i, theta in enumerate([center, *positions])
        ]
        sds = [estimate.sd for estimate in others]
        rows.append((samples, middle.sd, np.mean(sds), np.max(sds), _known(convention, expected)))
    heads = ["M", "sd at the center", "mean sd at draws", "largest sd", "earlier mean sd"]
    return pd.DataFrame(rows, columns=heads)


def ratios(
    target: sa.Target, convention: int, positions: np.ndarray, sd: np.ndarray, draws: int, seed: int
) -> pd.DataFrame:
    """Measure the sd of the error of the log ratio for moves from `positions`, one row per rho.

    All rho share positions, moves and noise, so that only rho differs. The true ratio is the same
    for all noise of one move, so that it need not be known.
    """
    rng = np.random.default_rng(seed)
    sds_of_moves = []
    for x in positions:
        move = sd * rng.standard_normal(DIM)
        ends = [x + size * move for size in SIZES.values()]
        ratios = [_log_ratios(target, x, ends, rng) for _ in range(draws)]
        sds_of_moves.append(np.std(ratios, axis=0, ddof=1))
    table = pd.DataFrame({"rho": list(RATIOS)})
    for k, name in enumerate(SIZES):
        sds = np.array(sds_of_moves)[:, k]
        table[f"{name} move: mean sd"] = sds.mean(axis=0)
        table[f"{name} move: largest"] = sds.max(axis=0)
    table["earlier sd"] = [_known(convention, expected) for expected in RATIOS.values()]
    return table


def _log_ratios(
    target: sa.Target, x: np.ndarray, ends: list[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return log phat(y, u') - log phat(x, u), shape (y, rho), for every y of `ends`."""
    u, fresh = rng.standard_normal((2, target.noise_size))
    moved = [rho * u + np.sqrt(1 - rho**2) * fresh for rho in RATIOS]
    at_ends = [[_log_estimate(target, y, noise) for noise in moved] for y in ends]
    return np.array(at_ends) - _log_estimate(target, x, u)


def _log_estimate(target: sa.Target, theta: np.ndarray, u: np.ndarray) -> float:
    """Without log N(u), which is part of the program's density."""
    return target.value(np.concatenate([theta, u])) + 0.5 * u @ u


def _with_noise(target: sa.Target, theta: np.ndarray) -> np.ndarray:
    return np.concatenate([theta, np.zeros(target.noise_size)])


def _known(convention: int, expected: float) -> float:
    return expected if convention == 1 else np.nan
