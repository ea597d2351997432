"""Commands that draw: `sample`, `approximate`, and `resume` and `watch` for runs in a folder."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.cli.options import (
    Backend,
    Chains,
    Choices,
    Data,
    Draws,
    Exclude,
    Float32,
    Force,
    Format,
    Include,
    Inits,
    LabelsFile,
    MaxMinutes,
    Model,
    Noise,
    Out,
    Parallel,
    Posteriordb,
    Quiet,
    Rho,
    Seed,
    Standardize,
    Straighten,
    Thin,
    Threads,
    Unsafe,
    UntilEss,
    Warmup,
    make_target,
    read_inits,
    read_names,
    read_settings,
    target_options,
)
from stanadapt.cli.terminal import (
    OUTPUTS,
    report_errors,
    require_output,
    require_writable,
    save,
)
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.runs.choose_sampler import AUTO, require_sampler
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.load import load, progress_of
from stanadapt.runs.prior import add_prior, plan_prior, planned_prior
from stanadapt.runs.resume import resume as continue_run
from stanadapt.runs.sample import sample as draw_fit
from stanadapt.runs.spec import program_of, read_spec
from stanadapt.samplers import registered
from stanadapt.samplers.variational.methods import METHODS, choose_method
from stanadapt.studies.approximate.approximate import approximate as fit_approximation
from stanadapt.targets.target import Target


def sample(
    model: Model,
    data: Data = None,
    sampler: Annotated[
        str,
        typer.Option("--sampler", "-s", help="A name that `stanadapt samplers` lists, or auto."),
    ] = AUTO,
    out: Out = None,
    format: Format = "netcdf",
    chains: Chains = 4,
    parallel_chains: Parallel = None,
    threads_per_chain: Threads = 1,
    iter_warmup: Warmup = None,
    iter_sampling: Draws = None,
    until_ess: UntilEss = None,
    max_minutes: MaxMinutes = None,
    thin: Thin = 1,
    seed: Seed = None,
    inits: Inits = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(
            "--warm-start",
            help="File or run folder of an earlier fit from which chains start.",
        ),
    ] = None,
    prior_data: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of data without observations: adds draws of the prior to the result; "
            "tempering samplers use the prior as their reference distribution."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Reference distribution of tempering samplers: pathfinder, or the file of a fit."
        ),
    ] = None,
    network: Annotated[Path | None, typer.Option(help="A trained network, for nice.")] = None,
    standardize: Standardize = None,
    straighten: Straighten = False,
    save_warmup: Annotated[
        bool, typer.Option("--save-warmup", help="Save the draws of warm-up too.")
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option("--save", help="Groups to add, separated by commas: unconstrained, pseudo."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="New folder that stores the run as it is drawn; see `resume`, `watch`."),
    ] = None,
    choices: Choices = None,
    labels: LabelsFile = None,
    exclude: Exclude = None,
    posteriordb: Posteriordb = None,
    float32: Float32 = False,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    noise: Noise = None,
    rho: Rho = 0.0,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Draw from the posterior of a Stan program with one sampler, and save the fit."""
    with report_errors():
        interruption.runs += [] if run is None else [run]
        coordinates = _coordinates(standardize, straighten)
        settings: Any = read_settings(choices)
        require_sampler(sampler, **settings)
        path = require_output(out, format, force, float32)
        options = target_options(include, backend, unsafe, noise, rho, labels, exclude, quiet)
        target = make_target(model, data, posteriordb, **options)
        if prior_data is not None:
            plan_prior(target, prior_data)  # find mistakes in the file before sampling
        hot_end = prior_data if _takes_prior_data(sampler) else None
        family = {
            "threads_per_chain": threads_per_chain, "reference_distribution": reference,
            "prior_data": hot_end, "network": network,
        }  # fmt: skip
        settings |= {name: value for name, value in family.items() if value is not None}
        fit = draw_fit(
            target, sampler, chains=chains, parallel_chains=parallel_chains,
            iter_warmup=iter_warmup, iter_sampling=iter_sampling, until_ess=until_ess,
            max_minutes=max_minutes, thin=thin, seed=seed, inits=read_inits(inits),
            warm_start=warm_start, standardize=coordinates, save_warmup=save_warmup,
            save=read_names(groups) or (), run=run, show_progress=not quiet, **settings,
        )  # fmt: skip
        write = partial(save, path=path, float32=float32, format=format, force=force)
        if prior_data is not None and not results.attribute(fit, "interrupted"):
            limits: Any = {"max_minutes": max_minutes, "parallel_chains": parallel_chains}
            fit = _with_prior(fit, target, prior_data, write, show_progress=not quiet, **limits)
        write(fit)
        print(compare({results.attribute(fit, "sampler"): fit}))
        print(f"{OUTPUTS[format][1]}: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


def _with_prior(
    fit: Any, target: Any, data: Path, write: Callable[[Any], Path], **options: Any
) -> Any:
    """Add the prior to a fit, and write the fit if that fails: no draw may be lost."""
    try:
        return add_prior(fit, target, data, **options)
    except BaseException:
        print(f"the fit without its prior: {write(fit)}")
        raise


def _coordinates(standardize: bool | None, straighten: bool) -> bool | str | None:
    """Return the argument `standardize` of `sample` for these two options."""
    if not straighten:
        return standardize
    if standardize is not None and not standardize:
        raise StanadaptError(
            "options_conflict",
            "--straighten and --no-standardize cannot be combined: leave one of them out.",
        )
    return "straighten"


def _takes_prior_data(sampler: str) -> bool:
    """Whether a sampler tempers towards the program under other data."""
    tempering = registered()[sampler].tempering if sampler in registered() else None
    return tempering is not None and not tempering.draws_reference


def approximate(
    model: Model,
    data: Data = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help=f"One of {', '.join(METHODS)}.")
    ] = "pathfinder",
    out: Annotated[Path, typer.Option("--out", "-o", help="The netCDF file to write.")] = Path(
        "approximation.nc"
    ),
    draws: Annotated[int, typer.Option(help="Number of draws.")] = 1000,
    seed: Seed = None,
    inits: Inits = None,
    choices: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, NAME=VALUE; repeatable."),
    ] = None,
    labels: LabelsFile = None,
    posteriordb: Posteriordb = None,
    include: Include = None,
    backend: Backend = "auto",
    unsafe: Unsafe = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Approximate the posterior of a Stan program in seconds, and judge the approximation."""
    with report_errors():
        settings: Any = read_settings(choices)
        choose_method(method, settings)
        (path,) = require_writable([out], force)
        target = make_target(
            model, data, posteriordb, include_paths=include or (), backend=backend, unsafe=unsafe,
            labels=labels, show_progress=not quiet,
        )  # fmt: skip
        fit = fit_approximation(
            target, method, draws=draws, seed=seed, inits=read_inits(inits),
            show_progress=not quiet, **settings,
        )  # fmt: skip
        save(fit, path)
        print(f"{results.attribute(fit, 'verdict')}: {results.attribute(fit, 'pareto_k_meaning')}")
        print(f"ArviZ file: {path}")


Folder = Annotated[Path, typer.Argument(help="The folder that `sample --run` wrote.")]


def resume(
    run: Folder,
    out: Out = None,
    format: Format = "netcdf",
    iter_sampling: Annotated[
        int | None,
        typer.Option(help="Sampling iterations per chain in all; default: as planned for the run."),
    ] = None,
    until_ess: UntilEss = None,
    max_minutes: MaxMinutes = None,
    parallel_chains: Parallel = None,
    prior_data: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of data without observations: adds draws of the prior to the result; "
            "default: the file given to `sample`."
        ),
    ] = None,
    float32: Float32 = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Continue a run that was stopped, or make it longer."""
    with report_errors():
        folder = RunFolder.open(run)
        path = require_output(out, format, force, float32)
        interruption.runs.append(run)
        limits: Any = {
            "max_minutes": max_minutes, "parallel_chains": parallel_chains,
            "show_progress": not quiet,
        }  # fmt: skip
        target, prior_data, notes = _prior_of_run(folder, prior_data, not quiet)
        fit = continue_run(run, target, iter_sampling=iter_sampling, until_ess=until_ess, **limits)
        if notes:
            results.add_notes(fit, notes)
        write = partial(save, path=path, float32=float32, format=format, force=force)
        if prior_data is not None and not results.attribute(fit, "interrupted"):
            fit = _with_prior(fit, target, prior_data, write, **limits)
        write(fit)
        print(compare({results.attribute(fit, "sampler"): fit}))
        print(f"{OUTPUTS[format][1]}: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


def _prior_of_run(
    folder: RunFolder, data: Path | None, show_progress: bool
) -> tuple[Target | None, Path | None, list[Message]]:
    """Return the target of a run that is to get a prior, the data of that, and notes.

    Parameters
    ----------
    folder, data
        The run, and the file that the user gave; None: the one that the run recorded, if any.
    show_progress
        Whether to show that the program is compiled.

    """
    if data is None and folder.manifest.get("prior") is None:
        return None, None, []
    target, notes = program_of(read_spec(folder)[0], show_progress), list[Message]()
    if data is not None:
        plan_prior(target, data)  # find mistakes in the file before sampling
    else:
        data, notes = planned_prior(folder, target)
    for note in notes:
        warn(note)
    return target, data, notes


def watch(
    run: Folder,
    every: Annotated[float, typer.Option(help="Refresh interval in seconds.", min=0.1)] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Show the progress once, and exit.")] = False,
) -> None:
    """Show the progress of a run in another process. Ctrl-C ends the display, not the run."""
    with report_errors(), Live(console=Console(), auto_refresh=False) as live:
        while True:
            done, total, chains = progress_of(run)
            live.update(_row(run, done, total, chains), refresh=True)
            if once or done >= total:
                return
            time.sleep(every)


def _row(run: Path, done: int, total: int, chains: list[str]) -> Table:
    table = Table(title=f"{run}: {done:,} of {total:,} iterations", title_justify="left")
    values: dict[str, Any] = {"chains": "; ".join(chains)}
    try:
        fit = load(run)
    except StanadaptError:
        values["draws"] = "none yet"
    else:
        summary = efficiency(results.columns(fit, wanted=results.parameters(fit)))
        stats = results.dataset(fit, "sample_stats")
        values["draws"] = f"{results.dataset(fit, 'posterior').sizes['draw']:,} per chain"
        if summary.names:  # none if no parameter has moved yet
            values["min ESS"] = f"{min(summary.ess_bulk.min(), summary.ess_tail.min()):,.0f}"
            values["R-hat"] = f"{summary.r_hat.max():.3f}"
        if "diverging" in stats:
            values["divergences"] = f"{int(stats['diverging'].sum()):,}"
        values["verdict"] = results.attribute(fit, "verdict")
    for name in values:
        table.add_column(name)
    table.add_row(*map(str, values.values()))
    return table
