"""Results in netCDF files: written whole or not at all, as small as is asked for.

What of a result goes into a file, and with how many bits.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError, require_flag, require_names, require_whole
from stanadapt.results.arviz_object import (
    arviz_module,
    dataset,
    group_names,
    is_fit,
    is_tree,
    storable,
)

# rounding may be this share of a variable's standard deviation, far below any Monte Carlo error
LARGEST_ROUNDING = 1e-4
# what is drawn; statistics of the sampler, such as a log density of -1e8, keep all their digits
DRAWN = (
    "posterior", "posterior_predictive", "log_likelihood", "unconstrained_posterior", "prior",
    "prior_predictive", "pseudo",
)  # fmt: skip
COMPRESSION = 1  # of zlib: higher levels save another per cent of random numbers


def reduced(
    groups: Mapping[str, xr.Dataset], thin: Any, exclude: Iterable[str]
) -> dict[str, xr.Dataset]:
    """Every `thin`-th draw, without the variables and groups that are named.

    Raises
    ------
    StanadaptError
        Stage "settings", for a name that is not there, or where no draw would be left.

    """
    thin = require_whole("thin", thin, 1)
    names = set(require_names("exclude", exclude))
    _require_known(names, groups)
    kept = {}
    for group, held in groups.items():
        if group in names:
            continue
        drawn = "draw" in held.dims
        if drawn:
            held = held.drop_vars([name for name in names if name in held.data_vars])
            held = held.isel(draw=slice(None, None, thin))
        if held.data_vars or not drawn:
            kept[group] = held
    if "posterior" not in kept:
        raise StanadaptError("settings", "exclude would leave no variable in the posterior.")
    return kept


def _require_known(names: Collection[str], groups: Mapping[str, xr.Dataset]) -> None:
    drawn = [held for held in groups.values() if "draw" in held.dims]
    known = {*groups, *(str(name) for held in drawn for name in held.data_vars)}
    unknown = sorted(str(name) for name in names if name not in known)
    if unknown:
        raise StanadaptError(
            "settings",
            f"exclude names {unknown[0]!r}, but the variables and groups of the result are "
            f"{', '.join(sorted(known))}.",
        )


def encoding(group: str, held: xr.Dataset, float32: bool, compression: Any) -> dict[str, dict]:
    """How xarray is to write each variable of a group, by name."""
    level = require_whole("compression", compression, 0, 9)
    drawn = group.removeprefix("warmup_") in DRAWN
    chosen = {}
    for name, variable in held.data_vars.items():
        one: dict[str, Any] = {}
        if level and variable.size > 1 and variable.dtype.kind in "fiub":
            # bytes of equal weight together: those of signs and exponents are often the same
            one = {"zlib": True, "complevel": level, "shuffle": True}
        if require_flag("float32", float32) and drawn and _bears_rounding(variable):
            one["dtype"] = "float32"
        if one:
            chosen[str(name)] = one
    return chosen


def _bears_rounding(variable: xr.DataArray) -> bool:
    """Whether four bytes hold draws to far below their spread, in every component."""
    if variable.dtype != np.float64 or "draw" not in variable.dims:
        return False
    over: Any = [dim for dim in ("chain", "draw") if dim in variable.dims]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = variable.astype("float32").astype("float64")
        error = np.abs(rounded - variable).max(over)  # without what is not a number
        spread = variable.where(np.isfinite(variable)).std(over)
    lost = np.isfinite(variable) & ~np.isfinite(rounded)
    fine = (error <= LARGEST_ROUNDING * spread) | (error == 0)
    return bool(fine.all()) and not bool(lost.any())


def read_text(path: Path, what: str) -> str:
    """The text of a UTF-8 file, with uniform newlines and without a byte order mark.

    `what` names the file's role in the message of the error (stage "files") that is raised if it
    is missing, a folder, unreadable or not UTF-8.
    """
    try:
        # without a process that writes into it, reading would wait for ever; what a shell puts in
        # the place of a file, <(...), has no path of its own
        if stat.S_ISFIFO(path.stat().st_mode) and os.path.exists(os.path.realpath(path)):
            raise OSError("it is a named pipe, not a file")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = (
            f"The {what} {path} is not UTF-8: line {line} contains the byte "
            f"0x{error.object[error.start]:02x}. Save it as UTF-8 text."
        )
    except FileNotFoundError:
        message = f"There is no {what} at {Path(os.path.abspath(path))}. Check the path."
    except IsADirectoryError:
        message = f"A {what} was expected at {path}, which is a folder. Give the file in it."
    # ValueError: a NUL byte in the path.
    except (OSError, ValueError) as error:
        message = f"The {what} {str(path)[:200]!r} cannot be read: {error}."
    raise StanadaptError("files", message) from None


def as_path(path: Any) -> Path:
    """Return a path; StanadaptError for what is none."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise StanadaptError("files", f"the name of a file must be text or a Path, got {path!r}.")
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError:
        pass
    raise StanadaptError("files", f"no file can be called {path!r} here: choose another name.")


def check_writable(path: str | os.PathLike) -> Path:
    """Check before sampling that a result can be written to a path; return the path."""
    path = as_path(path)
    try:
        if path.is_dir():
            raise StanadaptError("files", f"{path} is a folder: give the name of a file in it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except (OSError, ValueError) as error:
        raise StanadaptError(
            "files",
            f"nothing can be written to {path}: {getattr(error, 'strerror', error)}. Choose "
            "another folder, or a shorter name.",
        ) from None
    return path


def save(
    fit: Any,
    path: str | os.PathLike,
    *,
    thin: int = 1,
    float32: bool = False,
    exclude: str | Iterable[str] = (),
    compression: int = COMPRESSION,
) -> Path:
    """Write a result to a netCDF file; an existing file is replaced only when complete.

    Parameters
    ----------
    fit
        A result, or another ArviZ object with a posterior.
    path
        Of the file.
    thin
        Write every thin-th draw, and its statistics. The object itself keeps all.
    float32
        Write draws with four bytes instead of eight, where rounding is below 1/10,000 of the
        standard deviation of every component of the variable; the sampler's statistics keep eight.
    exclude
        Variables of draws, or groups, that are not written.
    compression
        0 (none) to 9, of zlib; nothing is lost by it.

    Raises
    ------
    StanadaptError
        Stage "files" where nothing can be written, "settings" for names that are not there.

    """
    if not is_fit(fit):
        raise StanadaptError(
            "settings", f"save takes a result of sample or stan_nuts, got {type(fit).__name__}."
        )
    groups = {group: dataset(fit, group) for group in group_names(fit)}
    groups = {name: _cleaned(held) for name, held in reduced(groups, thin, exclude).items()}
    chosen = {name: encoding(name, held, float32, compression) for name, held in groups.items()}
    attributes = dict(fit.attrs)
    if "thin" in attributes:  # verdicts of kept draws depend on it
        attributes["thin"] = int(attributes["thin"]) * thin
    path = check_writable(path)
    with _replaced_when_complete(path) as partial:
        _write(groups, _storable_attributes(attributes), str(partial), chosen)
    return path


@contextlib.contextmanager
def _replaced_when_complete(path: Path) -> Iterator[Path]:
    """Give the name of a file to write, which replaces that at path when the body has ended."""
    partial = partial_of(path)
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise StanadaptError("files", f"{path} could not be written: {error}.") from None
    finally:
        partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    """Return the name of a file until it is complete, a short one: the old one is left intact."""
    return path.with_name(f".{crc32(path.name.encode()):08x}.{os.getpid()}.partial")


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a text file as a whole: an interruption, or a full disk, leaves an older one intact.

    What UTF-8 has not, such as half a surrogate pair in a name, becomes a question mark.

    Raises
    ------
    StanadaptError
        Stage "files" where nothing can be written.

    """
    path = check_writable(path)
    with _replaced_when_complete(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")
    return path


def load(path: str | os.PathLike) -> Any:
    """Read a result from a netCDF file into memory, as an object of the installed ArviZ."""
    path = as_path(path)
    if not os.path.isfile(path):  # False too for names that the system refuses
        raise StanadaptError("files", f"there is no file {path}: check the path.")
    try:
        fit = _read(path)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise StanadaptError(
            "files", f"{path} is not a result written by stanadapt: {error}."
        ) from None
    if not is_fit(fit):
        raise StanadaptError("files", f"{path} is not a result written by stanadapt.")
    return fit


def _write(
    groups: dict[str, xr.Dataset], attributes: dict[str, Any], path: str, encodings: dict[str, Any]
) -> None:
    xr.Dataset(attrs=attributes).to_netcdf(path, mode="w", engine="h5netcdf")
    for group, held in groups.items():
        held.to_netcdf(path, mode="a", group=group, engine="h5netcdf", encoding=encodings[group])


def _cleaned(held: xr.Dataset) -> xr.Dataset:
    """Return a shallow copy without attributes, added by a user, that netCDF cannot hold.

    How a file that it was read from had it stored is forgotten: its size may be another now.
    """
    held = held.drop_encoding()
    owners: list[Any] = [held, *held.variables.values()]
    for owner in owners:
        owner.attrs = _storable_attributes(owner.attrs)
    return held


def _storable_attributes(attributes: Any) -> dict[str, Any]:
    return {str(name): storable(value) for name, value in attributes.items()}


def _read(path: Path) -> Any:
    if is_tree():
        with contextlib.closing(xr.open_datatree(path, engine="h5netcdf")) as tree:
            return tree.load()
    with contextlib.closing(arviz_module().from_netcdf(str(path), engine="h5netcdf")) as fit:
        return fit.load()
