"""Assign variables to ArviZ's groups, and name their dimensions.

Variables that replicate the observations go into the group `posterior_predictive`, pointwise log
likelihoods into `log_likelihood`, each under the name of the observed variable, as ArviZ's checks
expect; the data go into `observed_data` and `constant_data`.
"""

import json
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.results.cmdstan_csv import STAN_VARIABLE
from stanadapt.results.datasets import default_dimension, draws_dataset
from stanadapt.results.files import read_text
from stanadapt.results.storable import as_json, coordinate, is_storable_name

# by default, a variable y_rep replicates y, or y_obs
REPLICATED, LOG_LIKELIHOOD = "_rep", "log_lik"
OBSERVED = "_obs"  # of data beside missing ones, which are parameters
RESERVED = ("chain", "draw", "pseudo")
Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, np.ndarray]


class Labels(NamedTuple):
    """Names of dimensions and groups for ArviZ.

    Parameters
    ----------
    dims : mapping of str to list of str
        Names of the dimensions of a variable of the program or the data: {"theta": ["school"]}.
    coords : mapping of str to list
        Labels along a dimension: {"school": ["A", "B"]}. A `Target` keeps numbers, text and dates;
        labels that files cannot store, such as periods or dates with a time zone, become text.
    posterior_predictive : mapping of str to str
        Variable that replicates an observed variable: {"y": "y_rep"}. Default: variables with
        names that end in _rep.
    log_likelihood : mapping of str to str
        Pointwise log likelihood of an observed variable: {"y": "log_lik"}. Default: the variable
        log_lik, under this name.

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.results.labels import Labels
    >>> program = "parameters { vector[2] theta; } model { theta ~ normal(0, 1); }"
    >>> labels = Labels(dims={"theta": ["school"]}, coords={"school": ["A", "B"]})
    >>> target = sa.Target(program, labels=labels, backend="stanli", show_progress=False)
    >>> target.labels.dims
    {'theta': ['school']}
    """

    dims: Mapping[str, list[str]] = {}
    coords: Mapping[str, list] = {}
    posterior_predictive: Mapping[str, str] = {}
    log_likelihood: Mapping[str, str] = {}


def make_labels(
    labels: Any, shapes: Shapes, observed: Arrays, parameters: Collection[str] = ()
) -> Labels:
    """Complete labels, and check them against a program's variables and its data.

    `labels` is a `Labels`, a mapping with some of its fields, or the path of a JSON file with them.
    `shapes` has the shapes of the variables in each draw, by name, and `observed` the data.
    Variables in `parameters` stay in the posterior. Errors have the stage "settings" if names are
    unknown or do not match, "files" if a file cannot be read.
    """
    labels = _as_labels(labels)
    _check_reserved(shapes)
    computed = {name: shape for name, shape in shapes.items() if name not in parameters}
    every = {**{name: x.shape for name, x in observed.items()}, **shapes}
    for field in ("posterior_predictive", "log_likelihood"):
        for name in getattr(labels, field).values():
            _check_name(field, name)
            listed = f"computed quantities {', '.join(computed)}"
            _require(name in computed, f"{field} names {name!r}", listed)
    labels = labels._replace(coords={dim: coordinate(dim, x) for dim, x in labels.coords.items()})
    for name in labels.dims:
        _require(name in every, f"dims names {name!r}", f"variables {', '.join(every)}")
    _check_dims(labels, every)
    _check_observed(labels)
    replicated = _replicated(labels, computed, observed)
    return labels._replace(
        posterior_predictive={**replicated, **labels.posterior_predictive},
        log_likelihood=labels.log_likelihood
        or ({LOG_LIKELIHOOD: LOG_LIKELIHOOD} if LOG_LIKELIHOOD in computed else {}),
    )


def labels_of_parameters(
    labels: Labels, shapes: Shapes, observed: Arrays, parameters: Collection[str]
) -> Labels:
    """Return the labels of a target for other data, in which rows are others, and may be more."""
    every = {**{name: x.shape for name, x in observed.items()}, **shapes}
    dims = {name: names for name, names in labels.dims.items() if name in every}
    lengths = {
        dim: size
        for name in parameters
        for dim, size in zip(_dims_of(name, dims, every), every[name], strict=True)
    }
    coords = {dim: x for dim, x in labels.coords.items() if lengths.get(dim) == len(x)}
    given = {k: v for k, v in labels.posterior_predictive.items() if v in shapes and k != v}
    given = {k: v for k, v in given.items() if v != f"{k}{REPLICATED}"}  # the others are found
    likelihood = {k: v for k, v in labels.log_likelihood.items() if v in shapes}
    return make_labels(Labels(dims, coords, given, likelihood), shapes, observed, parameters)


def _dims_of(name: str, dims: Mapping[str, list[str]], variables: Shapes) -> list[str]:
    """Return the names of the dimensions of a variable: given, or the default ones."""
    default = [default_dimension(name, i, variables) for i in range(len(variables[name]))]
    return dims.get(name, default)


def _check_reserved(shapes: Shapes) -> None:
    """Refuse, before sampling, names that no ArviZ object can hold afterward."""
    reserved = [name for name in ("chain", "draw") if name in shapes]
    if reserved:
        raise StanadaptError(
            "reserved_name",
            f"A variable is called {reserved[0]!r}, which is the name of a dimension of every "
            "ArviZ object. Rename it.",
        )


def _check_dims(labels: Labels, variables: Shapes) -> None:
    """Refuse names and labels of dimensions that the datasets of a result could not have."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, shape in variables.items():
        dims = _dims_of(name, labels.dims, variables)
        if isinstance(dims, str) or len(dims) != len(shape):
            raise _error(f"dims of {name} must be {len(shape)} names, for shape {shape}: {dims!r}.")
        for dim, size in zip(dims, shape, strict=True):
            _check_name(f"dims of {name}", dim)
            if dim in RESERVED or dim in variables:
                raise _error(f"dims of {name}: the name {dim!r} is already in use.")
            if list(dims).count(dim) > 1:
                raise _error(
                    f"dims of {name}: an array cannot have two dimensions of the name {dim!r}. "
                    f"Call one of them, for instance, {dim + '_2'!r}."
                )
            length, other = sizes.setdefault(dim, (size, name))
            if length != size:
                raise _error(
                    f"dims of {name}: {dim!r} has {size} elements there and {length} in {other}. "
                    "Give them different names."
                )
            if dim in labels.coords and len(labels.coords[dim]) != size:
                count = len(labels.coords[dim])
                raise _error(f"coords of {dim} must be {size} labels, as {name} has; got {count}.")


def _check_observed(labels: Labels) -> None:
    """Refuse names of replicated and observed variables that no group could have."""
    dims = {dim for names in labels.dims.values() for dim in names}
    for field in ("posterior_predictive", "log_likelihood"):
        for name in getattr(labels, field):
            _check_name(field, name)
            if name in RESERVED or name in dims:
                raise _error(f"{field}: {name!r} is the name of a dimension. Choose another name.")


def _check_name(where: str, name: Any) -> None:
    if not is_storable_name(name):
        raise _error(f"{where}: a name must be text without '/', got {name!r}.")


def _replicated(
    labels: Labels, shapes: Shapes, observed: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Return variables with names that end in _rep, by the variable that they replicate."""
    replicated = {}
    for name in shapes:
        stem = name.removesuffix(REPLICATED)
        if stem == name or name in labels.posterior_predictive.values():
            continue
        same = (n for n in (stem, stem + OBSERVED) if n in observed)
        matches = (n for n in same if observed[n].shape == shapes[name])
        replicated[next(matches, name)] = name
    return replicated


def merge_labels(labels: Any, dims: Any, coords: Any) -> Labels:
    """Add `dims` and `coords` to labels; `dims` may also be a JSON file, with both or one."""
    labels, more = _as_labels(labels), Labels()
    if dims is not None:
        more = _as_labels(dims if isinstance(dims, str | PathLike) else {"dims": dims})
    if coords is not None:
        more = more._replace(coords=_as_labels({"coords": coords}).coords)
    merged: Any = [{**one, **other} for one, other in zip(labels, more, strict=True)]
    return Labels(*merged)


def _as_labels(value: Any) -> Labels:
    if value is None:
        return Labels()
    if isinstance(value, Labels):
        return value
    if isinstance(value, str | PathLike):
        value = _read(Path(value))
    if _is_dims(value):
        value = {"dims": value}
    if not isinstance(value, Mapping) or not set(value) <= set(Labels._fields):
        fields = ", ".join(Labels._fields)
        raise _error(f"labels must be a mapping with some of {fields}, or a JSON file: {value!r}.")
    wrong = [name for name, entry in value.items() if not isinstance(entry, Mapping)]
    if wrong:
        raise _error(f"labels: {wrong[0]} must be a mapping, got {value[wrong[0]]!r}.")
    return Labels(**value)


def _is_dims(value: Any) -> bool:
    """Whether it has the content of a dims.json: lists of names of dimensions, by variable."""
    if not isinstance(value, Mapping) or not value or set(value) <= set(Labels._fields):
        return False
    return all(
        isinstance(dims, list) and all(isinstance(dim, str) for dim in dims)
        for dims in value.values()
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(read_text(path, "file of labels"))
    except (ValueError, RecursionError) as error:
        raise StanadaptError("not_json", f"labels: {path} is not a JSON file: {error}.") from None


def _error(message: str) -> StanadaptError:
    return StanadaptError("wrong_labels", message)


def _require(condition: bool, problem: str, available: str) -> None:
    if not condition:
        raise _error(f"labels: {problem}, but there are only {available}.")


def arrays(data: str) -> dict[str, np.ndarray]:
    """Return data, JSON text, as arrays of numbers; tuples, which are not arrays, are left out."""
    numbers = {}
    for name, value in orjson.loads(data or "{}").items():
        try:
            array = np.asarray(value)
        except ValueError:
            continue
        if array.dtype.kind in "biuf":
            numbers[name] = array
    return numbers


def phase_groups(
    labels: Labels, prefix: str, columns: Mapping[str, np.ndarray], stats: dict[str, np.ndarray]
) -> results.Groups:
    """Return the groups of one phase; prefix is "" or "warmup_".

    Warm-up has draws and statistics only; statistics have no labels.
    """
    moved = {*labels.posterior_predictive.values(), *labels.log_likelihood.values()}
    posterior = {name: x for name, x in columns.items() if name not in moved}
    groups: results.Groups = {
        f"{prefix}posterior": draws_dataset(posterior, labels.dims, labels.coords),
        f"{prefix}sample_stats": stats,
    }
    if prefix:
        return groups
    for group in ("posterior_predictive", "log_likelihood"):
        named = {observed: columns[name] for observed, name in getattr(labels, group).items()}
        dims = {o: labels.dims[n] for o, n in getattr(labels, group).items() if n in labels.dims}
        groups[group] = data = draws_dataset(named, dims, labels.coords)
        for observed, name in getattr(labels, group).items():
            data[observed].attrs[STAN_VARIABLE] = name
    return groups


def data_groups(labels: Labels, values: Arrays) -> results.Groups:
    """Return the groups of the data: variables with replications or a likelihood, and others."""
    groups = results.Groups()
    observed = {*labels.posterior_predictive, *labels.log_likelihood} & values.keys()
    for group, names in (("observed_data", observed), ("constant_data", values.keys() - observed)):
        variables = {name: values[name] for name in sorted(names)}
        dims = {name: d for name in names if (d := _data_dims(labels, name, values[name].ndim))}
        groups[group] = draws_dataset(variables, dims, labels.coords, leading=())
    return groups


def stored_data(fit: Any) -> Any:
    """Return the data of a fit: JSON, or arrays by name if they are large; None if unknown."""
    if (text := results.attribute(fit, "data")) is not None:
        return text
    present = {"observed_data", "constant_data"} & set(results.group_names(fit))
    data = {str(n): x.values for g in present for n, x in results.dataset(fit, g).items()}
    return data or None


def _data_dims(labels: Labels, name: str, ndim: int) -> list[str]:
    """Return names of the dimensions of data: in ArviZ 1.x, those of the replications."""
    same = (name, labels.posterior_predictive.get(name), labels.log_likelihood.get(name))
    for variable in same:
        dims = labels.dims.get(variable or "")
        if dims and len(dims) == ndim:
            return list(dims)
    return []


def plain_labels(labels: Labels) -> dict[str, Any]:
    """Return checked labels as JSON holds them; `read_labels` reads them."""
    coords = {dim: as_json(names) for dim, names in labels.coords.items()}
    return {**labels._asdict(), "coords": coords}


def read_labels(plain: Mapping[str, Any]) -> Labels:
    """Return the labels that `plain_labels` has written."""
    coords = {dim: coordinate(dim, names) for dim, names in plain["coords"].items()}
    return Labels(**{**plain, "coords": coords})
