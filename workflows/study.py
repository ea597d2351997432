"""One study: every method, several times, on some targets; tables and figures of it."""

import argparse
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import intervals
import record
import repeats
import tables
import terminal
from methods import NAMES, Length

import stanadapt as sa
from stanadapt import models

PAPER, QUICK = Length(20_000, 20_000), Length(500, 500)
REPEATS, QUICK_REPEATS = 10, 2


def parser(description: str) -> argparse.ArgumentParser:
    """Options that every study has."""
    made = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    made.add_argument(
        "--methods", nargs="+", choices=NAMES, default=NAMES, metavar="METHOD",
        help=f"of {', '.join(NAMES)}; default: all",
    )  # fmt: skip
    made.add_argument(
        "--repeats",
        type=terminal.positive,
        help=f"chains a method; default: {REPEATS}, quick {QUICK_REPEATS}",
    )
    made.add_argument("--seed", type=int, default=1, help="of all repeats; default: 1")
    made.add_argument(
        "--engine", choices=["auto", "cmdstan", "stanli"], default="auto",
        help="whose NUTS; auto: CmdStan's where it is installed",
    )  # fmt: skip
    made.add_argument("--out", type=Path, help="folder; default: output/NAME OF THE SCRIPT")
    made.add_argument(
        "--quick", action="store_true",
        help=f"{QUICK.warmup} + {QUICK.draws} iterations: does it run?",
    )  # fmt: skip
    return made


def conduct(
    script: str,
    targets: Mapping[str, tuple[str, str | None]],
    options: argparse.Namespace,
    caption: str,
    budgets: Mapping[tuple[str, str], Length] | None = None,
) -> None:
    """Run a study and say where its results lie.

    Parameters
    ----------
    script
        Its name, which is that of its files.
    targets
        Bundled program and data set by the name of a section.
    options
        From `parser`.
    caption
        What a reader must know besides the numbers.
    budgets
        Iterations of (section, method) that differ from the paper's.

    """
    began, folder = time.perf_counter(), record.folder(script, options.out)
    jobs = _jobs(targets, options, budgets or {})
    bound = {data: sa.Target(*models.find(*found)) for data, found in targets.items()}
    rows, notes = repeats.run(jobs, bound, options.seed, options.engine)
    if rows.empty:
        raise SystemExit("interrupted before the first chain was done: nothing to show.")
    if options.quick:
        notes.insert(0, "quick run: too short for its numbers to mean anything.")
    paths = _written(folder, script, rows, caption, notes)
    settings = {
        **vars(options), "repeats": 1 + jobs[-1].repeat, "caption": caption, "notes": notes,
        "iterations": {f"{job.data} {job.method}": job.length for job in jobs},
        "seconds_in_all": time.perf_counter() - began,
    }  # fmt: skip
    paths.append(record.write_settings(folder / f"{script}.json", settings))
    print("\n".join([caption, *notes, "Written:", *(f"  {path}" for path in paths)]))


def _jobs(
    targets: Iterable[str],
    options: argparse.Namespace,
    budgets: Mapping[tuple[str, str], Length],
) -> list[repeats.Job]:
    """All chains to be run, repeats of one method together."""
    longest, usual = (QUICK, QUICK_REPEATS) if options.quick else (PAPER, REPEATS)
    return [
        repeats.Job(
            data, method, repeat, Length(*map(min, budgets.get((data, method), PAPER), longest))
        )
        for data in targets
        for method in options.methods
        for repeat in range(options.repeats or usual)
    ]


def _written(folder: Path, script: str, rows, caption: str, notes: list[str]) -> list[Path]:
    table = repeats.summary(rows)
    tables.show(table)
    text = tables.markdown(script, table, caption, notes)
    paths = tables.write(folder, script, rows, table, text)
    for data in table.index.unique("data"):
        path = folder / (f"{script}.png" if script.endswith(data) else f"{script}_{data}.png")
        paths.append(intervals.draw(table, data, f"{data}: one chain a repeat", path))
    return paths
