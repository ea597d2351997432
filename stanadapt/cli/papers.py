"""The command `paper`: experiments of the papers, which are part of the package."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from stanadapt.cli.messages import plain, reported
from stanadapt.errors import StanadaptError

PACKAGE = Path(__file__).resolve().parents[1]
ALL = "workflows"
UNKNOWN = "not measured"


def paper(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="An experiment; without it, all are listed.")
    ] = None,
) -> None:
    """Run an experiment of a paper, or list them; --quick shows that it runs, --help its options.

    Results go to output/ in the current folder.
    """
    with reported():
        catalogue = _catalogue()
        if name is None or name in context.help_option_names:
            _list(catalogue)
            return
        names = {experiment.name: experiment for experiment in catalogue}
        chosen = names.get(name.replace("_", "-").replace(".", "-"))
        if chosen is None:
            listed = ", ".join(names)
            raise StanadaptError("settings", f"there is no experiment {name!r}, only {listed}.")
        sys.argv = [f"stanadapt paper {chosen.name}", *context.args]
        importlib.import_module(f"{ALL}.{chosen.module}").main()


def _catalogue() -> Any:
    """Experiments; their folder is made one that Python imports from."""
    inside = PACKAGE / "_workflows"  # in a wheel; in the repository they are beside the package
    root = inside if inside.is_dir() else PACKAGE.parent
    if not (root / ALL / "catalogue.py").is_file():
        raise StanadaptError(
            "installation",
            f"the experiments are not in {root}: this copy of stanadapt was installed without "
            "them. Install the wheel, or work in a clone.",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"{ALL}.catalogue").EXPERIMENTS


def _list(catalogue: Any) -> None:
    """One experiment after another: words of any length, durations below them."""
    console = Console(soft_wrap=True)
    for experiment in catalogue:
        console.print(f"[bold]{experiment.name}[/bold]  {plain(experiment.reproduces)}")
        quick = f"; with --quick {experiment.quick}" if experiment.quick else ""
        console.print(f"    takes: {experiment.duration or UNKNOWN}{quick}", highlight=False)
    console.print(
        "The first run compiles, which takes a minute or more.\n"
        "`stanadapt paper NAME --help` lists the options of one.",
        highlight=False,
    )
