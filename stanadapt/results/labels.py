"""Where ArviZ looks for what a program computes, and what its dimensions are called.

Variables that replicate the observations go into the group `posterior_predictive`, pointwise log
likelihoods into `log_likelihood`, each under the name of the observed variable, where ArviZ's
checks expect them; the data into `observed_data` and `constant_data`.
"""

import json
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.results.files import read_text

# a variable y_rep of a program replicates y
REPLICATED, LOG_LIKELIHOOD = "_rep", "log_lik"
TAKEN = ("chain", "draw", "pseudo")
Shapes = Mapping[str, tuple[int, ...]]


class Labels(NamedTuple):
    """Names for ArviZ; each a mapping.

    dims
        Names of the dimensions of a variable of the program, or of the data: {"theta": ["school"]}.
    coords
        Labels along a dimension: {"school": ["A", "B"]}.
    posterior_predictive
        By observed variable, the variable that replicates it: {"y": "y_rep"}. Without it,
        variables with names that end in _rep.
    log_likelihood
        By observed variable, its pointwise log likelihood: {"y": "log_lik"}. Without it, a
        variable called log_lik, under this name.

    """

    dims: Mapping[str, list[str]] = {}
    coords: Mapping[str, list] = {}
    posterior_predictive: Mapping[str, str] = {}
    log_likelihood: Mapping[str, str] = {}


def make_labels(given: Any, shapes: Shapes, data: str, parameters: Collection[str] = ()) -> Labels:
    """Complete labels, and check them against a program's variables and its data.

    Parameters
    ----------
    given
        A `Labels`, a mapping with some of its fields, or the path of a JSON file with them.
    shapes
        Shapes of the variables that are kept of a draw, by name.
    data
        JSON text.
    parameters
        Names of those variables that are parameters: they stay in the posterior.

    Raises
    ------
    StanadaptError
        Stage "settings" for names that do not exist or do not fit, "files" for a file that cannot
        be read.

    """
    labels, known = _as_labels(given), arrays(data)
    _refuse_names(shapes)
    computed = {name: shape for name, shape in shapes.items() if name not in parameters}
    every = {**{name: x.shape for name, x in known.items()}, **shapes}
    for field in ("posterior_predictive", "log_likelihood"):
        for name in getattr(labels, field).values():
            listed = f"computed quantities {', '.join(computed)}"
            _require(name in computed, f"{field} names {name!r}", listed)
    for name, dims in labels.dims.items():
        _require(name in every, f"dims names {name!r}", f"variables {', '.join(every)}")
        shape = every[name]
        if isinstance(dims, str) or len(dims) != len(shape):
            raise _error(f"dims of {name} must be {len(shape)} names, for shape {shape}: {dims!r}.")
        for dim, size in zip(dims, shape, strict=True):
            if dim in TAKEN or dim in every:
                raise _error(f"dims of {name}: {dim!r} is the name of something else.")
            if dim in labels.coords and len(labels.coords[dim]) != size:
                count = len(labels.coords[dim])
                raise _error(f"coords of {dim} must be {size} labels, as {name} has; got {count}.")
    replicated = _replicated(labels, computed, known)
    return labels._replace(
        posterior_predictive={**replicated, **labels.posterior_predictive},
        log_likelihood=labels.log_likelihood
        or ({LOG_LIKELIHOOD: LOG_LIKELIHOOD} if LOG_LIKELIHOOD in computed else {}),
    )


def _refuse_names(shapes: Shapes) -> None:
    """Refuse before sampling what no ArviZ object can hold after it."""
    taken = [name for name in ("chain", "draw") if name in shapes]
    if taken:
        raise _error(
            f"the program has a variable called {taken[0]!r}, which is the name of a dimension of "
            "every ArviZ object: rename it in the program."
        )


def _replicated(labels: Labels, shapes: Shapes, known: Mapping[str, np.ndarray]) -> dict[str, str]:
    found = {}
    for name in shapes:
        observed = name.removesuffix(REPLICATED)
        if observed == name or name in labels.posterior_predictive.values():
            continue
        fits = observed in known and known[observed].shape == shapes[name]
        found[observed if fits else name] = name
    return found


def with_dimensions(given: Any, dims: Any, coords: Any) -> Labels:
    """Labels with `dims` and `coords` beside them; `dims` may be a JSON file, with both or one."""
    labels, more = _as_labels(given), Labels()
    if dims is not None:
        more = _as_labels(dims if isinstance(dims, str | PathLike) else {"dims": dims})
    if coords is not None:
        more = more._replace(coords=_as_labels({"coords": coords}).coords)
    merged: Any = [{**one, **other} for one, other in zip(labels, more, strict=True)]
    return Labels(*merged)


def _as_labels(given: Any) -> Labels:
    if given is None:
        return Labels()
    if isinstance(given, Labels):
        return given
    if isinstance(given, str | PathLike):
        given = _read(Path(given))
    if _only_dims(given):
        given = {"dims": given}
    if not isinstance(given, Mapping) or not set(given) <= set(Labels._fields):
        fields = ", ".join(Labels._fields)
        raise _error(f"labels must be a mapping with some of {fields}, or a JSON file: {given!r}.")
    wrong = [name for name, value in given.items() if not isinstance(value, Mapping)]
    if wrong:
        raise _error(f"labels: {wrong[0]} must be a mapping, got {given[wrong[0]]!r}.")
    return Labels(**given)


def _only_dims(given: Any) -> bool:
    """Whether it is what a dims.json holds: lists of names of dimensions, by variable."""
    if not isinstance(given, Mapping) or not given or set(given) <= set(Labels._fields):
        return False
    return all(
        isinstance(dims, list) and all(isinstance(dim, str) for dim in dims)
        for dims in given.values()
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(read_text(path, "file of labels"))
    except StanadaptError as error:
        raise StanadaptError(
            "files", f"labels: {str(path)[:200]!r} is no JSON file: {error.message}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise StanadaptError("files", f"labels: {path} is no JSON file: {error}.") from None


def _error(message: str) -> StanadaptError:
    return StanadaptError("settings", message)


def _require(holds: bool, what: str, known: str) -> None:
    if not holds:
        raise _error(f"labels: {what}, but there are only {known}.")


def arrays(data: str) -> dict[str, np.ndarray]:
    """Data as arrays of numbers; tuples, which have no array, are left out."""
    found = {}
    for name, value in json.loads(data or "{}").items():
        try:
            array = np.asarray(value)
        except ValueError:
            continue
        if array.dtype.kind in "biuf":
            found[name] = array
    return found


def phase_groups(
    labels: Labels, prefix: str, columns: Mapping[str, np.ndarray], stats: dict[str, np.ndarray]
) -> results.Groups:
    """Groups of one phase; prefix is "" or "warmup_". Of warm-up only draws and statistics."""
    moved = {*labels.posterior_predictive.values(), *labels.log_likelihood.values()}
    posterior = {name: x for name, x in columns.items() if name not in moved}
    groups: results.Groups = {f"{prefix}posterior": posterior, f"{prefix}sample_stats": stats}
    if prefix:
        return groups
    for group in ("posterior_predictive", "log_likelihood"):
        named = {observed: columns[name] for observed, name in getattr(labels, group).items()}
        groups[group] = named
    return groups


def data_groups(labels: Labels, data: str) -> results.Groups:
    """The data: what is replicated or has a likelihood, and the rest."""
    known, groups = arrays(data), results.Groups()
    observed = {*labels.posterior_predictive, *labels.log_likelihood} & known.keys()
    for group, names in (("observed_data", observed), ("constant_data", known.keys() - observed)):
        variables = {}
        for name in sorted(names):
            variables[name] = (_dims_of_data(labels, name, known[name].ndim), known[name])
        used = {dim for dims, _ in variables.values() for dim in dims}
        coords = {dim: values for dim, values in labels.coords.items() if dim in used}
        groups[group] = xr.Dataset(variables, coords)
    return groups


def _dims_of_data(labels: Labels, name: str, ndim: int) -> list[str]:
    """Names of the dimensions of data; those of what replicates them, which ArviZ 1.x needs."""
    same = (name, labels.posterior_predictive.get(name), labels.log_likelihood.get(name))
    for variable in same:
        dims = labels.dims.get(variable or "")
        if dims and len(dims) == ndim:
            return list(dims)
    return [f"{name}_dim_{i}" for i in range(ndim)]


def named_dimensions(labels: Labels) -> dict[str, Any]:
    """`dims` and `coords` for variables as they are called in the groups."""
    renamed = {**labels.posterior_predictive, **labels.log_likelihood}
    dims = {**labels.dims, **{o: labels.dims[n] for o, n in renamed.items() if n in labels.dims}}
    return {"dims": dims, "coords": dict(labels.coords)}
