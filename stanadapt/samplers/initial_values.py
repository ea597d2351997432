"""Starting points of chains: every form of `inits`, and draws of earlier fits."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.errors import StanadaptError, is_real
from stanadapt.results.files import read_text
from stanadapt.results.read_cmdstan_csv import chains_in, load_csv
from stanadapt.results.zarr_store import is_store, load_store
from stanadapt.samplers.variational.methods import PATHFINDER, pathfinder_positions
from stanadapt.targets.failing_statement import failing_statement
from stanadapt.targets.projection import shapes_of, wrong_shape
from stanadapt.targets.stan.backends.index_errors import index_error
from stanadapt.targets.stan.program import user_path
from stanadapt.targets.target import Samplable, Target

TRIES, RADIUS = 100, 2.0
SHOWN = 6  # values at which a start failed
# draws taken from an earlier fit: twice the default subsample of kameleon; each takes a call
WARM_START_DRAWS = 2000


def initial_positions(
    target: Samplable,
    inits: Any,
    rngs: Sequence[np.random.Generator],
    gradient: bool = True,
    on_wait: Callable[[], Any] = lambda: None,
) -> list[np.ndarray]:
    """Return one starting position per chain, shape (dim,), with a finite density and gradient.

    `inits` are those of `sample`; they refer to the Target from which the target was made. Random
    starts are tried up to 100 times. `on_wait` is called ten times a second during climbs, and its
    exceptions end them. StanadaptError, stage "initialization", for inits of a wrong form, or if
    the density is not finite (with `gradient`, also the gradient), with Stan's message.
    """
    if isinstance(inits, str) and inits == PATHFINDER:
        program = target.target
        random = initial_positions(program, None, rngs)
        starts = pathfinder_positions(program, random, rngs, on_wait)
    else:
        starts = _one_per_chain(target.target, inits, rngs)
    return [
        _find_start(target, start, rng, number, gradient)
        for number, (start, rng) in enumerate(zip(starts, rngs, strict=True), 1)
    ]


def positions_of_fit(target: Target, fit: Any, what: str = "warm_start") -> np.ndarray:
    """Return unconstrained draws of an earlier fit, oldest first, for samplers that learn.

    Up to WARM_START_DRAWS, evenly spaced, chains in turn; shape (n, dim without noise). `what` is
    the name of the argument, for messages. StanadaptError, stage "initialization", unless it is a
    fit of the same parameters.
    """
    if not hasattr(fit, "groups"):
        text = f"it must be an earlier fit, got {type(fit).__name__}."
        raise _wrong(text, "unsuitable_fit", what)
    values = _draws(fit, target, what)
    bad = [name for name, value in values.items() if not np.isfinite(value).all()]
    if bad:
        text = f"the earlier fit has draws of {', '.join(bad)} that are not finite."
        raise _wrong(text, "unsuitable_fit", what)
    chains, draws = next(iter(values.values())).shape[:2]
    count = chains * draws
    selected = np.linspace(0, count - 1, min(count, WARM_START_DRAWS)).astype(int)
    noise = {name: np.zeros(target.parameters[name].dimensions) for name in target.noise}
    rows = (
        noise | {name: value[i % chains, i // chains] for name, value in values.items()}
        for i in selected
    )
    return np.array([target.unconstrain(row) for row in rows])[:, : target.dim - target.noise_size]


def _one_per_chain(target: Target, inits: Any, rngs: Sequence[np.random.Generator]) -> list:
    """Turn every form of inits into one radius, position or mapping per chain."""
    inits = require_inits(inits)
    chains = len(rngs)
    if inits is None or is_real(inits):
        return [RADIUS if inits is None else float(inits)] * chains
    if isinstance(inits, np.ndarray):
        if inits.dtype.kind not in "iuf":
            raise _wrong(f"unconstrained positions must be real numbers, got {inits.dtype}.")
        if inits.shape not in ((target.dim,), (chains, target.dim)):
            raise _wrong(
                f"unconstrained positions must have shape ({target.dim},) or "
                f"({chains}, {target.dim}), got {inits.shape}."
            )
        return list(np.broadcast_to(inits.astype(float), (chains, target.dim)))
    if isinstance(inits, Mapping) and not hasattr(inits, "groups"):
        return [inits] * chains
    if isinstance(inits, Sequence):
        if len(inits) != chains or not all(isinstance(i, Mapping) for i in inits):
            raise _wrong(
                f"a list must contain one mapping per chain, {chains} in all, got {inits!r}."
            )
        return list(inits)
    if hasattr(inits, "groups"):
        return [_random_draw(inits, target, rng) for rng in rngs]
    raise _wrong(
        "give None, a radius, 'pathfinder', constrained values (mapping, list of mappings, JSON), "
        f"an array of unconstrained positions or an earlier fit, got {type(inits).__name__}."
    )


def require_inits(inits: Any) -> Any:
    """Read JSON, as text or in a file, or a fit; return anything else unchanged.

    StanadaptError, stage "initialization", for inits that are wrong for any target.
    """
    inits = _parse(inits)
    if is_real(inits) and not 0 <= inits < np.inf:
        raise _wrong(f"a radius must be a finite number, at least 0, got {inits!r}.")
    return inits


def _parse(inits: Any) -> Any:
    listed = inits if isinstance(inits, list | tuple) else ()
    if listed and all(isinstance(each, str | PathLike) for each in listed):
        return _earlier_fit([user_path(each) for each in listed])
    if not isinstance(inits, str | PathLike) or inits == PATHFINDER:
        return inits
    text = str(inits)
    if not text.lstrip().startswith(("{", "[")):
        path = user_path(inits)
        if path.is_dir() or path.suffix.lower() in (".csv", ".nc"):
            return _earlier_fit([path])
        try:
            text = read_text(path, "file of initial values")
        except StanadaptError as error:
            text = f"the file {path} cannot be read. {error.message}"
            raise _wrong(text, "unreadable_inits") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"the initial values are not JSON: {error}.", "unreadable_inits") from None


def _earlier_fit(paths: list[Path]) -> results.Fit:
    path, *others = paths
    stored = is_store(path) and not others
    files = chains_in(path) if path.is_dir() else paths
    if not files and not stored:
        text = (
            f"the folder {path} has no CSV files of CmdStan, and is not a single zarr store: read "
            "a run, or several fits, with stanadapt.load, and give what it returns."
        )
        raise _wrong(text, "unreadable_inits")
    try:
        if stored:
            return load_store(path)
        is_fit = path.suffix.lower() == ".nc" and not others
        return results.load(path) if is_fit else load_csv(files)
    except StanadaptError as error:
        text = f"the earlier fit cannot be read. {error.message}"
        raise _wrong(text, "unreadable_inits") from None


def _wrong(message: str, code: str = "invalid_inits", what: str = "inits") -> StanadaptError:
    return StanadaptError(code, f"{what}: {message}")


def _random_draw(fit: Any, target: Target, rng: np.random.Generator) -> dict[str, np.ndarray]:
    values = _draws(fit, target)
    chains, draws = next(iter(values.values())).shape[:2]
    chain, draw = rng.integers(chains), rng.integers(draws)
    return {name: value[chain, draw] for name, value in values.items()}


def _draws(fit: Any, target: Target, what: str = "inits") -> dict[str, np.ndarray]:
    """Return the values of all parameters but the noise, shape (chain, draw, ...)."""
    if not results.is_fit(fit):
        text = f"an earlier fit must have a posterior, got {fit!r}."
        raise _wrong(text, "unsuitable_fit", what)
    posterior = results.dataset(fit, "posterior")
    needed = [name for name in target.parameters if name not in target.noise]
    lacking = [name for name in needed if name not in posterior.data_vars]
    if lacking:
        message = f"the earlier fit lacks {', '.join(lacking)}: it is not a fit of {target.name}."
        raise _wrong(message, "unsuitable_fit", what)
    values = {name: posterior[name].values for name in needed}
    shapes = {name: value.shape[2:] for name, value in values.items()}
    if wrong := wrong_shape(target.parameters, shapes):
        raise _wrong(
            f"the earlier fit is not one of {target.name}: {wrong}.", "unsuitable_fit", what
        )
    return values


def _find_start(
    target: Samplable, start: Any, rng: np.random.Generator, number: int, gradient: bool
) -> np.ndarray:
    """Try until the density is finite; only once if nothing is random."""
    program = target.target
    partial = isinstance(start, Mapping) and not program.parameters.keys() <= start.keys()
    tries = TRIES if partial or (isinstance(start, float) and start > 0) else 1
    for _ in range(tries):
        position = target.initial_position(lambda: _propose(program, start, rng), rng)
        value, slope, message = target.evaluate(position)
        if np.isfinite(value) and (not gradient or np.all(np.isfinite(slope))):
            return position
    if (wrong := index_error(program.program, program.checked, message)) is not None:
        raise wrong
    fault = (
        f"the log density is {value}" if not np.isfinite(value) else "the gradient is not finite"
    )
    place = (
        f"after {tries} random starting points, the last at"
        if tries > 1
        else "at the given starting point,"
    )
    near = np.array2string(position, precision=3, threshold=8, edgeitems=3)
    if isinstance(start, Mapping):
        given = [text for name in start for text in _shown(name, start[name])]
        near += f" ({', '.join(given[:SHOWN])}{' and others' if len(given) > SHOWN else ''})"
    if not message and (where := failing_statement(program, position, gradient)):
        fault += f" from the statement {where} on,"
    remedy = "other `inits`" if isinstance(start, Mapping | np.ndarray) else "`inits`"
    raise StanadaptError(
        "initialization_failed",
        f"initialization failed for chain {number} of {program.name}: {fault} {place} "
        f"unconstrained {near}.{_not_finite(program.checked.entries)} Check the data against the "
        f"priors, or give {remedy}.",
        message,
    )


def _not_finite(entries: Mapping[str, Any]) -> str:
    """Name the first value of the data that is no number, which only compiled programs accept."""
    for name, value in entries.items():
        if isinstance(value, np.ndarray) and not np.isfinite(value).all():
            index = tuple(np.argwhere(~np.isfinite(value))[0])
            place = f"[{','.join(str(i + 1) for i in index)}]" if index else ""
            return f" {name}{place} is {value[index]} in the data."
    return ""


def _propose(target: Target, start: Any, rng: np.random.Generator) -> np.ndarray:
    if isinstance(start, np.ndarray):
        return np.ascontiguousarray(start)
    radius = start if isinstance(start, float) else RADIUS
    position = rng.uniform(-radius, radius, target.dim) if radius > 0 else np.zeros(target.dim)
    moved = target.dim - target.noise_size
    position[moved:] = rng.standard_normal(target.noise_size)
    if not isinstance(start, Mapping):
        return position
    values = {name: start[name] for name in start if name in target.parameters}
    _check_names_and_shapes(target, start, values)
    return position_of(target, target.constrain(position), values)


def _shown(name: Any, value: Any) -> list[str]:
    """Return "name = value", or one such text per element."""
    array = np.asarray(value, dtype=object)
    return [f"{results.element(name, index)} = {array[index]}" for index in np.ndindex(array.shape)]


def _check_names_and_shapes(target: Target, start: Mapping, values: Mapping) -> None:
    """Raise StanadaptError for a misspelled name or a transposed matrix."""
    program = f"{target.name}; it has {', '.join(target.parameters)}"
    if not start:
        raise _wrong(f"the mapping is empty: give a value for some parameter of {program}.")
    # draws from other software may have transformed parameters and generated quantities too
    variables = set(map(results.variable_name, target.column_names))
    unknown = sorted(str(name) for name in start if name not in variables)
    if unknown or not values:
        names = ", ".join(unknown or map(str, start))
        raise _wrong(f"there is no parameter {names} in {program}.", "unknown_parameter")
    if wrong := wrong_shape(target.parameters, shapes_of(values)):
        raise _wrong(f"{wrong}.")


# --- values as a position -------------------------------------------------------------------------


def position_of(
    target: Target, inside: Mapping[str, np.ndarray], values: Mapping[str, Any]
) -> np.ndarray:
    """Return the position of given values of some parameters, shape (dim,).

    values are in their declared shapes; for other parameters, those of `inside` are taken, which
    have a position. StanadaptError, stage "initialization", with the parameter, its value and its
    declaration, if a value is not finite, violates a bound or a constraint, or is on a bound.
    """
    for name, value in values.items():
        if _is_other(value):
            raise _refused(target, name, f"{name} = {value!r}, which is not a number")
        for label, number in _elements(name, value):
            if not np.isfinite(number):
                raise _refused(target, name, f"{label} = {number}, which is not a finite number")
    try:
        position = target.unconstrain({**inside, **values})
    except StanadaptError as error:
        for name, label, number, alone in _one_by_one(target, inside, values):
            if not _has_position(target, alone):
                text = f"{label} = {number} violates a bound"
                raise _refused(target, name, text, "invalid_position", error.stan) from None
        raise
    if np.isfinite(position).all():
        return position
    for name, label, number, alone in _one_by_one(target, inside, values):
        if not _has_position(target, alone, finite=True):
            text = f"{label} = {number} is on a bound, where the density has no position"
            raise _refused(target, name, text)
    for name, value in values.items():  # such as a simplex: its elements depend on each other
        if not _has_position(target, {**inside, name: value}, finite=True):
            text = f"{name} = {_short(value)} is on a bound, where the density has no position"
            raise _refused(target, name, text)
    return position


def _is_other(value: Any) -> bool:
    """Whether it is a truth value, a text or nothing, or has one of these as an element."""
    if isinstance(value, list | tuple):
        return any(map(_is_other, value))
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value is None or isinstance(value, bool | str | bytes) or kind in ("b", "S", "U")


def _short(value: Any) -> str:
    return np.array2string(np.asarray(value, dtype=float), precision=3, threshold=8, edgeitems=3)


def _refused(
    target: Target, name: str, problem: str, code: str = "invalid_inits", stan: str = ""
) -> StanadaptError:
    """Return the error of a value; the declaration of its parameter has the bounds."""
    declared = [one.to_stan() for one in target.declared_parameters if one.name == name]
    declaration = f"; the program declares `{declared[0]}`" if declared else ""
    text = f"inits: {problem}{declaration}. Give a value in the interior."
    return StanadaptError(code, text, stan)


def _one_by_one(
    target: Target, inside: Mapping[str, np.ndarray], values: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield each number with separate bounds, and the values that it alone was given.

    Bounds may depend on other parameters: those without bounds are taken as they were given, unless
    they have no position themselves.
    """
    bounded = {one.name for one in target.declared_parameters if one.lower or one.upper}
    base: dict[str, Any] = dict(inside)
    for name, value in values.items():
        if name not in bounded and _has_position(target, {**base, name: value}, finite=True):
            base[name] = value
    for name, value in values.items():
        given = np.asarray(value)
        if name not in bounded or given.dtype.kind not in "biuf":
            continue
        for index in np.ndindex(given.shape):
            alone = np.array(inside[name], dtype=float)
            alone[index] = given[index]
            yield name, results.element(name, index), given[index], {**base, name: alone}


def _has_position(target: Target, values: Mapping[str, Any], finite: bool = False) -> bool:
    try:
        position = target.unconstrain(values)
    except StanadaptError:
        return False
    return not finite or bool(np.isfinite(position).all())


def _elements(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a value; Stan answers to anything else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return
    if array.dtype.kind not in "biuf":
        return
    for index in np.ndindex(array.shape):
        yield results.element(name, index), float(array[index])
