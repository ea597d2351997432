"""Gibbs steps against joint ones on Glass: alternate between scales and latent values, or not.

    python -m workflows.kameleon.glass_gibbs --quick    # does it run?
    python -m workflows.kameleon.glass_gibbs            # a minute

Sejdinovic et al. (2014) claim that Gibbs steps fail, since theta given the latent values f is much
narrower than theta, and replace them by pseudo-marginal steps in theta. Here both have the same
random walk in theta, in units of the posterior standard deviations, tuned to the same acceptance
rate. Gibbs: f given theta by elliptical slice sampling, theta given f by a Metropolis step. Joint:
theta by a Metropolis step with an unbiased estimate of p(y | theta), one importance sample around
Laplace's approximation.

Elliptical slice sampling: Murray, Adams and MacKay (2010), AISTATS.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stanadapt.diagnostics.mixing import efficiency
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.kameleon.glass import EARLIER, FEATURES
from workflows.kameleon.glass_slice import Classification

NAME = "kameleon/glass_gibbs"
CONVENTION, TARGET_ACCEPT = 2, 0.234
CHAINS, WARMUP, DRAWS = 2, 300, 1_000
QUICK, QUICK_CHAINS = 5, 2
CAPTION = (
    "Scale: of the random walk in theta, in posterior standard deviations, after warm-up; both are "
    f"tuned to acceptance rate {TARGET_ACCEPT}. Effective draws: ArviZ's bulk ESS of the nine "
    "theta, chains together. Distance: of the mean of theta from the earlier mean, in posterior "
    "standard deviations, the largest. Seconds are those of NumPy, for all chains. Convention 2 of "
    "theta, that of the paper's text."
)


class Point(NamedTuple):
    """Theta, with the latent values and log p(theta | f), or an estimate of log p(theta, y)."""

    theta: np.ndarray
    latent: np.ndarray
    log_density: float


class Walk(NamedTuple):
    """Draws of theta, shape (draw, coordinate); acceptance rate, and scale of the random walk."""

    draws: np.ndarray
    accepted: float
    scale: float


def gibbs_step(
    model: Classification, point: Point, move: np.ndarray, rng: np.random.Generator
) -> tuple[Point, float]:
    """Move f given theta, then theta given f; the new point, and the acceptance rate of theta."""
    latent = slice_step(model, point.theta, point.latent, rng)
    here = model.log_conditional(point.theta, latent)
    there = model.log_conditional(point.theta + move, latent)
    rate = float(np.exp(min(there - here, 0.0)))
    if rng.random() < rate:
        return Point(point.theta + move, latent, there), rate
    return Point(point.theta, latent, here), rate


def joint_step(
    model: Classification, point: Point, move: np.ndarray, rng: np.random.Generator
) -> tuple[Point, float]:
    """Move theta together with a new f; the new point, and the acceptance rate."""
    proposal = joint_point(model, point.theta + move, rng)
    rate = float(np.exp(min(proposal.log_density - point.log_density, 0.0)))
    return (proposal if rng.random() < rate else point), rate


def joint_point(model: Classification, theta: np.ndarray, rng: np.random.Generator) -> Point:
    """Return theta with f and an estimate of log p(theta, y)."""
    latent, log_weight = model.weighted_latent(theta, rng)
    return Point(theta, latent, log_weight + model.log_prior(theta))


def slice_step(
    model: Classification, theta: np.ndarray, latent: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Move f given theta and the labels: elliptical slice sampling."""
    drawn = np.linalg.cholesky(model.covariance(theta)) @ rng.standard_normal(len(latent))
    level = model.log_likelihood(latent) + np.log(rng.random())
    angle = rng.uniform(0, 2 * np.pi)
    low, high = angle - 2 * np.pi, angle
    while True:
        moved = latent * np.cos(angle) + drawn * np.sin(angle)
        if model.log_likelihood(moved) > level:
            return moved
        low, high = (angle, high) if angle < 0 else (low, angle)
        angle = rng.uniform(low, high)


def walk(
    model: Classification,
    step: Callable[..., tuple[Point, float]],
    sd: np.ndarray,
    start: Point,
    lengths: tuple[int, int],
    rng: np.random.Generator,
) -> Walk:
    """Run one chain; `sd` are units of the random walk, shape (coordinate,)."""
    point, log_scale, rates, draws = start, np.log(2.38 / np.sqrt(len(sd))), [], []
    warmup, count = lengths
    for t in range(warmup + count):
        move = np.exp(log_scale) * sd * rng.standard_normal(len(sd))
        point, rate = step(model, point, move, rng)
        if t < warmup:
            log_scale += (rate - TARGET_ACCEPT) / np.sqrt(1.0 + t)
        else:
            rates.append(rate)
            draws.append(point.theta)
    return Walk(np.array(draws), float(np.mean(rates)), float(np.exp(log_scale)))


STEPS = {"Gibbs, theta and f in turn": gibbs_step, "joint, pseudo-marginal": joint_step}


def measured(method: str, walks: list[Walk], seconds: float) -> dict[str, Any]:
    """Return the numbers of a method."""
    mean, sd = EARLIER[CONVENTION]
    draws = np.stack([each.draws for each in walks])
    columns = {name: draws[..., i] for i, name in enumerate(FEATURES)}
    ess = 1000.0 * efficiency(columns).ess_bulk / draws[..., 0].size
    return {
        "method": method, "chains": len(walks), "draws": draws.shape[1],
        "scale": float(np.mean([each.scale for each in walks])),
        "accepted": float(np.mean([each.accepted for each in walks])),
        "ess_min_per_1000": float(ess.min()), "ess_median_per_1000": float(np.median(ess)),
        "distance": float(np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max()),
        "seconds": seconds,
    }  # fmt: skip


def run(chains: int, lengths: tuple[int, int], seed: int) -> pd.DataFrame:
    """Run both methods from draws of theta; one row each."""
    model, (mean, sd), rows = Classification.of_glass(), EARLIER[CONVENTION], []
    for number, (method, step) in enumerate(STEPS.items()):
        began, walks = time.perf_counter(), []
        for child in np.random.SeedSequence([seed, number]).spawn(chains):
            rng = np.random.default_rng(child)
            start = joint_point(model, mean + sd * rng.standard_normal(len(mean)), rng)
            walks.append(walk(model, step, sd, start, lengths, rng))
        rows.append(measured(method, walks, time.perf_counter() - began))
    return pd.DataFrame(rows)


def main() -> None:
    """Run, print, write."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "tiny lengths").parse_args()
    record.folder(NAME, args.out)
    chains, lengths = (
        (QUICK_CHAINS, (QUICK, 2 * QUICK)) if args.quick else (CHAINS, (WARMUP, DRAWS))
    )
    rows = run(chains, lengths, args.seed)
    lines = [
        {
            "method": row["method"], "scale": f"{row['scale']:.2f}",
            "accepted": f"{row['accepted']:.2f}",
            "effective draws per 1,000, smallest": f"{row['ess_min_per_1000']:.1f}",
            "median": f"{row['ess_median_per_1000']:.1f}",
            "distance": f"{row['distance']:.2f}", "seconds": f"{row['seconds']:.0f}",
        }
        for _, row in rows.iterrows()
    ]  # fmt: skip
    conclude(NAME, args, Results({"Glass": text_table(lines)}, [rows], [], []), CAPTION, began)


if __name__ == "__main__":
    main()
