"""One study: every method, several times, on some targets; its tables and figures."""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import conclude, record, terminal
from workflows.gad import intervals, repeats, tables, traces
from workflows.gad.methods import NAMES, Length

PAPER, QUICK = Length(20_000, 20_000), Length(500, 500)
NUTS = Length(500, 20_000)  # as in the authors' programs
REPEATS, QUICK_REPEATS = 10, 2


def parser(docstring: str, methods: Sequence[str] = NAMES) -> argparse.ArgumentParser:
    """Options that every study has; `methods` are those to choose from."""
    quick = f"{QUICK.warmup} + {QUICK.draws} iterations"
    options = terminal.usual_parser(docstring, "PAPER/WORKFLOW", quick)
    options.add_argument(
        "--methods", nargs="+", choices=methods, default=methods, metavar="METHOD",
        help=f"one or more of: {'; '.join(methods)}; default: all",
    )  # fmt: skip
    terminal.add_repeats(options, REPEATS, QUICK_REPEATS)
    options.add_argument(
        "--engine", choices=["auto", "cmdstan", "stanli"], default="auto",
        help="of NUTS; auto: CmdStan if it is installed",
    )  # fmt: skip
    return options


def conduct(
    name: str,
    targets: Mapping[str, tuple[str, str | None] | sa.Target],
    options: argparse.Namespace,
    caption: str,
    budgets: Mapping[tuple[str, str], Length] | None = None,
    closing: Callable[[], list[str]] | None = None,
) -> None:
    """Run a study and print the folder of its results.

    Parameters
    ----------
    name
        "gad/" and the name of its files.
    targets
        Bundled program and data set, or a target, by the name of a section.
    options
        From `parser`.
    caption
        Explanations of the numbers, for the reader.
    budgets
        Iterations by (section, method) if they differ from the paper's.
    closing
        Called when all chains have run; returns further notes.
    """
    began, folder = time.perf_counter(), record.folder(name, options.out)
    jobs = _jobs(targets, options, budgets or {})
    bound = {
        data: source if isinstance(source, sa.Target) else sa.Target(*bundled.find(*source))
        for data, source in targets.items()
    }
    followed: dict[tuple[str, str], traces.Trace] = {}
    rows, notes = repeats.run(jobs, bound, options.seed, options.engine, followed)
    if rows.empty:
        raise SystemExit("interrupted before the first chain was done: nothing to show.")
    notes += closing() if closing else []
    if options.quick:
        notes.insert(0, conclude.QUICK_NOTE)
    stem = name.rpartition("/")[2]
    paths = _written(folder, stem, rows, caption, notes) + traces.write(folder, stem, followed)
    settings = {
        **vars(options), "repeats": 1 + jobs[-1].repeat, "caption": caption, "notes": notes,
        "iterations": {f"{job.data} {job.method}": job.length for job in jobs},
    }  # fmt: skip
    conclude.finish(folder / f"{stem}.json", settings, paths, began)


def _jobs(
    targets: Iterable[str],
    options: argparse.Namespace,
    budgets: Mapping[tuple[str, str], Length],
) -> list[repeats.Job]:
    """All chains to run, repeats of one method together."""
    usual = QUICK_REPEATS if options.quick else REPEATS
    return [
        repeats.Job(data, method, repeat, _length(budgets.get((data, method), own), options))
        for data in targets
        for method in options.methods
        for own in (NUTS if method == "NUTS" else PAPER,)
        for repeat in range(options.repeats or usual)
    ]


def _length(usual: Length, options: argparse.Namespace) -> Length:
    return Length(*map(min, usual, QUICK)) if options.quick else usual


def _written(folder: Path, stem: str, rows, caption: str, notes: list[str]) -> list[Path]:
    table = repeats.summary(rows)
    tables.show(table)
    text = tables.markdown(stem, table, caption, notes)
    paths = tables.write(folder, stem, rows, table, text)
    for data in table.index.unique("data"):
        path = folder / (f"{stem}.png" if stem == data else f"{stem}_{data}.png")
        paths.append(intervals.draw(table, data, f"{data}: one chain per repeat", path))
    return paths
