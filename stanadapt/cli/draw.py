"""The command `approximate`.

Commands that draw: `sample` and `compare`.

Commands on runs that are kept on disk: `resume` and `watch`.
"""

import shlex
import sys
import time
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
    Budget,
    Chains,
    Choices,
    Data,
    Draws,
    Exclude,
    Float32,
    Force,
    Include,
    Inits,
    LabelsFile,
    MaxMinutes,
    Model,
    MoreTargets,
    Noise,
    Parallel,
    Posteriordb,
    Quiet,
    Repeats,
    Rho,
    Seed,
    SettingsBySampler,
    Standardize,
    Thin,
    Threads,
    Unsafe,
    UntilEss,
    Variables,
    Warmup,
    make_target,
    read_inits,
    read_names,
    read_settings,
    settings_by_sampler,
    target_options,
)
from stanadapt.cli.repeats import all_targets, goes_on, require_repeatable, show_repeats
from stanadapt.cli.terminal import reported, require_writable, save
from stanadapt.diagnostics.compare import compare as compare_fits
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine.plan import make_plan
from stanadapt.errors import StanadaptError, warn
from stanadapt.runs.choose_sampler import AUTO, require_sampler
from stanadapt.runs.load import load, progress_of
from stanadapt.runs.resume import resume as go_on
from stanadapt.runs.sample import sample as draw
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine
from stanadapt.runs.stan_nuts.stan_nuts import stan_nuts as draw_with_stan_nuts
from stanadapt.samplers.variational.methods import METHODS, choose_method
from stanadapt.studies.approximate.approximate import approximate as find
from stanadapt.studies.report.report import check_report
from stanadapt.studies.report.report import report as write_report
from stanadapt.targets.posteriordb import PosteriorDatabase


def sample(
    model: Model,
    data: Data = None,
    sampler: Annotated[
        str, typer.Option("--sampler", "-s", help="auto, or one listed by `stanadapt samplers`.")
    ] = AUTO,
    out: Annotated[Path, typer.Option("--out", "-o", help="The netCDF file to write.")] = Path(
        "fit.nc"
    ),
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
        typer.Option("--warm-start", help="File or run folder of a fit to begin with."),
    ] = None,
    prior_data: Annotated[
        Path | None,
        typer.Option(
            help="Data without observations: the file has the group prior, and samplers that "
            "temper start from it."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Where samplers that temper start from: pathfinder, or the file of a fit."
        ),
    ] = None,
    network: Annotated[Path | None, typer.Option(help="File of a trained network (nice).")] = None,
    standardize: Standardize = None,
    save_warmup: Annotated[bool, typer.Option("--save-warmup", help="Keep warm-up too.")] = False,
    save_pseudo: Annotated[
        bool, typer.Option("--save-pseudo", help="Keep all pseudo-samples with their weights.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(help="New folder that keeps the run while it goes on: see `resume`, `watch`."),
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
    """Draw from a Stan program with one sampler and write an ArviZ file."""
    with reported():
        (path,) = require_writable([out], force)
        interruption.runs += [] if run is None else [run]
        settings: Any = read_settings(choices)
        require_sampler(sampler, **settings)
        chosen = target_options(include, backend, unsafe, noise, rho, labels, exclude, quiet)
        target = make_target(model, data, posteriordb, **chosen)
        fit = draw(
            target, sampler, chains=chains, parallel_chains=parallel_chains,
            threads_per_chain=threads_per_chain,
            iter_warmup=iter_warmup, iter_sampling=iter_sampling, until_ess=until_ess,
            max_minutes=max_minutes, thin=thin, seed=seed,
            inits=read_inits(inits), warm_start=warm_start,
            reference_distribution=reference, prior_data=prior_data, network=network,
            standardize=standardize, save_warmup=save_warmup,
            save_pseudo=save_pseudo, run=run, show_progress=not quiet, **settings,
        )  # fmt: skip
        save(fit, path, float32)
        compare_fits({results.attribute(fit, "sampler"): fit})
        print(f"ArviZ file: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


def compare(
    model: Model,
    data: Data = None,
    samplers: Annotated[
        str,
        typer.Option("--sampler", "--samplers", "-s", help="Names, separated by commas; or auto."),
    ] = AUTO,
    stan_nuts: Annotated[
        str,
        typer.Option("--stan-nuts", help="Engine of Stan's NUTS: auto, cmdstan, stanli, none."),
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the ArviZ files and the table."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write: verdict, table and pictures.")
    ] = None,
    chains: Chains = 4,
    parallel_chains: Parallel = None,
    iter_warmup: Warmup = None,
    iter_sampling: Draws = None,
    thin: Thin = 1,
    seed: Seed = None,
    repeats: Repeats = None,
    more: MoreTargets = None,
    inits: Inits = None,
    choices: SettingsBySampler = None,
    variables: Variables = None,
    budget: Budget = None,
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
    """Draw with several samplers and Stan's NUTS, and print cost and agreement side by side."""
    with reported():
        names = read_names(samplers) or []
        settings: Any = settings_by_sampler(choices, names)
        for name in names:
            require_sampler(name, **settings[name])
        _require_plan(chains, parallel_chains, iter_warmup, iter_sampling, thin, seed)
        rows = _rows(names, stan_nuts)
        require_repeatable(repeats, more, budget=budget)
        again = repeats is not None and goes_on(out, report)
        _require_free(rows if repeats is None else None, out, report, force or again)
        chosen = target_options(include, backend, unsafe, noise, rho, labels, exclude, quiet)
        target = make_target(model, data, posteriordb, **chosen)
        common = {
            "chains": chains, "parallel_chains": parallel_chains, "seed": seed, "thin": thin,
            "inits": read_inits(inits), "show_progress": not quiet,
        }  # fmt: skip
        lengths: Any = {"iter_warmup": iter_warmup, "iter_sampling": iter_sampling}
        if repeats is not None:
            show_repeats(
                all_targets(target, model, data, more, **chosen), settings, repeats=repeats,
                engine=stan_nuts, out=out, force=force, report=report,
                var_names=read_names(variables), **common, **lengths,
            )  # fmt: skip
            return
        draws: dict[str, Any] = {
            row: partial(draw, target, row, **settings[row], **lengths) for row in names
        }
        if len(rows) > len(names):
            draws = {rows[0]: partial(draw_with_stan_nuts, target, engine=stan_nuts), **draws}
        common["save_warmup"] = report is not None
        known = _reference_draws(posteriordb, model, target)
        fits = {**known, **_draw_all(draws, common, out, float32)}
        table = compare_fits(fits, var_names=read_names(variables), budget=budget)
        if out is not None:
            table.to_csv(out / "comparison.csv", index_label="fit")
            print(f"ArviZ files and table: {out}")
        if report is not None:
            _write_report(fits, report, None if variables else table)
        if any(results.attribute(fit, "interrupted") for fit in fits.values()):
            raise typer.Exit(130)


def _require_plan(
    chains: int, parallel: int | None, warmup: int | None, sampling: int | None, thin: int,
    seed: int | None,
) -> None:  # fmt: skip
    make_plan(
        chains=chains, parallel_chains=parallel, thin=thin, seed=seed, iter_warmup=warmup or 0,
        iter_sampling=thin if sampling is None else sampling, save_warmup=False,
        show_progress=False,
    )  # fmt: skip


def _require_free(
    rows: list[str] | None, out: Path | None, report: Path | None, force: bool
) -> None:
    """Check what is to be written; repeats, whose rows are None, check their folder themselves."""
    if out is not None and rows is not None:
        files = [out / f"{row}.nc" for row in rows]
        require_writable([*files, out / "comparison.csv"], force)
    if report is not None:
        require_writable([check_report(report)], force)


def _reference_draws(database: Path | None, name: str, target: Any) -> dict[str, Any]:
    """Draws that a posteriordb publishes of a posterior, as the yardstick; none if it has none."""
    if database is None:
        return {}
    known = PosteriorDatabase(database)
    if known.posterior(name).reference is None:
        warn(f"posteriordb has no reference draws of {name}.")
        return {}
    return {"posteriordb": known.reference_draws(name, target)}


def _write_report(fits: dict[str, Any], path: Path, table: Any) -> None:
    command = shlex.join(["stanadapt", *sys.argv[1:]])
    print(f"Report: {write_report(fits, path, table=table, command=command)}")


def _rows(names: list[str], engine: str) -> list[str]:
    """Names of the fits, Stan's NUTS before the others unless it is not wanted."""
    if engine == "none":
        return names
    choose_engine(engine)
    # where our own sampler has that name
    return ["stan_nuts" if "nuts" in names else "nuts", *names]


def _draw_all(
    draws: dict[str, Any], common: dict[str, Any], out: Path | None, float32: bool
) -> dict[str, Any]:
    """Write each fit as soon as it is complete; Ctrl-C ends with a comparison of these."""
    fits: dict[str, Any] = {}
    for name, drawn in draws.items():
        try:
            fits[name] = drawn(**common)
        except StanadaptError as error:
            if error.fit is not None and out is not None:
                print(f"its draws: {save(error.fit, out / f'{name}.nc', float32)}")
            raise
        if out is not None:
            save(fits[name], out / f"{name}.nc", float32)
        if results.attribute(fits[name], "interrupted"):
            break
    return fits


Folder = Annotated[Path, typer.Argument(help="The folder that sample was given as --run.")]


def resume(
    run: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The netCDF file to write.")] = Path(
        "fit.nc"
    ),
    iter_sampling: Annotated[
        int | None, typer.Option(help="Iterations per chain in all; default: as first asked for.")
    ] = None,
    until_ess: UntilEss = None,
    max_minutes: MaxMinutes = None,
    parallel_chains: Parallel = None,
    float32: Float32 = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Go on with a run that was stopped, or make it longer."""
    with reported():
        (path,) = require_writable([out], force)
        interruption.runs.append(run)
        fit = go_on(
            run, iter_sampling=iter_sampling, until_ess=until_ess, max_minutes=max_minutes,
            parallel_chains=parallel_chains, show_progress=not quiet,
        )  # fmt: skip
        save(fit, path, float32)
        compare_fits({results.attribute(fit, "sampler"): fit})
        print(f"ArviZ file: {path}")
        if results.attribute(fit, "interrupted"):
            raise typer.Exit(130)


def watch(
    run: Folder,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
) -> None:
    """Show how far a run is that another process is writing; Ctrl-C ends the watching only."""
    with reported(), Live(console=Console(), auto_refresh=False) as live:
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
        found = efficiency(results.columns(fit, wanted=results.parameters(fit)))
        stats = results.dataset(fit, "sample_stats")
        values["draws"] = f"{results.dataset(fit, 'posterior').sizes['draw']:,} per chain"
        values["min ESS"] = f"{min(found.ess_bulk.min(), found.ess_tail.min()):,.0f}"
        values["R-hat"] = f"{found.r_hat.max():.3f}"
        if "diverging" in stats:
            values["divergences"] = f"{int(stats['diverging'].sum()):,}"
        values["verdict"] = results.attribute(fit, "verdict")
    for name in values:
        table.add_column(name)
    table.add_row(*map(str, values.values()))
    return table


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
