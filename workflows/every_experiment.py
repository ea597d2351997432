"""All experiments of the papers, one after another, each in a process of its own.

`stanadapt paper --all` runs them. One that fails does not end the others.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from stanadapt.engine.console import status
from stanadapt.errors import StanadaptError

# unbuffered, so that the reason of a failure is the last line
COMMAND = (sys.executable, "-u", "-m", "stanadapt", "paper")
LOG = "log.txt"  # output of an experiment, in its folder


class Outcome(NamedTuple):
    """One experiment of a run of all: its name, folder, seconds, and why it failed, or ""."""

    name: str
    folder: Path
    seconds: float
    failure: str


def run_all(
    catalogue: Any, words: Sequence[str], command: Sequence[str] = COMMAND
) -> list[Outcome]:
    """Run all experiments, and print a line for each and a summary; return the outcomes."""
    quick, out = _options_of_all(words)
    console, outcomes = Console(soft_wrap=True), list[Outcome]()
    for number, experiment in enumerate(catalogue, 1):
        folder = out.joinpath(*experiment.module.split("."))
        try:
            with status(True) as report:
                place = f"{number} of {len(catalogue)}"
                report(f"{experiment.name} ({place}), duration: {experiment.takes(quick)}")
                outcomes.append(_run([*command, experiment.name], folder, quick))
        except KeyboardInterrupt:
            if outcomes:
                _summarize(console, outcomes)
            raise
        done = outcomes[-1]
        result = f"failed: {done.failure}" if done.failure else f"written to {folder}"
        line = f"{done.name}: {done.seconds:.0f} s, {result}"
        console.print(line, highlight=False, markup=False)
    _summarize(console, outcomes)
    return outcomes


def _options_of_all(words: Sequence[str]) -> tuple[bool, Path]:
    """Return whether --quick was given, and the folder of --out."""
    rest, quick, out = list(words), False, Path("output")
    while rest:
        word = rest.pop(0)
        if word == "--quick":
            quick = True
        elif word == "--out" and rest:
            out = Path(rest.pop(0))
        elif word.startswith("--out="):
            out = Path(word.removeprefix("--out="))
        else:
            raise StanadaptError(
                "options_conflict",
                f"`stanadapt paper --all` takes --quick and --out FOLDER alone, got {word!r}. "
                "Other options belong to one experiment: `stanadapt paper NAME --help`.",
            )
    return quick, out


def _run(command: list[str], folder: Path, quick: bool) -> Outcome:
    """Run an experiment in another process, which cannot end this one."""
    folder.mkdir(parents=True, exist_ok=True)
    log, began = folder / LOG, time.perf_counter()
    options = ["--out", str(folder), *(["--quick"] if quick else [])]
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            [*command, *options], stdout=file, stderr=subprocess.STDOUT, check=False
        )
    failure = ""
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1].strip() if lines else "it printed nothing"
        failure = f"exit code {done.returncode}: {last} (all of its output: {log})"
    return Outcome(command[-1], folder, time.perf_counter() - began, failure)


def _summarize(console: Console, outcomes: Sequence[Outcome]) -> None:
    table = Table(box=None, header_style="bold")
    for heading in ("experiment", "seconds", "outcome"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for outcome in outcomes:
        end = "failed" if outcome.failure else "done"
        table.add_row(outcome.name, f"{outcome.seconds:.0f}", end)
    console.print(table)
    failed = [outcome.name for outcome in outcomes if outcome.failure]
    seconds = sum(outcome.seconds for outcome in outcomes)
    text = f"{len(outcomes) - len(failed)} of {len(outcomes)} experiments done in {seconds:.0f} s"
    console.print(f"{text}; failed: {', '.join(failed)}." if failed else f"{text}.")
