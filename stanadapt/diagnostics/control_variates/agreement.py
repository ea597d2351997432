"""Whether chains agree after control variates: a sharper test than R-hat.

The mean of the residuals of a function estimates its expectation, with a much smaller variance;
chains that have converged have the same mean of them. The sum of squared differences of the
chains' means from their common mean, in standard errors, is about chi-squared distributed, with
one degree of freedom less than there are chains. What gradients correct, such as a chain that has
not quite reached its mode, is not seen; other weights of modes are.

A file of its own, since the checks of draws know nothing of control variates.
"""

from collections.abc import Mapping

import numpy as np
from scipy.special import chdtrc

from stanadapt.diagnostics.control_variates.estimates import Draws
from stanadapt.engine.one_blas_thread import one_blas_thread

MOST = 100  # quantities that are examined


def disagreement(
    positions: np.ndarray, gradients: np.ndarray, columns: Mapping[str, np.ndarray]
) -> tuple[str, float, float]:
    """Return the quantity in which chains differ most, by how many errors, and the p-value.

    The p-value is that of the worst of all quantities that control variates help. Without one, it
    is 1.

    Parameters
    ----------
    positions, gradients
        On the unconstrained scale, shape (chain, draw, dim).
    columns
        Quantities that vary, shape (chain, draw).
    """
    chains = len(positions)
    names = list(columns)
    names = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, MOST).astype(int))]
    if chains < 2 or not names:
        return "", 0.0, 1.0
    with one_blas_thread(), np.errstate(all="ignore"):
        draws = Draws(positions, gradients)
        ((_, batch),) = draws.batches({name: columns[name] for name in names})
        found = batch.expectations(batch.x, apart=True)
        means = found.residuals.reshape(chains, -1, len(names)).mean(axis=1)
        differences = (means - found.mean) / np.sqrt(chains * found.variance)
        p = chdtrc(chains - 1, (differences**2).sum(axis=0))
    p = np.where((found.order > 0) & np.isfinite(p), p, np.inf)
    worst = int(np.argmin(p))
    p_value = min(float(p[worst] * (found.order > 0).sum()), 1.0)
    return names[worst], float(np.abs(differences[:, worst]).max()), p_value
