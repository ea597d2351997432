"""Write and read fits as zarr stores: folders of compressed chunks, which xarray reads in parts.

The stores are of zarr's second format, which every version of zarr reads. A file of its own, since
zarr is an optional dependency.
"""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError
from stanadapt.results import arviz_object, files, storable

MARKS = (".zgroup", "zarr.json")  # files at the root of a store, of the formats 2 and 3
EVERY_CHUNK = "every_chunk"  # attribute of a store in which no chunk may be missing


def is_store(path: Path) -> bool:
    """Whether a folder is a zarr store."""
    return any((path / mark).is_file() for mark in MARKS)


def check_store(path: Any) -> Path:
    """Check, before sampling, that a store can be written at a path; return the path."""
    path = files.as_path(path)
    _require_zarr()
    if path.exists() and not is_store(path):
        raise StanadaptError(
            "not_writable",
            f"{path} exists, and is not a zarr store that could be replaced. Choose another name.",
        )
    files.check_writable(path.with_name(f"{path.name}.partial"))
    return path


def save_store(
    groups: Mapping[str, xr.Dataset],
    attributes: Mapping[str, Any],
    path: Any,
    *,
    float32: bool,
    compression: int,
) -> Path:
    """Write the groups of a fit to a store; an older one is replaced by a complete one."""
    storable.require_storable(groups)
    path = check_store(path)
    options: dict[str, Any] = {"mode": "a", "zarr_format": 2, "consolidated": False}
    options["write_empty_chunks"] = True  # full of fill values too, so that a lost chunk is noticed
    with files.report_failures(path), _replace_folder(path) as partial:
        attributes = {**files.storable_attributes(attributes), EVERY_CHUNK: 1}
        xr.Dataset(attrs=attributes).to_zarr(partial, **options)
        for name, data in files.prepare_groups(groups).items():
            kept = files.encoding(name, data, float32, compression)
            # the type, and zarr's compressor unless none is wanted
            plain = {} if compression else {"compressor": None}
            encodings = {
                key: plain | {"dtype": one["dtype"]} if "dtype" in one else plain
                for key, one in kept.items()
            }
            data.to_zarr(partial, group=name, encoding=encodings, **options)
        import zarr

        zarr.consolidate_metadata(str(partial))  # one file to read instead of one per variable
    return path


def load_store(path: Path) -> arviz_object.Fit:
    """Read a fit from a store into memory, as an object of the installed ArviZ."""
    _require_zarr()
    return files.read_fit(path, _read)


def _read(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of stores without an index, and of damaged ones
            fit = arviz_object.read_groups(path, "zarr")
            if fit.attrs.pop(EVERY_CHUNK, 0):
                _require_chunks(path)
    # of zarr 2, for metadata that it cannot read; zarr 3 raises a ValueError
    except getattr(import_module("zarr.errors"), "MetadataError", ValueError) as error:
        raise ValueError(error) from None
    for name, value in fit.attrs.items():
        if isinstance(value, list):  # in a store, arrays of numbers are lists
            fit.attrs[name] = np.asarray(value)
    return fit


def _require_chunks(path: Path) -> None:
    """Raise ValueError if a store lacks a chunk, which zarr would read as fill values."""
    import zarr

    for group, members in zarr.open_group(str(path), mode="r").groups():
        for name, array in members.arrays():
            if array.nchunks_initialized < array.nchunks:
                raise ValueError(f"a chunk of {group}/{name} is missing")


def _require_zarr() -> None:
    try:
        import_module("zarr")
    except ImportError:
        raise StanadaptError(
            "zarr_missing",
            "zarr stores need the package zarr, which is not installed: run `pip install zarr`, or "
            "choose the format netcdf.",
        ) from None


@contextlib.contextmanager
def _replace_folder(path: Path) -> Iterator[Path]:
    """Replace a folder as a whole; see `replace_file`."""
    partial = files.partial_path(path)
    old = partial.with_suffix(".old")
    try:
        yield partial
        if path.exists():
            os.replace(path, old)
        os.replace(partial, path)
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
