"""Commands that judge: `diagnose`, `table` and `modes` for saved fits, `sbc` and `advise`."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

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
    make_target,
    read_names,
    read_settings,
)
from stanadapt.cli.terminal import report_errors, require_writable
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.modes import modes as find_modes
from stanadapt.errors import StanadaptError, codes_of
from stanadapt.results import write_text
from stanadapt.runs.choose_sampler import AUTO
from stanadapt.runs.load import load
from stanadapt.studies.advise.advise import advise as try_samplers
from stanadapt.studies.calibration.ranks import NOT_CALIBRATED, require_picture
from stanadapt.studies.calibration.sbc import sbc as calibrate
from stanadapt.studies.diagnose import diagnose as judge_fit
from stanadapt.targets.stan.program import read

File = Annotated[
    Path,
    typer.Argument(
        help="A saved fit: a netCDF file, a folder of CSV files, a zarr store, or the "
        "folder of a run."
    ),
]
Files = Annotated[
    list[Path], typer.Argument(help="Saved fits of one program, in any of the formats of `sample`.")
]


def diagnose(
    fit: File,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON: the verdict, its reasons, the notes, and their codes."
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="The program of the fit, to judge the shape of its posterior too."),
    ] = None,
    data: Data = None,
    backend: Backend = "auto",
) -> None:
    """Judge whether a fit can be used, and print the problems and their remedies."""
    with report_errors():
        if model is None and data is not None:
            raise StanadaptError(
                "options_conflict", "--data belongs to the program of the fit: add --model."
            )
        target = None if model is None else make_target(model, data, backend=backend)
        found = judge_fit(load(fit), target)
        if not as_json:
            print(found)
            return
        report = {
            "fit": str(fit), "verdict": found.verdict,
            "reasons": _with_codes(found.reasons), "notes": _with_codes(found.notes),
        }  # fmt: skip
        print(json.dumps(report, indent=2))


def _with_codes(messages: list[Any]) -> list[dict[str, str]]:
    codes = codes_of(messages)
    return [{"code": c, "text": text} for c, text in zip(codes, messages, strict=True)]


def table(
    files: Files,
    baseline: Annotated[
        str | None, typer.Option(help="Name of the fit to compare with: its file name without .nc.")
    ] = None,
    variables: Variables = None,
    budget: Budget = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A CSV file for the table.")
    ] = None,
    force: Force = False,
) -> None:
    """Compare saved fits, made by this package or by others."""
    with report_errors():
        if out is not None:
            require_writable([out], force)
        fits = dict(zip(names_of(files), map(load, files), strict=True))
        compared = compare(fits, baseline, var_names=read_names(variables), budget=budget)
        print(compared)
        if out is not None:
            compared.to_csv(out, index_label="fit")
            print(f"table: {out}")


def names_of(files: list[Path]) -> list[str]:
    """Return names of files without their endings, or their paths if two have the same name."""
    count = Counter(path.stem for path in files)
    return [path.stem if count[path.stem] == 1 else str(path) for path in files]


def modes(
    model: Model,
    fit: Annotated[Path, typer.Argument(help="A fit that `sample` or `compare` saved.")],
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
    with report_errors():
        (path,) = require_writable([out], force) if out is not None else (None,)
        draws = load(fit)
        target = make_target(
            model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
            show_progress=not quiet,
        )  # fmt: skip
        table = find_modes(target, draws)
        print(table)
        if path is not None:
            table.scalar_columns().to_csv(path)
            print(f"table: {path}")


def sbc(
    model: Annotated[str, typer.Argument(help="The .stan file to check.")],
    generator: Annotated[
        Path,
        typer.Option(help="A .stan file, without parameters, that simulates parameters and data."),
    ],
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="A JSON file of sizes and covariates.")
    ] = None,
    sampler: Annotated[
        str,
        typer.Option("--sampler", "-s", help="A name that `stanadapt samplers` lists, or auto."),
    ] = AUTO,
    simulations: Annotated[
        int, typer.Option(help="Number of times that parameters and data are drawn.")
    ] = 200,
    chains: Annotated[int, typer.Option(help="Number of chains of each run.")] = 2,
    iter_sampling: Annotated[int, typer.Option(help="Iterations per chain of each run.")] = 500,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed: the same one gives the same ranks; default: a random one."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder for the ranks, from which the same command continues."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Picture of the ranks: .png, .pdf or .svg.")
    ] = None,
    choices: Choices = None,
    backend: Backend = "auto",
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Check a program and a sampler on simulated data: are the ranks of true values uniform?

    The exit code is 1 if they are not.
    """
    with report_errors():
        path = None
        if out is not None:
            (path,) = require_writable([require_picture(out)], force)
        settings: Any = read_settings(choices)
        ranks = calibrate(
            read(model), read(generator), data, sampler, simulations=simulations, seed=seed,
            backend=backend, run=run, show_progress=not quiet, chains=chains,
            iter_sampling=iter_sampling, **settings,
        )  # fmt: skip
        print(ranks)
        if path is not None:
            ranks.plot(path)
            print(f"picture: {path}")
        if ranks.verdict == NOT_CALIBRATED:
            raise typer.Exit(1)


def advise(
    model: Model,
    data: Data = None,
    max_minutes: Annotated[
        float, typer.Option(help="Time for all trials together, without compilation.")
    ] = 1.0,
    until_ess: Annotated[
        float, typer.Option(help="Effective sample size to reach for every parameter.")
    ] = 1000.0,
    chains: Annotated[int, typer.Option(help="Number of chains of each trial.")] = 4,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed of the trials; default: a random one, which is recorded."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSON file for the advice and the trials.")
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
    """Try several samplers for a minute, and recommend one, with settings and length of run."""
    with report_errors():
        (path,) = require_writable([out], force) if out is not None else (None,)
        target = make_target(
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
