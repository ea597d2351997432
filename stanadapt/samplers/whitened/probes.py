"""Gradients at places that a chain is given during warm-up: it computes them beside its moves.

What is learned from them does not depend on where chains move, and their moves stay the same.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.density import Density
from stanadapt.samplers.whitened.climb import evaluate


class Probes(NamedTuple):
    """Positions and gradients, shape (row, 2, dim): nan where these are due, inf where they failed.

    A tuple, so that the loop, which does not use it, passes an address.
    """

    rows: np.ndarray


NO_PROBES = Probes(np.empty((0, 2, 0)))


def probe_if_due(density: Density, state: Any) -> Any:
    """Compute the gradients at the places that a chain was given, if there are any."""
    places = state.probes.rows
    due = np.flatnonzero(np.isnan(places[:, 1, :1]).all(axis=1)) if len(places) else ()
    with np.errstate(all="ignore"):
        for row in due:
            log_density, gradient = evaluate(density, np.ascontiguousarray(places[row, 0]))
            known = log_density > -np.inf and np.isfinite(gradient).all()
            places[row, 1] = gradient if known else np.inf
    return state
