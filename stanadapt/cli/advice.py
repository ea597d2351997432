"""The command `advise`: which sampler, and for how long."""

from pathlib import Path
from typing import Annotated

import typer

from stanadapt.cli.files import require_writable
from stanadapt.cli.messages import reported
from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Model,
    Noise,
    Posteriordb,
    Quiet,
    Rho,
    Unsafe,
)
from stanadapt.cli.options import make_target as made_from
from stanadapt.results import write_text
from stanadapt.studies.advise.advise import advise as try_samplers


def advise(
    model: Model,
    data: Data = None,
    minutes: Annotated[float, typer.Option(help="For all trials, compilation not counted.")] = 1.0,
    ess: Annotated[
        float, typer.Option(help="Wanted effective sample size of every parameter.")
    ] = 1000.0,
    chains: Annotated[int, typer.Option(help="Number of chains of each trial.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the trials.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A JSON file for advice and trials.")
    ] = None,
    posteriordb: Posteriordb = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    noise: Noise = None,
    rho: Rho = 0.0,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Try several samplers for a minute, and recommend one, its settings and its length."""
    with reported():
        (path,) = require_writable([out], force) if out is not None else (None,)
        target = made_from(
            model, data, posteriordb, include_paths=include or (), backend=backend, unsafe=unsafe,
            noise=noise or (), rho=rho, show_progress=not quiet,
        )  # fmt: skip
        advice = try_samplers(
            target, minutes=minutes, ess=ess, chains=chains, seed=seed, show_progress=not quiet
        )
        if path is not None:
            write_text(path, advice.to_json() + "\n")
            print(f"advice: {path}")
        print(advice.command(model, data, posteriordb))
