"""A-NICE-MC on logistic regressions, against NUTS, tuned HMC and variational MCMC.

    python -m workflows.learned.nice_logistic --quick    # does it run?
    python -m workflows.learned.nice_logistic            # trains three networks: see the README
    python -m workflows.learned.nice_logistic --data german --width 400    # as wide as the paper's
    python -m workflows.learned.nice_logistic --data-file australian.dat

Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for MCMC", table 2: German credit,
Heart and, from a file of the user, Australian credit; and Pima. Needs JAX:
pip install 'stanadapt[learn]'. The network learns first from a short run of `whitened_hmc`, which
is counted. Networks are kept in the folder of the results, and read from there the next time,
unless --train is given. Options of training take the sizes of the paper, which need many hours; the
defaults reach its effective draws.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.samplers.nice import Network, train_nice
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.gad import own_data
from workflows.learned import costs
from workflows.learned.costs import COSTS, MISTUNED, Learning, line, of_fit, of_network, published
from workflows.learned.known_moments_ess import ess_known_moments
from workflows.learned.published import HMC, HMC_STEPS, REGRESSIONS
from workflows.tempering.runs import STAN, collected_warnings, own_seed

NAME = "learned/nice_logistic"
DATA = ("pima", "german", "heart")
OWN = len(DATA)  # number of the user's file, for seeds
CHAINS, DRAWS, QUICK_DRAWS = 4, 5000, 100
QUICK_TRAINING = {
    "iterations": 4, "rehearse_every": 2, "draws": 100, "width": 8, "critic_width": 8,
}  # fmt: skip
# the published HMC is that of the paper's code: 40 + 1 leapfrogs of 0.005, no warm-up that tunes
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "nice": ("nice", {}),
    "nice as published": ("nice", {"preset": "song2017"}),
    "HMC as published": ("hmc", HMC),
    "hmc, tuned": ("hmc", {}),
    "variational_mcmc": ("variational_mcmc", {"kernel": "independence"}),
    "whitened_hmc": ("whitened_hmc", {}),
    "Stan's NUTS": (STAN, {}),
}
# file of acceptance rates and effective draws during training
REHEARSALS = "nice_rehearsals.csv"
OTHER_STEP = 0.005  # of data that the paper has not
# of the fit from which the moments of the paper's ESS are taken
REFERENCE = "whitened_hmc"
CAPTION = (
    "Networks have, unless options say otherwise, 128 hidden units and 8,000 steps of training; "
    "the paper's have 400, and up to 100,000 steps, which take hours on two cores. "
    "ESS: ArviZ's bulk, the smallest over the coefficients. 'paper's ESS': by its definition, "
    "around moments that are known, here those of whitened_hmc, per 1000 draws of a chain, the "
    "smallest; the paper's own numbers are by that, and without training. R-hat: the largest. "
    "The prior is that of logistic.stan; the paper's columns are scaled by another factor "
    "(1000 / 999 in variance). 'nice' has "
    f"the default share of local moves. {COSTS} {MISTUNED}"
)


class Compared(NamedTuple):
    """A table of text, one of numbers, one of the rehearsals during training, and messages."""

    text: pd.DataFrame
    rows: pd.DataFrame
    rehearsals: pd.DataFrame
    notes: list[str]


def trained(
    target: sa.Target, path: Path, args: argparse.Namespace, number: int
) -> tuple[Network, Learning, Any]:
    """Return the network, read or trained, its cost, and the fit it learned from, also counted."""
    with collected_warnings():  # it is short
        first = sa.sample(
            target, "whitened_hmc", chains=CHAINS, iter_sampling=100 if args.quick else 500,
            seed=own_seed(args.seed, number, 98), show_progress=False,
        )  # fmt: skip
    before = of_fit(first)
    if path.exists() and not args.train:
        network = Network.load(path)
    else:
        settings = QUICK_TRAINING if args.quick else sizes(args)
        network = train_nice(
            target, warm_start=first, seed=own_seed(args.seed, number, 99),
            auxiliary=None if args.quick else args.auxiliary or 2 * target.dim,
            show_progress=not args.quick, **settings,
        )  # fmt: skip
        network.save(path)
    training = of_network(network)
    print(f"{path.stem}: trained in {training.seconds:.0f} s with {training.calls:,} densities")
    spent = Learning(before.seconds + training.seconds, before.calls + training.calls)
    return network, spent, first


def sizes(args: argparse.Namespace) -> dict[str, int]:
    """Return the settings of training that options give."""
    return {
        "iterations": args.iterations, "width": args.width, "critic_width": args.critic_width,
        "from_noise": args.from_noise, "chains": args.rehearsal_chains,
        "draws": args.rehearsal_draws, "rehearse_every": args.rehearse_every,
    }  # fmt: skip


def draw(
    target: sa.Target,
    method: str,
    network: Network,
    first: Any,
    args: argparse.Namespace,
    seed: int,
    step: float,
) -> Any:
    """Sample by a method; `first` is the fit from which the network learned."""
    sampler, settings = METHODS[method]
    plan = {
        "chains": CHAINS, "iter_sampling": QUICK_DRAWS if args.quick else DRAWS, "seed": seed,
        "show_progress": False,
    }  # fmt: skip
    if sampler == STAN:
        return sa.stan_nuts(target, **plan)
    settings = {**settings, **({"network": network} if sampler == "nice" else {})}
    if method == "HMC as published":
        settings |= {"step_size": step * np.sqrt(target.dim), "iter_warmup": 1000}
    if sampler == "nice":
        settings["iter_warmup"] = 100 if args.quick else 1000
        settings["inits"] = first  # far out in the tails hardly a move of the network is accepted
    return sa.sample(target, sampler, **plan, **settings)


def compared(
    data: str, target: sa.Target, args: argparse.Namespace, folder: Path, number: int
) -> Compared:
    """Train, and sample by every method."""
    network, learning, first = trained(target, folder / f"{data}.npz", args, number)
    fits, notes, step = {}, [], HMC_STEPS.get(data, OTHER_STEP)
    for index, method in enumerate(METHODS):
        with collected_warnings() as messages:
            seed = own_seed(args.seed, number, index)
            fits[method] = draw(target, method, network, first, args, seed, step)
        notes += [f"{data}, {method}: {message}" for message in messages]
    reference = results.dataset(fits[REFERENCE], "posterior")["w"].values
    mean, sd = reference.mean(axis=(0, 1)), reference.std(axis=(0, 1))
    lines, rows = [], []
    for method, fit in fits.items():
        measures = efficiency(results.columns(fit))
        spent = learning if METHODS[method][0] == "nice" else Learning()
        text, numbers = line(method, fit, float(measures.ess_bulk.min()), spent)
        w = results.dataset(fit, "posterior")["w"].values
        numbers |= {
            "paper_ess_per_1000": 1000.0 * ess_known_moments(w, mean, sd).min() / w.shape[1],
            "r_hat": float(measures.r_hat.max()),
            "acceptance": float(results.dataset(fit, "sample_stats")["acceptance_rate"].mean()),
        }
        lines.append({
            **text, "accepted": f"{numbers['acceptance']:.2f}",
            "paper's ESS": costs.number(numbers["paper_ess_per_1000"]),
            "R-hat": f"{numbers['r_hat']:.3f}",
        })  # fmt: skip
        rows.append({"data": data, **numbers})
    history = pd.DataFrame(network.description["history"])
    history.insert(0, "data", data)
    for method, (ess, per_second) in REGRESSIONS.get(data, {}).items():
        known = {**published(method, "paper", ess, per_second), "paper's ESS": costs.number(ess)}
        lines.append(known)
    return Compared(text_table(lines), pd.DataFrame(rows), history, notes)


def main() -> None:
    """Train, sample, compare."""
    began = time.perf_counter()
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    parser.add_argument("--data", nargs="+", choices=DATA, help="default: all")
    _add_sizes(parser)
    own_data.add_options(parser)
    args = parser.parse_args()
    folder = record.folder(NAME, args.out)
    done, notes = {}, []
    for number, name, target in _targets(args, notes):
        done[name] = compared(name, target, args, folder, number)
        notes += done[name].notes
    rehearsals = pd.concat([each.rehearsals for each in done.values()])
    path = folder / REHEARSALS
    rehearsals.to_csv(path, index=False)
    sections = {name: each.text for name, each in done.items()}
    parts = [each.rows for each in done.values()]
    conclude(NAME, args, Results(sections, parts, notes, [path]), CAPTION, began)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add options of the training: sizes and lengths, those of the paper in brackets."""
    for name, default, text in (
        ("iterations", 8000, "steps of training (up to 100,000)"),
        ("width", 128, "hidden units of a coupling (400)"),
        ("critic-width", 256, "hidden units of each layer of the critic (800)"),
        ("from-noise", 8, "longest chains from noise in training, B (16)"),
        ("rehearsal-chains", 8, "chains between stretches of training (32)"),
        ("rehearsal-draws", 2000, "draws of each of these (5000)"),
        ("rehearse-every", 250, "steps of such a stretch (500)"),
    ):
        parser.add_argument(
            f"--{name}", type=terminal.positive, default=default,
            help=f"{text}; default: {default:,}",
        )  # fmt: skip
    parser.add_argument(
        "--auxiliary", type=terminal.positive,
        help="auxiliary variables (50); default: twice the parameters",
    )  # fmt: skip
    parser.add_argument("--train", action="store_true", help="train again")


def _targets(args: argparse.Namespace, notes: list[str]) -> Iterator[tuple[int, str, sa.Target]]:
    """Yield number, name and target: the user's file alone if one is given."""
    if args.data_file is not None:
        table = own_data.read(args)
        notes.append(own_data.note(table, args.data_file))
        program = bundled.find("logistic", "pima")[0]
        target = sa.Target(program, own_data.data_of(table), show_progress=False)
        yield OWN, args.data_file.stem, target
        return
    for number, name in enumerate(DATA):
        if name in (args.data or (DATA[:1] if args.quick else DATA)):
            yield number, name, sa.Target(*bundled.find("logistic", name), show_progress=False)


if __name__ == "__main__":
    main()
