"""The commands `paper`, experiments of the papers, one or all, and `bench`, benchmarks."""

import ast
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from stanadapt.cli.signature import command
from stanadapt.cli.terminal import plain
from stanadapt.errors import StanadaptError, did_you_mean

PACKAGE = Path(__file__).resolve().parents[1]
ALL = "workflows"


@command()
def paper(
    context: typer.Context,
    name: str | None = None,
    *,
    every: bool = False,
) -> None:
    catalogue = _catalogue()
    if every:
        run_all = importlib.import_module(f"{ALL}.every_experiment").run_all
        outcomes = run_all(catalogue, [*([name] if name else []), *context.args])
        if any(outcome.failure for outcome in outcomes):
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
        console.print(f"    takes: {experiment.takes()}{quick}", highlight=False)
    console.print(
        "The first run compiles code, which takes a minute or more.\n"
        "`stanadapt paper NAME --help` lists the options of one, `stanadapt paper --all` runs all.",
        highlight=False,
    )
