"""Save a fit in one of the formats that other tools read: netCDF, CmdStan's CSV files, zarr."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from stanadapt.errors import StanadaptError, answers_other_words, is_one_of, require_flag
from stanadapt.results import files
from stanadapt.results.arviz_object import Fit, dataset, group_names, is_fit, require_draws
from stanadapt.results.cmdstan_csv import check_folder, save_csv
from stanadapt.results.statistics import every_iteration
from stanadapt.results.zarr_store import check_store, save_store

# formats, with the check of a path before there is a fit to save
FORMATS = {"netcdf": files.check_writable, "cmdstan": check_folder, "zarr": check_store}
# names of files of other formats, under which a netCDF file would mislead
NOT_NETCDF = {
    ".csv", ".json", ".parquet", ".pickle", ".pkl", ".rds", ".tsv", ".txt", ".xlsx", ".zarr",
}  # fmt: skip


@answers_other_words
def save(
    fit: Fit,
    path: str | os.PathLike,
    *,
    format: Literal["netcdf", "cmdstan", "zarr"] = "netcdf",
    thin: int = 1,
    float32: bool = False,
    exclude: str | Iterable[str] = (),
    compression: int = files.COMPRESSION,
    overwrite: bool = False,
) -> Path:
    """Write a fit to a file or a folder.

    An earlier fit is replaced as a whole; anything else is not, unless asked for.

    Parameters
    ----------
    fit : Fit
        A result, or another ArviZ object with a posterior.
    path : str or Path
        Path of the file, or of the folder for the formats cmdstan and zarr; missing folders are
        created.
    format : {"netcdf", "cmdstan", "zarr"}
        A netCDF file; a folder with one CSV file per chain, as CmdStan writes them; or a zarr
        store, which needs the package zarr. CSV files have the draws at full precision, those of
        warm-up if they were saved, and CmdStan's seven statistics, but no labels and no other
        groups.
    thin : int
        Write every thin-th draw and its statistics. `fit` itself does not change.
    float32 : bool
        Write draws with four bytes instead of eight if, in every component of the variable, the
        rounding error is below 1/10,000 of the standard deviation. The sampler's statistics keep
        eight bytes. Not for cmdstan.
    exclude : str or iterable of str
        Names of variables of draws, or of groups, to leave out.
    compression : int
        Level of zlib in netCDF files, from 0 (none) to 9. Stores use zarr's default compression, or
        none if this is 0. Compression loses no information. CSV files are not compressed.
    overwrite : bool
        Also replace a file that is not netCDF, such as a program under a mistyped name; for
        cmdstan, remove other CSV files of CmdStan or stanadapt in the folder, which would be read
        as chains of this fit. Commands ask first, or need --force, for earlier fits too.

    Returns
    -------
    Path
        The path of the file or the folder.

    Raises
    ------
    StanadaptError
        Stage "files" if the file cannot be written or is no fit, or the folder holds other CSV
        files; "settings" if a name is unknown or CSV files cannot hold the draws; "installation"
        without zarr.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, "rwm", seed=1, show_progress=False)
    >>> with TemporaryDirectory() as folder:
    ...     path = sa.save(fit, f"{folder}/fit.nc", float32=True)
    ...     print(sa.load(path).attrs["sampler"])
    ...     csv = sa.save(fit, f"{folder}/csv", format="cmdstan")
    ...     print(len(list(csv.glob("*.csv"))))
    rwm
    4
    """
    if not is_fit(fit):
        raise StanadaptError(
            "not_a_fit", f"save expects a result of sample or stan_nuts, got {type(fit).__name__}."
        )
    require_format(format, path, float32=float32)
    require_flag("overwrite", overwrite)
    groups = {group: dataset(fit, group) for group in group_names(fit)}
    groups = files.select_draws(groups, thin, exclude)
    attributes: dict[str, Any] = {**fit.attrs, **(every_iteration(fit) if thin > 1 else {})}
    if "thin" in attributes:  # the verdict on thinned draws depends on it
        attributes["thin"] = int(attributes["thin"]) * thin
    if format == "cmdstan":
        if not {"chain", "draw"} <= set(groups["posterior"].sizes):
            require_draws(fit, "fit")  # names the other groups
        attributes["thin"] = int(attributes.get("thin", thin))
        return save_csv(groups, attributes, path, overwrite)
    if format == "netcdf" and not overwrite:
        files.require_netcdf(path)
    write = save_store if format == "zarr" else files.save_netcdf
    return write(groups, attributes, path, float32=float32, compression=compression)


def require_format(format: Any, path: Any = "", float32: bool = False) -> str:
    """Return the name of a format; StanadaptError for an unknown one, or one without float32.

    Or one that the name of a file contradicts.
    """
    if not is_one_of(format, FORMATS):
        raise StanadaptError(
            "unknown_format", f"format must be one of {', '.join(FORMATS)}, got {format!r}."
        )
    if format == "cmdstan" and require_flag("float32", float32):
        raise StanadaptError(
            "not_of_the_format",
            "float32 belongs to the formats netcdf and zarr: CSV files contain draws at full "
            "precision. thin and exclude make them smaller.",
        )
    if format == "netcdf" and files.as_path(path).suffix.lower() in NOT_NETCDF:
        raise StanadaptError(
            "not_of_the_format",
            f"{path} would be a netCDF file: name it .nc, or choose a format (--format): cmdstan "
            "writes a folder of CSV files, zarr a store. For the table of estimates, use "
            "stanadapt.summary(fit).to_csv(path), or `stanadapt summary FIT --csv`.",
        )
    return format
