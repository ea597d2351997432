"""Write fits as CmdStan's CSV files, one per chain, which the tools around Stan read.

The layout is that of CmdStan: `cmdstan_header` has the comments, and the columns are described
here. CmdStan's `generate_quantities` counts columns, so that there are always its seven statistics.
One that a sampler does not record is 0 if that is true of its moves, and otherwise nan; the header
names it.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError
from stanadapt.results import cmdstan_header
from stanadapt.results.arviz_object import decoded, variable_name
from stanadapt.results.files import as_path, check_writable, replace_file, report_failures
from stanadapt.results.statistics import standard_names

# attribute of a variable of a group other than posterior: its name in the program
STAN_VARIABLE = "stan_variable"
# a name in Stan; that of an element of a tuple, or of a part of a complex number, as it is written
NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
ELEMENT = re.compile(r"[A-Za-z]\w*([.:]\w+)+", re.ASCII)

Groups = Mapping[str, xr.Dataset]


class Table(NamedTuple):
    """Columns of a phase, shape (chain, draw, column); `absent` are statistics without record."""

    names: list[str]
    values: np.ndarray
    absent: list[str]


def save_csv(
    groups: Groups, attributes: Mapping[str, Any], folder: Any, overwrite: bool = False
) -> Path:
    """Write one CSV file per chain into a folder, all of them or none.

    A missing folder is made. With `overwrite`, other files of CmdStan in it may be removed. Errors:
    "no_cmdstan_form" if the format cannot hold the draws, "other_csv_files" or "not_writable" if
    the folder cannot be used.
    """
    _require_chains(groups, attributes)
    parameters = re.findall(r"[^\"\[\], ]+", str(attributes.get("parameters") or ""))
    draws = _table(groups, "", parameters)
    warmup = None
    if "warmup_posterior" in groups:
        warmup = _aligned(_table(groups, "warmup_", parameters), draws)
    ids, chains = (
        np.atleast_1d(decoded(attributes.get("chains_kept", ()))).tolist(),
        len(draws.values),
    )
    if len(ids) != chains or not all(isinstance(number, int) for number in ids):
        ids = list(range(1, chains + 1))
    model = re.sub(r"\W", "_", str(attributes.get("model") or "model"), flags=re.ASCII)
    names = [f"{model}_{number}.csv" for number in ids]
    folder, others = _require_room(folder, names, overwrite)
    # renames no file before all are complete
    with report_failures(folder), contextlib.ExitStack() as stack:
        for chain, (name, number) in enumerate(zip(names, ids, strict=True)):
            partial = stack.enter_context(replace_file(folder / name))
            file = cmdstan_header.File(
                attributes, model, number, chain, draws.names, parameters, draws.absent,
                draws.values.shape[1], 0 if warmup is None else warmup.values.shape[1],
            )  # fmt: skip
            before = None if warmup is None else warmup.values[chain]
            _write(partial, file, draws.values[chain], before)
    with report_failures(folder):
        for other in others:
            other.unlink()
    return folder


def other_csv_files(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the CSV files in a folder, without those of these names."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.glob("*.csv") if path.name not in names)


def check_folder(path: Any) -> Path:
    """Check, before sampling, that files can be written in a folder; return its path."""
    folder = as_path(path)
    if folder.is_file() or folder.suffix == ".csv":
        raise StanadaptError(
            "not_writable",
            f"{folder} cannot be a folder: the format cmdstan has one file per chain. Give the "
            "name of a folder.",
        )
    check_writable(folder / "output_1.csv")
    return folder


def _require_room(folder: Any, names: Sequence[str], overwrite: bool) -> tuple[Path, list[Path]]:
    """Return the folder and the files to remove from it; refuse others, unless overwriting."""
    folder = check_folder(folder)
    others = other_csv_files(folder, names)
    if others and not overwrite:
        raise StanadaptError(
            "other_csv_files",
            f"{folder} contains {others[0].name}"
            f"{f' and {len(others) - 1} more CSV files' if len(others) > 1 else ''}, which "
            "programs that read all CSV files of a folder would take for chains. Choose another "
            "folder, or use this one nevertheless (overwrite=True, or --force in a shell): that "
            "removes files of CmdStan, and leaves others.",
        )
    return folder, [path for path in others if cmdstan_header.is_stan_csv(path)]


def _require_chains(groups: Groups, attributes: Mapping[str, Any]) -> None:
    """Refuse draws that mean something else without the weights or the record that they have."""
    source = attributes.get("sampler") or attributes.get("method") or "This fit"
    stats = groups.get("sample_stats", xr.Dataset())
    exact = bool(attributes.get("exact", True))
    weights = [name for name in ("log_weight", "weight") if name in stats]
    if not exact and any(np.ptp(stats[name].values) for name in weights):
        raise _refused(
            f"the draws of {source} have weights, which CmdStan's CSV files cannot contain: "
            "without them, the draws come from another distribution"
        )
    if not exact and attributes.get("pareto_k") is not None:
        raise _refused(f"the draws of {source} are from an approximation, and not a chain")
    if "diverging" not in standard_names(stats) and not attributes.get("sampler"):
        raise _refused(
            "the fit does not record divergences (sample_stats has no variable diverging), and "
            "zeros would say that there are none"
        )


def _refused(reason: str) -> StanadaptError:
    return StanadaptError(
        "no_cmdstan_form", f"{reason}. Save the fit in another format (netcdf, zarr)."
    )


def _table(groups: Groups, prefix: str, parameters: Sequence[str]) -> Table:
    posterior, stats = groups[f"{prefix}posterior"], groups.get(f"{prefix}sample_stats")
    shape = tuple(posterior.sizes[dim] for dim in ("chain", "draw"))
    statistics, absent = _statistics(xr.Dataset() if stats is None else stats, shape)
    found: dict[str, np.ndarray] = {}
    for name, variable in _variables(groups, prefix, parameters):
        columns = _elements(name, variable)
        if not found.keys().isdisjoint(columns):
            raise _refused(f"two variables of the fit are called {name} in the program")
        found |= columns
    columns = {**statistics, **found}
    return Table(list(columns), np.stack(list(columns.values()), axis=-1), absent)


def _aligned(warmup: Table, draws: Table) -> Table:
    """Return warm-up with the columns of the draws; quantities without record are nan."""
    where = {name: i for i, name in enumerate(warmup.names)}
    values = np.full((*warmup.values.shape[:2], len(draws.names)), np.nan)
    for column, name in enumerate(draws.names):
        if name in where:
            values[..., column] = warmup.values[..., where[name]]
    return Table(draws.names, values, warmup.absent)


def _statistics(stats: xr.Dataset, shape: Any) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the columns of CmdStan's statistics, and the names of those without record."""
    columns, absent, stats = {}, [], standard_names(stats)
    # moves of a random walk are counted too, and are no leapfrogs
    moves = "n_density" in stats or "diverging" not in stats
    leapfrogs = "leapfrogs" if moves or "leapfrogs" in stats else "n_steps"
    for stan, (name, _) in cmdstan_header.STATISTICS.items():
        source = leapfrogs if stan == "n_leapfrog__" else name
        if source in stats:
            columns[stan] = stats[source].transpose("chain", "draw").values.astype(float)
        else:
            absent.append(stan)
            columns[stan] = np.full(shape, 0.0 if stan in cmdstan_header.ZERO_WITHOUT else np.nan)
    if "treedepth__" in absent:  # the depth of a tree with as many steps
        columns["treedepth__"] = np.ceil(np.log2(columns["n_leapfrog__"] + 1.0))
    return columns, absent


def _variables(
    groups: Groups, prefix: str, parameters: Sequence[str]
) -> Iterator[tuple[str, xr.DataArray]]:
    """Yield the variables of a phase with their names in the program, parameters first."""
    place = {name: i for i, name in enumerate(parameters)}
    posterior = groups[f"{prefix}posterior"].data_vars
    for name in sorted(posterior, key=lambda x: place.get(variable_name(str(x)), len(place))):
        yield str(name), posterior[name]
    for group in () if prefix else ("posterior_predictive", "log_likelihood"):
        for name, variable in groups.get(group, xr.Dataset()).data_vars.items():
            yield str(variable.attrs.get(STAN_VARIABLE, name)), variable


def _elements(name: str, variable: xr.DataArray) -> dict[str, np.ndarray]:
    """Return the columns of a variable by Stan's names, in Stan's order."""
    if not {"chain", "draw"} <= set(variable.dims):
        raise _refused(f"{name} has no value for each draw (exclude={name!r} leaves it out)")
    values = variable.transpose("chain", "draw", ...).values
    whole = NAME.fullmatch(name) or (ELEMENT.fullmatch(name) and values.ndim == 2)
    if not whole or name.endswith("__"):
        raise _refused(f"{name!r} is not the name of a variable in Stan (exclude leaves it out)")
    if values.dtype.kind not in "fiubc":
        raise _refused(f"{name} is not numeric (exclude={name!r} leaves it out)")
    found: dict[str, np.ndarray] = {}
    for reverse in np.ndindex(*reversed(values.shape[2:])):
        index = reverse[::-1]
        label, element = ".".join([name, *(str(i + 1) for i in index)]), values[(..., *index)]
        if values.dtype.kind == "c":
            found |= {f"{label}.real": element.real, f"{label}.imag": element.imag}
        else:
            found[label] = element.astype(float)
    return found


def _write(
    path: Path, file: cmdstan_header.File, draws: np.ndarray, warmup: np.ndarray | None
) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(f"# {line}\n" for line in cmdstan_header.header_lines(file))
        out.write(",".join(file.columns) + "\n")
        if warmup is not None:
            out.writelines(_lines(warmup))
        out.writelines(f"# {line}\n" for line in cmdstan_header.adaptation_lines(file, draws))
        out.writelines(_lines(draws))
        out.writelines(f"# {line}\n" for line in cmdstan_header.elapsed_lines(file))


def _lines(rows: np.ndarray) -> Iterator[str]:
    """Yield rows with the fewest digits from which every bit can be read, whole numbers as such."""
    for row in rows.tolist():
        yield (",".join(map(repr, row)) + ",").replace(".0,", ",")[:-1] + "\n"
