"""Where chains start with `inits="pathfinder"`: at draws of Pathfinder's approximation."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stanadapt.errors import StanadaptError, warn
from stanadapt.samplers.variational import pathfinder
from stanadapt.samplers.variational.methods import PathfinderSettings
from stanadapt.samplers.whitened.fisher_metric import one_blas_thread
from stanadapt.targets.target import Target

PATHFINDER = "pathfinder"
TRIES = 25


def pathfinder_positions(
    target: Target, starts: list[np.ndarray], rngs: Sequence[np.random.Generator]
) -> list[np.ndarray]:
    """Return a position for every chain: a draw of the Gaussian found by a climb of its own.

    Chains share nothing, so that their disagreement still tells of modes and of warm-ups that are
    too short. Where a climb finds nothing, the chain starts where the climb did, with a warning.

    Parameters
    ----------
    target
        The program, whose density must have a gradient.
    starts, rngs
        One per chain: where its climb starts, and its randomness.

    """
    if target.noise:
        raise StanadaptError(
            "initialisation",
            f"inits='{PATHFINDER}' follows gradients, but the density of {target.name} is an "
            f"estimate with noise {', '.join(target.noise)}: give other inits.",
        )
    settings = PathfinderSettings()._asdict()
    del settings["paths"]

    def position(i: int) -> np.ndarray | None:
        found = pathfinder.find(target.density(i), starts[i], rngs[i], **settings)
        if found.best is None:
            return None
        for _ in range(TRIES):
            drawn = found.best.draw(rngs[i], 1)[0]
            value, gradient, _ = target.evaluate(drawn)
            if np.isfinite(value) and np.isfinite(gradient).all():
                return drawn
        return None

    with one_blas_thread(), ThreadPoolExecutor() as pool:
        found = list(pool.map(position, range(len(starts))))
    lost = [str(i + 1) for i, drawn in enumerate(found) if drawn is None]
    if lost:
        warn(
            f"Pathfinder found no starting point for chain {', '.join(lost)} of {target.name}: it "
            "starts at random."
        )
    return [start if drawn is None else drawn for start, drawn in zip(starts, found, strict=True)]
