"""The path from a Gaussian to the awkward target in numpy: exact moments, draws and constants.

The first coordinate is independent of the other two and is integrated on a grid; the others are
Gaussian at every temperature. Nothing here is shared with the package but the target's numbers.
"""

import numpy as np
from scipy import stats
from targets import MEAN, RHO, SCALES

MIDDLE, WIDE = np.array([1.0, 0.5, -4.0]), np.array([1.5, 0.7, 9.0])
_CORRELATION = np.array([[1.0, RHO], [RHO, 1.0]])
_PRECISION = np.linalg.inv(_CORRELATION * np.outer(SCALES, SCALES))
_GRID = np.linspace(-60.0, 20.0, 800_001)
# of the target: that of the first coordinate is Gamma(2) = 1
LOG_EVIDENCE = np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(_PRECISION)[1]


class Tempered:
    """target^b p0^(1 - b), p0 = N(MIDDLE, WIDE^2), behind a wall in the first coordinate."""

    def __init__(self, b, wall=np.inf):
        log_first = b * (2 * _GRID - np.exp(_GRID))
        log_first += (1 - b) * stats.norm(MIDDLE[0], WIDE[0]).logpdf(_GRID)
        mass = np.exp(log_first) * (wall >= _GRID)
        step = _GRID[1] - _GRID[0]
        self._distribution = np.cumsum(mass) / mass.sum()
        reference = np.diag(WIDE[1:] ** -2.0)
        precision = b * _PRECISION + (1 - b) * reference
        pull = b * _PRECISION @ MEAN[1:] + (1 - b) * reference @ MIDDLE[1:]
        middle = np.linalg.solve(precision, pull)
        log_reference = stats.norm(MIDDLE[1:], WIDE[1:]).logpdf(middle).sum()
        away = middle - MEAN[1:]
        self.log_z = np.log(mass.sum() * step) + np.log(2 * np.pi)
        self.log_z += (1 - b) * log_reference - 0.5 * b * away @ _PRECISION @ away
        self.log_z -= 0.5 * np.linalg.slogdet(precision)[1]
        covariance = np.linalg.inv(precision)
        self._root, self._middle = np.linalg.cholesky(covariance), middle
        first = np.sum(mass * _GRID) / mass.sum()
        self.mean = np.array([first, *middle])
        self.variance = np.array(
            [np.sum(mass * (_GRID - first) ** 2) / mass.sum(), *np.diag(covariance)]
        )
        self.covariance = covariance[0, 1]  # of the last two
        self.sd = np.sqrt(self.variance)

    def first_below(self, x):
        """Distribution function of the first coordinate."""
        return np.interp(x, _GRID, self._distribution)

    def draws(self, count, rng):
        """Draw exactly, shape (count, 3)."""
        first = np.interp(rng.random(count), self._distribution, _GRID)
        others = self._middle + rng.standard_normal((count, 2)) @ self._root.T
        return np.column_stack([first, others])


def surprises(x, law):
    """How many standard errors moments of independent draws x, shape (count, 3), are off."""
    away = x - law.mean
    columns = [*away.T, *(away**2 - law.variance).T, away[:, 1] * away[:, 2] - law.covariance]
    return np.array([c.mean() / c.std(ddof=1) * np.sqrt(len(c)) for c in columns])
