"""Where chains start."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from stanio.reshape import VariableType

from stanadapt.errors import StanadaptError
from stanadapt.target import Samplable, Target

TRIES, RADIUS = 100, 2.0
PAST = 2000  # draws of an earlier fit: twice a usual subsample; each is a call from Python


def initial_positions(
    target: Samplable, inits: Any, rngs: Sequence[np.random.Generator], gradient: bool = True
) -> list[np.ndarray]:
    """One starting position a chain, shape (dim,), with a finite density and gradient.

    Parameters
    ----------
    target
        What will be sampled. What is made of a Target starts from positions of that, to which
        inits refer.
    inits
        None: uniform on (-2, 2) on the unconstrained scale. A number r >= 0: uniform on
        (-r, r); 0 is the origin. A mapping of constrained values, or a list of one mapping a
        chain, or the JSON text or file of either: parameters left out are drawn as with None. A
        numpy array of shape (dim,) or (chain, dim): unconstrained positions. An earlier fit of
        the same program: for each chain, one of its draws at random.
    rngs
        One numpy Generator a chain; draws are tried up to 100 times.
    gradient
        Whether the gradient must be finite too.

    Raises
    ------
    StanadaptError
        Stage "initialisation": where the density is not finite, and Stan's words.

    """
    starts = _one_a_chain(target.target, inits, rngs)
    return [
        _find(target, start, rng, number, gradient)
        for number, (start, rng) in enumerate(zip(starts, rngs, strict=True), 1)
    ]


def unconstrained(target: Target, rows: np.ndarray) -> np.ndarray:
    """Positions, shape (draw, dim), of rows that begin with all parameters.

    NaN where rounding has put a draw on a boundary.
    """
    count = len(target.model.param_names())
    if target.unconstrained:
        return rows
    positions = np.full((len(rows), target.dim), np.nan)
    for i, row in enumerate(np.ascontiguousarray(rows[:, :count])):
        try:
            positions[i] = target.model.param_unconstrain(row)
        except RuntimeError:
            continue  # counted, and told in a sentence
    return positions


def past_positions(target: Target, fit: Any) -> np.ndarray:
    """Unconstrained positions of an earlier fit's draws, oldest first, for samplers that learn.

    Up to PAST of them, evenly spaced, one of each chain after the other; shape (n, dim without
    noise).

    Raises
    ------
    StanadaptError
        Stage "initialisation" unless it is a fit of the same parameters.

    """
    if not hasattr(fit, "groups"):
        raise _wrong(f"the past must be an earlier fit, got {type(fit).__name__}.", "past")
    values = _draws_of(fit, target, "past")
    chains, draws = next(iter(values.values())).shape[:2]
    count = chains * draws
    chosen = np.linspace(0, count - 1, min(count, PAST)).astype(int)
    still = {name: np.zeros(target.parameters[name].dimensions) for name in target.noise}
    rows = (
        still | {name: value[i % chains, i // chains] for name, value in values.items()}
        for i in chosen
    )
    return np.array([target.unconstrain(row) for row in rows])[:, : target.dim - target.noise_size]


def _one_a_chain(target: Target, inits: Any, rngs: Sequence[np.random.Generator]) -> list:
    """Bring every form to one radius, position or mapping a chain."""
    inits = _parsed(inits)
    chains = len(rngs)
    if inits is None or _is_number(inits):
        radius = RADIUS if inits is None else float(inits)
        if not 0 <= radius < np.inf:
            raise _wrong(f"a radius must be a finite number, at least 0, got {inits!r}.")
        return [radius] * chains
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
            raise _wrong(f"a list must hold one mapping a chain, {chains} in all, got {inits!r}.")
        return list(inits)
    if hasattr(inits, "groups"):
        return [_draw_of(inits, target, rng) for rng in rngs]
    raise _wrong(
        "give None, a radius, constrained values (mapping, list of mappings, JSON), an array of "
        f"unconstrained positions or an earlier fit, got {type(inits).__name__}."
    )


def _parsed(inits: Any) -> Any:
    if not isinstance(inits, str | PathLike):
        return inits
    text = str(inits)
    if not text.lstrip().startswith(("{", "[")):
        path = Path(inits).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _wrong(f"the file {path} cannot be read: {error}.") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _wrong(f"the initial values are not JSON: {error}.") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _wrong(message: str, what: str = "inits") -> StanadaptError:
    return StanadaptError("initialisation", f"{what}: {message}")


def _draw_of(fit: Any, target: Target, rng: np.random.Generator) -> dict[str, np.ndarray]:
    values = _draws_of(fit, target)
    chains, draws = next(iter(values.values())).shape[:2]
    chain, draw = rng.integers(chains), rng.integers(draws)
    return {name: value[chain, draw] for name, value in values.items()}


def _draws_of(fit: Any, target: Target, what: str = "inits") -> dict[str, np.ndarray]:
    """Values of all parameters but the noise, shape (chain, draw, ...)."""
    # the names of both ArviZ's groups: a Dataset's variables, a DataTree's too
    posterior = fit["posterior"]
    wanted = [name for name in target.parameters if name not in target.noise]
    lacking = [name for name in wanted if name not in posterior.data_vars]
    if lacking:
        message = f"the earlier fit lacks {', '.join(lacking)}: it is not one of {target.name}."
        raise _wrong(message, what)
    return {name: posterior[name].values for name in wanted}


def _find(
    target: Samplable, start: Any, rng: np.random.Generator, number: int, gradient: bool
) -> np.ndarray:
    """Try until the density is finite: once, where nothing is random."""
    program = target.target
    partial = isinstance(start, Mapping) and not program.parameters.keys() <= start.keys()
    tries = TRIES if partial or (isinstance(start, float) and start > 0) else 1
    for _ in range(tries):
        position = target.started(lambda: _propose(program, start, rng), rng)
        value, slope, words = target.evaluate(position)
        if np.isfinite(value) and (not gradient or np.all(np.isfinite(slope))):
            return position
    what = f"the log density is {value}" if not np.isfinite(value) else "the gradient is not finite"
    how = (
        f"after {tries} random starting points, the last at"
        if tries > 1
        else "at the given starting point,"
    )
    near = np.array2string(position, precision=3, threshold=8, edgeitems=3)
    raise StanadaptError(
        "initialisation",
        f"chain {number} of {program.name} found no place to start: {what} {how} "
        f"unconstrained {near}. Check the data against the priors, or give `inits`.",
        words,
    )


def _propose(target: Target, start: Any, rng: np.random.Generator) -> np.ndarray:
    if isinstance(start, np.ndarray):
        return np.ascontiguousarray(start)
    radius = start if isinstance(start, float) else RADIUS
    position = rng.uniform(-radius, radius, target.dim) if radius > 0 else np.zeros(target.dim)
    moved = target.dim - target.noise_size
    position[moved:] = rng.standard_normal(target.noise_size)
    if not isinstance(start, Mapping):
        return position
    given = {name: start[name] for name in start if name in target.parameters}
    _check_names_and_shapes(target, start, given)
    return target.unconstrain({**target.constrain(position), **given})


def _check_names_and_shapes(target: Target, start: Mapping, given: Mapping) -> None:
    """A typing error must not become a random start, nor a matrix its transpose."""
    had = f"{target.name}; it has {', '.join(target.parameters)}"
    if not start:
        raise _wrong(f"the mapping is empty: give a value for some parameter of {had}.")
    # transformed parameters and generated quantities may stand in a draw of elsewhere
    others = {name.split(".")[0].split(":")[0] for name in target.column_names}
    unknown = sorted(str(name) for name in start if name not in others)
    if unknown or not given:
        listed = ", ".join(unknown or map(str, start))
        raise _wrong(f"{'none of ' if not given else ''}{listed} is a parameter of {had}.")
    for name, value in given.items():
        declared = target.parameters[name]
        if declared.type is VariableType.SCALAR and np.shape(value) != declared.dimensions:
            raise _wrong(f"{name} must have shape {declared.dimensions}, got {np.shape(value)}.")
