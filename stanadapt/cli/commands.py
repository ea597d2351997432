"""The command `stanadapt`, assembled from the functions of the other files.

A file of its own, since it imports typer and all commands, which takes seconds: the package
`stanadapt.cli` handles Ctrl-C before that.
"""

from collections.abc import Callable
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from stanadapt.cli import compare, draw, judge, papers, tools
from stanadapt.cli.family_commands import as_function
from stanadapt.engine.commands import COMMANDS

app = typer.Typer(
    name="stanadapt",
    help="Adaptive MCMC for Stan programs, side by side with Stan's NUTS, read in ArviZ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands: list[Callable[..., None]] = [
    draw.sample, compare.compare, draw.approximate, draw.resume, draw.watch, judge.advise,
    judge.diagnose, judge.table, judge.modes, judge.sbc, tools.explain, tools.samplers,
    tools.models, *map(as_function, COMMANDS.values()), tools.doctor, tools.install_cmdstan,
]  # fmt: skip
for command in commands:
    app.command(name=command.__name__.replace("_", "-"))(command)


app.command(name="compile")(tools.compile_samplers)  # `compile` is a function of Python


# the options are those of the experiment, which parses them itself
app.command(
    name="paper",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(papers.paper)


def print_version(wanted: bool) -> None:
    """Print the version of the package and exit, if the option was given."""
    if wanted:
        print(f"stanadapt {version_of('stanadapt')}")
        raise typer.Exit


@app.callback()
def stanadapt(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Define the options of `stanadapt` itself."""
