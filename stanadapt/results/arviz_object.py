"""Build and read ArviZ objects, with ArviZ 0.23 or 1.x."""

import contextlib
import datetime
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
import stanio
import xarray as xr
from stanio.reshape import VariableType

from stanadapt.errors import Message, StanadaptError, codes_of, described
from stanadapt.results.arviz_module import arviz_module, is_tree
from stanadapt.results.datasets import draws_dataset
from stanadapt.results.fit_objects import fit_object
from stanadapt.results.storable import storable_text

# the group of pseudo-samples; its arrays have a third leading dimension of this name
PSEUDO = "pseudo"
# the group of draws on the unconstrained scale, and its variable of gradients at these
UNCONSTRAINED, GRADIENT = "unconstrained_posterior", "gradient"
EXPECTATIONS = "expectations"  # the group of estimates with control variates
# a log weight this far below the smallest one is negligible
ZERO_WEIGHT = 700.0
Groups = dict[str, dict[str, np.ndarray] | xr.Dataset]


# a list of numbers, or of lists of numbers, as JSON
NUMBERS = re.compile(r"\[[\[\]\-+.,\s\deENaInfity]*\d[\[\]\-+.,\s\deENaInfity]*\]")


class Fit(Protocol):
    """An ArviZ object of either line: an InferenceData of 0.23 or an xarray.DataTree of 1.x."""

    @property
    def attrs(self) -> dict[Any, Any]:
        """Attributes of the whole fit."""

    @property
    def groups(self) -> Any:
        """Names of the groups: a tuple in 1.x, a method in 0.23; see `group_names`."""

    def __getitem__(self, group: str, /) -> Any:
        """Return a group by name; see `dataset`."""


def read_groups(path: Path, engine: str) -> Any:
    """Read a file or a store into memory, as an object of the installed ArviZ."""
    with contextlib.closing(xr.open_datatree(path, engine=engine)) as tree:
        for node in tree.subtree:
            # the tree's own `load` leaves a variable in the file that has the name of its group
            node.to_dataset(inherit=False).load()
    return fit_object(tree.to_dict(), tree.attrs, is_tree())


def variables(
    column_names: list[str], draws: np.ndarray, integers: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Split columns into variables in Stan's shapes.

    Columns have Stan's names and order, "theta.1.2", column major; draws have shape (chain, draw,
    column). The arrays, shape (chain, draw, *shape), are views of `draws` if possible. The
    variables `integers` become int64, unless they failed at some draw and are NaN there.
    """
    arrays: dict[str, np.ndarray] = {}
    if not column_names:
        return arrays
    for name, variable in stanio.parse_header(",".join(column_names)).items():
        if variable.type is not VariableType.SCALAR:
            # netCDF has neither tuples nor complex numbers: one real variable per column
            for column in variable.columns():
                arrays[column_names[column]] = draws[..., column]
            continue
        block = draws[..., variable.start_idx : variable.end_idx]
        shape = variable.dimensions
        if name in integers and np.isfinite(block).all():
            block = block.astype(np.int64)
        block = block.reshape(*draws.shape[:2], *reversed(shape))
        arrays[name] = block.transpose(0, 1, *range(block.ndim - 1, 1, -1))
    return arrays


def shapes(column_names: list[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the variables that columns belong to, by name."""
    one = variables(column_names, np.empty((1, 1, len(column_names))))
    return {name: x.shape[2:] for name, x in one.items()}


def build(groups: Groups, attributes: Mapping[str, Any]) -> Fit:
    """Build an ArviZ object.

    Groups are datasets, or arrays by variable, shape (chain, draw, ...), and (chain, draw, pseudo,
    ...) in the group "pseudo". Empty groups are left out. Attributes of types that netCDF cannot
    hold are stored as JSON; the codes of the messages in a list `notes` are stored in `note_codes`.
    """
    ready = _datasets(groups)
    attrs = {storable_text(str(name)): storable(value) for name, value in attributes.items()}
    if isinstance(attributes.get("notes"), list | tuple):
        attrs["note_codes"] = storable(codes_of(attributes["notes"]))
    attrs["created_at"] = datetime.datetime.now(datetime.UTC).isoformat()
    return fit_object({"/": xr.Dataset(attrs=attrs), **ready}, attrs, is_tree())


def _datasets(groups: Groups) -> dict[str, xr.Dataset]:
    """Return the groups that are not empty as datasets."""
    return {
        name: group if isinstance(group, xr.Dataset) else draws_dataset(group, leading=_axes(name))
        for name, group in groups.items()
        if len(group)
    }


def _axes(group: str) -> tuple[str, ...]:
    return ("chain", "draw", PSEUDO) if group == PSEUDO else ("chain", "draw")


def add_groups(fit: Fit, groups: Groups) -> None:
    """Add groups to a result, in place of those of the same name; see `build`."""
    for name, ready in _datasets(groups).items():
        if is_tree():
            fit[name] = xr.DataTree(ready)  # type: ignore[index]
            continue
        if name in group_names(fit):
            del fit[name]  # type: ignore[attr-defined]
        fit.add_groups({name: ready})  # type: ignore[attr-defined]


def storable(value: Any) -> Any:
    """Return a value as a type that netCDF holds and that can be compared: number or string.

    Lists and arrays become JSON, since tools that join fits compare their attributes.
    """
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int | np.integer) and abs(int(value)) >= 2**63:
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return value
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        return storable_text(json.dumps(plain, default=str))
    except (TypeError, ValueError):  # keys that are no text; lists that contain themselves
        return storable_text(str(plain))


def group_names(fit: Fit) -> list[str]:
    if callable(fit.groups):
        return list(fit.groups())
    return [name.strip("/") for name in fit.groups if name != "/"]


def dataset(fit: Fit, group: str) -> xr.Dataset:
    """Return one group as a Dataset; KeyError if it is missing."""
    node = fit[group]
    return node if isinstance(node, xr.Dataset) else node.to_dataset()


def is_fit(thing: Any) -> TypeGuard[Fit]:
    """Whether an object is an ArviZ object, of either line, with a posterior."""
    if not (hasattr(thing, "groups") and hasattr(thing, "attrs")):
        return False
    return "posterior" in group_names(thing)


def require_draws(fit: Any, name: str) -> None:
    """Raise StanadaptError unless a fit, which the message calls by name, has numeric draws."""
    if not is_fit(fit):
        raise StanadaptError(
            "not_a_fit",
            f"{name} must be a result of sample or stan_nuts, or another ArviZ object with a "
            f"posterior (for CmdStanPy: arviz.from_cmdstanpy(fit)), got {described(fit)}. Where "
            'several fits are accepted, name them: {"first": fit, "second": other}.',
        )
    posterior = dataset(fit, "posterior")
    if not {"chain", "draw"} <= set(posterior.sizes):
        listed = ", ".join(map(str, posterior.sizes)) or "none"
        raise StanadaptError(
            "no_numeric_draws",
            f"The posterior of {name} must have the dimensions chain and draw, but its dimensions "
            f"are: {listed}. Give the object before its draws were stacked or averaged.",
        )
    if not any(variable.size and _holds_draws(variable) for variable in posterior.values()):
        raise StanadaptError(
            "no_numeric_draws",
            f"{name} has no numeric draws: {posterior.sizes['chain']} chains of "
            f"{posterior.sizes['draw']} draws with "
            f"{', '.join(map(str, posterior.data_vars)) or 'no variables'}.",
        )


def attribute(fit: Fit, name: str, default: Any = None) -> Any:
    """Return an attribute of a fit, or `default`; lists of numbers, which are JSON, as arrays."""
    return decoded(fit.attrs.get(name, default))


def decoded(value: Any) -> Any:
    """Return a stored attribute: a list of numbers, which is JSON, as an array."""
    if isinstance(value, str) and NUMBERS.fullmatch(value):
        with contextlib.suppress(ValueError):
            return np.array(json.loads(value))
    return value


def from_json(fit: Fit, name: str, default: Any) -> Any:
    """Read an attribute stored as JSON; return `default` if it is missing or of another type."""
    try:
        value = json.loads(fit.attrs.get(name, "null"))
    except (TypeError, ValueError):
        return default
    return value if isinstance(value, type(default)) else default


def notes(fit: Fit) -> list[str]:
    """Return the notes in a fit; those with a code are a `Message`."""
    texts, names = from_json(fit, "notes", []), from_json(fit, "note_codes", [])
    names = [*names, *[""] * len(texts)][: len(texts)]
    return [Message(name, text) if name else text for text, name in zip(texts, names, strict=True)]


def add_notes(fit: Fit, messages: Iterable[str]) -> None:
    every = [*notes(fit), *messages]
    fit.attrs["notes"] = storable(every)
    fit.attrs["note_codes"] = storable(codes_of(every))


def parameters(fit: Fit) -> set[str] | None:
    """Return the names of the program's parameters, without transformed ones; None if unknown.

    They are unknown too if the posterior has none of these names because its variables were
    renamed. A tuple or a complex number has its name in the program, "z"; the posterior has its
    parts: "z.real".
    """
    names = {str(name) for name in from_json(fit, "parameters", [])}
    present = {str(name) for name in dataset(fit, "posterior").data_vars}
    return names if names & (present | set(map(variable_name, present))) else None


def source_name(fit: Fit) -> str:
    """Return the engine of Stan's NUTS, the sampler, or the library that drew a fit."""
    recorded = attribute(fit, "engine") or attribute(fit, "sampler")
    return str(recorded or dataset(fit, "posterior").attrs.get("inference_library", ""))


def columns(
    fit: Fit, group: str = "posterior", wanted: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Return the scalar columns of a group by name, such as "w[2]"; indices start at 1.

    A complex variable "z" of another library has the columns "z.real" and "z.imag", as Stan's have.
    The name in `wanted` of a tuple or of a complex number in the program stands for all of its
    parts; default: all variables. Those that are not numeric draws are left out. Columns are
    floats, shape (chain, draw), or (chain, draw, pseudo) in the group "pseudo".
    """
    scalars = {}
    leading, present = _axes(group), dataset(fit, group).data_vars
    whole = set() if wanted is None else set(wanted) - set(present)
    for name, variable in present.items():
        if wanted is not None and name not in wanted and variable_name(str(name)) not in whole:
            continue
        if not _holds_draws(variable):
            continue
        values = variable.transpose(*leading, ...).values  # other libraries use other orders
        for label, part in _real_parts(name, values).items():
            for index in np.ndindex(part.shape[len(leading) :]):
                scalars[element(label, index)] = part[(..., *index)] if index else part
    return scalars


def _real_parts(name: Any, values: np.ndarray) -> dict[Any, np.ndarray]:
    """Return values as floats by name; those of complex numbers as two parts."""
    if values.dtype.kind == "c":
        parts = {f"{name}.real": values.real, f"{name}.imag": values.imag}
    else:
        parts = {name: values}
    # small files have four bytes; differences of truth values or of unsigned integers fail
    return {label: part.astype(float, copy=False) for label, part in parts.items()}


def variable_name(column: str) -> str:
    """Return the name of the variable that a column belongs to: "theta" for "theta.1.2"."""
    return re.split(r"[.:]", column, maxsplit=1)[0]


def element(name: Any, index: tuple[int, ...]) -> str:
    """Return the name of an element, such as "w[2,1]" for index (1, 0); the variable's for ()."""
    return f"{name}[{','.join(str(i + 1) for i in index)}]" if index else str(name)


def variable_of(element: str) -> str:
    """Return the name of the variable that an element belongs to: "w" for "w[2,1]"."""
    return element.partition("[")[0]


def scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalars of variables by Stan's names, such as "w[2]"."""
    found = {}
    for name, value in values.items():
        for index in np.ndindex(np.shape(value)):
            found[element(name, index)] = np.asarray(value)[index]
    return found


def _holds_draws(variable: xr.DataArray) -> bool:
    return variable.dtype.kind in "fiubc" and {"chain", "draw"} <= set(variable.dims)


def pareto_smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return Pareto smoothed, normalized log weights, shape (draw,), and the Pareto k.

    A log weight of -inf is a weight of zero. k is infinite if fewer than two weights are positive,
    and -inf if the largest weights, to which the distribution is fitted, are all equal.
    """
    fine = np.isfinite(log_weights)
    if fine.sum() < 2:
        normalized = np.where(fine, 0.0, -np.inf)
        return normalized, np.inf
    positive = log_weights[fine] - log_weights[fine].max()
    tail = int(np.ceil(min(0.2 * fine.size, 3.0 * np.sqrt(fine.size))))  # as in ArviZ
    if not np.ptp(np.sort(positive)[-max(tail, 2) :]):
        total = np.log(np.sum(np.exp(positive)))
        return np.where(fine, log_weights - log_weights[fine].max() - total, -np.inf), -np.inf
    # ArviZ needs finite numbers: weights of zero get a negligible one
    finite = np.where(fine, log_weights - log_weights[fine].max(), positive.min() - ZERO_WEIGHT)
    if is_tree():
        from arviz_stats.base import array_stats

        smoothed, k = array_stats.psislw(-finite)  # it expects negative log weights
    else:
        smoothed, k = arviz_module().psislw(finite)
    smoothed = np.where(fine, smoothed, -np.inf)
    total = smoothed.max() + np.log(np.sum(np.exp(smoothed - smoothed.max())))
    return smoothed - total, float(k)


def quantile(ordered: np.ndarray, p: float) -> float:
    """Return a quantile of sorted draws, interpolated linearly, as rounded by the installed ArviZ.

    The rounding decides whether draws equal to the quantile are below it: the interpolation of 0.23
    between two equal numbers may be smaller than both.
    """
    if is_tree():
        return float(np.quantile(ordered, p))
    n = len(ordered)
    place = n * p + (1.0 - p)
    below = int(min(max(place, 1), n - 1))
    share = min(max(place - below, 0.0), 1.0)
    return float((1.0 - share) * ordered[below - 1] + share * ordered[below])
