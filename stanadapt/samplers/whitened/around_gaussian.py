"""Trajectories around the Gaussian that was learned, with many parameters.

The energy errors of all parameters add up, and most of them are those of a Gaussian, which
`leapfrog.move` does not make.
"""

from typing import Any

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.leapfrog import Around
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.triangular_map import is_used
from stanadapt.samplers.whitened.fisher_metric import MANY, FisherMetric
from stanadapt.samplers.whitened.straightened import Straightened, apply_map
from stanadapt.samplers.whitened.window import Window

# NUTS does so if this share of squared forces remains at most: all of it remains for leapfrogs.
# It is tuned to an acceptance rate of at least TARGET: with shorter steps, its trees are hardly
# deeper, and fewer trajectories diverge.
MOST_UNEXPLAINED, TARGET = 0.03, 0.9
# its longest step: four points then pass through more than half a turn
LONGEST_TURN = 1.2


def nowhere(dim: int, members_aside: bool = False) -> Around | None:
    """Return an Around of trajectories that move around no Gaussian; None if they never do.

    Code without rotations, for None, is compiled in less time; it depends on the type.
    """
    possible = dim > MANY or members_aside
    return Around(*(np.empty(0) for _ in Around._fields)) if possible else None


def around_mean(
    metric: FisherMetric, location: np.ndarray, straightened: Straightened, state: Any
) -> Any:
    """Let trajectories of a chain move around N(location, metric), if there are many parameters.

    With a Gaussian block, that is the one of the coordinates in which its members are normal.
    """
    position, dim = state.current.position, len(location)
    straightening = straightened.straightening
    if len(straightened.members_aside(dim)):
        rows = position[None], state.current.gradient[None]
        position = apply_map(straightening, *rows)[0][0]
    elif dim <= MANY or as_python(is_used)(straightening):
        return state
    here = metric_factor.inverse_times_rows(metric.factor, (position[:dim] - location)[None])[0]
    around = Around(location.copy(), np.ascontiguousarray(here), np.empty(dim))
    return state._replace(around=around)


def unexplained(metric: FisherMetric, location: np.ndarray, window: Window) -> float:
    """Return the share of squared whitened forces that N(location, metric) does not explain.

    Infinite up to MANY parameters, where trajectories do not move around it.
    """
    positions, gradients = window.pooled
    if len(location) <= MANY:
        return np.inf
    with one_blas_thread(), np.errstate(all="ignore"):
        force = metric.slopes(gradients)
        rest = force + metric.whitened(positions - location)
        share = float(np.square(rest).sum() / np.square(force).sum())
    return share if np.isfinite(share) else np.inf
