"""What the tempering workflows share: options, running all methods, printing, writing."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console
from rich.table import Table

import stanadapt as sa
from workflows import record, terminal
from workflows.tempering.runs import Budget, Chain, Method, own_seed, run

QUICK_NOTE = "quick run: too short for its numbers to mean anything."
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
) -> argparse.Namespace:
    """Read the options that all of these workflows have.

    quick
        Gradients and repeats of --quick.
    choices
        Options that take one or more values; None if the user gives none.
    one_of
        Options that take one value; default: the first.
    """
    parser = terminal.parser(docstring)
    parser.add_argument(
        "--gradients", type=terminal.positive,
        help=f"per chain, after warm-up; default: {gradients:,}, quick {quick[0]:,}",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=terminal.positive,
        help=f"chains per method; default: {repeats}, quick {quick[1]}",
    )  # fmt: skip
    for name, known in (choices or {}).items():
        parser.add_argument(
            f"--{name}", nargs="+", choices=known, metavar=name[:-1].upper(),
            help=f"one or more of: {'; '.join(known)}; default: all",
        )  # fmt: skip
    for name, known in (one_of or {}).items():
        parser.add_argument(f"--{name}", choices=known, default=known[0], help="default: the first")
    parser.add_argument("--seed", type=int, default=1, help="of all chains; default: 1")
    parser.add_argument("--out", type=Path, help="folder; default: output/tempering/WORKFLOW")
    parser.add_argument("--quick", action="store_true", help="tiny lengths: does it run?")
    chosen = parser.parse_args()
    usual = quick if chosen.quick else (gradients, repeats)
    chosen.gradients = chosen.gradients or usual[0]
    chosen.repeats = chosen.repeats or usual[1]
    return chosen


def names(
    chosen: argparse.Namespace, every: Mapping[str, Method], quick: tuple[str, ...]
) -> list[str]:
    """Methods to run: those named in the options, or else all, or a few in a quick run."""
    return list(chosen.methods or (quick if chosen.quick else every))


def budget_of(chosen: argparse.Namespace, quick_warmup: int | None = None) -> Budget:
    """The budget given by the options; `quick_warmup` iterations of warm-up in a quick run."""
    return Budget(chosen.gradients, chosen.repeats, quick_warmup if chosen.quick else None)


def run_all(
    target: sa.Target,
    methods: Mapping[str, Method],
    budget: Budget,
    seed: int,
    target_number: int = 0,
    keep: tuple[str, ...] = (),
) -> tuple[dict[str, list[Chain]], list[str]]:
    """Run the methods one after another; those that fail are reported in the notes and left out.

    After Ctrl-C: the methods that were done. `target_number` makes seeds differ between targets;
    `keep` names the variables to keep, all if empty.
    """
    chains, notes = {}, []
    with terminal.progress_bar() as bar:
        task = bar.add_task("", total=len(methods))
        try:
            for number, (name, method) in enumerate(methods.items()):
                bar.update(task, description=f"{target.name} {name}")
                try:
                    own = own_seed(seed, target_number, number)
                    chains[name], messages = run(target, method, budget, own, keep)
                except sa.StanadaptError as error:
                    if error.message.startswith("interrupted"):
                        raise KeyboardInterrupt from None  # Ctrl-C during warm-up
                    messages = [f"failed: {' '.join(str(error).split())}"]
                notes += [f"{name}: {message}" for message in messages]
                bar.advance(task)
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


def shown_costs(table: pd.DataFrame) -> dict[str, str]:
    """Means over the rows of one method, as text."""
    return {name: f"{table[name].mean():,.0f}" for name in ("gradients", "warm-up", "draws")}


def text_table(lines: list[dict[str, str]]) -> pd.DataFrame:
    """Lines as a table, with the columns of the longest line in their order."""
    return pd.DataFrame(lines, columns=list(max(lines, key=len))).fillna("")


def spread(values: Any, digits: int) -> str:
    """Write the mean and the standard deviation over repeats."""
    values = pd.Series(values, dtype=float)
    text = f"{values.mean():.{digits}f}"
    return text if len(values) < 2 else f"{text} ({values.std():.{digits}f})"


def show(title: str, text: pd.DataFrame) -> None:
    """Print a table of text; rows that are not from here are dim."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = 180  # a pipe has no width: long lines are better than broken words
    shown = Table(title=title, box=None, header_style="bold")
    for heading in text:
        shown.add_column(heading, justify="left" if heading in ("method", "from") else "right")
    for _, line in text.iterrows():
        shown.add_row(*line, style=None if line.get("from", "here") == "here" else "dim")
    console.print(shown)


class Results(NamedTuple):
    """The results of a workflow.

    sections
        Tables of text by title.
    parts
        Every chain in full precision, in tables to be joined.
    notes, figures
        Messages for the reader; files that are already written.

    """

    sections: dict[str, pd.DataFrame]
    parts: list[pd.DataFrame]
    notes: list[str]
    figures: list[Path]


def conclude(
    name: str, chosen: argparse.Namespace, results: Results, caption: str, began: float
) -> None:
    """Print the tables, write them and the settings, and print where they are."""
    if not results.parts:
        message = "No method was finished: nothing was written."
        raise SystemExit("\n".join([*results.notes, message]))
    folder, stem = record.folder(name, chosen.out), name.rpartition("/")[2]
    notes = [QUICK_NOTE] * chosen.quick + results.notes
    for title, text in results.sections.items():
        show(title, text)
    paths = [folder / f"{stem}.csv", folder / f"{stem}.md"]
    pd.concat(results.parts, ignore_index=True).to_csv(paths[0], index=False)
    text = _markdown(name, results.sections, caption, notes)
    paths[1].write_text(text, encoding="utf-8")
    settings = {
        **vars(chosen), "caption": caption, "notes": notes,
        "seconds_in_all": time.perf_counter() - began,
    }  # fmt: skip
    paths += [*results.figures, record.write_settings(folder / f"{stem}.json", settings)]
    print("\n".join([caption, *notes, "Written:", *(f"  {path}" for path in paths)]))


def _markdown(name: str, sections: dict[str, pd.DataFrame], caption: str, notes: list[str]) -> str:
    parts = [f"# {name}", caption]
    for title, text in sections.items():
        cells = [list(text.columns), ["---"] * text.shape[1], *text.to_numpy().tolist()]
        parts += [f"## {title}", "\n".join(f"| {' | '.join(row)} |" for row in cells)]
    parts += ["## Notes", "\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"
