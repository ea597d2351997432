"""Commands around a fit: lists and explanations, installation, experiments of papers."""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stanadapt.cli.messages import EXPERIMENTS_MISSING, UNKNOWN_CODE, UNKNOWN_EXPERIMENT
from stanadapt.cli.options import Posteriordb
from stanadapt.cli.terminal import plain, report_errors
from stanadapt.engine.console import status
from stanadapt.engine.registry import as_chosen, find, registered
from stanadapt.errors import (
    NOTE,
    STAGES,
    VERDICT,
    Code,
    StanadaptError,
    all_codes,
    did_you_mean,
)
from stanadapt.runs.choose_sampler import ABOUT_AUTO, AUTO
from stanadapt.targets.doctor import lines as doctor_lines
from stanadapt.targets.posteriordb import PosteriorDatabase, list_posteriors
from stanadapt.targets.stan import bundled
from stanadapt.targets.stan.backends import cmdstan
from stanadapt.targets.stan.install_cmdstan import install_cmdstan as install


def samplers(
    name: Annotated[str | None, typer.Argument(help="A sampler, to explain its settings.")] = None,
) -> None:
    """List the samplers with their purpose, settings and defaults, or explain one."""
    with report_errors():
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
    settings = as_chosen(sampler.settings())
    defaults = ", ".join(f"{k}={v}" for k, v in settings.items())
    summary = " ".join(sampler.documentation.split("\n\n")[0].split())
    exact, _ = find(sampler.name)
    mark = "" if exact.exact else "  (not exact)"
    console.print(f"[bold]{sampler.name}[/bold]{mark}  {plain(summary)}", highlight=False)
    lengths = f"iter_warmup={sampler.iter_warmup}, iter_sampling={sampler.iter_sampling}"
    console.print(f"    {defaults}; {lengths}", highlight=False)


def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="The code at the end of a message; if omitted, all are listed."),
    ] = None,
) -> None:
    """Explain a message by its code: its kind, meaning and cure."""
    with report_errors():
        console, codes = Console(soft_wrap=True), all_codes()
        if code is None:
            for kind in (*STAGES, VERDICT, NOTE):
                alike = [each for each in codes.values() if each.kind == kind]
                if alike:
                    console.print(f"[bold]{kind}[/bold]", highlight=False)
                for each in alike:
                    console.print(f"    {each}: {plain(each.meaning)}", highlight=False)
            console.print("`stanadapt explain CODE` prints the cure.")
            return
        name = code.strip("[]").lower()
        if name not in codes:
            raise StanadaptError(
                UNKNOWN_CODE,
                f"no message has the code {name!r}.{did_you_mean(name, codes)} "
                "`stanadapt explain` lists all codes.",
            )
        _show_code(console, codes[name])


def _show_code(console: Console, code: Code) -> None:
    console.print(f"[bold]{code}[/bold]", highlight=False)
    for title, text in (("kind", code.kind), ("meaning", code.meaning), ("cure", code.cure)):
        console.print(f"    {title}: {plain(text)}", highlight=False)


def models(posteriordb: Posteriordb = None) -> None:
    """List the bundled Stan programs and their data sets, or the posteriors of a posteriordb."""
    with report_errors():
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
            # below the name: next to it, 80 columns leave room for three words per line
            console.print(Padding(plain(program.description), (0, 0, 0, 4)), highlight=False)


def doctor() -> None:
    """Report which backends and tools are installed, and how to install the missing ones."""
    with report_errors():
        for line in doctor_lines():
            Console(soft_wrap=True).print(plain(line), highlight=False)


def install_cmdstan() -> None:
    """Install CmdStan: the current release if GitHub is reachable, otherwise 2.27.0 by pip."""
    with report_errors():
        print(f"CmdStan: {install()}")
        with status(True) as report:
            cmdstan.prepare(report)


PACKAGE = Path(__file__).resolve().parents[1]
ALL = "workflows"
UNKNOWN = "not measured"


def paper(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="An experiment; if omitted, all are listed.")
    ] = None,
) -> None:
    """Run an experiment of a paper, or list all; --quick runs a short version, --help its options.

    Results are written to output/ in the current folder.
    """
    with report_errors():
        catalogue = _catalogue()
        if name is None or name in context.help_option_names:
            _list(catalogue)
            return
        names = {experiment.name: experiment for experiment in catalogue}
        experiment = names.get(name.replace("_", "-").replace(".", "-"))
        if experiment is None:
            listed = ", ".join(names)
            raise StanadaptError(
                UNKNOWN_EXPERIMENT,
                f"there is no experiment {name!r}.{did_you_mean(name, names)} There are {listed}.",
            )
        sys.argv = [f"stanadapt paper {experiment.name}", *context.args]
        importlib.import_module(f"{ALL}.{experiment.module}").main()


def _catalogue() -> Any:
    """Return the experiments, and add their folder to those that Python imports from."""
    inside = PACKAGE / "_workflows"  # in a wheel; in the repository, next to the package
    root = inside if inside.is_dir() else PACKAGE.parent
    if not (root / ALL / "catalogue.py").is_file():
        raise StanadaptError(
            EXPERIMENTS_MISSING,
            f"the experiments are not in {root}: this copy of stanadapt was installed without "
            "them. Install the wheel, or work in a clone.",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
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
        "`stanadapt paper NAME --help` lists the options of one.",
        highlight=False,
    )
