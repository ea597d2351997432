"""The command `advise`: which sampler, and for how long.

Commands on saved fits: `diagnose` and `table`.

The command `sbc`: simulation-based calibration.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt import results
from stanadapt.cli.options import (
    Backend,
    Budget,
    Choices,
    Data,
    Force,
    Include,
    Model,
    Noise,
    Posteriordb,
    Quiet,
    Rho,
    Unsafe,
    Variables,
    read_names,
    read_settings,
)
from stanadapt.cli.options import make_target as made_from
from stanadapt.cli.terminal import reported, require_writable
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.verdict import diagnose as judge
from stanadapt.results import write_text
from stanadapt.runs.choose_sampler import AUTO
from stanadapt.studies.advise.advise import advise as try_samplers
from stanadapt.studies.calibration.ranks import NOT_CALIBRATED
from stanadapt.studies.calibration.sbc import sbc as calibrate
from stanadapt.targets.stan.program import read

File = Annotated[
    Path, typer.Argument(help="A netCDF file: of stanadapt, or another ArviZ object with draws.")
]
Files = Annotated[list[Path], typer.Argument(help="Two or more netCDF files of one program.")]


def diagnose(fit: File) -> None:
    """Say whether a fit can be used, what is wrong with it, and what to try."""
    with reported():
        judge(results.load(fit))


def table(
    files: Files,
    baseline: Annotated[
        str | None, typer.Option(help="Name of the file, without .nc, that is the baseline of z.")
    ] = None,
    variables: Variables = None,
    budget: Budget = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file for the table.")
    ] = None,
    force: Force = False,
) -> None:
    """Compare saved fits, of this package or of others."""
    with reported():
        if out is not None:
            require_writable([out], force)
        fits = dict(zip(names_of(files), map(results.load, files), strict=True))
        found = compare(fits, baseline, var_names=read_names(variables), budget=budget)
        if out is not None:
            found.to_csv(out, index_label="fit")
            print(f"table: {out}")


def names_of(files: list[Path]) -> list[str]:
    """Names of files without their endings; with their paths where two have the same."""
    count = Counter(path.stem for path in files)
    return [path.stem if count[path.stem] == 1 else str(path) for path in files]


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
    simulations: Annotated[
        int, typer.Option(help="Number of times that parameters and data are drawn.")
    ] = 200,
    chains: Annotated[int, typer.Option(help="Number of chains of each run.")] = 2,
    iter_sampling: Annotated[int, typer.Option(help="Iterations per chain of each run.")] = 500,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same ranks; default: random, and recorded.")
    ] = None,
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
            read(model), read(generator), data, sampler, simulations=simulations, seed=seed,
            backend=backend, run=run, show_progress=not quiet, chains=chains,
            iter_sampling=iter_sampling, **settings,
        )  # fmt: skip
        print(found)
        if out is not None:
            found.plot(out)
            print(f"picture: {out}")
        if found.verdict == NOT_CALIBRATED:
            raise typer.Exit(1)


def advise(
    model: Model,
    data: Data = None,
    max_minutes: Annotated[
        float, typer.Option(help="Time for all trials, without compilation.")
    ] = 1.0,
    until_ess: Annotated[
        float, typer.Option(help="Effective sample size to reach for every parameter.")
    ] = 1000.0,
    chains: Annotated[int, typer.Option(help="Number of chains of each trial.")] = 4,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of the trials; default: random, and recorded.")
    ] = None,
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
            target, max_minutes=max_minutes, until_ess=until_ess, chains=chains, seed=seed,
            show_progress=not quiet,
        )  # fmt: skip
        print(advice)
        if path is not None:
            write_text(path, advice.to_json() + "\n")
            print(f"advice: {path}")
        print(advice.command(model, data, posteriordb))
