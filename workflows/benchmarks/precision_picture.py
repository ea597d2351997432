"""Errors of means against gradients, crude and with control variates: the picture of the page.

A file of its own, since `precision` has the tables.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import bundled
from workflows.benchmarks.samplers import show

PROGRAMS = (
    "logistic/pima", "student_t", "linear", "negative_binomial", "eight_schools_noncentered",
)  # fmt: skip
SAMPLERS = {"auto": "stanadapt", "stan_nuts": "NUTS", "nutpie_low_rank": "nutpie, low rank"}
LENGTHS = (25, 50, 100, 250, 500, 1000)  # draws per chain
REFERENCE = 4000  # draws per chain, of a fit of another seed


def make(folder, draw, programs, seeds):
    """Measure, write the table, and draw the picture."""
    lines = []
    for name in programs.split(",") if programs else PROGRAMS:
        target = sa.Target(*bundled.find(*name.split("/")), show_progress=False)
        long = sa.sample(target, seed=2**31, iter_sampling=REFERENCE, show_progress=False)
        truth = sa.expectations(long, target, probabilities=[], show_progress=False)
        truth = truth.loc[list(results.columns(long, wanted=target.recorded_parameters))]
        for sampler in SAMPLERS:
            errors = [
                _errors(draw(target, sampler, seed + 1), target, truth) for seed in range(seeds)
            ]
            for one in zip(*errors, strict=True):
                draws, gradients, crude, controlled = np.array(one, float).T
                lines.append({
                    "program": name, "sampler": sampler, "draws": int(draws[0]),
                    "gradients": np.median(gradients), "crude": np.sqrt(np.mean(crude**2)),
                    "controlled": np.sqrt(np.mean(controlled**2)),
                })  # fmt: skip
            pd.DataFrame(lines).to_csv(folder / "errors.csv", index=False)
    table = pd.DataFrame(lines)
    show("largest error of a mean, in standard deviations", table)
    picture(table).savefig(folder / "errors.svg", metadata={"Date": None})


def _errors(fit, target, truth):
    """Return draws, gradients, and largest errors of means, of the first draws of each chain."""
    taken, warmup = (
        float(results.attribute(fit, f"n_gradients{part}", 0)) for part in ("", "_warmup")
    )
    size = results.dataset(fit, "posterior").sizes["draw"]
    rows, others = [], {"missing_dims": "ignore"} if hasattr(fit, "children") else {}
    for draws in LENGTHS:
        some = fit.isel(draw=slice(draws), **others)
        crude = {n: x.mean() for n, x in results.columns(some).items()}
        gradients = warmup + (taken - warmup) * draws / size + 4 * draws
        controlled = pd.Series(crude)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = sa.expectations(some, target, probabilities=[], show_progress=False)
                controlled = found["mean"]
            except sa.StanadaptError:  # of so few draws
                gradients -= 4 * draws
        worst = [
            float((np.abs(pd.Series(one)[truth.index] - truth["mean"]) / truth["sd"]).max())
            for one in (crude, controlled)
        ]
        rows.append((draws, gradients, *worst))
    return rows


def picture(table):
    """Draw a panel for each program: crude errors dashed, controlled ones solid."""
    names = table["program"].unique()
    figure, axes = plt.subplots(
        1, len(names), figsize=(2.6 * len(names), 3.2), sharex=True, sharey=True
    )
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        for color, (sampler, label) in enumerate(SAMPLERS.items()):
            part = table[(table["program"] == name) & (table["sampler"] == sampler)]
            axis.loglog(part["gradients"], part["crude"], "--", color=f"C{color}", linewidth=1)
            found = part["controlled"]
            axis.loglog(part["gradients"], found, "o-", color=f"C{color}", markersize=3,
                        label=label)  # fmt: skip
        axis.axhline(0.01, color="0.6", linewidth=0.6)
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("gradients")
    axis = np.atleast_1d(axes)[0]
    axis.set_ylabel("largest error of a mean, in sds")
    axis.legend(fontsize=7)
    figure.tight_layout()
    return figure
