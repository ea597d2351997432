"""Commands on runs that are kept on disk: `resume` and `watch`."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.cli.files import require_writable, save
from stanadapt.cli.messages import reported
from stanadapt.cli.options import Float32, Force, MaxMinutes, Parallel, Quiet, UntilEss
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.efficiency import efficiency
from stanadapt.errors import StanadaptError
from stanadapt.runs.load import load, progress_of
from stanadapt.runs.resume import resume as go_on

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
        compare({results.attribute(fit, "sampler"): fit})
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
