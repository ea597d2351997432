"""Hard edges of a posterior: places where the log density falls to -inf without a declared bound.

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
# the same where numbers end at a declared bound: a part of some 1e-4 lies beyond
LOWEST_AT_BOUND = 9.0


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
    names, edges = target.coordinate_names, []
    for (i, side), at in _ends(target, positions, bounded=False).items():
        bound, known = None, SAME * np.ptp(positions[np.isfinite(positions[:, i]), i])
        if np.ptp(at) <= known:  # without more digits than are known: 0 instead of 3e-9
            digits = int(np.ceil(-np.log10(known)))
            bound = float(np.round(np.median(at), digits)) + 0.0
        edges.append(Edge(i, names[i], side, bound))
    return edges


def find_cut_tails(target: Target, positions: np.ndarray) -> list[str]:
    """Return the names of parameters whose density has not become small where numbers end.

    Positions are as for `find_edges`. The parameters are declared with bounds.
    """
    ends = _ends(target, positions, bounded=True)
    return list(dict.fromkeys(target.coordinate_names[i] for i, _ in ends))


def _ends(
    target: Target, positions: np.ndarray, bounded: bool
) -> dict[tuple[int, str], np.ndarray]:
    """Return where the density ends, by coordinate and side, seen from each of a few draws.

    Sought are those of coordinates that Stan transforms, or those of the others.
    """
    positions = positions[np.isfinite(positions).all(axis=1)]
    if len(positions) < PROBED or target.dim > MOST_COORDINATES:
        return {}
    probed = positions[np.linspace(0, len(positions) - 1, PROBED).round().astype(int)]
    low, high = positions.min(axis=0), positions.max(axis=0)
    values = [target.value(row) for row in probed]
    lowest = LOWEST_AT_BOUND if bounded else LOWEST
    found: dict[tuple[int, str], np.ndarray] = {}
    for i in np.flatnonzero(_transformed(target, probed) == bounded).tolist():
        for side, beyond in (("lower", 2.0 * low[i] - high[i]), ("upper", 2.0 * high[i] - low[i])):
            places: list[float] = []
            for row, here in zip(probed, values, strict=True):
                place = _end(target, row, i, beyond, here, lowest)
                if np.isnan(place):  # most coordinates have no end: one draw is enough
                    break
                places.append(place)
            else:
                found[i, side] = np.array(places)
    return found


def _transformed(target: Target, positions: np.ndarray) -> np.ndarray:
    """Whether Stan transforms each coordinate."""
    elements = [target.elements(row) for row in positions]
    return np.array([
        [row.get(name) for row in elements] != positions[:, i].tolist()
        for i, name in enumerate(target.coordinate_names)
    ])  # fmt: skip


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
