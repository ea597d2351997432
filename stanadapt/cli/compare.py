"""The command `compare`: several samplers and Stan's NUTS, once or with `--repeats`.

All options are checked before the first sampler runs, since a run may take hours.
"""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt import results
from stanadapt.cli.options import (
    Backend,
    Budget,
    Chains,
    Data,
    Draws,
    Exclude,
    Float32,
    Force,
    Include,
    Inits,
    LabelsFile,
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
    Thin,
    Unsafe,
    Variables,
    Warmup,
    make_target,
    read_inits,
    read_names,
    settings_by_sampler,
    target_options,
)
from stanadapt.cli.terminal import report_errors, require_writable, save
from stanadapt.diagnostics.compare import compare as compare_fits
from stanadapt.engine.plan import make_plan
from stanadapt.errors import Message, StanadaptError, require_whole, warn
from stanadapt.runs.choose_sampler import AUTO, require_sampler
from stanadapt.runs.sample import sample as draw_fit
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine
from stanadapt.runs.stan_nuts.stan_nuts import stan_nuts as draw_stan_nuts
from stanadapt.studies.repeats.compare_repeats import MOST_REPEATS, compare_repeats
from stanadapt.studies.repeats.page import is_repeats_page
from stanadapt.studies.repeats.rows import JSON
from stanadapt.studies.report.report import check_report
from stanadapt.studies.report.report import report as write_report
from stanadapt.targets.posteriordb import PosteriorDatabase
from stanadapt.targets.target import Target


def compare(
    model: Model,
    data: Data = None,
    sampler: Annotated[
        str,
        typer.Option("--sampler", "-s", help="Names of samplers, separated by commas, or auto."),
    ] = AUTO,
    stan_nuts: Annotated[
        str,
        typer.Option(
            "--stan-nuts", help="Engine of Stan's NUTS: auto, cmdstan, stanli, or none to skip it."
        ),
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the ArviZ files and the table."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file for a report with verdicts, table and pictures.")
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
    """Draw with several samplers and with Stan's NUTS, and compare their cost and their draws."""
    with report_errors():
        names = read_names(sampler) or []
        settings: Any = settings_by_sampler(choices, names)
        for name in names:
            require_sampler(name, **settings[name])
        _require_plan(chains, parallel_chains, iter_warmup, iter_sampling, thin, seed)
        rows = _rows(names, stan_nuts)
        _require_repeatable(repeats, more, budget=budget, float32=float32 or None)
        continued = repeats is not None and _continues(out, report)
        _require_free(rows if repeats is None else None, out, report, force or continued)
        options = target_options(include, backend, unsafe, noise, rho, labels, exclude, quiet)
        target = make_target(model, data, posteriordb, **options)
        common = {
            "chains": chains, "parallel_chains": parallel_chains, "seed": seed, "thin": thin,
            "inits": read_inits(inits), "show_progress": not quiet,
        }  # fmt: skip
        lengths: Any = {"iter_warmup": iter_warmup, "iter_sampling": iter_sampling}
        if repeats is not None:
            if posteriordb is not None:
                _note_unused_draws(posteriordb, model)
            _compare_repeats(
                _all_targets(target, model, data, more, **options), settings, repeats=repeats,
                engine=stan_nuts, out=out, force=force, report=report,
                var_names=read_names(variables), **common, **lengths,
            )  # fmt: skip
            return
        runs: dict[str, Any] = {
            row: partial(draw_fit, target, row, **settings[row], **lengths) for row in names
        }
        if len(rows) > len(names):
            given = {name: value for name, value in lengths.items() if value is not None}
            nuts = partial(draw_stan_nuts, target, backend=stan_nuts, **given)
            runs = {rows[0]: nuts, **runs}
        common["save_warmup"] = report is not None
        published = _reference_draws(posteriordb, model, target)
        fits = {**published, **_draw_all(runs, common, out, float32)}
        table = compare_fits(fits, var_names=read_names(variables), budget=budget)
        print(table)
        if out is not None:
            table.to_csv(out / "comparison.csv", index_label="fit")
            print(f"ArviZ files and table: {out}")
        if report is not None:
            path = write_report(fits, report, table=None if variables else table, command=_line())
            print(f"Report: {path}")
        if any(results.attribute(fit, "interrupted") for fit in fits.values()):
            raise typer.Exit(130)


def _line() -> str:
    """Return the command line as a user would type it."""
    return shlex.join(["stanadapt", *sys.argv[1:]])


# --- checks before sampling ----------------------------------------------------------------------


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
    """Check the files to be written; rows is None with repeats, which check their folder."""
    if out is not None and rows is not None:
        files = [out / f"{row}.nc" for row in rows]
        require_writable([*files, out / "comparison.csv"], force)
    if report is not None:
        require_writable([check_report(report)], force)


def _require_repeatable(repeats: int | None, more: list[str] | None, **options: Any) -> None:
    """Raise StanadaptError for a wrong number of repeats, or an option that they conflict with."""
    if repeats is None:
        if more:
            raise StanadaptError(
                "options_conflict", "--target names further targets for --repeats: add --repeats."
            )
        return
    require_whole("repeats", repeats, 1, MOST_REPEATS)
    for name, value in options.items():
        if value is not None:
            raise StanadaptError(
                "options_conflict",
                f"--{name} needs the draws of each fit, but --repeats keeps only summaries of "
                "them: leave out one of the two.",
            )


def _continues(out: Path | None, report: Path | None) -> bool:
    """Whether the report is one of repeats and the folder holds these, so that both are updated."""
    if out is None or report is None or not (out / JSON).is_file():
        return False
    return report.is_file() and is_repeats_page(report)


# --- fits ----------------------------------------------------------------------------------------


def _rows(names: list[str], engine: str) -> list[str]:
    """Return names of the fits: Stan's NUTS first, unless it is not wanted."""
    if engine == "none":
        return names
    choose_engine(engine)
    # our own sampler may be called nuts too
    return ["stan_nuts" if "nuts" in names else "nuts", *names]


def _reference_draws(database: Path | None, name: str, target: Any) -> dict[str, Any]:
    """Return the reference draws that a posteriordb has of a posterior, if any."""
    if database is None:
        return {}
    posteriors = PosteriorDatabase(database)
    if posteriors.posterior(name).reference is None:
        warn(Message("no_published_draws", f"posteriordb has no reference draws of {name}."))
        return {}
    return {"posteriordb": posteriors.reference_draws(name, target)}


def _note_unused_draws(database: Path, name: str) -> None:
    """Say that repeats are not compared with reference draws, if a posteriordb has them."""
    if PosteriorDatabase(database).posterior(name).reference is not None:
        text = f"the reference draws of {name} are not used: --repeats compares samplers only."
        warn(Message("unused_published_draws", text))


def _draw_all(
    runs: dict[str, Any], common: dict[str, Any], out: Path | None, float32: bool
) -> dict[str, Any]:
    """Run the samplers in turn, and write each fit as soon as it is complete.

    After Ctrl-C the fits so far are returned.
    """
    fits: dict[str, Any] = {}
    for name, draw in runs.items():
        try:
            fits[name] = draw(**common)
        except StanadaptError as error:
            if error.fit is not None and out is not None:
                print(f"its draws: {save(error.fit, out / f'{name}.nc', float32)}")
            raise
        if out is not None:
            save(fits[name], out / f"{name}.nc", float32)
        if results.attribute(fits[name], "interrupted"):
            break
    return fits


# --- repeats -------------------------------------------------------------------------------------


def _all_targets(
    target: Target, model: str, data: str | None, more: list[str] | None, **options: Any
) -> Target | dict[str, Target]:
    """Return the target, or a dict of all targets by name if there are several."""
    if not more:
        return target
    targets = {_name(model, data): target}
    for text in more:
        other_model, _, other_data = text.partition(":")
        name = _name(other_model, other_data)
        if name in targets:
            raise StanadaptError(
                "duplicate_target", f"--target {text}: there already is a target {name}."
            )
        targets[name] = make_target(other_model, other_data or None, **options)
    return targets


def _name(model: str, data: str | None) -> str:
    return " ".join(Path(part).stem for part in (model, data) if part)


def _compare_repeats(
    target: Target | dict[str, Target],
    samplers: dict[str, dict[str, str]],
    *,
    out: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Run the repeats, print their summary, and exit with 130 after Ctrl-C."""
    repeated = compare_repeats(target, samplers, run=out, **options)
    print(repeated)
    if out is not None:
        print(f"tables and picture: {out}")
    if report is not None:
        print(f"Report: {repeated.report(report, command=_line())}")
    if repeated.interrupted:
        raise typer.Exit(130)
