"""Output of commands: one line per error or warning on standard error, and files.

Errors and warnings end in their code, in brackets; `stanadapt explain CODE` explains it. No file is
overwritten unless the user agrees.
"""

import contextlib
import functools
import shlex
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import typer
import xarray as xr
from rich.console import Console

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.diagnostics.reasons import NOT_JUDGED
from stanadapt.engine.interrupts import uninterrupted
from stanadapt.errors import ConvergenceWarning, StanadaptError
from stanadapt.runs.load import load

# default of --out, and the noun for the result, by format
OUTPUTS = {
    "netcdf": (Path("fit.nc"), "ArviZ file"),
    "cmdstan": (Path("fit"), "CSV files"),
    "zarr": (Path("fit.zarr"), "zarr store"),
}


def require_output(out: Path | None, format: str, force: bool, float32: bool) -> Path:
    """Check before any computation that a fit can be written in a format; return the path.

    StanadaptError as `require_writable`, and for a format that is unknown or unsuitable.
    """
    results.require_format(format, out or "", float32)
    path = OUTPUTS[format][0] if out is None else out
    return require_writable([path], force, format)[0]


def save(fit: Any, path: Path, float32: bool = False, format: str = "netcdf") -> Path:
    """Write a result to a checked path, and record it for the message after an interruption.

    If the format cannot hold the draws, or the disk is full, they are written to a netCDF file,
    which the error names.

    Ctrl-C ends the command once the file is complete, since the draws would be lost otherwise; it
    ends the command at once if a run folder holds them.
    """
    judged = results.attribute(fit, "verdict") != NOT_JUDGED
    in_folder = results.attribute(fit, "run") is not None
    if in_folder and not judged:
        raise KeyboardInterrupt
    interruption.incomplete.append(results.partial_path(path))
    # compression takes most of the time: leave it out if the user has pressed Ctrl-C
    options: dict[str, Any] = {"float32": float32} if judged else {"compression": 0}
    options |= {"format": format, "overwrite": True}  # `require_writable` has asked
    if in_folder:
        pressed, saved = [], _save(fit, path, **options)
    else:
        with uninterrupted() as pressed:
            saved = _save(fit, path, **options)
    interruption.written.append(saved)
    if pressed or not judged:
        raise KeyboardInterrupt
    return saved


def _save(fit: Any, path: Path, **options: Any) -> Path:
    try:
        return results.save(fit, path, **options)
    except StanadaptError as error:
        kept = _keep(fit, path, error, options["format"])
        if kept is None:
            raise
        raise StanadaptError(
            error.code, f"{error.message} The draws are not lost: they are in {kept}."
        ) from None


def _keep(fit: Any, path: Path, error: StanadaptError, format: str) -> Path | None:
    """Write draws that could not be saved to another netCDF file; None if that fails as well."""
    if error.code != "not_writable":
        others = (path.with_name(f"{path.name}{end}.nc") for end in chain([""], count(2)))
        if format == "netcdf":
            return None
        return results.save(fit, next(other for other in others if not other.exists()))
    folder = Path(tempfile.mkdtemp(prefix="stanadapt-draws-"))
    try:
        return results.save(fit, folder / "fit.nc")
    except StanadaptError:
        folder.rmdir()
        return None


@functools.cache
def _import_writer() -> None:
    """Write a small netCDF file, so that the library is imported before there are draws to lose."""
    with tempfile.TemporaryDirectory() as folder:
        xr.Dataset({"x": ("draw", np.zeros(1))}).to_netcdf(f"{folder}/x.nc", engine="h5netcdf")


def require_writable(paths: Iterable[Path], force: bool, format: str = "netcdf") -> list[Path]:
    """Check before any computation that files can be written; ask before replacing one.

    Returns the same files, with the user's home expanded. With `force`, existing ones may be
    replaced without a question. The format is that of fits, "netcdf" for other files as well.
    StanadaptError if a file cannot be written, or if it exists and the user does not agree or
    cannot be asked.
    """
    checked = [results.FORMATS[format](path) for path in paths]
    _import_writer()
    if format == "cmdstan":
        existing = [str(file) for path in checked for file in results.other_csv_files(path)]
    else:
        existing = [str(path) for path in checked if path.exists()]
    if not existing or force:
        return checked
    listed = ", ".join(existing)
    if format == "cmdstan" and not any(results.is_stan_csv(Path(file)) for file in existing):
        raise StanadaptError(
            "other_csv_files",
            f"{listed} would be taken for chains by programs that read all CSV files of a folder: "
            "choose another --out, or add --force, which leaves them there.",
        )
    if sys.stdin.isatty() and typer.confirm(f"Overwrite {listed}?", err=True):
        return checked
    raise StanadaptError(
        "would_overwrite", f"{listed} would be overwritten: choose another name, or add --force."
    )


def typed() -> str:
    """Return the command line as a user would type it."""
    return shlex.join(["stanadapt", *sys.argv[1:]])


def load_all(files: list[Path]) -> dict[str, results.Fit]:
    """Return fits by the names of their files, without endings unless two are the same then."""
    count = Counter(path.stem for path in files)
    for path in files[1:]:
        if not path.suffix and not path.exists():
            text = f"there is no fit {path}. Names after an option are separated by commas: "
            raise StanadaptError("file_missing", f"{text}--vars a,b.")
    return {path.stem if count[path.stem] == 1 else str(path): load(path) for path in files}


@contextlib.contextmanager
def report_errors(worded: Callable[[str], str] = str) -> Iterator[None]:
    """Print errors and warnings on standard error; exit with 1, or with 130 after Ctrl-C.

    `worded` returns a message in the words of the command line.
    """
    console = Console(stderr=True, soft_wrap=True)
    interruption.written.clear()
    interruption.runs.clear()
    interruption.reported.clear()
    interruption.begun.set()

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        console.print(f"[yellow]note:[/yellow] {plain(worded(str(message)))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # printed below the table
        warnings.showwarning = show
        try:
            yield
        except StanadaptError as error:
            console.print(f"[red]error in {plain(worded(str(error)))}[/red]", highlight=False)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            interruption.report(functools.partial(console.print, highlight=False, markup=False))
            raise typer.Exit(interruption.CODE) from None


def end(*fits: Any) -> None:
    """Exit with the code of an interruption if Ctrl-C ended one of the fits."""
    if any(results.attribute(fit, "interrupted") for fit in fits):
        raise typer.Exit(interruption.CODE)


def plain(text: str) -> str:
    """Return text with its brackets escaped, which rich would read as markup."""
    return text.replace("[", r"\[")
