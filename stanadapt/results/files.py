"""Read and write the netCDF files of fits, and text files, each written whole or not at all."""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError, require_flag, require_names, require_whole
from stanadapt.results.arviz_object import Fit, is_fit, read_groups, storable
from stanadapt.results.storable import require_storable, with_storable_labels

# largest rounding error, in standard deviations of a variable: far below any Monte Carlo error
LARGEST_ROUNDING = 1e-4
# groups of draws; statistics of the sampler, such as a log density of -1e8, keep all digits
DRAWN = (
    "posterior", "posterior_predictive", "log_likelihood", "unconstrained_posterior", "prior",
    "prior_predictive", "pseudo",
)  # fmt: skip
PROBE = 4096  # bytes: on a full disk, an empty file can be created, and a larger one cannot
MARGIN = 2**20  # bytes of a netCDF file besides its arrays, ample
HDF5 = b"\x89HDF"  # with which netCDF files begin; older ones with CDF
COMPRESSION = 1  # level of zlib; higher levels save another percent of random numbers


def select_draws(
    groups: Mapping[str, xr.Dataset], thin: Any, exclude: Iterable[str]
) -> dict[str, xr.Dataset]:
    """Return every `thin`-th draw, without the variables and groups named in `exclude`.

    An unknown name, or an empty posterior, is an error of the stage "settings".
    """
    thin = require_whole("thin", thin, 1)
    names = set(require_names("exclude", exclude))
    _require_present(names, groups)
    selected = {}
    for group, data in groups.items():
        if group in names:
            continue
        has_draws = "draw" in data.dims
        if has_draws:
            data = data.drop_vars([name for name in names if name in data.data_vars])
            data = data.isel(draw=slice(None, None, thin))
        if data.data_vars or not has_draws:
            selected[group] = data
    if "posterior" not in selected:
        raise StanadaptError(
            "empty_posterior", "exclude would leave no variable in the group posterior."
        )
    return selected


def _require_present(names: Collection[str], groups: Mapping[str, xr.Dataset]) -> None:
    with_draws = [data for data in groups.values() if "draw" in data.dims]
    present = {*groups, *(str(name) for data in with_draws for name in data.data_vars)}
    unknown = sorted(str(name) for name in names if name not in present)
    if unknown:
        raise StanadaptError(
            "unknown_variable",
            f"exclude names {unknown[0]!r}, but the variables and groups of the result are "
            f"{', '.join(sorted(present))}.",
        )


def encoding(group: str, data: xr.Dataset, float32: bool, compression: Any) -> dict[str, dict]:
    """Return xarray's encoding of each variable of a group, by name."""
    level = require_whole("compression", compression, 0, 9)
    is_drawn = group.removeprefix("warmup_") in DRAWN
    encodings = {}
    for name, variable in data.data_vars.items():
        one: dict[str, Any] = {}
        if level and variable.size > 1 and variable.dtype.kind in "fiub":
            # shuffling groups the bytes of signs and exponents, which are often equal
            one = {"zlib": True, "complevel": level, "shuffle": True}
        if require_flag("float32", float32) and is_drawn and _tolerates_rounding(variable):
            one["dtype"] = "float32"
        if one:
            encodings[str(name)] = one
    return encodings


def _tolerates_rounding(variable: xr.DataArray) -> bool:
    """Whether four bytes resolve draws to far below their spread, in every component."""
    if variable.dtype != np.float64 or "draw" not in variable.dims:
        return False
    over: Any = [dim for dim in ("chain", "draw") if dim in variable.dims]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = variable.astype("float32").astype("float64")
        error = np.abs(rounded - variable).max(over)  # ignores NaN
        spread = variable.where(np.isfinite(variable)).std(over)
    lost = np.isfinite(variable) & ~np.isfinite(rounded)
    fine = (error <= LARGEST_ROUNDING * spread) | (error == 0)
    return bool(fine.all()) and not bool(lost.any())


def read_text(path: Path, role: str) -> str:
    """Return the text of a UTF-8 file, with uniform newlines and no byte order mark.

    `role` is a noun for the file in messages, such as "Stan program". The error, of the stage
    "files", says if the file is missing, a folder, unreadable or not UTF-8.
    """
    code = "file_unreadable"
    try:
        # reading a pipe without a writer would never end; <(...) of a shell, which has no real
        # path, has a writer
        if stat.S_ISFIFO(path.stat().st_mode) and os.path.exists(os.path.realpath(path)):
            raise OSError("it is a named pipe, not a file")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = (
            f"The {role} {path} is not UTF-8: line {line} contains the byte "
            f"0x{error.object[error.start]:02x}. Save it as UTF-8 text."
        )
    except FileNotFoundError:
        code = "file_missing"
        message = f"There is no {role} at {Path(os.path.abspath(path))}. Check the path."
    except IsADirectoryError:
        message = f"A {role} was expected at {path}, which is a folder. Give the name of a file."
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL byte
        message = f"The {role} {str(path)[:200]!r} cannot be read: {error}."
    raise StanadaptError(code, message) from None


def as_path(path: Any) -> Path:
    """Return an argument as a Path; StanadaptError if it cannot be the path of a file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise StanadaptError(
            "not_a_path", f"The name of a file must be a string or a Path, got {path!r}."
        )
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError:
        pass
    raise StanadaptError("not_a_path", f"{path!r} is not a valid file name here: use another name.")


def check_writable(path: str | os.PathLike) -> Path:
    """Check, before sampling, that a file can be written at a path; return the path."""
    path = as_path(path)
    try:
        if path.is_dir():
            raise StanadaptError(
                "not_writable", f"{path} is a folder: give the name of a file in it."
            )
        if path.exists() and not path.is_file():  # which a new file would replace
            raise StanadaptError(
                "not_writable", f"{path} is a device or a pipe: give the name of a file."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as file:
            file.write(bytes(PROBE))
    except (OSError, ValueError) as error:
        raise StanadaptError(
            "not_writable",
            f"{path} cannot be written: {reason(error)}. Choose another folder, or a shorter name, "
            "or free some space.",
        ) from None
    return path


def require_netcdf(path: Any) -> None:
    """Raise StanadaptError if there is a file that holds something else."""
    path, begun = as_path(path), b""
    if os.path.isfile(path):  # False for names that the system does not allow
        with report_failures(path), path.open("rb") as file:
            begun = file.read(len(HDF5))
    if begun and not begun.startswith((HDF5, b"CDF")):
        raise StanadaptError(
            "would_overwrite",
            f"{path} is not a netCDF file, and would be overwritten: choose another name, or give "
            "overwrite=True.",
        )


def save_netcdf(
    groups: Mapping[str, xr.Dataset],
    attributes: Mapping[str, Any],
    path: Any,
    *,
    float32: bool = False,
    compression: int = COMPRESSION,
) -> Path:
    """Write the groups of a fit to a netCDF file; an older one is replaced as a whole."""
    require_storable(groups)
    groups = prepare_groups(groups)
    encodings = {name: encoding(name, data, float32, compression) for name, data in groups.items()}
    path = check_writable(path)
    with report_failures(path), replace_file(path) as partial:
        _require_space(path.parent, groups, float32)
        _write(groups, storable_attributes(attributes), str(partial), encodings)
    return path


def _require_space(folder: Path, groups: Mapping[str, xr.Dataset], float32: bool) -> None:
    """Raise OSError if draws may not fit on the disk, or into the user's quota.

    HDF5 ends the process with a segmentation fault if it cannot write the end of a file. Draws
    are hardly compressible, so that the size of the file is about that of the arrays.
    """
    arrays = [x for data in groups.values() for x in data.variables.values()]
    size = MARGIN + sum(x.nbytes // (2 if float32 and x.dtype == float else 1) for x in arrays)
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        if 0 < shutil.disk_usage(folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:  # of others, a file system that cannot reserve space
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Replace a file as a whole: the body writes a new one, which then takes the place of the old.

    The body gets the path of a temporary file in the same folder. When the body ends, this file is
    flushed to the disk and renamed to `path`. If the body fails or is interrupted, the temporary
    file is removed and an older file at `path` stays as it was. An OSError is passed on.
    """
    partial = partial_path(path)
    try:
        yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Return the path of a file while it is incomplete; its name is short, and hidden."""
    return path.with_name(f".{crc32(os.fsencode(path.name)):08x}.{os.getpid()}.partial")


@contextlib.contextmanager
def report_failures(path: Path) -> Iterator[None]:
    """Turn an error of the body, of the system or of xarray, into a StanadaptError."""
    try:
        yield
    except OSError as error:
        raise StanadaptError(
            "not_writable",
            f"{path} could not be written: {reason(error)}. Free some space, or choose another "
            "folder.",
        ) from None
    except (
        ValueError,
        TypeError,
        NotImplementedError,
    ) as error:  # about a thing that no file holds
        raise StanadaptError(
            "result_refused",
            f"the fit could not be saved in {path}: {error}. Convert or rename it, or "
            "choose another format.",
        ) from None


def reason(error: Exception) -> str:
    """Return the system's words for an error; HDF5 adds addresses and times to them."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def write_text(path: str | os.PathLike, text: str) -> Path:
    """Write a UTF-8 text file as a whole; see `replace_file`.

    Characters that UTF-8 cannot encode, such as unpaired surrogates, become question marks.
    """
    return write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: str | os.PathLike, content: bytes) -> Path:
    """Write a binary file as a whole; see `write_text`."""
    path = check_writable(path)
    with report_failures(path), replace_file(path) as partial:
        partial.write_bytes(content)
    return path


def load(path: str | os.PathLike) -> Fit:
    """Read a fit from a netCDF file into memory, as an object of the installed ArviZ."""
    path = as_path(path)
    if not os.path.isfile(path):  # also False for names that the system does not allow
        raise StanadaptError("file_missing", f"There is no file at {path}. Check the path.")
    return read_fit(path, lambda path: read_groups(path, "h5netcdf"))


def read_fit(path: Path, read: Callable[[Path], Any]) -> Fit:
    """Return what `read` reads; StanadaptError if it is damaged, or no fit."""
    try:
        fit = read(path)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise StanadaptError(
            "not_a_result", f"{path} is not a result written by stanadapt: {error}."
        ) from None
    if not is_fit(fit):
        raise StanadaptError("not_a_result", f"{path} is not a result: it has no posterior.")
    return fit


def _write(
    groups: dict[str, xr.Dataset], attributes: dict[str, Any], path: str, encodings: dict[str, Any]
) -> None:
    try:
        xr.Dataset(attrs=attributes).to_netcdf(path, mode="w", engine="h5netcdf")
        for name, data in groups.items():
            data.to_netcdf(path, mode="a", group=name, engine="h5netcdf", encoding=encodings[name])
    except NotImplementedError:  # of xarray, about a thing that no file holds
        raise
    except RuntimeError as error:  # a file that cannot be closed, since the disk is full
        raise OSError(f"{error}") from None


def prepare_groups(groups: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return shallow copies with attributes and labels that files can hold.

    The encoding of the file that they were read from is dropped, since sizes may have changed.
    """
    prepared = {n: with_storable_labels(data.drop_encoding()) for n, data in groups.items()}
    for data in prepared.values():
        owners: list[Any] = [data, *data.variables.values()]
        for owner in owners:
            owner.attrs = storable_attributes(owner.attrs)
    return prepared


def storable_attributes(attributes: Any) -> dict[str, Any]:
    return {str(name): storable(value) for name, value in attributes.items()}
