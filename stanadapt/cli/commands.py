"""The command `stanadapt`, put together from its commands."""

from importlib.metadata import version as version_of
from typing import Annotated

import typer

from stanadapt.cli import (
    advice,
    approximations,
    calibration,
    fits,
    information,
    kept_runs,
    learned,
    papers,
    runs,
)

app = typer.Typer(
    name="stanadapt",
    help="Adaptive MCMC for Stan programs, side by side with Stan's NUTS, read in ArviZ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    runs.sample, runs.compare, approximations.approximate, learned.train_nice, kept_runs.resume,
    kept_runs.watch, advice.advise, fits.diagnose, fits.table, calibration.sbc, information.modes,
    information.samplers, information.models, information.doctor, information.install_cmdstan,
):  # fmt: skip
    app.command(name=command.__name__.replace("_", "-"))(command)


# its options are those of the experiment
app.command(
    name="paper",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(papers.paper)


def print_version(asked: bool) -> None:
    if asked:
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
