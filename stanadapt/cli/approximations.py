"""The command `approximate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt import results
from stanadapt.cli.files import require_writable, save
from stanadapt.cli.messages import reported
from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Inits,
    LabelsFile,
    Model,
    Posteriordb,
    Quiet,
    Seed,
    Unsafe,
    make_target,
    read_inits,
    read_settings,
)
from stanadapt.samplers.variational.methods import METHODS, choose_method
from stanadapt.studies.approximate.approximate import approximate as find


def approximate(
    model: Model,
    data: Data = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help=f"{', '.join(METHODS)}.")
    ] = "pathfinder",
    out: Annotated[Path, typer.Option("--out", "-o", help="The netCDF file to write.")] = Path(
        "approximation.nc"
    ),
    draws: Annotated[int, typer.Option(help="How many draws to keep.")] = 1000,
    seed: Seed = None,
    inits: Inits = None,
    choices: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, NAME=VALUE; may be repeated."),
    ] = None,
    labels: LabelsFile = None,
    posteriordb: Posteriordb = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Approximate the posterior of a Stan program in seconds, and say how far to trust it."""
    with reported():
        (path,) = require_writable([out], force)
        settings: Any = read_settings(choices)
        choose_method(method, settings)
        target = make_target(
            model, data, posteriordb, include_paths=include or (), backend=backend, unsafe=unsafe,
            labels=labels, show_progress=not quiet,
        )  # fmt: skip
        fit = find(
            target, method, draws=draws, seed=seed, inits=read_inits(inits),
            show_progress=not quiet, **settings,
        )  # fmt: skip
        save(fit, path)
        print(f"{results.attribute(fit, 'verdict')}: {results.attribute(fit, 'pareto_k_meaning')}")
        print(f"ArviZ file: {path}")
