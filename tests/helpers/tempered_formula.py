"""The path from a Gaussian to the awkward target in NumPy: exact moments, draws and constants.

The first coordinate is independent of the other two and is integrated on a grid; the others are
Gaussian at every temperature. Only the target's parameters are shared with the package's side.
"""

import numpy as np
from scipy import stats

from tests.helpers.targets import MEAN, RHO, SCALES

REFERENCE_MEAN, REFERENCE_SD = np.array([1.0, 0.5, -4.0]), np.array([1.5, 0.7, 9.0])
_CORRELATION = np.array([[1.0, RHO], [RHO, 1.0]])
_PRECISION = np.linalg.inv(_CORRELATION * np.outer(SCALES, SCALES))
_GRID = np.linspace(-60.0, 20.0, 800_001)
# log evidence of the target; its first coordinate contributes Gamma(2) = 1
LOG_EVIDENCE = np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(_PRECISION)[1]


class TemperedDistribution:
    """target^b p0^(1 - b), p0 = N(REFERENCE_MEAN, REFERENCE_SD^2), with a wall in x[0]."""

    def __init__(self, b, wall=np.inf):
        log_first = b * (2 * _GRID - np.exp(_GRID))
        log_first += (1 - b) * stats.norm(REFERENCE_MEAN[0], REFERENCE_SD[0]).logpdf(_GRID)
        mass = np.exp(log_first) * (wall >= _GRID)
        step = _GRID[1] - _GRID[0]
        self._cdf = np.cumsum(mass) / mass.sum()
        reference = np.diag(REFERENCE_SD[1:] ** -2.0)
        precision = b * _PRECISION + (1 - b) * reference
        pull = b * _PRECISION @ MEAN[1:] + (1 - b) * reference @ REFERENCE_MEAN[1:]
        center = np.linalg.solve(precision, pull)
        log_reference = stats.norm(REFERENCE_MEAN[1:], REFERENCE_SD[1:]).logpdf(center).sum()
        difference = center - MEAN[1:]
        self.log_z = np.log(mass.sum() * step) + np.log(2 * np.pi)
        self.log_z += (1 - b) * log_reference - 0.5 * b * difference @ _PRECISION @ difference
        self.log_z -= 0.5 * np.linalg.slogdet(precision)[1]
        covariance = np.linalg.inv(precision)
        self._root, self._center = np.linalg.cholesky(covariance), center
        first = np.sum(mass * _GRID) / mass.sum()
        self.mean = np.array([first, *center])
        self.variance = np.array(
            [np.sum(mass * (_GRID - first) ** 2) / mass.sum(), *np.diag(covariance)]
        )
        self.covariance = covariance[0, 1]  # of the last two coordinates
        self.sd = np.sqrt(self.variance)

    def first_cdf(self, x):
        """Distribution function of the first coordinate."""
        return np.interp(x, _GRID, self._cdf)

    def draws(self, count, rng):
        """Draw exactly, shape (count, 3)."""
        first = np.interp(rng.random(count), self._cdf, _GRID)
        others = self._center + rng.standard_normal((count, 2)) @ self._root.T
        return np.column_stack([first, others])


def exact_draws(count, levels, seed=1):
    """Draw exactly at each inverse temperature, shape (count, level, 3)."""
    rng = np.random.default_rng(seed)
    return np.stack([TemperedDistribution(b).draws(count, rng) for b in levels], axis=1)


def log_target(x):
    """Log density of the target at positions of shape (..., 3), without its constant."""
    a, b = (x[..., 1] - 1.0) / 0.3, (x[..., 2] + 2.0) / 4.0
    return 2 * x[..., 0] - np.exp(x[..., 0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)


def log_ratios(x):
    """Delta, the log density ratio of target and reference, of draws of shape (..., 3)."""
    z = (x - REFERENCE_MEAN) / REFERENCE_SD
    log_scale = np.log(REFERENCE_SD).sum()
    log_reference = -0.5 * (z**2).sum(axis=-1) - log_scale - 1.5 * np.log(2 * np.pi)
    return log_target(x) - log_reference


def standard_errors_off(x, exact):
    """Errors of seven moments of independent draws x, shape (count, 3), in standard errors."""
    deviation = x - exact.mean
    columns = [
        *deviation.T,
        *(deviation**2 - exact.variance).T,
        deviation[:, 1] * deviation[:, 2] - exact.covariance,
    ]
    return np.array([c.mean() / c.std(ddof=1) * np.sqrt(len(c)) for c in columns])
