"""A regularised horseshoe regression in 403 dimensions: figure 6 of Nemeth et al. (2019).

    python workflows/tempering_horseshoe.py --quick       # does it run?
    python workflows/tempering_horseshoe.py --repeats 2   # about ten minutes

Judged is the prediction of the rows that were set aside, of 38 patients with leukaemia; the paper's
three data sets are others, so that none of its numbers stand here. Its program tempers the
likelihood alone. So does "two rows": there the hot end is the same program with two of the 30 rows,
one of each label. No rows at all, the prior, is no data of this program, which standardises
columns; but any proper law will do, and this one nearly is the prior.
"""

import json
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import record
import tempering_study as study
from scipy.special import logsumexp
from tempering_runs import STAN, Chain, Method, pseudo, recipe

import stanadapt as sa
from stanadapt import models
from stanadapt.results import arviz_module

mpl.use("Agg")
import matplotlib.pyplot as plt

SCRIPT = "tempering_horseshoe"
ROWS = ", two rows"
QUICK_METHODS = ("our NUTS", f"pseudo_extended, N = 2{ROWS}")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
KEPT = ("log_predictive_of_row", "log_predictive")
CAPTION = (
    study.EQUAL + study.SPREAD_OF + "Log predictive density of the test rows, higher is better: "
    "of the mean over draws of the probability of each row; and, as in the paper's figure, the "
    "mean over draws of the log probability of all rows. Between methods with the right posterior "
    "they differ by chance alone. ESS: ArviZ's bulk ESS of the latter, a median over repeats, per "
    "100,000 gradients. 'two rows': the hot end of the path is the program with two of its rows; "
    "what evaluating these two costs is not counted. The paper's recipe is NUTS on the joint "
    "density of two pseudo-samples of all parameters, temperatures flat on (0, 1)."
)


def two_rows(content: dict[str, Any]) -> dict[str, Any]:
    """The data with the first row of each label alone."""
    rows = [content["y"].index(label) for label in (0, 1)]
    return content | {
        "N": len(rows), "X": [content["X"][i] for i in rows], "y": [content["y"][i] for i in rows],
    }  # fmt: skip


def methods(prior_data: dict[str, Any]) -> dict[str, Method]:
    """All of them by name."""
    hot = {"prior_data": prior_data}
    return {
        "Stan's NUTS": Method(STAN),
        "our NUTS": Method("nuts"),
        "parallel_tempering": Method("parallel_tempering"),
        f"parallel_tempering{ROWS}": Method("parallel_tempering", hot),
        "pseudo_extended, N = 2": pseudo(2),
        **{f"pseudo_extended, N = {n}{ROWS}": pseudo(n, **hot) for n in (2, 5)},
        f"paper's recipe, N = 2{ROWS}": recipe(2, between=(0.0, 1.0), **hot),
    }


def measured(chain: Chain) -> dict[str, float]:
    """The numbers of one repeat."""
    of_row, together = chain.vector("log_predictive_of_row"), chain.columns["log_predictive"]
    mixed = logsumexp(of_row, axis=0) - np.log(len(of_row))
    ess = float(arviz_module().ess(together[np.newaxis], method="bulk"))
    return {
        "predictive": float(mixed.sum()), "mean_log": float(together.mean()),
        "ess": 1e5 * ess / chain.gradients, "barrier": chain.barrier,
    }  # fmt: skip


def line(name: str, rows: pd.DataFrame) -> dict[str, str]:
    """One line of the table."""
    tempers = rows["barrier"].notna().all()
    return {
        "method": name, "repeats": str(len(rows)),
        "log predictive density": study.spread(rows["predictive"], 3),
        "mean over draws": study.spread(rows["mean_log"], 3),
        "ESS / 1e5 gradients": f"{rows['ess'].median():.1f}",
        "barrier": study.spread(rows["barrier"], 1) if tempers else "",
        **study.shown_costs(rows),
    }  # fmt: skip


def picture(path: Path, found: dict[str, list[Chain]]) -> Path:
    """Figure 6: log predictive density of each draw, all repeats together, a line a method."""
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.4 * len(found)), layout="constrained")
    for row, chains in enumerate(found.values()):
        together = np.concatenate([chain.columns["log_predictive"] for chain in chains])
        lowest, low, middle, high, highest = np.quantile(together, QUANTILES)
        axes.hlines(row, lowest, highest, color="tab:blue", lw=1.5)
        axes.hlines(row, low, high, color="tab:blue", lw=6)
        axes.plot(middle, row, "o", color="white", ms=4)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("log predictive density of the test rows at a draw: median, 50 %, 90 %")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def main() -> None:
    """Run all methods, print, write, draw."""
    began = time.perf_counter()
    choices = {"methods": list(methods({}))}
    chosen = study.options(__doc__, 200_000, 4, (2_000, 1), choices)
    folder, (program, data) = record.folder(SCRIPT, chosen.out), models.find("horseshoe", "golub")
    every = methods(two_rows(json.loads(data.read_text())))
    every = {name: every[name] for name in study.names(chosen, every, QUICK_METHODS)}
    cost, target = study.budget(chosen, quick_warmup=100), sa.Target(program, data)
    found, notes = study.run_all(target, every, cost, chosen.seed, keep=KEPT)
    rows = study.rows(found, measured)
    results = study.Results({}, [rows] if found else [], notes, [])
    if found:
        results.sections["golub: 30 rows, 8 to predict"] = study.text_table(
            [line(name, group) for name, group in rows.groupby("method", sort=False)]
        )
        results.pictures.append(picture(folder / "predictive.png", found))
    study.conclude(SCRIPT, chosen, results, CAPTION, began)


if __name__ == "__main__":
    main()
