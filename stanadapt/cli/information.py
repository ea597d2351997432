"""Commands that tell what there is, or install what is missing."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stanadapt import results
from stanadapt.cli.files import require_writable
from stanadapt.cli.messages import plain, reported
from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Model,
    Posteriordb,
    Quiet,
    Unsafe,
    make_target,
)
from stanadapt.diagnostics.modes import modes as find_modes
from stanadapt.diagnostics.modes_report import with_scalar_columns
from stanadapt.engine.registry import as_chosen, find, registered
from stanadapt.engine.status import status
from stanadapt.runs.choose_sampler import ABOUT_AUTO, AUTO
from stanadapt.targets.doctor import lines as doctor_lines
from stanadapt.targets.posteriordb import PosteriorDatabase, about_posteriors
from stanadapt.targets.stan import bundled
from stanadapt.targets.stan.backends import cmdstan
from stanadapt.targets.stan.install_cmdstan import install_cmdstan as install


def modes(
    model: Model,
    fit: Annotated[Path, typer.Argument(help="A netCDF file that `sample` or `compare` wrote.")],
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file for the table.")
    ] = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """List the modes that the draws of a fit visited, their weights, and whether chains agree."""
    with reported():
        (path,) = require_writable([out], force) if out is not None else (None,)
        drawn = results.load(fit)
        target = make_target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        table = find_modes(target, drawn)
        if path is not None:
            with_scalar_columns(table).to_csv(path)
            print(f"table: {path}")


def samplers(
    name: Annotated[str | None, typer.Argument(help="One sampler, with all its settings.")] = None,
) -> None:
    """List the samplers: what each is for, its settings and their defaults."""
    with reported():
        console = Console(soft_wrap=True)
        if name is None:
            console.print(f"[bold]{AUTO}[/bold]  {ABOUT_AUTO}", highlight=False)
            for sampler in registered().values():
                _show_sampler(console, sampler)
            console.print("`stanadapt samplers NAME` explains its settings and cites its sources.")
            return
        sampler, _ = find(name)
        _show_sampler(console, sampler)
        console.print(f"\n{plain(sampler.documentation)}\n", highlight=False)
        console.print(plain(inspect.getdoc(sampler.settings) or ""), highlight=False)


def _show_sampler(console: Console, sampler: Any) -> None:
    chosen = as_chosen(sampler.settings())
    defaults = ", ".join(f"{k}={v}" for k, v in chosen.items())
    summary = " ".join(sampler.documentation.split("\n\n")[0].split())
    exact, _ = find(sampler.name)
    mark = "" if exact.exact else "  (not exact)"
    console.print(f"[bold]{sampler.name}[/bold]{mark}  {plain(summary)}", highlight=False)
    lengths = f"iter_warmup={sampler.iter_warmup}, iter_sampling={sampler.iter_sampling}"
    console.print(f"    {defaults}; {lengths}", highlight=False)


def models(posteriordb: Posteriordb = None) -> None:
    """List the bundled Stan programs and their data sets, or the posteriors of a posteriordb."""
    with reported():
        if posteriordb is not None:
            table = Table(box=None, header_style="bold")
            for column in ("posterior", "components", "reference"):
                table.add_column(column)
            for row in about_posteriors(PosteriorDatabase(posteriordb)):
                table.add_row(*map(plain, row))
            Console().print(table)
            return
        console = Console()
        for program in bundled.available().values():
            data = f"; data: {', '.join(program.data)}" if program.data else ""
            console.print(f"[bold]{program.name}[/bold]{data}", highlight=False)
            # below the name: beside it, three words a line are all that 80 columns have room for
            console.print(Padding(plain(program.description), (0, 0, 0, 4)), highlight=False)


def doctor() -> None:
    """Report what is installed, what is missing, and how to get it."""
    with reported():
        for line in doctor_lines():
            Console(soft_wrap=True).print(plain(line), highlight=False)


def install_cmdstan() -> None:
    """Install CmdStan: the current release if GitHub is reachable, else 2.27.0 by pip."""
    with reported():
        print(f"CmdStan: {install()}")
        with status(True) as report:
            cmdstan.prepare(report)
