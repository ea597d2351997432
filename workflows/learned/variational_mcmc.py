"""Variational MCMC on logistic regressions: which approximation, which moves, and NUTS.

    python -m workflows.learned.variational_mcmc --quick    # does it run?
    python -m workflows.learned.variational_mcmc            # a few minutes

After de Freitas, Højen-Sørensen, Jordan and Russell (2001), "Variational MCMC", UAI: proposals from
a mean-field approximation fail, since it is too narrow; blocks and a mixture with random walks
correct a part of that. With all correlations, nearly every proposal is accepted.
"""

import argparse
import time
from typing import Any

import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.targets.stan import bundled
from workflows import terminal
from workflows.conclude import Results, conclude, text_table
from workflows.learned.costs import COSTS, NOTHING, Learning, line, number, of_fit
from workflows.tempering.runs import STAN, collected_warnings, own_seed

NAME = "learned/variational_mcmc"
DATA = ("pima", "german")
CHAINS, DRAWS, QUICK_DRAWS, QUICK_WARMUP = 4, 10_000, 100, 60
FULL, MEAN = {"approximation": "full_rank"}, {"approximation": "mean_field"}
ALONE, BLOCKS = {"kernel": "independence"}, {"kernel": "block", "block_size": 5}
PATHFINDER = "full rank of Pathfinder"
# sampler, settings, and the smallest ESS per density of our first implementation, on German
METHODS: dict[str, tuple[str, dict[str, Any], float]] = {
    "mean field": ("variational_mcmc", {**MEAN, **ALONE}, 0.0005),
    "mean field, blocks of 5": ("variational_mcmc", {**MEAN, **BLOCKS}, float("nan")),
    "mean field, mixture": ("variational_mcmc", MEAN, 0.0007),
    "full rank": ("variational_mcmc", {**FULL, **ALONE}, 0.52),
    "full rank, mixture": ("variational_mcmc", FULL, 0.25),
    "full rank, Student t": ("variational_mcmc", {**FULL, **ALONE, "degrees": 10.0}, 0.34),
    PATHFINDER: ("variational_mcmc", {**FULL, **ALONE}, float("nan")),
    "whitened_hmc": ("whitened_hmc", {}, float("nan")),
    "Stan's NUTS": (STAN, {}, float("nan")),
}
QUICK_METHODS = ("mean field", "full rank", PATHFINDER, "Stan's NUTS")
CAPTION = (
    "ESS: ArviZ's bulk, the smallest over the coefficients. 'earlier': ESS per density on German "
    "of the first implementation, in NumPy, that this one was built from; the paper has no such "
    "table, its models being belief networks. An iteration of variational_mcmc evaluates the "
    "density once; here with its gradient, so that 'ESS per gradient' is that per density. "
    f"'longest stay': draws in a row that are the same. {COSTS}"
)


def draw(
    target: sa.Target, method: str, args: argparse.Namespace, seed: int
) -> tuple[Any, Learning]:
    """Return a fit, and the cost of the approximation that it starts from, if any."""
    sampler, settings, _ = METHODS[method]
    plan: dict[str, Any] = {
        "chains": CHAINS, "iter_sampling": QUICK_DRAWS if args.quick else DRAWS, "seed": seed,
        "show_progress": False,
    }  # fmt: skip
    if args.quick:
        plan["iter_warmup"] = QUICK_WARMUP
    if sampler == STAN:
        return sa.stan_nuts(target, **plan), NOTHING
    if method != PATHFINDER:
        return sa.sample(target, sampler, **plan, **settings), NOTHING
    rough = sa.approximate(target, draws=2000, seed=seed, show_progress=False)
    return sa.sample(target, sampler, warm_start=rough, **plan, **settings), of_fit(rough)


def compared(
    data: str, args: argparse.Namespace, number_of_data: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Sample by every method; a table of text, one of numbers, and messages."""
    target = sa.Target(*bundled.find("logistic", data), show_progress=False)
    lines, rows, notes = [], [], []
    for index, method in enumerate(METHODS):
        if args.quick and method not in QUICK_METHODS:
            continue
        seed = own_seed(args.seed, number_of_data, index)
        with collected_warnings() as messages:
            fit, spent = draw(target, method, args, seed)
        notes += [f"{data}, {method}: {message}" for message in messages]
        ess = float(efficiency(results.columns(fit)).ess_bulk.min())
        text, numbers = line(method, fit, ess, spent)
        accepted = float(results.dataset(fit, "sample_stats")["acceptance_rate"].mean())
        k = results.attribute(fit, "proposal_pareto_k")
        stay = results.attribute(fit, "longest_stay")
        text |= {
            "accepted": f"{accepted:.2f}",
            "Pareto k": "" if k is None else number(float(max(k))),
            "longest stay": "" if stay is None else f"{int(max(stay)):,}",
            "earlier": number(METHODS[method][2]) if data == "german" else "",
        }
        lines.append(text)
        rows.append({"data": data, **numbers, "acceptance": accepted})
    return text_table(lines), pd.DataFrame(rows), notes


def main() -> None:
    """Sample, compare."""
    began = time.perf_counter()
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    parser.add_argument("--data", nargs="+", choices=DATA, help="default: both")
    args = parser.parse_args()
    sections, parts, notes = {}, [], []
    for index, data in enumerate(DATA):
        if data in (args.data or (DATA[:1] if args.quick else DATA)):
            sections[data], rows, messages = compared(data, args, index)
            parts.append(rows)
            notes += messages
    conclude(NAME, args, Results(sections, parts, notes, []), CAPTION, began)


if __name__ == "__main__":
    main()
