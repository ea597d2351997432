"""Twenty Gaussians in the plane: table 1, figures 3 and 7 of Nemeth et al. (2019).

    python -m workflows.tempering.mixture --quick         # does it run?
    python -m workflows.tempering.mixture --repeats 10
    python -m workflows.tempering.mixture --scenarios twenty --methods parallel_tempering

Scenario (a) has equal weights and standard deviations of 0.1. Scenario (b), with weights 1 / d for
the distance d from (5, 5), has two versions: d / 20 is the standard deviation, as for the published
truth, EE and PT, or the variance, as for the published RAM, HMC and PE. All methods use the same
number of gradients.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import mixture_figures, study
from workflows.tempering.published import (
    CALLS,
    ITERATIONS,
    MOMENTS,
    TABLE,
    Row,
)
from workflows.tempering.rivals import RIVALS
from workflows.tempering.runs import STAN, Chain, Method, recipe

NAME = "tempering/mixture"
SCENARIOS = {
    "twenty": "(a) equal weights, sd 0.1",
    "twenty_sd": "(b) sd d / 20",
    "twenty_variance": "(b) variance d / 20",
}
METHODS = {
    "Stan's NUTS": Method(STAN),
    "our NUTS": Method("nuts"),
    "paper's recipe, N = 2": recipe(2),
    "paper's recipe, N = 5": recipe(5),
    **RIVALS,
}
CHOICES = {"scenarios": list(SCENARIOS), "methods": list(METHODS)}
QUICK_METHODS = ("our NUTS", "parallel_tempering", "pseudo_extended, N = 2", "smc")
EFFICIENCY = "ESS / 1e5 calls"
CAPTION = (
    study.EQUAL + study.SPREAD_OF + "Modes: of the 20 components, those that are closest, in units "
    "of their width, to some draw of the chain. ESS: the number of independent draws with the same "
    "mean squared error over repeats as the estimates of E x1 and E x2 (the worse of the two), per "
    "100,000 calls; a call is a gradient, or a density if there is no gradient. 'paper': table "
    "1, 50,000 draws. The paper does not give their calls: those shown are measured for RAM, a "
    "lower bound for EE, the number of chains for PT, the mean of a rerun for PE2. Its "
    "row of RAM comes from Tak and others (2018), those of EE and PT from Kou and others (2006), "
    "and RAM's E x2^2 of (a) is 2.8 standard errors too small. Its rows of (b) belong to two "
    "targets, and the truth printed above them is that with sd d / 20. The paper's "
    "recipe is NUTS on the joint density, with inverse temperatures uniform on (0.001, 1), here "
    "without the paper's box, which these tails do not need."
)


class Known:
    """The components of a scenario and the exact moments, in the order of `MOMENTS`."""

    def __init__(self, scenario: str) -> None:
        program, data = bundled.find("mixture", scenario)
        self.target = sa.Target(program, data)
        content = json.loads(data.read_text())
        self.centers, self.sds = np.array(content["means"]), np.array(content["sds"])
        exact = json.loads((program.parent / "known_moments.json").read_text())[scenario]
        mean, sd = np.array(exact["mean"]["x"]), np.array(exact["sd"]["x"])
        self.moments, self.variance = np.concatenate([mean, mean**2 + sd**2]), sd**2

    def modes(self, x: np.ndarray) -> int:
        """Number of components that are the closest one to some draw; x has shape (draw, 2)."""
        distance = np.linalg.norm(x[:, np.newaxis] - self.centers, axis=2) / self.sds
        return len(np.unique(distance.argmin(axis=1)))


def measured(known: Known, chain: Chain) -> dict[str, float]:
    """The numbers of one repeat."""
    x = chain.vector()
    means = np.concatenate([x.mean(axis=0), (x**2).mean(axis=0)])
    return {
        **dict(zip(MOMENTS, means, strict=True)),
        "modes": known.modes(x), "log_evidence": chain.log_evidence,
    }  # fmt: skip


def efficiency(known: Known, rows: pd.DataFrame) -> float:
    """Effective draws per 100,000 gradients, from squared errors over repeats."""
    errors = rows[list(MOMENTS[:2])].to_numpy() - known.moments[:2]
    worth = known.variance / (errors**2).mean(axis=0)
    return float(1e5 * worth.min() / rows["gradients"].mean())


def ours(known: Known, name: str, rows: pd.DataFrame) -> dict[str, str]:
    """One row of the table."""
    return {
        "method": name, "from": "here", "repeats": str(len(rows)),
        **{moment: study.spread(rows[moment], 3) for moment in MOMENTS},
        "modes": study.spread(rows["modes"], 1),
        "calls / draw": f"{rows['gradients'].sum() / rows['draws'].sum():.1f}",
        EFFICIENCY: f"{efficiency(known, rows):.1f}" if len(rows) > 1 else "",
        **study.shown_costs(rows),
    }  # fmt: skip


def published_efficiency(known: Known, name: str, row: Row) -> float:
    """Return the `efficiency` of a published row with a known number of calls."""
    errors = np.array(row.means[:2]) - known.moments[:2]
    worth = known.variance / (errors**2 + np.array(row.sds[:2]) ** 2)
    return float(1e5 * worth.min() / (ITERATIONS * CALLS[name]))


def published(name: str, source: str, row: Row) -> dict[str, str]:
    """A published row of the table."""
    cells = [f"{m:.3f} ({s:.3f})" for m, s in zip(row.means, row.sds, strict=True)]
    return {
        "method": name, "from": source, "repeats": str(row.repeats),
        **dict(zip(MOMENTS, cells, strict=True)),
    }  # fmt: skip


def table(scenario: str, known: Known, rows: pd.DataFrame) -> pd.DataFrame:
    """The truth, our rows, and the published rows."""
    lines = [study.truth(dict(zip(MOMENTS, known.moments, strict=True)), 3)]
    groups = rows.groupby("method", sort=False)
    lines += [ours(known, name, group) for name, group in groups]
    for name, row in TABLE[scenario].items():
        line = published(name, "paper", row)
        if name in CALLS:
            line["calls / draw"] = f"{CALLS[name]:.1f}"
            line[EFFICIENCY] = f"{published_efficiency(known, name, row):.1f}"
        lines.append(line)
    return text_table(lines)


def one_scenario(
    scenario: str, args: argparse.Namespace, folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame, list[str], list[Path]]:
    """Run all methods on a scenario; returns rows, the table, notes and figures."""
    known, number = Known(scenario), list(SCENARIOS).index(scenario)
    methods = study.chosen(args, METHODS, QUICK_METHODS)
    budget = study.budget_of(args, quick_warmup=400)
    chains, notes = study.run_all(known.target, methods, budget, args.seed, number)
    rows = study.rows(chains, lambda chain: {"scenario": scenario, **measured(known, chain)})
    if rows.empty:
        return rows, rows, notes, []
    title = SCENARIOS[scenario]
    drawn = [
        mixture_figures.draws(folder / f"{scenario}_draws.png", chains, known.centers, title),
        folder / f"{scenario}_draws.csv",
        mixture_figures.errors(folder / f"{scenario}_errors.png", rows, known.moments, title),
    ]
    return rows, table(scenario, known, rows), [f"{title}: {note}" for note in notes], drawn


def main() -> None:
    """Run all scenarios, print, write, draw."""
    began = time.perf_counter()
    args = study.options(__doc__, 400_000, 20, (1_000, 2), CHOICES)
    folder = record.folder(NAME, args.out)
    results = Results({}, [], [], [])
    for scenario in args.scenarios or SCENARIOS:
        rows, text, notes, drawn = one_scenario(scenario, args, folder)
        results.notes.extend(notes)
        if len(rows):
            results.parts.append(rows)
            results.sections[f"{scenario}: {SCENARIOS[scenario]}"] = text
            results.figures.extend(drawn)
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
