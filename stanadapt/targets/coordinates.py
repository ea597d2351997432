"""Names of unconstrained coordinates, found by moving them.

BridgeStan lists the names of an array's coordinates with the first index fastest, but the elements
of an array are stored one after the other: of `array[2] vector[3] b`, the second coordinate is
b[1,2], and the second name "b.2.1". The coordinates of one element (of a matrix, of a simplex) are
stored in the order of the list, and parts of tuples element by element.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stanadapt.results import variable_name

# of the point at which coordinates are moved, and of the moves
SPREAD, LEAST, MOST = 0.5, 0.5, 1.5
INDEXED = re.compile(r"[^.:]+(\.\d+)+")


@dataclass(frozen=True)
class Coordinate:
    """An unconstrained coordinate: "b[1,2]" of the variable "b", with the index (1, 2).

    A coordinate that moves one element alone has its name, as in a fit ("z.real", "t:2.1" for
    parts). Those of other types are numbered within their element of an array: of `array[2]
    simplex[3] p`, "p[2,1]" is the first coordinate of p[2].
    """

    name: str
    variable: str
    index: tuple[int, ...]


class _Place(NamedTuple):
    leaf: tuple[str, ...]  # the name without indices: ("t", "2")
    outer: tuple  # indices and numbers of the tuples around it, by which it is stored first
    inner: tuple[int, ...]


def element_name(column: str) -> str:
    """Return the name that a column has in a fit: "theta[1,2]" for "theta.1.2".

    Parts of tuples and of complex numbers are variables of their own there, with Stan's names.
    """
    if not INDEXED.fullmatch(column):
        return column
    stem, *index = column.split(".")
    return f"{stem}[{','.join(index)}]"


def coordinates(
    names: Sequence[str],
    columns: Sequence[str],
    constrain: Callable[[np.ndarray], np.ndarray],
    ranks: Mapping[str, int],
) -> list[Coordinate]:
    """Return the coordinates in the order of positions.

    `names` and `columns` are BridgeStan's of the unconstrained and the constrained parameters, and
    `constrain` returns the columns' values at a position. `ranks` are the declared numbers of array
    indices by variable; they decide if no move can be seen, as above a bound of 1e300.
    """
    places = [_place(name) for name in names]
    first = {leaf[0]: i for i, (leaf, _, _) in reversed(list(enumerate(places)))}
    order = sorted(range(len(names)), key=lambda i: (first[places[i].leaf[0]], places[i].outer))
    slots: dict[tuple, list[int]] = {}
    listed: dict[tuple, list[int]] = {}
    elements: dict[tuple, list[int]] = {}
    for slot, i in enumerate(order):
        slots.setdefault(places[i].leaf, []).append(slot)
        listed.setdefault(places[i].leaf, []).append(i)
    of_columns = [_place(column) for column in columns]
    for column, place in enumerate(of_columns):
        elements.setdefault(place.leaf, []).append(column)
    found = [names[i] for i in order]
    moves = _Moves(constrain, len(names))
    for leaf, own in listed.items():
        there = elements[leaf]
        plain = max(len(places[i].inner) for i in own) < 2
        if plain and [names[i] for i in own] == [columns[column] for column in there]:
            continue
        at = np.array(slots[leaf])
        movers = moves.sole_movers(at, np.arange(len(own)) + 1, there)
        if sorted(movers[movers != 0]) == list(range(1, len(own) + 1)):
            ours = {at[k - 1]: columns[c] for k, c in zip(movers, there, strict=True) if k}
        else:
            inside = [of_columns[column] for column in there]
            rank = _rank(moves, at, [places[i] for i in own], (there, inside))
            rank = (ranks.get(leaf[0], 0) if len(leaf) == 1 else 0) if rank is None else rank
            # the order of storage, if this many indices are those of an array
            own = sorted(own, key=lambda i: (places[i].outer, places[i].inner[:rank]))
            ours = {s: names[i] for s, i in zip(at, own, strict=True)}
        for slot, name in ours.items():
            found[slot] = name
    return [Coordinate(element_name(n), variable_name(n), _index(n)) for n in found]


def _place(name: str) -> _Place:
    segments = [segment.split(".") for segment in name.split(":")]
    leaf = tuple(label for label, *_ in segments)
    indices = [tuple(int(i) for i in rest if i.isdigit()) for _, *rest in segments]
    outer = tuple((index, int(part)) for index, part in zip(indices[:-1], leaf[1:], strict=True))
    return _Place(leaf, outer, indices[-1])


def _index(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.split("[.:]", name)[1:] if part.isdigit())


class _Moves:
    """Moves of coordinates, and the columns that they change."""

    def __init__(self, constrain: Callable[[np.ndarray], np.ndarray], dim: int) -> None:
        rng = np.random.default_rng(20)
        self._constrain = constrain
        self._at = rng.normal(scale=SPREAD, size=dim)
        self._step = rng.uniform(LEAST, MOST, size=dim)  # equal ones may cancel
        self._here = constrain(self._at)

    def sole_movers(self, slots: np.ndarray, groups: np.ndarray, columns: list[int]) -> np.ndarray:
        """Return, for each column, the group of coordinates that moves it; 0: none, -1: several.

        Groups are numbered from 1. Those with a binary digit in their number are moved together,
        and then all others, so that few moves distinguish many groups.
        """
        code, several = np.zeros(len(columns), dtype=int), np.zeros(len(columns), dtype=bool)
        for bit in range(int(groups.max()).bit_length()):
            chosen = (groups >> bit) % 2 == 1
            moved, by_others = (self._moved(slots[x], columns) for x in (chosen, ~chosen))
            code |= moved.astype(int) << bit
            several |= moved & by_others
        return np.where(several, -1, code)

    def _moved(self, slots: np.ndarray, columns: list[int]) -> np.ndarray:
        position = self._at.copy()
        position[slots] += self._step[slots]
        return self._constrain(position)[columns] != self._here[columns]


def _rank(
    moves: _Moves, slots: np.ndarray, own: list[_Place], columns: tuple[list[int], list[_Place]]
) -> int | None:
    """Return the number of array indices of a variable; None if the moves do not show it."""
    for rank in range(len(own[0].inner), -1, -1):
        keys = sorted((place.outer, place.inner[:rank]) for place in own)
        number = {key: k for k, key in enumerate(dict.fromkeys(keys), 1)}
        expected = np.array([number.get((p.outer, p.inner[:rank]), -2) for p in columns[1]])
        movers = moves.sole_movers(slots, np.array([number[key] for key in keys]), columns[0])
        right = (movers == expected) | (movers == 0)
        if right.all() and set(number.values()) <= set(movers):
            return rank
    return None
