"""The command `compare`: several samplers and Stan's NUTS, once or with `--repeats`.

All options are checked before the first sampler runs, since a run may take hours.
"""

from functools import partial
from pathlib import Path
from typing import Any

import typer

from stanadapt import results
from stanadapt.cli import options, terminal
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command
from stanadapt.cli.terminal import typed
from stanadapt.diagnostics.compare import compare as compare_fits
from stanadapt.diagnostics.compare import require_budget, require_variables
from stanadapt.diagnostics.summary import summary
from stanadapt.errors import Message, StanadaptError, require_whole, warn
from stanadapt.runs.choose_sampler import AUTO, require_sampler
from stanadapt.runs.sample import sample as draw_fit
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine
from stanadapt.runs.stan_nuts.stan_nuts import stan_nuts as draw_stan_nuts
from stanadapt.studies.repeats.compare_repeats import (
    MOST_REPEATS,
    NO_NUTS,
    compare_repeats,
    name_of_stan_nuts,
    require_plan,
)
from stanadapt.studies.repeats.page import is_repeats_page
from stanadapt.studies.repeats.rows import JSON
from stanadapt.studies.report.report import check_report
from stanadapt.studies.report.report import report as write_report
from stanadapt.targets.posteriordb import PosteriorDatabase
from stanadapt.targets.target import Target

LENGTHS = "iter_warmup", "iter_sampling"


@command(
    plan=options_of(
        compare_repeats,
        leave_out=("target", "samplers", "repeats", "run", "overwrite", "executor", "reference"),
        stan_nuts=Option(
            "Engine of Stan's NUTS: auto, cmdstan, stanli, or none to skip it.", str
        ),
    ),
    measured=options_of(compare_fits, "budget"),
    target=options.WHOLE_TARGET,
)  # fmt: skip
def compare(
    model: str,
    *,
    data: str | None = None,
    sampler: str = AUTO,
    out: Path | None = None,
    report: Path | None = None,
    estimates: bool = False,
    repeats: int | None = None,
    more: list[str] | None = None,
    plan: Given,
    settings: list[str] | None = None,
    measured: Given,
    sampler_file: options.SamplerFile = None,
    target: Given,
    posteriordb: Path | None = None,
    float32: bool = False,
    force: bool = False,
) -> None:
    names = options.read_names(sampler)
    chosen = options.settings_by_sampler(settings, names)
    for name in names:
        require_sampler(name, **chosen[name])
    require_plan(**plan)
    require_budget(measured["budget"])
    nuts = []
    if plan["stan_nuts"] != NO_NUTS:
        choose_engine(plan["stan_nuts"], "stan_nuts")
        nuts = [name_of_stan_nuts(names)]
    flags = {"float32": float32 or None, "estimates": estimates or None}
    _require_repeatable(repeats, more, budget=measured["budget"], **flags)
    if repeats is None:
        _require_free([*nuts, *names], out, report, force)
    else:
        _require_free(None, out, report, force or _continues(out, report))
    program = options.make_target(model, data, posteriordb, **target)
    if repeats is not None:
        targets = _all_targets(program, model, data, more, posteriordb, **target)
        published = {
            name: draws
            for name, one in targets.items()
            for draws in _reference_draws(posteriordb, name, one).values()
        }
        given = {"repeats": repeats, "run": out, "overwrite": force, "reference": published, **plan}
        print_repeats(compare_repeats(targets, chosen, **given), out, report)
        return
    variables = plan.pop("var_names")
    if variables is not None:
        require_variables(variables, results.shapes(program.column_names))
    runs = runs_of(program, chosen, nuts, plan)
    published = _reference_draws(posteriordb, model, program)
    fits = {**published, **draw_all(runs, out, float32, save_warmup=report is not None)}
    table = compare_fits(fits, var_names=variables, **measured)
    if estimates:
        print(summary(fits, variables), end="\n\n")
    print(table)
    if out is not None:
        table.to_csv(out / "comparison.csv", index_label="fit")
        print(f"ArviZ files and table: {out}")
    if report is not None:
        path = write_report(fits, report, table=None if variables else table, command=typed())
        print(f"Report: {path}")
    terminal.end(*fits.values())


# --- checks before sampling ----------------------------------------------------------------------


def _require_free(
    rows: list[str] | None, out: Path | None, report: Path | None, force: bool
) -> None:
    """Check the files to be written; rows is None with repeats, which check their folder."""
    if out is not None and rows is not None:
        files = [out / f"{row}.nc" for row in rows]
        terminal.require_writable([*files, out / "comparison.csv"], force)
    if report is not None:
        terminal.require_writable([check_report(report)], force)


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


def runs_of(
    target: Any, settings: dict[str, dict[str, Any]], nuts: list[str], plan: Given
) -> dict[str, Any]:
    """Return the function that draws each fit, Stan's NUTS first."""
    engine = plan.pop("stan_nuts")
    runs = {
        name: partial(draw_fit, target, name, **plan, **chosen) for name, chosen in settings.items()
    }
    given = {name: v for name, v in plan.items() if v is not None or name not in LENGTHS}
    return {name: partial(draw_stan_nuts, target, backend=engine, **given) for name in nuts} | runs


def _reference_draws(database: Path | None, name: str, target: Any) -> dict[str, Any]:
    """Return the reference draws that a posteriordb has of a posterior, if any."""
    if database is None:
        return {}
    posteriors = PosteriorDatabase(database)
    if posteriors.posterior(name).reference is None:
        warn(Message("no_published_draws", f"posteriordb has no reference draws of {name}."))
        return {}
    return {"posteriordb": posteriors.reference_draws(name, target)}


def draw_all(runs: dict[str, Any], out: Path | None, float32: bool, **given: Any) -> dict[str, Any]:
    """Run the samplers in turn, and write each fit as soon as it is complete.

    After Ctrl-C the fits so far are returned.
    """
    fits: dict[str, Any] = {}
    for name, draw in runs.items():
        try:
            fits[name] = draw(**given)
        except StanadaptError as error:
            if error.fit is not None and out is not None:
                print(f"its draws: {terminal.save(error.fit, out / f'{name}.nc', float32)}")
            raise
        if out is not None:
            terminal.save(fits[name], out / f"{name}.nc", float32)
        if results.attribute(fits[name], "interrupted"):
            break
    return fits


# --- repeats -------------------------------------------------------------------------------------


def _all_targets(
    target: Target, model: str, data: str | None, more: list[str] | None,
    posteriordb: Path | None, **given: Any,
) -> dict[str, Target]:  # fmt: skip
    """Return all targets by name; with a posteriordb, all of them are its posteriors."""
    whole = posteriordb is not None  # names of posteriors may have dots
    targets = {model if whole else _name(model, data) if more else target.name: target}
    for text in more or []:
        other_model, _, other_data = text.partition(":")
        name = other_model if whole else _name(other_model, other_data)
        if name in targets:
            raise StanadaptError(
                "duplicate_target", f"--target {text}: there already is a target {name}."
            )
        targets[name] = options.make_target(other_model, other_data or None, posteriordb, **given)
    return targets


def _name(model: str, data: str | None) -> str:
    return " ".join(Path(part).stem for part in (model, data) if part)


def print_repeats(repeated: Any, out: Path | None, report: Path | None) -> None:
    """Print the summary of repeats, and exit with 130 after Ctrl-C."""
    print(repeated)
    if out is not None:
        print(f"tables and picture: {out}")
    if report is not None:
        print(f"Report: {repeated.report(report, command=typed())}")
    if repeated.interrupted:
        raise typer.Exit(130)
