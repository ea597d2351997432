"""A-NICE-MC on logistic regressions, against NUTS, tuned HMC and variational MCMC.

    python -m workflows.learned.nice_logistic --quick    # does it run?
    python -m workflows.learned.nice_logistic            # trains two networks: see the README

Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for MCMC", table 2, German credit, and
Pima. Needs JAX: pip install 'stanadapt[learn]'. The network learns first from a short run of
`whitened_hmc`, which is counted. Networks are kept in the folder of the results, and read from
there the next time, unless --train is given.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.samplers.nice import Network, train_nice
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.learned.costs import COSTS, MISTUNED, Learning, line, of_network, published
from workflows.learned.published import REGRESSIONS
from workflows.tempering.runs import STAN, collected_warnings, own_seed

NAME = "learned/nice_logistic"
DATA = ("pima", "german")
CHAINS, DRAWS, QUICK_DRAWS = 4, 5000, 100
QUICK_TRAINING = {
    "iterations": 4, "rehearse_every": 2, "draws": 100, "width": 8, "critic_width": 8,
}  # fmt: skip
# the published HMC is that of the paper's code: 40 + 1 leapfrogs of 0.005, no warm-up that tunes
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "nice": ("nice", {}),
    "HMC as published": (
        "hmc",
        {"leapfrogs": 41, "target_accept": 0.999, "learning_rate": 1e-9, "standardize": False},
    ),
    "hmc, tuned": ("hmc", {}),
    "variational_mcmc": ("variational_mcmc", {"kernel": "independence"}),
    "whitened_hmc": ("whitened_hmc", {}),
    "Stan's NUTS": (STAN, {}),
}
PUBLISHED_STEP = 0.005
CAPTION = (
    "Networks have 128 hidden units and 2,000 steps of training; the paper's have 400, and up to "
    "100,000 steps, which take hours on two cores: on German ours is not trained enough, and its "
    "row shows the consequence. "
    "ESS: ArviZ's bulk, the smallest over the coefficients; the paper's numbers are by its own "
    "definition, of 5000 draws at most 5000, and without training. Its prior is that of "
    "logistic.stan; its columns are scaled by another factor (1000 / 999 in variance). 'nice' has "
    f"the default share of local moves. {COSTS} {MISTUNED}"
)


def trained(
    target: sa.Target, path: Path, args: argparse.Namespace, number: int
) -> tuple[Network, Learning]:
    """Return the network, read or trained, and its cost with that of the fit it learned from."""
    with collected_warnings():  # it is short
        first = sa.sample(
            target, "whitened_hmc", chains=CHAINS, iter_sampling=100 if args.quick else 500,
            seed=own_seed(args.seed, number, 98), show_progress=False,
        )  # fmt: skip
    before = Learning(
        float(np.sum(first.attrs["warmup_seconds"]) + np.sum(first.attrs["sampling_seconds"])),
        int(first.attrs["n_gradients"]) + int(first.attrs["n_density"]),
    )
    if path.exists() and not args.train:
        network = Network.load(path)
    else:
        settings = QUICK_TRAINING if args.quick else {"iterations": args.iterations}
        network = train_nice(
            target, warm_start=first, seed=own_seed(args.seed, number, 99),
            auxiliary=None if args.quick else 2 * target.dim,
            show_progress=not args.quick, **settings,
        )  # fmt: skip
        network.save(path)
    training = of_network(network)
    print(f"{path.stem}: trained in {training.seconds:.0f} s with {training.calls:,} densities")
    return network, Learning(before.seconds + training.seconds, before.calls + training.calls)


def draw(
    target: sa.Target, method: str, network: Network, args: argparse.Namespace, seed: int
) -> Any:
    sampler, settings = METHODS[method]
    plan = {
        "chains": CHAINS, "iter_sampling": QUICK_DRAWS if args.quick else DRAWS, "seed": seed,
        "show_progress": False,
    }  # fmt: skip
    if sampler == STAN:
        return sa.stan_nuts(target, **plan)
    settings = {**settings, **({"network": network} if sampler == "nice" else {})}
    if method == "HMC as published":
        settings |= {"step_size": PUBLISHED_STEP * np.sqrt(target.dim), "iter_warmup": 1000}
    if sampler == "nice":
        settings["iter_warmup"] = 100 if args.quick else 1000
    return sa.sample(target, sampler, **plan, **settings)


def compared(
    data: str, args: argparse.Namespace, folder: Path, number: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Train and sample by every method; a table of text, one of numbers, and messages."""
    target = sa.Target(*bundled.find("logistic", data), show_progress=False)
    network, learning = trained(target, folder / f"{data}.npz", args, number)
    lines, rows, notes = [], [], []
    for index, method in enumerate(METHODS):
        with collected_warnings() as messages:
            fit = draw(target, method, network, args, own_seed(args.seed, number, index))
        notes += [f"{data}, {method}: {message}" for message in messages]
        ess = float(efficiency(results.columns(fit)).ess_bulk.min())
        text, numbers = line(method, fit, ess, learning if method == "nice" else Learning())
        accepted = float(results.dataset(fit, "sample_stats")["acceptance_rate"].mean())
        lines.append({**text, "accepted": f"{accepted:.2f}"})
        rows.append({"data": data, **numbers, "acceptance": accepted})
    for method, values in REGRESSIONS.get(data, {}).items():
        lines.append(published(method, "paper", *values))
    return text_table(lines), pd.DataFrame(rows), notes


def main() -> None:
    """Train, sample, compare."""
    began = time.perf_counter()
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    parser.add_argument("--data", nargs="+", choices=DATA, help="default: both")
    parser.add_argument(
        "--iterations", type=terminal.positive, default=2000, help="of training; default: 2000"
    )
    parser.add_argument("--train", action="store_true", help="train again")
    args = parser.parse_args()
    folder = record.folder(NAME, args.out)
    sections, parts, notes = {}, [], []
    for number, data in enumerate(DATA):
        if data in (args.data or (DATA[:1] if args.quick else DATA)):
            sections[data], rows, messages = compared(data, args, folder, number)
            parts.append(rows)
            notes += messages
    conclude(NAME, args, Results(sections, parts, notes, []), CAPTION, began)


if __name__ == "__main__":
    main()
