"""Hard edges of a posterior: places where the log density falls to -inf without a declared bound.

`theta ~ uniform(0, 1)` on a `theta` declared without bounds is right but costly: trajectories that
step over the edge end there and are rejected. NUTS calls them divergent, though nothing near the
edge is underrepresented, and the remedy is a declaration, not a smaller step. Edges are found from
outside: from a few draws, one coordinate at a time is moved beyond all draws, and the place where
the density ends is bisected.

The log density must end abruptly. The lower end of a scale tau is no edge: for other coordinates
of any draw, the log density falls without bound toward it, and trajectories may end there because
they are too long for the neck of a funnel.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.targets.target import Target

PROBED = 6  # draws from which edges are sought
# of more coordinates, those with an edge close to draws would be found too rarely to be worth it
MOST_COORDINATES = 300
BISECTIONS = 40
# edges found from several draws are one number if they differ by less, in units of the range of the
# draws; the log density just inside may be this much lower than at the draw
SAME, LOWEST = 1e-6, 100.0


class Edge(NamedTuple):
    coordinate: int  # its index among the unconstrained coordinates
    name: str  # the parameter as in results, such as "theta" or "x[2]"
    side: str  # "lower" or "upper"
    value: float | None  # the bound to declare; None if it depends on other parameters

    def __str__(self) -> str:
        bound = "a function of other parameters" if self.value is None else f"{self.value:.12g}"
        return f"{self.name}: {self.side} = {bound}"


def find_edges(target: Target, positions: np.ndarray) -> list[Edge]:
    """Return the hard edges of parameters that are declared without the bound.

    At most two per parameter, in the order of the parameters; positions are draws of all chains in
    unconstrained coordinates, shape (draw, dim).
    """
    positions = positions[np.isfinite(positions).all(axis=1)]
    if len(positions) < PROBED or target.dim > MOST_COORDINATES:
        return []
    probed = positions[np.linspace(0, len(positions) - 1, PROBED).round().astype(int)]
    low, high = positions.min(axis=0), positions.max(axis=0)
    values = [target.value(row) for row in probed]
    found: dict[tuple[int, str], np.ndarray] = {}
    for i in _without_bounds(target, probed):
        for side, beyond in (("lower", 2.0 * low[i] - high[i]), ("upper", 2.0 * high[i] - low[i])):
            places: list[float] = []
            for row, here in zip(probed, values, strict=True):
                place = _edge(target, row, here, i, beyond)
                if np.isnan(place):  # most coordinates have no edge: one draw is enough
                    break
                places.append(place)
            else:
                found[i, side] = np.array(places)
    names = target.coordinate_names
    edges = []
    for (i, side), at in found.items():
        bound, known = None, SAME * (high[i] - low[i])
        if np.ptp(at) <= known:  # without more digits than are known: 0 instead of 3e-9
            digits = int(np.ceil(-np.log10(known)))
            bound = float(np.round(np.median(at), digits)) + 0.0
        edges.append(Edge(i, names[i], side, bound))
    return edges


def _without_bounds(target: Target, positions: np.ndarray) -> list[int]:
    """Return the coordinates that Stan does not transform."""
    elements = [target.elements(row) for row in positions]
    return [
        i
        for i, name in enumerate(target.coordinate_names)
        if [row.get(name) for row in elements] == positions[:, i].tolist()
    ]


def _edge(target: Target, position: np.ndarray, here: float, i: int, beyond: float) -> float:
    """Return the end of the density between a draw and a place beyond all draws; NaN if none.

    `here` is the log density at the draw.
    """
    inside, outside, at = float(position[i]), beyond, position.copy()

    def log_density(value: float) -> float:
        at[i] = value
        return target.value(at)

    if log_density(outside) > -np.inf or not np.isfinite(here):
        return np.nan
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        if log_density(middle) > -np.inf:
            inside = middle
        else:
            outside = middle
    return inside if log_density(inside) > here - LOWEST else np.nan
