"""Which data of a program are rows, and the data with some rows only."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.declarations import Declaration, parse
from stanadapt.targets.stan.program import block
from stanadapt.targets.target import Target


class Rows(NamedTuple):
    """Data that have one row for each observation.

    data
        All data of the program, by name.
    names
        Of the variables with rows.
    sizes
        Names of the whole numbers that give their length.
    length
        How many rows there are.

    """

    data: dict[str, Any]
    names: tuple[str, ...]
    sizes: tuple[str, ...]
    length: int

    def only(self, chosen: np.ndarray) -> dict[str, Any]:
        """Return the data with the rows of these numbers, 0, 1, ..., and their length."""
        part = {name: [self.data[name][i] for i in chosen] for name in self.names}
        return {**self.data, **part, **dict.fromkeys(self.sizes, len(chosen))}


def read_rows(target: Target, names: Sequence[str]) -> Rows:
    """Find the rows of a target's data.

    Raises
    ------
    StanadaptError
        Stage "settings" unless the named variables are data of one length, which a variable gives
        that no other data depend on.

    """
    declared = {d.name: d for d in parse(block(target.program.code, "data"))}
    data = json.loads(target.data)
    if not names:
        raise _wrong("name at least one variable with a row for each observation.")
    lengths, sizes = {}, {}
    for name in names:
        sizes[name] = _size(target, name, declared)
        lengths[name] = len(data[name])
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise _wrong(f"all must have a row for each observation, but {listed}.")
    _require_own_size(declared, names, set(sizes.values()))
    return Rows(data, tuple(names), tuple(sorted(set(sizes.values()))), lengths[names[0]])


def _size(target: Target, name: str, declared: dict[str, Declaration]) -> str:
    """Name of the variable that gives the length of another."""
    if name not in declared:
        raise _wrong(
            f"{target.name} has no data {name}; its data block declares "
            f"{', '.join(declared) or 'nothing'}."
        )
    dims = declared[name].dims
    if not dims:
        raise _wrong(f"{name} is a single number: it has no row for each observation.")
    size = dims[0].source.strip()
    if size not in declared:
        raise _wrong(
            f"the length of {name} is declared as {size}: it must be a variable of the data block, "
            "such as N, so that a batch can be shorter."
        )
    return size


def _require_own_size(
    declared: dict[str, Declaration], names: Sequence[str], sizes: set[str]
) -> None:
    """Raise StanadaptError where anything but the rows depends on their length."""
    for name, variable in declared.items():
        dims = variable.dims[1:] if name in names else variable.dims
        limits = [limit for limit in (variable.lower, variable.upper) if limit is not None]
        for size in sizes:
            what = {"size": dims, "bound": limits}
            used = [w for w, found in what.items() if any(_uses(e.source, size) for e in found)]
            if used:
                raise _wrong(
                    f"{size}, the length of {', '.join(names)}, is also a {used[0]} of {name}. "
                    f"Name {name} too if it has a row for each observation, else give it a "
                    f"{used[0]} of its own in the program."
                )


def _uses(source: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name}(?!\w)", source) is not None


def _wrong(message: str) -> StanadaptError:
    return StanadaptError("settings", f"rows: {message}")
