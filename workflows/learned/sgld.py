"""Stochastic gradient Langevin dynamics: its bias, in closed form and on a regression.

    python -m workflows.learned.sgld --quick    # does it run?
    python -m workflows.learned.sgld

On the mean of normal rows: the variance of draws against the step size, with batches, with control
variates and with all rows, and in closed form. On a regression of many rows: the bias against
exact draws, the effective draws and the seconds of each.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.samplers.langevin import Minibatches
from workflows import record, terminal
from workflows.conclude import Results, conclude
from workflows.pictures import plt, saved

NAME = "learned/sgld"
NORMAL = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 10); y ~ normal(mu, 1); }
"""
REGRESSION = """
data { int<lower=0> N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ exponential(1); y ~ normal(a + b * x, s); }
"""
ROWS, BATCHES = 100, 10
# steps as shares of 4 s^2, at which the chain becomes unstable
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
CAPTION = (
    "Mean of normal rows: variance of the draws of sgld over the exact one, by closed form "
    "(1 + e V / 4) / (1 - e / (4 s^2)) and measured, at constant steps e, V the variance of the "
    "gradient's noise. Regression: bias of means in sd of the exact draws, and of sd, relative, "
    "with z, how many Monte Carlo errors the larger one is; seconds of all chains, warm-up counted."
)


def normal_target() -> sa.Target:
    """Normal rows with an unknown mean."""
    y = np.random.default_rng(5).normal(0.4, 1.0, ROWS)
    return sa.Target(NORMAL, {"N": ROWS, "y": y}, show_progress=False)


def kinds(target: sa.Target, rows: list[str], batches: int) -> dict[str, Any]:
    """Which gradients sgld may take."""
    reduced = Minibatches(target, rows, batches, control_variates=True)
    return {
        "batches": Minibatches(target, rows, batches),
        "control variates": reduced,
        "all rows": target,
    }


def closed_form(step: float, noise: float, precision: float) -> float:
    """Variance of draws over 1 / precision, of a Gaussian under a constant step."""
    return (1.0 + 0.25 * step * noise) / (1.0 - 0.25 * step * precision)


def variances(draws: int, shares: tuple, seed: int) -> pd.DataFrame:
    """One row per kind of gradient and step."""
    target, precision, rows = normal_target(), 0.01 + ROWS, []
    for kind, sampled in kinds(target, ["y"], BATCHES).items():
        batches = isinstance(sampled, Minibatches)
        noise = float(sampled.gradient_noise(np.zeros(1))[0, 0]) if batches else 0.0
        for share in shares:
            step = share * 4.0 / precision
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = sa.sample(
                    sampled, "sgld", first_step=step, decay=0.0, standardize=False, seed=seed,
                    iter_warmup=500, iter_sampling=draws, show_progress=False,
                )  # fmt: skip
            square = (1.0 - 2.0 * share) ** 2
            expected = closed_form(step, noise, precision)
            error = np.sqrt(2.0 / (4 * draws * (1.0 - square) / (1.0 + square)))
            variance = float(fit["posterior"]["mu"].values.var() * precision)
            rows.append(
                {
                    "gradients": kind, "step": step, "V": noise, "closed form": expected,
                    "measured": variance, "z": (variance / expected - 1.0) / error,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def regression(count: int, batches: int, draws: int, seed: int) -> pd.DataFrame:
    """Measure the bias of sgld against exact draws."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=count)
    data = {"N": count, "x": x, "y": 1.0 + 2.0 * x + rng.normal(size=count)}
    target = sa.Target(REGRESSION, data, show_progress=False)
    quiet: dict[str, Any] = {"seed": seed, "show_progress": False}
    fits = {"exact": sa.sample(target, **quiet)}
    with warnings.catch_warnings():  # warnings that sgld is not exact, which the table shows
        warnings.simplefilter("ignore")
        for kind, sampled in kinds(target, ["x", "y"], batches).items():
            fits[kind] = sa.sample(sampled, "sgld", iter_sampling=draws, **quiet)
        fits["ula"] = sa.sample(target, "ula", **quiet)
    table = sa.compare(fits, "exact")
    table["seconds"] = table["seconds_warmup"] + table["seconds_sampling"]
    columns = ["bias_mean", "z_mean", "bias_sd", "z_sd", "ess_bulk_min", "seconds"]
    return table[columns].rename_axis("fit").reset_index()


def as_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Return numbers with three digits, and blanks for unknown ones."""
    shown = rows.astype(object)
    for column in rows.select_dtypes("number"):
        shown[column] = ["" if v != v else f"{v:.3g}" for v in rows[column]]
    return shown.astype(str)


def draw(path: Path, rows: pd.DataFrame) -> Path:
    """Variances over the exact one against the step."""
    figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for kind in dict.fromkeys(rows["gradients"]):
        mine = rows[rows["gradients"] == kind]
        (line,) = axis.loglog(mine["step"], mine["closed form"] - 1.0, lw=0.8)
        axis.loglog(mine["step"], mine["measured"] - 1.0, "o", color=line.get_color(), label=kind)
    axis.set(xlabel="step e", ylabel="variance / exact - 1", title="lines: closed form")
    axis.legend(frameon=False, fontsize=8)
    return saved(figure, path, 120)


def main() -> None:
    """Sample, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "short runs").parse_args()
    folder = record.folder(NAME, args.out)
    if args.quick:
        rows = variances(5000, SHARES[2:4], args.seed)
        biases = regression(1000, 10, 5000, args.seed)
    else:
        rows = variances(100_000, SHARES, args.seed)
        biases = regression(20_000, 50, 100_000, args.seed)
    sections = {"Variance at constant steps": as_text(rows), "Regression": as_text(biases)}
    parts = [rows.assign(part="variance"), biases.assign(part="regression")]
    results = Results(sections, parts, [], [draw(folder / "sgld.png", rows)])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
