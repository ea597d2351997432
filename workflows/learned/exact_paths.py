"""A random walk on a correlated Gaussian, and integrators next to paths that are known exactly.

    python -m workflows.learned.exact_paths --quick    # does it run?
    python -m workflows.learned.exact_paths            # a few seconds

The figures of the lecture on Hamiltonian Monte Carlo: random-walk Metropolis on a Gaussian with
correlation 0.99, which moves by small steps; a harmonic oscillator, which moves on a circle; and a
puck that slides without friction on a slope, up and then down, on a parabola.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.learned.integrators import METHODS, System, trajectory
from workflows.pictures import plt, saved
from workflows.tempering.runs import collected_warnings

NAME = "learned/exact_paths"
STEP, STEPS, QUICK_STEPS = 0.3, 40, 8
SLOPE = 0.8  # potential energy of the puck per unit of position
WARMUP, SHOWN, QUICK_SHOWN = 2_000, 400, 50
EXPECTED = {
    ("oscillator", "Euler"): "energy × (1 + e²) a step",
    ("puck on a slope", "leapfrog"): "0",
    ("puck on a slope", "Euler"): "slope × e × t / 2",
    ("puck on a slope", "symplectic Euler"): "slope × e × t / 2",
}
CAPTION = (
    f"Steps of e = {STEP}. Error: largest distance of position and momentum from the exact path at "
    "the same time. On a slope the force is constant: leapfrog steps are exact, and both kinds of "
    "Euler's are off in position by half the slope times e times the time. Random walk: one chain "
    "of `rwm`, its scale tuned, on stan_models/gaussian/two_dim."
)
ExactPath = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Known(NamedTuple):
    """A system, and its exact position and momentum at given times, each of shape (time,)."""

    system: System
    exact: ExactPath


def oscillator(q: float, p: float) -> Known:
    """U = q^2 / 2: the path is a circle, q = r cos(a + t), p = -r sin(a + t)."""
    radius, angle = np.hypot(q, p), np.arctan2(-p, q)
    system = System("oscillator", lambda x: 0.5 * float(x @ x), lambda x: x, [_start(q, p)], STEP)
    return Known(system, lambda t: (radius * np.cos(angle + t), -radius * np.sin(angle + t)))


def puck(q: float, p: float) -> Known:
    """U = slope q: the momentum falls evenly, the position follows a parabola."""
    system = System(
        "puck on a slope", lambda x: SLOPE * float(x[0]), lambda x: np.full(1, SLOPE),
        [_start(q, p)], STEP,
    )  # fmt: skip
    return Known(system, lambda t: (q + p * t - 0.5 * SLOPE * t**2, p - SLOPE * t))


def _start(q: float, p: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([q]), np.array([p])


def systems() -> list[Known]:
    """Return both systems with their starts."""
    return [oscillator(1.2, 0.9), puck(0.0, 3.0)]


def paths(known: Known, steps: int) -> pd.DataFrame:
    """Return position and momentum by every method and exactly, one row per method and step."""
    times = STEP * np.arange(steps + 1)
    rows = []
    for name, step in METHODS.items():
        q, p, _ = trajectory(step, known.system, known.system.starts[0], STEP, steps)
        rows.append(_path(known, name, times, q[:, 0], p[:, 0]))
    rows.append(_path(known, "exact", times, *known.exact(times)))
    return pd.concat(rows, ignore_index=True)


def _path(known: Known, name: str, times: np.ndarray, q: np.ndarray, p: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"system": known.system.name, "method": name, "time": times, "position": q, "momentum": p}
    )


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the largest distance from the exact path, by system and method."""
    found = []
    for system, part in rows.groupby("system", sort=False):
        exact = part[part["method"] == "exact"][["position", "momentum"]].to_numpy()
        for name in METHODS:
            mine = part[part["method"] == name][["position", "momentum"]].to_numpy()
            distance = np.linalg.norm(mine - exact, axis=1).max()
            found.append({"system": system, "method": name, "error": distance})
    return pd.DataFrame(found)


def random_walk(shown: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return draws in a row of one chain, and the covariance of the target."""
    program, data = bundled.find("gaussian", "two_dim")
    with collected_warnings():  # that the walk is slow is what the figure shows
        fit = sa.sample(
            sa.Target(program, data, show_progress=False), "rwm", chains=1, iter_warmup=WARMUP,
            iter_sampling=shown, seed=seed, standardize=False, show_progress=False,
        )  # fmt: skip
    x = fit["posterior"]["x"].values[0]
    covariance = np.array(json.loads(data.read_text(encoding="utf-8"))["Sigma"])
    return pd.DataFrame(x.round(4), columns=["x1", "x2"]), covariance


def draw(path: Path, rows: pd.DataFrame, walk: pd.DataFrame, covariance: np.ndarray) -> Path:
    """Draw the random walk, and each system in phase space."""
    names = list(rows["system"].unique())
    figure, axes = plt.subplots(1, 1 + len(names), figsize=(14, 4.2), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.linalg.cholesky(covariance) @ np.array([np.cos(angle), np.sin(angle)])
    for level in (1, 2):
        axes[0].plot(*(level * circle), color="tab:green", lw=1)
    axes[0].plot(walk["x1"], walk["x2"], "o-", ms=2, lw=0.5, color="tab:blue")
    axes[0].set(title=f"random walk, {len(walk)} iterations", xlabel="x[1]", ylabel="x[2]")
    for panel, name in zip(axes[1:], names, strict=True):
        for method, part in rows[rows["system"] == name].groupby("method", sort=False):
            inside = part[(part["position"].abs() < 40) & (part["momentum"].abs() < 40)]
            style = {"color": "k", "lw": 2.5, "alpha": 0.4} if method == "exact" else {
                "marker": "o", "ms": 2.5, "lw": 0.7
            }  # fmt: skip
            panel.plot(inside["position"], inside["momentum"], label=method, **style)
        panel.set(title=name, xlabel="position", ylabel="momentum")
        panel.legend(frameon=False, fontsize=8)
    return saved(figure, path)


def main() -> None:
    """Compute, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "few steps").parse_args()
    folder = record.folder(NAME, args.out)
    steps, shown = (QUICK_STEPS, QUICK_SHOWN) if args.quick else (STEPS, SHOWN)
    rows = pd.concat([paths(known, steps) for known in systems()], ignore_index=True)
    walk, covariance = random_walk(shown, args.seed)
    walk_file = folder / "exact_paths_walk.csv"
    walk.to_csv(walk_file, index=False)
    figure = draw(folder / "exact_paths.png", rows, walk, covariance)
    table = text_table(
        [
            {
                "system": line.system, "method": line.method, "error": f"{line.error:.2g}",
                "expected": EXPECTED.get((line.system, line.method), ""),
            }
            for line in errors(rows).itertuples()
        ]
    )  # fmt: skip
    results = Results({"Distance from the exact path": table}, [rows], [], [walk_file, figure])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
