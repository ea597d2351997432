"""A Boltzmann machine of 28 spins, relaxed: figures 4, 5 and 8 of Nemeth et al. (2019).

    python -m workflows.tempering.boltzmann --quick        # does it run?
    python -m workflows.tempering.boltzmann
    python -m workflows.tempering.boltzmann --system system_1 --repeats 3

How far are estimated first and second moments from the exact ones, over all coordinates, when every
method uses the same number of gradients? The first panel of figure 4 has independent draws. The
methods include the paper's fixed temperatures, and two reference
distributions for ours: a learned one, and the Gaussian around zero with the exact widths.
"""

import json
import time
from typing import NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.samplers.tempering import ReferenceDistribution
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.data.boltzmann import exact, independent_draws
from workflows.tempering import boltzmann_figures, study
from workflows.tempering.published import (
    BOLTZMANN,
    BOLTZMANN_FIXED,
    BOLTZMANN_LOG_Z,
)
from workflows.tempering.rivals import IN_ANY_DIMENSION, with_given_widths
from workflows.tempering.runs import STAN, Chain, Method, recipe

NAME = "tempering/boltzmann"
# a few weights without a given reference mean little; one pseudo-sample, and many of them
LEFT_OUT = ("annealed importance sampling", "pseudo_extended, N = 1", "pseudo_extended, N = 20")
TEMPERATURES = tuple(BOLTZMANN_FIXED)
QUICK_METHODS = ("our NUTS", "parallel_tempering", "pseudo_extended, N = 2", "NUTS, b = 0.5")
SHOWN = 10_000  # independent draws
CAPTION = (
    study.EQUAL + "RMSE of the mean over all coordinates: the median over repeats, then each "
    "repeat. RMSE of products: of the means of all x_i x_j, the median over repeats. log Z: "
    "mean and standard deviation over repeats. 'widths given': the reference distribution is "
    "the Gaussian around 0 with the exact standard deviations, which a user does "
    "not know. 'NUTS, b = ': NUTS on the paper's joint density of two pseudo-samples, all at that "
    "inverse temperature; 'free': inverse temperatures uniform on (0.1, 0.9). 'paper': medians of "
    "10 repeats of 10,000 iterations, at any cost, read off the authors' poster. The exact log Z "
    f"of the authors' relaxation is {BOLTZMANN_LOG_Z}."
)


class Known(NamedTuple):
    """A system: its target, exact mean, shape (dim,), covariance, and log evidence.

    independent
        Independent draws, shape (draw, dim).
    """

    target: sa.Target
    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float
    independent: np.ndarray


def log_evidence(system: str) -> float:
    """Return the exact log evidence of a system, as `stan_models` has it."""
    path = bundled.find("boltzmann", system)[0].parent / "known_moments.json"
    return json.loads(path.read_text(encoding="utf-8"))[system]["log_evidence"]


def known(system: str, seed: int) -> Known:
    """Read a system, sum over its states, and draw from it."""
    program, data = bundled.find("boltzmann", system)
    content, rng = json.loads(data.read_text()), np.random.default_rng(seed)
    independent = independent_draws(content, SHOWN, rng)
    return Known(sa.Target(program, data), *exact(content), independent)


def methods(sd: np.ndarray) -> dict[str, Method]:
    """All methods by name; sd is that of the given reference distribution."""
    given = {"reference_distribution": ReferenceDistribution(np.zeros(len(sd)), sd)}
    return {
        "Stan's NUTS": Method(STAN),
        "our NUTS": Method("nuts"),
        **{name: rival for name, rival in IN_ANY_DIMENSION.items() if name not in LEFT_OUT},
        **with_given_widths(boltzmann_figures.GIVEN, given),
        **{f"NUTS, free b, N = {n}": recipe(n, between=(0.1, 0.9)) for n in (2, 5, 10)},
        **{f"NUTS, b = {b}": recipe(2, temperature="fixed", fixed_at=b) for b in TEMPERATURES},
    }


def measured(system: Known, chain: Chain) -> dict[str, float]:
    """The numbers of one repeat."""
    x = chain.vector()
    errors = (
        x.mean(axis=0) - system.mean,
        x.T @ x / len(x) - np.outer(system.mean, system.mean) - system.covariance,
    )
    rmse, rmse_second = (float(np.sqrt(np.mean(error**2))) for error in errors)
    return {
        "rmse": rmse, "rmse_second": rmse_second, "log_evidence": chain.log_evidence,
        "barrier": chain.barrier,
    }  # fmt: skip


def ours(name: str, rows: pd.DataFrame) -> dict[str, str]:
    """One row of the table."""
    tempers = rows["log_evidence"].notna().all()
    return {
        "method": name, "from": "here", "repeats": str(len(rows)),
        "RMSE": f"{rows['rmse'].median():.2f}",
        "each": " ".join(f"{value:.2f}" for value in rows["rmse"]),
        "RMSE of products": f"{rows['rmse_second'].median():.1f}",
        "log Z": study.spread(rows["log_evidence"], 2) if tempers else "",
        "barrier": study.spread(rows["barrier"], 1) if rows["barrier"].notna().all() else "",
        **study.shown_costs(rows),
    }  # fmt: skip


def table(system: Known, rows: pd.DataFrame, with_published: bool) -> pd.DataFrame:
    """Our rows above the published ones, which exist for system 10 only."""
    lines = [study.truth({"log Z": system.log_evidence}, 3)]
    lines += [ours(name, group) for name, group in rows.groupby("method", sort=False)]
    if with_published:
        medians = BOLTZMANN | {f"PE, b = {b}": value for b, value in BOLTZMANN_FIXED.items()}
        lines += [
            {"method": name, "from": "paper", "repeats": "10", "RMSE": f"{value:.2f}"}
            for name, value in medians.items()
        ]
    return text_table(lines)


def main() -> None:
    """Run all methods, print, write, draw."""
    began = time.perf_counter()
    args = study.options(
        __doc__, 400_000, 10, (1_000, 2), one_of={"system": ["system_10", "system_1"]}
    )
    folder, system = record.folder(NAME, args.out), known(args.system, args.seed)
    every = study.chosen(args, methods(np.sqrt(np.diag(system.covariance))), QUICK_METHODS)
    budget = study.budget_of(args, quick_warmup=400)
    chains, notes = study.run_all(system.target, every, budget, args.seed)
    rows = study.rows(chains, lambda chain: measured(system, chain))
    results = Results({}, [rows] if len(rows) else [], notes, [])
    if chains:
        published = args.system == "system_10"
        results.sections[args.system] = table(system, rows, published)
        results.figures.extend(
            [
                boltzmann_figures.fixed_temperatures(
                    folder / "fixed_temperatures.png", rows, published
                ),
                *boltzmann_figures.projections(folder, system.independent, chains),
                boltzmann_figures.costs(folder / "errors.png", rows),
            ]
        )
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
