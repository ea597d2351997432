"""A regularized horseshoe regression in 403 dimensions: figures 6 and 9 of Nemeth et al. (2019).

    python -m workflows.tempering.horseshoe --quick       # does it run?
    python -m workflows.tempering.horseshoe --repeats 2   # about ten minutes
    python -m workflows.tempering.horseshoe --data-file colon.mat   # data of your own

The methods are judged by how well they predict the held-out rows of 38 patients with leukaemia. The
paper uses three other data sets, so that none of its numbers can be compared; who has them gives
them as a file, with all their columns; a fifth of the rows is held out. Its program
tempers the likelihood alone. So does "two rows": there the hot end is the same program with two of
the 30 rows, one of each label. The prior itself, with no rows, cannot be had: the program
standardizes the columns of its data. But any proper distribution will do, and this one is close to
the prior.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import stanadapt as sa
from stanadapt.results import arviz_module
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.data.golub import horseshoe
from workflows.gad import own_data
from workflows.tempering import horseshoe_figures, study
from workflows.tempering.runs import STAN, Chain, Method, pseudo, recipe

NAME = "tempering/horseshoe"
ROWS = ", two rows"
COUNTS = (2, 5, 10, 20)  # of pseudo-samples, as in the paper
QUICK_METHODS = ("our NUTS", f"pseudo_extended, N = 2{ROWS}")
KEPT = ("log_predictive_of_row", "log_predictive", "beta")
CAPTION = (
    study.EQUAL + study.SPREAD_OF + "Log predictive density of the test rows, higher is better: "
    "the sum over rows of the log of the row's mean probability over draws; and, as in the paper's "
    "figure, the mean over draws of the log probability of all rows. Methods that sample the right "
    "posterior differ in them by chance alone. ESS: ArviZ's bulk ESS of the latter, the median "
    "over repeats, per 100,000 gradients. 'two rows': the hot end of the path is the program with "
    "two of its rows; the cost of evaluating these two is not counted. The paper's recipe is NUTS "
    "on the joint density of N pseudo-samples of all parameters, with inverse temperatures "
    "uniform on (0, 1)."
)


def two_rows(content: dict[str, Any]) -> dict[str, Any]:
    """The data with the first row of each label alone."""
    rows = [content["y"].index(label) for label in (0, 1)]
    return content | {
        "N": len(rows), "X": [content["X"][i] for i in rows], "y": [content["y"][i] for i in rows],
    }  # fmt: skip


def methods(prior_data: dict[str, Any]) -> dict[str, Method]:
    """All methods by name."""
    hot = {"prior_data": prior_data}
    return {
        "Stan's NUTS": Method(STAN),
        "our NUTS": Method("nuts"),
        "parallel_tempering": Method("parallel_tempering"),
        f"parallel_tempering{ROWS}": Method("parallel_tempering", hot),
        "pseudo_extended, N = 2": pseudo(2),
        **{f"pseudo_extended, N = {n}{ROWS}": pseudo(n, **hot) for n in (2, 5)},
        **{f"paper's recipe, N = {n}{ROWS}": recipe(n, between=(0.0, 1.0), **hot) for n in COUNTS},
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
    """One row of the table."""
    tempers = rows["barrier"].notna().all()
    return {
        "method": name, "repeats": str(len(rows)),
        "log predictive density": study.spread(rows["predictive"], 3),
        "mean over draws": study.spread(rows["mean_log"], 3),
        "ESS / 1e5 gradients": f"{rows['ess'].median():.1f}",
        "barrier": study.spread(rows["barrier"], 1) if tempers else "",
        **study.shown_costs(rows),
    }  # fmt: skip


def own(args: argparse.Namespace) -> dict[str, Any]:
    """Read data of the user's own: all inputs, in the units of the file."""
    table = own_data.read(args)
    rows, labels = table.inputs.tolist(), table.labels.tolist()
    content = horseshoe(rows, labels, most=table.inputs.shape[1])
    if len(set(content["y"])) < 2:
        raise SystemExit(f"{args.data_file}: the rows to learn from have one label alone.")
    return content


def main() -> None:
    """Run all methods, print, write, draw."""
    began = time.perf_counter()
    choices = {"methods": list(methods({}))}
    args = study.options(__doc__, 200_000, 4, (2_000, 1), choices, add=own_data.add_options)
    folder, (program, data) = record.folder(NAME, args.out), bundled.find("horseshoe", "golub")
    content = json.loads(data.read_text()) if args.data_file is None else own(args)
    every = study.chosen(args, methods(two_rows(content)), QUICK_METHODS)
    budget, target = study.budget_of(args, quick_warmup=100), sa.Target(program, content)
    chains, notes = study.run_all(target, every, budget, args.seed, keep=KEPT)
    rows = study.rows(chains, measured)
    results = Results({}, [rows] if chains else [], notes, [])
    if chains:
        name = "golub" if args.data_file is None else args.data_file.name.split(".")[0]
        title = f"{name}: {content['N']} rows, {content['N_test']} to predict"
        results.sections[title] = text_table(
            [line(name, group) for name, group in rows.groupby("method", sort=False)]
        )
        results.figures.extend(horseshoe_figures.write(folder, chains, args.seed))
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
