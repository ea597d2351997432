"""The awkward target of `stanadapt.engine.checks`, on which most tests run; exact draws from it."""

import numpy as np

from stanadapt.engine.checks import MEAN, RHO, SCALES, SD, SHAPE, Awkward, starts

__all__ = ["MEAN", "RHO", "SCALES", "SD", "SHAPE", "Awkward", "starts"]


def exact_draws(count, rng):
    """Draw exactly, shape (count, 3)."""
    normal = rng.standard_normal((count, 2))
    draws = np.empty((count, 3))
    draws[:, 0] = np.log(rng.gamma(SHAPE, size=count))
    draws[:, 1] = MEAN[1] + SD[1] * normal[:, 0]
    draws[:, 2] = MEAN[2] + SD[2] * (0.7 * normal[:, 0] + np.sqrt(0.51) * normal[:, 1])
    return draws


def features(draws):
    """Fifteen functions of draws, whose means show where the mass is."""
    z = (draws - MEAN) / SD
    return np.column_stack(
        [z, z**2, z[:, 0] ** 3, z[:, 1] * z[:, 2], z[:, 0] * z[:, 1], np.abs(z) < 0.3, z > 1.0]
    )


def paired_surprises(functions, ends, starts):
    """Return changes of means from starts to ends, in paired standard errors, and those errors."""
    change = functions(ends) - functions(starts)
    error = change.std(axis=0) / np.sqrt(len(starts))
    return np.abs(change.mean(axis=0)) / error, error
