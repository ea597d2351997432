"""ArviZ objects: how they are built, and what is read from them, whichever ArviZ is installed."""

import contextlib
import datetime
import functools
import json
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import stanio
import xarray as xr
from stanio.reshape import VariableType

from stanadapt.engine.compiled.cache_folder import environment, stand_in_home
from stanadapt.errors import StanadaptError

# the group of all pseudo-samples: its arrays have a third leading dimension, "pseudo"
PSEUDO = "pseudo"
# below the smallest log weight: as good as zero
ZERO_WEIGHT = 700.0
Groups = dict[str, dict[str, np.ndarray] | xr.Dataset]


@functools.cache  # called for every column of a table, by several threads at once
def arviz_module() -> Any:
    """Return the installed ArviZ, imported at the first call."""
    with stand_in_home(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ 0.23 announces 1.0 at import
        try:
            import arviz  # takes 2.6 s in 0.23: only when a result is built or read
        except OSError:  # 0.23 notes the day of its announcement in the user's cache, or fails
            with tempfile.TemporaryDirectory() as folder, environment(XDG_CACHE_HOME=folder):
                import arviz
    return arviz


def is_tree() -> bool:
    return int(arviz_module().__version__.split(".")[0]) >= 1


def variables(column_names: list[str], draws: np.ndarray) -> dict[str, np.ndarray]:
    """Split columns into variables in Stan's shapes.

    Parameters
    ----------
    column_names
        Stan's names, "theta.1.2", in Stan's order (column major).
    draws
        Shape (chain, draw, column).

    Returns
    -------
    dict
        Arrays of shape (chain, draw, *shape), views of `draws` where possible.

    """
    arrays = {}
    for name, variable in stanio.parse_header(",".join(column_names)).items():
        if variable.type is not VariableType.SCALAR:
            # netCDF has neither tuples nor complex numbers: one real variable per column
            for column in variable.columns():
                arrays[column_names[column]] = draws[..., column]
            continue
        block = draws[..., variable.start_idx : variable.end_idx]
        shape = variable.dimensions
        block = block.reshape(*draws.shape[:2], *reversed(shape))
        arrays[name] = block.transpose(0, 1, *range(block.ndim - 1, 1, -1))
    return arrays


def shapes(column_names: list[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of the variables that columns belong to."""
    one = variables(column_names, np.empty((1, 1, len(column_names))))
    return {name: x.shape[2:] for name, x in one.items()}


def build(
    groups: Groups,
    attributes: Mapping[str, Any],
    dims: Mapping[str, list[str]] | None = None,
    coords: Mapping[str, list] | None = None,
) -> Any:
    """Make the ArviZ object.

    Parameters
    ----------
    groups
        Arrays of shape (chain, draw, ...) by group and variable, (chain, draw, pseudo, ...) in
        the group "pseudo"; or a Dataset, stored unchanged. Empty groups are left out.
    attributes
        Values of types that netCDF cannot hold are stored as JSON.
    dims, coords
        Names of dimensions by variable, and labels by dimension, of groups that are not Datasets.

    """
    named: dict[str, Any] = {"dims": dict(dims or {}), "coords": dict(coords or {})}
    arviz = arviz_module()
    filled = {name: group for name, group in groups.items() if len(group)}
    pseudo = filled.get(PSEUDO)
    if isinstance(pseudo, dict):
        filled[PSEUDO] = _pseudo_dataset(pseudo)
    ready = {name: group for name, group in filled.items() if isinstance(group, xr.Dataset)}
    filled = {name: group for name, group in filled.items() if name not in ready}
    attrs = {name: storable(value) for name, value in attributes.items()}
    with _quiet():
        if is_tree():
            fit = arviz.from_dict(filled, save_warmup=True, attrs={"/": attrs}, **named)
        else:
            known = {k: v for k, v in filled.items() if k != "unconstrained_posterior"}
            fit = arviz.from_dict(**known, save_warmup=True, attrs=attrs, **named)
            for name in filled.keys() - known.keys():  # from_dict drops names it does not know
                fit.add_groups({name: arviz.dict_to_dataset(filled[name], **named)})
        _add(fit, ready)
    return _dated(fit)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # more chains than draws: requested, or after an interruption, which is reported elsewhere
        warnings.filterwarnings("ignore", message=".*more chains.*")  # 0.23
        warnings.filterwarnings("ignore", message=".*chain dimension to be longer.*")  # 1.x
        warnings.filterwarnings("ignore", message=".*not defined in the InferenceData scheme.*")
        yield


def _add(fit: Any, ready: Mapping[str, xr.Dataset]) -> None:
    for name, dataset in ready.items():
        if is_tree():
            fit[name] = xr.DataTree(dataset)
        else:
            fit.add_groups({name: dataset})


def add_groups(
    fit: Any,
    groups: Groups,
    dims: Mapping[str, list[str]] | None = None,
    coords: Mapping[str, list] | None = None,
) -> None:
    """Add groups of arrays of shape (chain, draw, ...) to a result; see `build`."""
    filled = {name: group for name, group in groups.items() if len(group)}
    made = build(filled, {}, dims, coords)
    with _quiet():
        _add(fit, {name: dataset(made, name) for name in filled})


def _pseudo_dataset(group: dict[str, np.ndarray]) -> xr.Dataset:
    named, leading = {}, ("chain", "draw", PSEUDO)
    for name, values in group.items():
        own = tuple(f"{name}_dim_{i}" for i in range(values.ndim - len(leading)))
        named[name] = (leading + own, values)
    sizes = next(iter(group.values())).shape
    coordinates = {name: np.arange(size) for name, size in zip(leading, sizes, strict=False)}
    return xr.Dataset(named, coordinates)


def _dated(fit: Any) -> Any:
    fit.attrs["created_at"] = datetime.datetime.now(datetime.UTC).isoformat()
    return fit


def storable(value: Any) -> Any:
    """Value of a type that netCDF can hold: numbers, strings and arrays of numbers."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float | np.number):
        return value
    numbers = value if isinstance(value, np.ndarray) else None
    if isinstance(value, list | tuple) and value:
        numbers = np.asarray(value) if all(isinstance(v, int | float) for v in value) else None
    if numbers is not None and numbers.dtype.kind in "biuf":
        return numbers.astype(int) if numbers.dtype.kind == "b" else numbers
    return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value, default=str)


def _text(value: str) -> str:
    """Text that UTF-8 can hold: under an ASCII locale, Python keeps the bytes of a path aside."""
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode("utf-8")


def group_names(fit: Any) -> list[str]:
    """Names of the groups of a result, with either ArviZ."""
    if callable(fit.groups):
        return list(fit.groups())
    return [name.strip("/") for name in fit.groups if name != "/"]


def dataset(fit: Any, group: str) -> xr.Dataset:
    """Return one group as a Dataset, with either ArviZ; KeyError if it is missing."""
    node = fit[group]
    return node if isinstance(node, xr.Dataset) else node.to_dataset()


def is_fit(thing: Any) -> bool:
    """Whether `thing` is an ArviZ object, of either line, with a posterior."""
    if not (hasattr(thing, "groups") and hasattr(thing, "attrs")):
        return False
    return "posterior" in group_names(thing)


def require_draws(fit: Any, what: str) -> None:
    """Raise StanadaptError unless `fit`, which `what` calls by name, has draws of numbers."""
    if not is_fit(fit):
        raise StanadaptError(
            "settings",
            f"{what} must be a result of sample or stan_nuts, or another ArviZ object with a "
            f"posterior (of CmdStanPy: arviz.from_cmdstanpy(fit)), got {fit!r}.",
        )
    sizes = dataset(fit, "posterior").sizes
    if not {"chain", "draw"} <= set(sizes):
        found = ", ".join(map(str, sizes)) or "none"
        raise StanadaptError(
            "settings",
            f"{what} must have draws along the dimensions chain and draw, but those of its "
            f"posterior are {found}: give the object before its draws were stacked or averaged.",
        )
    variables = dataset(fit, "posterior").data_vars.values()
    if not any(variable.size and _holds_draws(variable) for variable in variables):
        raise StanadaptError(
            "settings",
            f"{what} has no draws of numbers: {sizes['chain']} chains of {sizes['draw']} draws "
            f"with {', '.join(map(str, dataset(fit, 'posterior').data_vars)) or 'no variables'}.",
        )


def attribute(fit: Any, name: str, default: Any = None) -> Any:
    """One of the result's attributes; `default` if it has none of that name."""
    return fit.attrs.get(name, default)


def from_json(fit: Any, name: str, default: Any) -> Any:
    """An attribute that we store as JSON; `default` for another library's of that name."""
    try:
        value = json.loads(attribute(fit, name, "null"))
    except (TypeError, ValueError):
        return default
    return value if isinstance(value, type(default)) else default


def parameters(fit: Any) -> set[str] | None:
    """Names of the parameters of the program, without those computed from them; None: unknown.

    Unknown too where the posterior has none of them, as its variables were renamed.
    """
    named = {str(name) for name in from_json(fit, "parameters", [])}
    return named if named & set(dataset(fit, "posterior").data_vars) else None


def made_by(fit: Any) -> str:
    """What drew: Stan's NUTS with its engine, our sampler, or the library that is recorded."""
    own = attribute(fit, "engine") or attribute(fit, "sampler")
    return str(own or dataset(fit, "posterior").attrs.get("inference_library", ""))


def columns(
    fit: Any, group: str = "posterior", wanted: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Scalar columns of a group by name, such as "w[2]", indices counted from 1 as in Stan.

    Their shape is (chain, draw), and (chain, draw, pseudo) in the group "pseudo". wanted are the
    variables; default: all. Labels and constants, which are no draws of numbers, are left out.
    """
    scalars = {}
    leading = ("chain", "draw", PSEUDO) if group == PSEUDO else ("chain", "draw")
    for name, variable in dataset(fit, group).data_vars.items():
        if wanted is not None and name not in wanted:
            continue
        if not _holds_draws(variable):
            continue
        values = variable.transpose(*leading, ...).values  # other libraries order them otherwise
        values = values.astype(float) if values.dtype == np.float32 else values  # of small files
        for index in np.ndindex(values.shape[len(leading) :]):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else str(name)
            scalars[label] = values[(..., *index)] if index else values
    return scalars


def _holds_draws(variable: xr.DataArray) -> bool:
    return variable.dtype.kind in "fiub" and {"chain", "draw"} <= set(variable.dims)


def pareto_smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto smoothed log weights, normalized, and Pareto k of the largest; shape (draw,).

    -inf is a weight of zero. k is infinite where fewer than two weights are not zero, and -inf
    where the largest of them, to which a distribution would be fitted, are all equal.
    """
    fine = np.isfinite(log_weights)
    if fine.sum() < 2:
        normalized = np.where(fine, 0.0, -np.inf)
        return normalized, np.inf
    known = log_weights[fine] - log_weights[fine].max()
    tail = int(np.ceil(min(0.2 * fine.size, 3.0 * np.sqrt(fine.size))))  # as ArviZ has it
    if not np.ptp(np.sort(known)[-max(tail, 2) :]):
        total = np.log(np.sum(np.exp(known)))
        return np.where(fine, log_weights - log_weights[fine].max() - total, -np.inf), -np.inf
    # of weights that are zero, a number that is as good as zero serves
    finite = np.where(fine, log_weights - log_weights[fine].max(), known.min() - ZERO_WEIGHT)
    if is_tree():
        from arviz_stats.base import array_stats

        smoothed, k = array_stats.psislw(-finite)  # it takes log likelihoods, whose sign is theirs
    else:
        smoothed, k = arviz_module().psislw(finite)
    smoothed = np.where(fine, smoothed, -np.inf)
    total = smoothed.max() + np.log(np.sum(np.exp(smoothed - smoothed.max())))
    return smoothed - total, float(k)
