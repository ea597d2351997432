"""The commands `paper`, experiments of the papers, one or all, and `bench`, benchmarks."""

import ast
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from stanadapt.cli.signature import command
from stanadapt.cli.terminal import plain
from stanadapt.engine.console import status
from stanadapt.errors import StanadaptError, did_you_mean

PACKAGE = Path(__file__).resolve().parents[1]
ALL = "workflows"
UNKNOWN = "not measured"
# unbuffered, so that the reason of a failure is the last line
COMMAND = (sys.executable, "-u", "-m", "stanadapt", "paper")
LOG = "log.txt"  # output of an experiment, in its folder


class Outcome(NamedTuple):
    """One experiment of a run of all: its name, folder, seconds, and why it failed, or ""."""

    name: str
    folder: Path
    seconds: float
    failure: str


@command()
def paper(
    context: typer.Context,
    name: str | None = None,
    *,
    every: bool = False,
) -> None:
    catalogue = _catalogue()
    if every:
        if any(
            outcome.failure
            for outcome in _run_all(catalogue, [*([name] if name else []), *context.args])
        ):
            raise typer.Exit(1)
        return
    if name is None or name in context.help_option_names:
        _list(catalogue)
        return
    names = {experiment.name: experiment for experiment in catalogue}
    name = name.replace("_", "-").replace(".", "-")
    _require_known(name, names, "experiment")
    _start("paper", name, names[name].module, context.args)


@command()
def bench(
    context: typer.Context,
    name: str | None = None,
) -> None:
    _catalogue()
    folder = Path(str(importlib.import_module(f"{ALL}.benchmarks").__file__)).parent
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    about = {
        stem.replace("_", "-"): str(ast.get_docstring(ast.parse(text))).split("\n\n")[0]
        for stem, text in texts.items()
        if "\ndef main(" in text
    }
    if name is None or name in context.help_option_names:
        console = Console(soft_wrap=True)
        for each, text in about.items():
            console.print(f"[bold]{each}[/bold]  {plain(' '.join(text.split()))}", highlight=False)
        console.print("`stanadapt bench NAME --help` lists the options of one.", highlight=False)
        return
    name = name.replace("_", "-")
    _require_known(name, about, "benchmark")
    _start("bench", name, f"benchmarks.{name.replace('-', '_')}", context.args)


def _require_known(name: str, names: Collection[str], kind: str) -> None:
    if name not in names:
        raise StanadaptError(
            "unknown_experiment",
            f"there is no {kind} {name!r}.{did_you_mean(name, names)} "
            f"There are {', '.join(names)}.",
        )


def _start(command: str, name: str, module: str, words: Sequence[str]) -> None:
    """Run a module, which parses its own options."""
    sys.argv = [f"stanadapt {command} {name}", *words]
    importlib.import_module(f"{ALL}.{module}").main()


def _catalogue(package: Path = PACKAGE) -> Any:
    """Return the experiments, and add their folder to those that Python imports from."""
    inside = package / "_workflows"  # in a wheel; in the repository, next to the package
    root = inside if inside.is_dir() else package.parent
    if not (root / ALL / "catalogue.py").is_file():
        raise StanadaptError(
            "experiments_missing",
            f"the experiments are not in {root}: this copy of stanadapt was installed without "
            "them. Install the wheel, or work in a clone.",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
        for_children = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(for_children)
    return importlib.import_module(f"{ALL}.catalogue").EXPERIMENTS


def _list(catalogue: Any) -> None:
    """Print one experiment after another, with its duration below."""
    console = Console(soft_wrap=True)
    for experiment in catalogue:
        console.print(f"[bold]{experiment.name}[/bold]  {plain(experiment.reproduces)}")
        quick = f"; with --quick {experiment.quick}" if experiment.quick else ""
        console.print(f"    takes: {experiment.duration or UNKNOWN}{quick}", highlight=False)
    console.print(
        "The first run compiles code, which takes a minute or more.\n"
        "`stanadapt paper NAME --help` lists the options of one, `stanadapt paper --all` runs all.",
        highlight=False,
    )


def _run_all(
    catalogue: Any, words: Sequence[str], command: Sequence[str] = COMMAND
) -> list[Outcome]:
    """Run all experiments, and print a line for each and a summary; return the outcomes."""
    quick, out = _options_of_all(words)
    console, outcomes = Console(soft_wrap=True), list[Outcome]()
    for number, experiment in enumerate(catalogue, 1):
        folder = out.joinpath(*experiment.module.split("."))
        usual = (experiment.quick if quick else experiment.duration) or UNKNOWN
        try:
            with status(True) as report:
                report(f"{experiment.name} ({number} of {len(catalogue)}), duration: {usual}")
                outcomes.append(_run([*command, experiment.name], folder, quick))
        except KeyboardInterrupt:
            if outcomes:
                _summarize(console, outcomes)
            raise
        done = outcomes[-1]
        result = f"failed: {done.failure}" if done.failure else f"written to {folder}"
        console.print(f"{done.name}: {done.seconds:.0f} s, {plain(result)}", highlight=False)
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
