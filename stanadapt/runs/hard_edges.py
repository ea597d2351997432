"""Hard edges of a posterior: places where the log density ends without a declared bound.

`theta ~ uniform(0, 1)` on a `theta` declared without bounds is right but costly: trajectories that
step over the edge end there and are rejected. NUTS calls them divergent, though nothing near the
edge is underrepresented, and the remedy is a declaration, not a smaller step. Edges are found from
outside: from a few draws, one coordinate at a time is moved beyond all draws, and the place where
the density ends is bisected.

The log density must end abruptly. The lower end of a scale tau is no edge: for other coordinates
of any draw, the log density falls without bound toward it, and trajectories may end there because
they are too long for the neck of a funnel.

Toward a declared bound, numbers end: a p below 1 is 1 to rounding if its logit is 37. A posterior
that has not become small before lacks mass there, or is improper.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.modes import parameter_rows
from stanadapt.targets.target import Target

PROBED = 6  # draws from which edges are sought
# of more coordinates, those with an edge close to draws would be found too rarely to be worth it
MOST_COORDINATES = 300
BISECTIONS = 40
# edges found from several draws are one number if they differ by less, in units of the range of the
# draws; the log density just inside may be this much lower than at the draw
SAME, LOWEST = 1e-6, 100.0
# the same where numbers end at a declared bound: a part of some 1e-4 lies beyond
LOWEST_AT_BOUND = 9.0
EDGES_FROM = 400  # draws from which hard edges are sought


class Edge(NamedTuple):
    coordinate: int  # its index among the unconstrained coordinates
    name: str  # the parameter as in results, such as "theta" or "x[2]"
    side: str  # "lower" or "upper"
    value: float | None  # the bound to declare; None if it depends on other parameters

    def __str__(self) -> str:
        bound = "a function of other parameters" if self.value is None else f"{self.value:.12g}"
        return f"{self.name}: {self.side} = {bound}"


def ends_recorded(edges: Sequence[Edge], cut_tails: Sequence[str]) -> dict[str, str]:
    """Return what was found as attributes of a fit."""
    found = {"hard_edges": [str(edge) for edge in edges], "cut_tails": [*cut_tails]}
    return {name: json.dumps(texts) for name, texts in found.items() if texts}


def ends_of(target: Target, fit: results.Fit) -> dict[str, str]:
    """Return the attributes on ends of the density that a fit of another sampler lacks.

    Such samplers count no failed evaluations, so that ends are sought if trajectories diverged, or
    if that is not recorded. How many trajectories an edge has ended is unknown.
    """
    diverged = results.statistics(fit).get("diverging")
    known = {"hard_edges", "cut_tails"} & {*fit.attrs}
    if known or target.noise_size or (diverged is not None and not np.nansum(diverged)):
        return {}
    rows, _ = parameter_rows(target, fit)
    few = np.linspace(0, len(rows) - 1, min(len(rows), EDGES_FROM)).round().astype(int)
    draws = target.unconstrain_rows(rows[few])
    edges = [] if diverged is None else find_edges(target, draws)
    return ends_recorded(edges, find_cut_tails(target, draws))


def find_edges(target: Target, positions: np.ndarray) -> list[Edge]:
    """Return the hard edges of parameters that are declared without the bound.

    At most two per parameter, in the order of the parameters; positions are draws of all chains in
    unconstrained coordinates, shape (draw, dim).
    """
    edges = []
    for end in _ends(target, positions):
        if not end.declared:
            bound = None
            if np.ptp(end.values) <= end.known:  # without more digits than are known: 0, not 3e-9
                digits = int(np.ceil(-np.log10(end.known)))
                bound = float(np.round(np.median(end.values), digits)) + 0.0
            edges.append(Edge(end.coordinate, end.name, end.side, bound))
    return edges


def find_cut_tails(target: Target, positions: np.ndarray) -> list[str]:
    """Return the names of parameters whose density has not become small where numbers end.

    Positions are as for `find_edges`. The parameters are declared with bounds.
    """
    ends = _ends(target, positions, bounded_only=True)
    return list(dict.fromkeys(end.name for end in ends if end.declared))


class _End(NamedTuple):
    """Where the density ends on one side of a parameter, seen from each of a few draws."""

    coordinate: int
    name: str
    side: str
    values: np.ndarray  # of the parameter, shape (draw,)
    known: float  # differences of these that are rounding
    declared: bool  # whether it is a declared bound, which numbers closer to it equal


def _ends(target: Target, positions: np.ndarray, bounded_only: bool = False) -> Iterator[_End]:
    """Yield the ends of all parameters, or of those that Stan transforms."""
    positions = positions[np.isfinite(positions).all(axis=1)]
    if len(positions) < PROBED or target.dim > MOST_COORDINATES:
        return
    probed = positions[np.linspace(0, len(positions) - 1, PROBED).round().astype(int)]
    low, high = positions.min(axis=0), positions.max(axis=0)
    log_densities = [target.value(row) for row in probed]
    elements = [target.elements(row) for row in probed]
    for i, coordinate in enumerate(target.coordinates):
        name, variable = coordinate.name, coordinate.variable
        alone = name in elements[0]  # of the others, such as a correlation matrix, all elements
        names = [name] if alone else [n for n in elements[0] if results.variable_of(n) == variable]
        bounded = not alone or [row[name] for row in elements] != probed[:, i].tolist()
        if not names or bounded_only > bounded:  # none are those of a matrix in a tuple
            continue
        lowest = LOWEST_AT_BOUND if bounded else LOWEST
        for side, beyond in (("lower", 2.0 * low[i] - high[i]), ("upper", 2.0 * high[i] - low[i])):
            places: list[float] = []
            for row, here in zip(probed, log_densities, strict=True):
                place = _end(target, row, i, beyond, here, lowest)
                if np.isnan(place):  # most coordinates have no end: one draw is enough
                    break
                places.append(place)
            else:
                at = _values(target, names, i, probed, np.array(places))
                after = _values(target, names, i, probed, np.full(PROBED, beyond))
                drawn = _values(target, names, i, probed[[0, 0]], np.array([low[i], high[i]]))
                with np.errstate(invalid="ignore"):  # of numbers that have overflowed
                    known = SAME * np.ptp(drawn, axis=0)
                    moves = np.isfinite(after) & (np.abs(after - at) > known) & (known > 0.0)
                declared = bounded and not moves.any(axis=1).all()
                if alone or declared:
                    shown = name if alone else variable
                    yield _End(i, shown, side, at[:, 0], float(known[0]), declared)


def _values(
    target: Target, names: list[str], i: int, rows: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Return elements at rows in which coordinate i has been moved to places, shape (row, element).

    NaN where there is none, as of a parameter between two others if these have crossed.
    """
    moved, values = rows.copy(), np.full((len(rows), len(names)), np.nan)
    moved[:, i] = places
    for k, row in enumerate(moved):
        with contextlib.suppress(RuntimeError):
            elements = target.elements(row)
            values[k] = [elements[name] for name in names]
    return values


def _end(
    target: Target, position: np.ndarray, i: int, beyond: float, here: float, lowest: float
) -> float:
    """Return the end of the density between a draw and a place beyond all draws; NaN if none.

    `here` is the log density at the draw, and just inside it is at most `lowest` below.
    """
    inside, outside, at = float(position[i]), beyond, position.copy()

    def log_density(value: float) -> float:
        at[i] = value
        return target.value(at)

    if np.isfinite(log_density(outside)) or not np.isfinite(here):
        return np.nan
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        if np.isfinite(log_density(middle)):
            inside = middle
        else:
            outside = middle
    return inside if log_density(inside) > here - lowest else np.nan
