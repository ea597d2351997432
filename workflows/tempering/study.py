"""Shared parts of the tempering workflows: options, running all methods, printing, writing."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

import stanadapt as sa
from workflows import terminal
from workflows.tempering.runs import Budget, Chain, Method, own_seed, run

EQUAL = (
    "After its warm-up, every chain of every method has used the same number of gradients of the "
    "program (densities, if it uses no gradients), to within one trajectory; warm-up has the "
    "sampler's default length. The budget of smc and annealed importance sampling includes all "
    "they do. A repeat is one chain. "
)
SPREAD_OF = "In brackets: the standard deviation over repeats. "


def options(
    docstring: str,
    gradients: int,
    repeats: int,
    quick: tuple[int, int],
    choices: Mapping[str, list[str]] | None = None,
    one_of: Mapping[str, list[str]] | None = None,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.Namespace:
    """Read the options that all of these workflows have, and those that `add` adds.

    quick
        Gradients and repeats of --quick.
    choices
        Options that take one or more values; None if the user gives none.
    one_of
        Options that take one value; default: the first.
    """
    parser = terminal.usual_parser(docstring, "tempering/WORKFLOW", "tiny lengths")
    parser.add_argument(
        "--gradients", type=terminal.positive,
        help=f"per chain, after warm-up; default: {gradients:,}, quick {quick[0]:,}",
    )  # fmt: skip
    terminal.add_repeats(parser, repeats, quick[1])
    for name, known in (choices or {}).items():
        parser.add_argument(
            f"--{name}", nargs="+", choices=known, metavar=name[:-1].upper(),
            help=f"one or more of: {'; '.join(known)}; default: all",
        )  # fmt: skip
    for name, known in (one_of or {}).items():
        parser.add_argument(f"--{name}", choices=known, default=known[0], help="default: the first")
    if add is not None:
        add(parser)
    args = parser.parse_args()
    usual = quick if args.quick else (gradients, repeats)
    args.gradients = args.gradients or usual[0]
    args.repeats = args.repeats or usual[1]
    return args


def chosen(
    args: argparse.Namespace, every: Mapping[str, Method], quick: tuple[str, ...]
) -> dict[str, Method]:
    """Methods to run: those named in the options, otherwise all, or a few in a quick run."""
    named = getattr(args, "methods", None)
    return {name: every[name] for name in named or (quick if args.quick else every)}


def budget_of(args: argparse.Namespace, quick_warmup: int | None = None) -> Budget:
    """The budget given by the options; `quick_warmup` iterations of warm-up in a quick run."""
    return Budget(args.gradients, args.repeats, quick_warmup if args.quick else None)


def run_all(
    target: sa.Target,
    methods: Mapping[str, Method],
    budget: Budget,
    seed: int,
    target_number: int = 0,
    keep: tuple[str, ...] = (),
    run: Callable[..., tuple[list[Chain], list[str]]] = run,
) -> tuple[dict[str, list[Chain]], list[str]]:
    """Run the methods one after another; those that fail are reported in the notes and left out.

    After Ctrl-C: the methods that were done. `target_number` makes seeds differ between targets;
    `keep` names the variables to keep, all if empty.
    """
    chains, notes = {}, []
    try:
        for number, name in enumerate(terminal.each(methods, lambda name: f"{target.name} {name}")):
            try:
                seed_of_run = own_seed(seed, target_number, number)
                chains[name], messages = run(target, methods[name], budget, seed_of_run, keep)
            except sa.StanadaptError as error:
                if error.code == "interrupted":
                    raise KeyboardInterrupt from None  # Ctrl-C during warm-up
                messages = [f"failed: {' '.join(str(error).split())}"]
            notes += [f"{name}: {message}" for message in messages]
    except KeyboardInterrupt:
        notes.append(f"interrupted after {len(chains)} of {len(methods)} methods.")
    return chains, notes


def rows(
    chains: Mapping[str, list[Chain]], measured: Callable[[Chain], dict[str, float]]
) -> pd.DataFrame:
    """One row per chain: method, repeat, the numbers that `measured` returns, and its cost."""
    return pd.DataFrame(
        [
            {
                "method": name, "repeat": number, **measured(chain), "gradients": chain.gradients,
                "warm-up": chain.warmup_gradients, "draws": chain.draws, "seconds": chain.seconds,
            }
            for name, repeats in chains.items()
            for number, chain in enumerate(repeats, 1)
        ]
    )  # fmt: skip


def truth(exact: Mapping[str, float], digits: int) -> dict[str, str]:
    """The row of exact values, above those of methods."""
    return {"method": "truth", "from": "exact"} | {k: f"{v:.{digits}f}" for k, v in exact.items()}


def shown_costs(table: pd.DataFrame) -> dict[str, str]:
    """Means over the rows of one method, as text."""
    return {name: f"{table[name].mean():,.0f}" for name in ("gradients", "warm-up", "draws")}


def spread(values: Any, digits: int) -> str:
    """Write the mean and the standard deviation over repeats."""
    values = pd.Series(values, dtype=float)
    text = f"{values.mean():.{digits}f}"
    return text if len(values) < 2 else f"{text} ({values.std():.{digits}f})"
