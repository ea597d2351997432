"""Control variates of the draws of a run, which `expectations` and the stopping rule use."""

from collections.abc import Mapping

import numpy as np

from stanadapt.diagnostics.control_variates.estimates import Draws, expectations_of
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.errors import Message
from stanadapt.samplers.whitened.straighten import straighten
from stanadapt.samplers.whitened.straightened import UNCHANGED, apply_map

# draws from which a map is learned that straightens the posterior, and the distance from a Gaussian
# from which one is looked for: as in `diagnose`
MAP_DRAWS, FAR = 600, 0.3


def controlled_draws(
    positions: np.ndarray, gradients: np.ndarray, weights: np.ndarray | None = None
) -> tuple[Draws, list[Message]]:
    """Make control variates, in straightened coordinates if a map is found for them.

    Positions and gradients are unconstrained, shape (chain, draw, dim), weights those of the draws
    of an approximation, shape (chain, draw).
    """
    shape, remarks = positions.shape, []
    rows = np.linspace(0, shape[0] * shape[1] - 1, min(shape[0] * shape[1], MAP_DRAWS))
    x, g = (values.reshape(-1, shape[2]) for values in (positions, gradients))
    with one_blas_thread(), np.errstate(all="ignore"):  # sums do not depend on the threads
        some = rows.round().astype(int)
        found = straighten(x[some], g[some], UNCHANGED, FAR)
        if found.map_is_used:
            x, g, _ = apply_map(found.straightening, x, g)
            text = (
                "in coordinates of a map that straightens the posterior: its distance from a "
                f"Gaussian is {found.distance_before:.2g} without it and {found.distance:.2g} with "
                "it."
            )
            remarks.append(Message("straightened_expectations", text))
        draws = Draws(x.reshape(shape), g.reshape(shape), weights)
    if not draws.usable:
        remarks.append(Message("no_control", f"no control variates: {draws.doubt}."))
    return draws, remarks


def worst_mean(
    positions: np.ndarray, gradients: np.ndarray, columns: Mapping[str, np.ndarray]
) -> tuple[str, float]:
    """Return the quantity with the largest standard error of its mean, in standard deviations.

    `columns` are quantities that vary, shape (chain, draw). Infinite if the error is unknown.
    """
    draws, _ = controlled_draws(positions, gradients)
    with one_blas_thread(), np.errstate(all="ignore"):
        errors = expectations_of(draws, columns).error
        relative = errors / np.array([x.std() for x in columns.values()])
    relative = np.where(np.isfinite(relative), relative, np.inf)
    worst = int(np.argmax(relative))
    return list(columns)[worst], float(relative[worst])
