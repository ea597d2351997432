"""The command `train-nice`.

Commands that tell what there is, or install what is missing.

The command `paper`: experiments of the papers, which are part of the package.
"""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stanadapt import results
from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Inits,
    Model,
    Posteriordb,
    Quiet,
    Seed,
    Unsafe,
    make_target,
    read_inits,
)
from stanadapt.cli.terminal import plain, reported, require_writable
from stanadapt.diagnostics.modes import modes as find_modes
from stanadapt.diagnostics.modes import with_scalar_columns
from stanadapt.engine.console import status
from stanadapt.engine.registry import as_chosen, find, registered
from stanadapt.errors import StanadaptError
from stanadapt.runs.choose_sampler import ABOUT_AUTO, AUTO
from stanadapt.samplers.nice.train import train_nice as train
from stanadapt.targets.doctor import lines as doctor_lines
from stanadapt.targets.posteriordb import PosteriorDatabase, list_posteriors
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
            for row in list_posteriors(PosteriorDatabase(posteriordb)):
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


def train_nice(
    model: Model,
    data: Data = None,
    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", help="The .npz file to write.")
    ] = Path("network.npz"),
    warm_start: Annotated[
        Path | None, typer.Option(help="File of a fit whose draws are learned from first.")
    ] = None,
    iterations: Annotated[int, typer.Option(help="Steps of the generator.")] = 2000,
    width: Annotated[int, typer.Option(help="Hidden units of each coupling.")] = 128,
    inits: Inits = None,
    seed: Seed = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    r"""Train a network for the sampler nice (needs JAX: pip install 'stanadapt\[learn]')."""
    with reported():
        (path,) = require_writable([output], force)
        target = make_target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        network = train(
            target, warm_start=results.load(warm_start) if warm_start else None,
            inits=read_inits(inits), iterations=iterations, width=width, seed=seed,
            show_progress=not quiet,
        )  # fmt: skip
        network.save(path)
        made = network.description
        print(
            f"step {made['step']}: {made['ess_per_draw']:.1%} effective draws, accepted "
            f"{made['acceptance']:.0%}, trained in {made['seconds']:.0f} s"
        )
        print(f"Network: {path}")
        if made["interrupted"]:
            raise typer.Exit(130)
