"""The command `sbc`: simulation-based calibration."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt.cli.messages import reported
from stanadapt.cli.options import Backend, Choices, Quiet, read_settings
from stanadapt.runs.choose_sampler import AUTO
from stanadapt.studies.calibration.calibration import NOT_CALIBRATED
from stanadapt.studies.calibration.sbc import sbc as calibrate
from stanadapt.targets.stan.program import read


def sbc(
    model: Annotated[str, typer.Argument(help="The .stan file under study.")],
    generator: Annotated[
        Path,
        typer.Option(help="A .stan file without parameters that draws parameters and data."),
    ],
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="A JSON file: sizes and covariates.")
    ] = None,
    sampler: Annotated[
        str, typer.Option("--sampler", "-s", help="auto, or one listed by `stanadapt samplers`.")
    ] = AUTO,
    draws: Annotated[int, typer.Option(help="How many times parameters and data are drawn.")] = 200,
    chains: Annotated[int, typer.Option(help="Number of chains of each run.")] = 2,
    iter_sampling: Annotated[int, typer.Option(help="Iterations per chain of each run.")] = 500,
    seed: Annotated[int, typer.Option(help="Same seed, same ranks.")] = 1,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the ranks: the same command goes on with them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A picture of the ranks: .png, .pdf, .svg.")
    ] = None,
    choices: Choices = None,
    backend: Backend = "auto",
    quiet: Quiet = False,
) -> None:
    """Check a program and a sampler on simulated data: are the truth's ranks uniform?"""
    with reported():
        settings: Any = read_settings(choices)
        found = calibrate(
            read(model), read(generator), data, sampler, draws=draws, seed=seed, backend=backend,
            run=run, show_progress=not quiet, chains=chains, iter_sampling=iter_sampling,
            **settings,
        )  # fmt: skip
        print(found)
        if out is not None:
            found.plot(out)
            print(f"picture: {out}")
        if found.verdict == NOT_CALIBRATED:
            raise typer.Exit(1)
