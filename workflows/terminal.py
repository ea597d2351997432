"""Shared parts of the command lines of workflows: parser, positive integers, progress bar."""

import argparse
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.bundled import find

Job = TypeVar("Job")


def parser(docstring: str) -> argparse.ArgumentParser:
    """Make a parser described by the first line of a docstring.

    Its usage line names the command, or the module: as a script, by its path, a workflow does not
    run.
    """
    if sys.argv[0].startswith("stanadapt "):
        return argparse.ArgumentParser(sys.argv[0], description=docstring.split("\n", 1)[0])
    spec = sys.modules["__main__"].__spec__
    program = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    return argparse.ArgumentParser(program, description=docstring.split("\n", 1)[0])


def usual_parser(docstring: str, name: str, quick: str) -> argparse.ArgumentParser:
    """Make a parser with --seed, --out and --quick; `quick` explains the last of these."""
    new = parser(docstring)
    new.add_argument("--seed", type=int, default=1, help="random seed of all runs; default: 1")
    new.add_argument("--out", type=Path, help=f"folder; default: output/{name}")
    new.add_argument("--quick", action="store_true", help=f"{quick}: does it run?")
    return new


def add_repeats(parser: argparse.ArgumentParser, usual: int, quick: int) -> None:
    """Add --repeats; `args.repeats` is None if it is not given."""
    text = f"chains per method; default: {usual}, quick {quick}"
    parser.add_argument("--repeats", type=positive, help=text)


def large_data(quick: bool) -> str:
    """Return the data of `logistic` that a benchmark measures: Caravan; bundled ones with --quick.

    Ends with what to do if Caravan was not fetched.
    """
    if quick:
        return "german"
    try:
        find("logistic", "caravan")
    except StanadaptError as error:
        raise SystemExit(f"{error} --quick runs without it.") from None
    return "caravan"


def positive(text: str) -> int:
    """Read an option that must be an integer of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def each(jobs: Collection[Job], name: Callable[[Job], str] = str) -> Iterator[Job]:
    """Yield jobs, while a bar shows the name of the one that runs and how many are done."""
    with progress_bar() as bar:
        task = bar.add_task("", total=len(jobs))
        for job in jobs:
            bar.update(task, description=name(job))
            yield job
            bar.advance(task)


def progress_bar() -> Progress:
    """Make a bar on standard error that counts jobs and disappears at the end."""
    return Progress(
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
