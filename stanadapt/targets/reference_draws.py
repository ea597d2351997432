"""Draws that a collection publishes as reference, as an ArviZ object that can be compared."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.results.labels import named_dimensions
from stanadapt.targets.stan import data as stan_data
from stanadapt.targets.stored_json import read_json
from stanadapt.targets.target import Target

NAME = re.compile(r"([A-Za-z]\w*)(?:\[([\d, ]+)\])?")  # "tau", "theta[3]", "L[2,1]"


def draws_of(name: str, file: Path, about: Any, target: Target | None = None) -> Any:
    """Read the draws of a posterior.

    Parameters
    ----------
    name
        Of the posterior.
    file
        JSON, or an archive of it: a list of chains, each a mapping of "theta[1]" to its draws.
    about
        What the database says of how they were made, for the attributes.
    target
        Its variables must have the shapes that the draws have.

    Raises
    ------
    StanadaptError
        Stage "files", for a file of another kind.

    """
    hint = "Get the file anew."
    chains = read_json(file, name, hint)
    try:
        columns = _columns(chains)
        variables = _variables(columns)
        if target is not None:
            _require_shapes(variables, target)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise StanadaptError(
            "files", f"{file} does not hold draws of {name}: {error}. {hint}"
        ) from None
    named = {} if target is None else named_dimensions(target.labels)
    return results.build(
        {"posterior": variables}, _attributes(name, variables, about, target), **named
    )


def _columns(chains: Any) -> dict[str, np.ndarray]:
    """Draws of every column, shape (chain, draw)."""
    if not isinstance(chains, list) or not chains or not all(isinstance(c, dict) for c in chains):
        raise ValueError("a list of chains was expected")
    names = list(chains[0])
    for number, chain in enumerate(chains, start=1):
        if list(chain) != names:
            raise ValueError(f"chain {number} has other variables than chain 1")
    columns = {n: np.array([chain[n] for chain in chains], dtype=float) for n in names}
    for column, values in columns.items():
        if values.ndim != 2 or values.shape != columns[names[0]].shape or not values.size:
            raise ValueError(f"{column} has not as many draws as {names[0]} in every chain")
    return columns


def _variables(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Variables of shape (chain, draw, ...), from columns with indices that count from 1."""
    parts: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for column, values in columns.items():
        found = NAME.fullmatch(column)
        if not found:
            raise ValueError(f"{column!r} is no name of a variable")
        indices = tuple(int(i) - 1 for i in (found[2] or "").split(",") if i.strip())
        parts.setdefault(found[1], {})[indices] = values
    return {name: _whole(name, scalars) for name, scalars in parts.items()}


def _whole(name: str, scalars: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Put the components of a variable together."""
    if len({len(index) for index in scalars}) > 1:
        raise ValueError(f"components of {name} have different numbers of indices")
    first = next(iter(scalars.values()))
    shape = tuple(int(largest) + 1 for largest in np.max(list(scalars), axis=0))
    if set(scalars) != set(np.ndindex(shape)):
        raise ValueError(f"{name} lacks some of its components")
    whole = np.empty((*first.shape, *shape))
    for index, values in scalars.items():
        place: Any = (slice(None), slice(None), *index)
        whole[place] = values
    return whole


def _require_shapes(variables: dict[str, np.ndarray], target: Target) -> None:
    shapes = results.shapes(target.column_names)
    common = [name for name in variables if name in shapes]
    if not common:
        raise ValueError(f"they are of {', '.join(variables)}, the program has {', '.join(shapes)}")
    for name in common:
        if variables[name].shape[2:] != shapes[name]:
            raise ValueError(
                f"{name} has shape {variables[name].shape[2:]}, in the program {shapes[name]}"
            )


def _attributes(
    name: str, variables: dict[str, np.ndarray], about: Any, target: Target | None
) -> dict[str, Any]:
    about = about if isinstance(about, dict) else {}
    versions = about.get("versions") if isinstance(about.get("versions"), dict) else {}
    with_what = next((str(v) for n, v in versions.items() if n.endswith("stan_version")), "")
    attributes = {
        "sampler": "reference draws",
        # of Stan's own density, not ours: `compare` measures the others against them
        "engine": f"posteriordb{f', {with_what}' if with_what else ''}",
        "engine_independent": True,
        "parameters": json.dumps(list(variables)),
        "posterior_name": name,
        "inference": about.get("inference") or {},
        "versions": versions,
    }
    if target is not None:
        attributes |= {
            "model": target.name,
            "program_hash": target.program.hash,
            "data_hash": stan_data.digest(target.data),
        }
    return attributes
