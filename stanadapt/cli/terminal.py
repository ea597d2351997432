"""What a command prints on standard error: errors and warnings in a line each, no tracebacks.

Files that a command writes: none is overwritten unasked.
"""

import contextlib
import functools
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer
import xarray as xr
from rich.console import Console

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.diagnostics.verdict import NOT_JUDGED
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.runs.run import uninterrupted


def save(fit: Any, path: Path, float32: bool = False) -> Path:
    """Write a result, and remember to say so if the command is interrupted.

    Ctrl-C ends the command when the file is complete, else the draws would be lost; at once where
    the folder of a run keeps them.
    """
    judged = results.attribute(fit, "verdict") != NOT_JUDGED
    kept = results.attribute(fit, "run") is not None
    if kept and not judged:
        raise KeyboardInterrupt
    interruption.incomplete.append(results.partial_of(path))
    # compression takes most of the time: none where somebody is waiting for the end
    chosen: dict[str, Any] = {"float32": float32} if judged else {"compression": 0}
    if kept:
        pressed, saved = [], results.save(fit, path, **chosen)
    else:
        with uninterrupted() as pressed:
            saved = results.save(fit, path, **chosen)
    interruption.written.append(saved)
    if pressed or not judged:
        raise KeyboardInterrupt
    return saved


@functools.cache
def _import_writer() -> None:
    """Import what writes netCDF, by writing some: no draws are to wait for it later."""
    with tempfile.TemporaryDirectory() as folder:
        xr.Dataset({"x": ("draw", np.zeros(1))}).to_netcdf(f"{folder}/x.nc", engine="h5netcdf")


def require_writable(paths: Iterable[Path], force: bool) -> list[Path]:
    """Check before anything is computed that files can be written; ask before one is replaced.

    Raises
    ------
    StanadaptError
        Stage "files", where one exists and there is nobody to ask, or the answer is no.

    """
    checked = [results.check_writable(path) for path in paths]
    _import_writer()
    existing = [str(path) for path in checked if path.exists()]
    if not existing or force:
        return checked
    listed = ", ".join(existing)
    if sys.stdin.isatty() and typer.confirm(f"Overwrite {listed}?", err=True):
        return checked
    raise StanadaptError(
        "files", f"{listed} would be overwritten: choose another --out, or add --force."
    )


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Print errors and warnings on standard error; exit with 1, or with 130 after Ctrl-C."""
    console = Console(stderr=True, soft_wrap=True)
    interruption.written.clear()
    interruption.runs.clear()

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        console.print(f"[yellow]note:[/yellow] {plain(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # stands below the table
        warnings.filterwarnings("default", ".* is now called ", FutureWarning)
        warnings.showwarning = show
        try:
            yield
        except StanadaptError as error:
            console.print(f"[red]error in {plain(str(error))}[/red]", highlight=False)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            console.print(interruption.sentence(), highlight=False, markup=False)
            raise typer.Exit(interruption.CODE) from None


def plain(text: str) -> str:
    return text.replace("[", r"\[")
