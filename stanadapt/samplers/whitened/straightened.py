"""A map that was learned, the coordinates to which it leads, and how far from a Gaussian they are.

    D = mean over draws and coordinates of (w + g_w)^2,

w being the whitened position and g_w the gradient there. D is 0 for a Gaussian, and the same
number for any target: the distance from one that remains, with and without a map.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.block_map import unpacked
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.triangular_map import (
    TriangularMap,
    enter_rows,
    is_used,
    no_map,
    with_memory,
)
from stanadapt.samplers.whitened.block_structure import MOST_COORDINATES
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, composed_metric
from stanadapt.samplers.whitened.fisher_metric import (
    MANY,
    FisherMetric,
    diagonal_metric,
    fisher_metric,
)
from stanadapt.samplers.whitened.priors import Group
from stanadapt.samplers.whitened.window import LOG_DENSITY, Window

# number of corrections of a metric by which D is measured
REPEATS = 2


class Straightened(NamedTuple):
    """What was learned from a window: the map, its groups, and D without and with it.

    It is confirmed if the window shows nothing that a map of earlier draws lacks. With a block, the
    latter D is the mean over coordinates outside of it: those within are normal, or nearly so.
    """

    straightening: TriangularMap
    groups: tuple[Group, ...]
    distance_before: float
    distance: float
    confirmed: bool = False
    part: float = np.inf  # largest part of a coordinate in D without it
    exact: bool = True  # whether the block was found in all gradients, rather than around a place
    normal: bool = False  # whether one of around a place is exact at draws, too
    second: float = 0.0  # second largest part without a triangular map, in coordinates of the block

    @property
    def map_is_used(self) -> bool:
        """Whether any coordinate is mapped by a triangular map."""
        return len(self.straightening.coordinate) > 0

    @property
    def block_is_used(self) -> bool:
        """Whether there is a Gaussian block, whose map is never learned again."""
        return len(self.straightening.block) > 0

    def mean_distance(self, dim: int) -> float:
        """Return the mean of D over all coordinates of this number."""
        return self.distance * (1.0 - self.member_count / dim)

    @property
    def member_count(self) -> int:
        """Number of coordinates in the block."""
        return len(unpacked(self.straightening.block).block) if self.block_is_used else 0

    def members_aside(self, dim: int) -> np.ndarray:
        """Return the members of a block of which nothing more is learned, if there is one.

        They are too many, or nearly normal: their parts in D would hide those of the hubs.
        """
        if not self.block_is_used or (self.exact and dim <= MOST_COORDINATES):
            return np.empty(0, int)
        return unpacked(self.straightening.block).block.copy()

    def curvature(self, dim: int) -> float:
        """Return the D that fixed trajectories meet: without a map, or outside of a block."""
        return self.distance if len(self.members_aside(dim)) else self.distance_before

    def without_map(self) -> "Straightened":
        """Return the same without the triangular map."""
        return self._replace(straightening=no_map(self.straightening.block), groups=())


UNCHANGED = Straightened(no_map(), (), np.inf, np.inf)


def apply_map(
    straightening: TriangularMap, positions: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of positions and gradients in y, and the log Jacobian of each, shape (row,)."""
    positions, gradients = (np.array(rows, float, order="C") for rows in (positions, gradients))
    log_jacobians = np.zeros(len(positions))
    if as_python(is_used)(straightening):
        enter_rows(
            with_memory(straightening, positions.shape[1]), positions, gradients, log_jacobians
        )
    return positions, gradients, log_jacobians


def in_coordinates_of(straightening: TriangularMap, window: Window) -> Window:
    """Return a window in y, with the log density of y."""
    if not as_python(is_used)(straightening):
        return window
    shape = window.positions.shape
    rows = (values.reshape(-1, shape[2]) for values in (window.positions, window.gradients))
    positions, gradients, log_jacobians = apply_map(straightening, *rows)
    numbers = window.numbers.copy()
    numbers[:, :, LOG_DENSITY] += log_jacobians.reshape(shape[:2])
    return window._replace(
        positions=positions.reshape(shape), gradients=gradients.reshape(shape), numbers=numbers
    )


def distances(
    straightening: TriangularMap,
    learned: tuple[np.ndarray, np.ndarray],
    judged: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Return each coordinate's part of D, whose mean is D, on the judged draws.

    The metric is learned from the others; all have rows of shape (dim,).
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        x, g, _ = apply_map(straightening, *learned)
        metric = fisher_metric(x, g, np.ones(x.shape[1]))
        if metric.kind == "dense" and x.shape[1] <= LARGEST_COMPOSED:
            # once more in its coordinates: with the ridge of the first, powers of a calendar year
            # would be far from a Gaussian
            for _ in range(REPEATS):
                metric = composed_metric(metric, x, g)
        # of many directions that are learned from few draws, noise is no distance
        noise = metric.rank / len(x) if x.shape[1] > MANY else 0.0
        center, slope = x.mean(axis=0), g.mean(axis=0)
        x, g, _ = apply_map(straightening, *judged)
        w, b = metric.whiten(x - center, g - slope)
        found = np.nan_to_num(np.mean((w + b) ** 2, axis=0), nan=np.inf)
        return np.maximum(found - noise, 0.0) if noise else found


def parts_of(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return each coordinate's part of D of draws and gradients, shape (m, dim)."""
    judged = np.arange(len(x)) % 3 == 2
    return distances(no_map(), (x[~judged], g[~judged]), (x[judged], g[judged]))


def parts_with_scales(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the same with a metric of scales alone, which few draws show."""
    with np.errstate(all="ignore"):
        return parts_with(diagonal_metric(x, g, np.ones(x.shape[1])), x, g)


def parts_with(metric: FisherMetric, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the same with a metric."""
    with np.errstate(all="ignore"):
        w, b = metric.whiten(x - x.mean(axis=0), g - g.mean(axis=0))
        return np.nan_to_num(np.mean((w + b) ** 2, axis=0), nan=np.inf)


def distance_of(x: np.ndarray, g: np.ndarray) -> tuple[float, float]:
    """Return D of draws and gradients, shape (m, dim), and the largest part of a coordinate.

    That of many coordinates is the one with scales alone: few draws do not show correlations.
    """
    many = x.shape[1] > MOST_COORDINATES
    parts = parts_with_scales(x, g) if many else parts_of(x, g)
    return float(parts.mean()), float(parts.max())
