"""Commands that draw: `sample`, `approximate`, and `resume` and `watch` for runs in a folder."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from stanadapt import results
from stanadapt.cli import interruption, options, terminal
from stanadapt.cli.options import options_of
from stanadapt.cli.signature import Given, Option, command
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.mixing import efficiency, mixing_of
from stanadapt.diagnostics.summary import first_rows
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.runs.choose_sampler import require_sampler
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.load import load, progress_of
from stanadapt.runs.prior import add_prior, plan_prior, planned_prior
from stanadapt.runs.resume import resume as continue_run
from stanadapt.runs.run import QUICKLY_JUDGED
from stanadapt.runs.sample import require_options
from stanadapt.runs.sample import sample as draw_fit
from stanadapt.runs.spec import program_of, read_spec
from stanadapt.samplers import registered
from stanadapt.samplers.variational.methods import METHODS
from stanadapt.studies.approximate.approximate import approximate as fit_approximation
from stanadapt.studies.approximate.approximate import plan_approximation
from stanadapt.studies.repeats.sample_many import sample_many as draw_many
from stanadapt.targets.target import Target

ROWS = 10  # of the summary with which `sample` ends


@command(plan=options_of(draw_fit, leave_out=("target", "executor")), target=options.WHOLE_TARGET)
def sample(
    model: str,
    *,
    data: str | None = None,
    plan: Given,
    out: Path | None = None,
    format: str = "netcdf",
    threads_per_chain: int = 1,
    prior_data: Path | None = None,
    reference: str | None = None,
    network: Path | None = None,
    straighten: bool = False,
    settings: list[str] | None = None,
    sampler_file: options.SamplerFile = None,
    target: Given,
    posteriordb: Path | None = None,
    float32: bool = False,
    force: bool = False,
) -> None:
    interruption.runs += [] if plan["run"] is None else [plan["run"]]
    plan["standardize"] = _coordinates(plan["standardize"], straighten)
    chosen = options.read_settings(settings)
    require_sampler(plan["sampler"], **chosen)
    own = {name: value for name, value in plan.items() if name != "sampler"}
    require_options(threads_per_chain=threads_per_chain, **own)
    used = registered().get(plan["sampler"])
    # whether it tempers towards the program under other data
    tempers = used and used.tempering and not used.tempering.draws_reference
    path = terminal.require_output(out, format, force, float32)
    program = options.make_target(model, data, posteriordb, **target)
    if prior_data is not None:
        plan_prior(program, prior_data)  # find mistakes in the file before sampling
    family = {
        "threads_per_chain": threads_per_chain, "reference_distribution": reference,
        "prior_data": prior_data if tempers else None, "network": network,
    }  # fmt: skip
    chosen |= {name: value for name, value in family.items() if value is not None}
    fit = draw_fit(program, **plan, **chosen)
    finish(fit, program, prior_data, plan, path, float32=float32, format=format)


def finish(
    fit: Any, target: Any, prior_data: Path | None, plan: Given, path: Path, **file: Any
) -> None:
    """Add the prior to a fit, if there are data for it; write the fit, and print its table.

    If the prior fails, the fit is written without it: no draw may be lost.
    """
    if prior_data is not None and not results.attribute(fit, "interrupted"):
        limits = {name: plan[name] for name in ("max_minutes", "parallel_chains", "show_progress")}
        try:
            fit = add_prior(fit, target, prior_data, **limits)
        except BaseException:
            print(f"the fit without its prior: {terminal.save(fit, path, **file)}")
            raise
    try:
        terminal.save(fit, path, **file)
    except KeyboardInterrupt:  # it may have come while chains ran, and is no hurry then
        if not results.attribute(fit, "interrupted") or path not in interruption.written:
            raise
        fit = _sample_of(fit)
    table, others = first_rows(fit, ROWS)
    print(table)
    if others:
        print(f"{others:,} more quantities: stanadapt summary {path}")
    print(compare({results.attribute(fit, "sampler"): fit}))
    print(f"{terminal.OUTPUTS[file['format']][1]}: {path}")
    terminal.end(fit)


def _sample_of(fit: Any, size: int = QUICKLY_JUDGED) -> Any:
    """Return a fit of every k-th draw, which is judged in a moment; print this."""
    posterior = results.dataset(fit, "posterior")
    step = -(-sum(x.size for x in posterior.data_vars.values()) // size)
    if step > 1:
        print(f"Table and verdict of one draw in {step:,}:")
    shown = {"posterior", "sample_stats"} & set(results.group_names(fit))
    groups: results.Groups
    groups = {name: results.dataset(fit, name).isel(draw=slice(None, None, step)) for name in shown}
    return results.build(groups, fit.attrs)


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


@command(
    plan=options_of(
        draw_many,
        "sampler",
        "seed",
        "show_progress",
        seed=Option("Random seed; default: that of the folder, or a random one."),
    )
    | options_of(draw_fit, "chains", "iter_warmup", "iter_sampling", "thin", "max_minutes"),
    target=options.PLAIN_TARGET,
)
def sample_many(
    model: str,
    data: list[Path],
    *,
    plan: Given,
    out: Path,
    settings: list[str] | None = None,
    sampler_file: options.SamplerFile = None,
    target: Given,
) -> None:  # fmt: skip
    stems = [file.stem for file in data]
    by_name = {file.stem if stems.count(file.stem) == 1 else str(file): file for file in data}
    given = {name: value for name, value in plan.items() if value is not None}
    chosen = options.read_settings(settings)
    require_sampler(plan["sampler"], **chosen)
    require_options(**{n: x for n, x in given.items() if n != "sampler"}, **chosen)
    program: Any = None
    for number, file in enumerate(data, 1):  # the program of the first data that it accepts
        try:
            program = options.make_target(model, str(file), **target)
            break
        except StanadaptError as error:
            if error.stage != "data" or number == len(data):
                raise
    fits = draw_many(program, data=by_name, run=out, **given, **chosen)
    fits.table.to_csv(out / "fits.csv")
    print(fits)
    print(f"ArviZ files and table: {out}")
    if fits.interrupted or fits.failures:
        raise typer.Exit(130 if fits.interrupted else 1)


@command(
    plan=options_of(
        fit_approximation, leave_out=("target", "save"),
        method=Option(f"One of {', '.join(METHODS)}.", str),
    ),
    target=options.PLAIN_TARGET | options_of(Target, "labels"),
)  # fmt: skip
def approximate(
    model: str,
    *,
    data: str | None = None,
    plan: Given,
    out: Path = Path("approximation.nc"),
    settings: list[str] | None = None,
    target: Given,
    posteriordb: Path | None = None,
    force: bool = False,
) -> None:
    chosen = options.read_settings(settings)
    plan_approximation(settings=chosen, **plan)
    (path,) = terminal.require_writable([out], force)
    program = options.make_target(model, data, posteriordb, **target)
    fit = fit_approximation(program, **plan, **chosen)
    terminal.save(fit, path)
    print(f"{results.attribute(fit, 'verdict')}: {results.attribute(fit, 'pareto_k_meaning')}")
    print(f"ArviZ file: {path}")


@command(
    plan=options_of(
        continue_run, leave_out=("run", "target", "executor"),
        iter_sampling=Option(
            "Sampling iterations per chain in all; default: as planned for the run."
        ),
    )
)  # fmt: skip
def resume(
    run: Path,
    *,
    sampler_file: options.SamplerFile = None,
    out: Path | None = None,
    format: str = "netcdf",
    plan: Given,
    prior_data: Path | None = None,
    float32: bool = False,
    force: bool = False,
) -> None:
    folder = RunFolder.open(run)
    path = terminal.require_output(out, format, force, float32)
    interruption.runs.append(run)
    target, prior_data, notes = _prior_of_run(folder, prior_data, plan["show_progress"])
    fit = continue_run(run, target, **plan)
    if notes:
        results.add_notes(fit, notes)
    finish(fit, target, prior_data, plan, path, float32=float32, format=format)


def _prior_of_run(
    folder: RunFolder, data: Path | None, show_progress: bool
) -> tuple[Target | None, Path | None, list[Message]]:
    """Return the target of a run that is to get a prior, the data of that, and notes.

    The data are the file that the user gave, or the one that the run recorded, if any.
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


@command()
def watch(
    run: Path,
    *,
    every: Annotated[float, typer.Option(help="Refresh interval in seconds.", min=0.1)] = 5.0,
    once: bool = False,
) -> None:
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            done, total, chains = progress_of(run)
            fit = None
            with contextlib.suppress(StanadaptError):  # there are no draws yet
                fit = load(run)
            title, values = f"{run}: {done:,} of {total:,} iterations", _values(chains, fit)
            if live.console.is_terminal:
                live.update(_row(title, values), refresh=True)
            else:  # in a pipe, lines that are not wrapped
                typer.echo("\n".join([title, *(f"{name}: {values[name]}" for name in values)]))
            if once or done >= total:
                return
            time.sleep(every)


def _values(chains: list[str], fit: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"chains": "; ".join(chains), "draws": "none yet"}
    if fit is not None:
        columns = results.columns(fit, wanted=results.parameters(fit))
        summary = efficiency(columns, measure=mixing_of(fit))
        stats = results.dataset(fit, "sample_stats")
        values["draws"] = f"{results.dataset(fit, 'posterior').sizes['draw']:,} per chain"
        if summary.names:  # none if no parameter has moved yet
            values["bulk ESS"] = f"{summary.ess_bulk.min():,.0f}"
            values["tail ESS"] = f"{summary.ess_tail.min():,.0f}"
            values["R-hat"] = f"{summary.r_hat.max():.3f}"
        if "diverging" in stats:
            values["divergences"] = f"{int(stats['diverging'].sum()):,}"
        values["verdict"] = results.attribute(fit, "verdict")
    return values


def _row(title: str, values: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in values:
        table.add_column(name)
    table.add_row(*map(str, values.values()))
    return table
