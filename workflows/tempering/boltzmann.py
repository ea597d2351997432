"""A Boltzmann machine of 28 spins, relaxed: figures 4, 5 and 8 of Nemeth et al. (2019).

    python -m workflows.tempering.boltzmann --quick        # does it run?
    python -m workflows.tempering.boltzmann
    python -m workflows.tempering.boltzmann --system system_1 --repeats 3

How far is the estimated mean from the exact one, over all coordinates, when every method uses the
same number of gradients? The methods include the paper's fixed temperatures, and two reference
distributions for ours: a learned one, and the Gaussian around zero with the exact widths.
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.samplers.tempering import ReferenceDistribution
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import study
from workflows.tempering.published import (
    BOLTZMANN,
    BOLTZMANN_FIXED,
    BOLTZMANN_LOG_Z,
    BOLTZMANN_REDONE,
)
from workflows.tempering.rivals import IN_ANY_DIMENSION, with_given_widths
from workflows.tempering.runs import STAN, Chain, Method, recipe
from workflows.tempering.scatter import scatter

mpl.use("Agg")
import matplotlib.pyplot as plt

NAME = "tempering/boltzmann"
GIVEN = ", widths given"
# a few weights without a given reference mean little; one pseudo-sample, and many of them
LEFT_OUT = ("annealed importance sampling", "pseudo_extended, N = 1", "pseudo_extended, N = 20")
TEMPERATURES = tuple(BOLTZMANN_FIXED)
QUICK_METHODS = ("our NUTS", "parallel_tempering", "pseudo_extended, N = 2", "NUTS, b = 0.5")
SHOWN = 10_000  # draws of the first chain
CAPTION = (
    study.EQUAL + "RMSE of the mean over all coordinates: the median over repeats, then each "
    "repeat. log Z: mean and standard deviation over repeats. 'widths given': the reference "
    "distribution is the Gaussian around 0 with the exact standard deviations, which a user does "
    "not know. 'NUTS, b = ': NUTS on the paper's joint density of two pseudo-samples, all at that "
    "inverse temperature; 'free': inverse temperatures uniform on (0.1, 0.9). 'paper': medians of "
    "10 repeats of 10,000 iterations, at any cost, read off the authors' poster; 'redone': "
    "the authors' programs run again, one or two runs each. The exact log Z of the authors' "
    f"relaxation is {BOLTZMANN_LOG_Z}."
)


class Known(NamedTuple):
    """A system: its target, exact means and standard deviations, shape (dim,), and log evidence."""

    target: sa.Target
    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float


def known(system: str) -> Known:
    """Read a system and its exact moments."""
    program, data = bundled.find("boltzmann", system)
    exact = json.loads((program.parent / "known_moments.json").read_text())[system]
    mean, sd = np.array(exact["mean"]["x"]), np.array(exact["sd"]["x"])
    return Known(sa.Target(program, data), mean, sd, exact["log_evidence"])


def methods(sd: np.ndarray) -> dict[str, Method]:
    """All methods by name; sd is that of the given reference distribution."""
    given = {"reference_distribution": ReferenceDistribution(np.zeros(len(sd)), sd)}
    return {
        "Stan's NUTS": Method(STAN),
        "our NUTS": Method("nuts"),
        **{name: rival for name, rival in IN_ANY_DIMENSION.items() if name not in LEFT_OUT},
        **with_given_widths(GIVEN, given),
        "NUTS, free b": recipe(2, between=(0.1, 0.9)),
        **{f"NUTS, b = {b}": recipe(2, temperature="fixed", fixed_at=b) for b in TEMPERATURES},
    }


def measured(system: Known, chain: Chain) -> dict[str, float]:
    """The numbers of one repeat."""
    error = chain.vector().mean(axis=0) - system.mean
    return {
        "rmse": float(np.sqrt(np.mean(error**2))), "log_evidence": chain.log_evidence,
        "barrier": chain.barrier,
    }  # fmt: skip


def ours(name: str, rows: pd.DataFrame) -> dict[str, str]:
    """One row of the table."""
    tempers = rows["log_evidence"].notna().all()
    return {
        "method": name, "from": "here", "repeats": str(len(rows)),
        "RMSE": f"{rows['rmse'].median():.2f}",
        "each": " ".join(f"{value:.2f}" for value in rows["rmse"]),
        "log Z": study.spread(rows["log_evidence"], 2) if tempers else "",
        "barrier": study.spread(rows["barrier"], 1) if rows["barrier"].notna().all() else "",
        **study.shown_costs(rows),
    }  # fmt: skip


def table(system: Known, rows: pd.DataFrame, with_published: bool) -> pd.DataFrame:
    """Our rows above the published ones, which exist for system 10 only."""
    lines = [{"method": "truth", "from": "exact", "log Z": f"{system.log_evidence:.3f}"}]
    lines += [ours(name, group) for name, group in rows.groupby("method", sort=False)]
    if with_published:
        medians = BOLTZMANN | {f"PE, b = {b}": value for b, value in BOLTZMANN_FIXED.items()}
        lines += [
            {"method": name, "from": "paper", "repeats": "10", "RMSE": f"{value:.2f}"}
            for name, value in medians.items()
        ]
        lines += [
            {
                "method": name, "from": "redone", "repeats": str(len(values)),
                "RMSE": f"{np.median(values):.2f}", "each": " ".join(f"{v:.2f}" for v in values),
            }
            for name, values in BOLTZMANN_REDONE.items()
        ]  # fmt: skip
    return text_table(lines)


def fixed_temperatures(path: Path, rows: pd.DataFrame, with_published: bool) -> Path:
    """Figure 5: RMSE against the fixed inverse temperature; other methods are horizontal lines."""
    median = rows.groupby("method", sort=False)["rmse"].median()
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    fixed = {b: median[f"NUTS, b = {b}"] for b in TEMPERATURES if f"NUTS, b = {b}" in median}
    axes.plot(fixed.keys(), fixed.values(), "o-", label="here: NUTS, fixed b, N = 2")
    if with_published:
        published = BOLTZMANN_FIXED
        axes.plot(published.keys(), published.values(), "D-", color="0.6", label="paper: fixed b")
    others = [name for name in median.index if not name.startswith("NUTS, b")]
    for number, name in enumerate(others, 1):
        style = {"ls": "--" if number < 10 else ":", "color": f"C{number % 10}"}
        axes.axhline(median[name], **style, label=f"here: {name}")
    axes.set(yscale="log", xlabel="fixed inverse temperature b", ylabel="RMSE of the mean, median")
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def projections(path: Path, chains: dict[str, list[Chain]]) -> Path:
    """Figures 4 and 8: draws of one chain per method in the two widest coordinates."""
    shown = {
        name: repeats[0].vector()[:SHOWN, :2]
        for name, repeats in chains.items()
        if not name.startswith("NUTS, b")
    }
    return scatter(path, shown, "one chain per method, in the two widest coordinates")


def main() -> None:
    """Run all methods, print, write, draw."""
    began = time.perf_counter()
    args = study.options(
        __doc__, 400_000, 10, (1_000, 2), one_of={"system": ["system_10", "system_1"]}
    )
    folder, system = record.folder(NAME, args.out), known(args.system)
    every = methods(system.sd)
    if args.quick:
        every = {name: every[name] for name in QUICK_METHODS}
    budget = study.budget_of(args, quick_warmup=400)
    chains, notes = study.run_all(system.target, every, budget, args.seed)
    rows = study.rows(chains, lambda chain: measured(system, chain))
    results = Results({}, [rows] if len(rows) else [], notes, [])
    if chains:
        published = args.system == "system_10"
        results.sections[args.system] = table(system, rows, published)
        results.figures.append(
            fixed_temperatures(folder / "fixed_temperatures.png", rows, published)
        )
        results.figures.append(projections(folder / "projections.png", chains))
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
