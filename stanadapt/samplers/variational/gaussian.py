"""A Gaussian on the unconstrained scale: N(m, L L^T), and log densities at many positions."""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import Density, value
from stanadapt.engine.standardized_density import original

LOG_2PI = float(np.log(2.0 * np.pi))


class Gaussian(NamedTuple):
    """Mean m, shape (dim,), and factor L, stored as in `metric_factor`.

    L has shape (1, dim) if diagonal, (dim, dim) if lower triangular, or (1 + r, dim + 1) if of low
    rank.
    """

    location: np.ndarray
    factor: np.ndarray

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.location)

    def matrix(self) -> np.ndarray:
        """Return L as a matrix, shape (dim, dim)."""
        return metric_factor.transposed_times_rows(self.factor, np.eye(self.dim))

    def triangle(self) -> np.ndarray:
        """Return the lower triangular factor of the covariance, shape (dim, dim)."""
        if self.factor.shape[1] == self.dim and len(self.factor) == self.dim:
            return np.tril(self.factor)
        upper = np.linalg.qr(self.matrix().T, mode="r")  # L L^T = R^T R
        return np.ascontiguousarray(upper.T * np.where(np.diag(upper) < 0.0, -1.0, 1.0))

    def covariance(self) -> np.ndarray:
        """Return L L^T, shape (dim, dim)."""
        matrix = self.matrix()
        return matrix @ matrix.T

    def sd(self) -> np.ndarray:
        """Return standard deviations, shape (dim,), without a matrix if L is of low rank."""
        n, factor = self.dim, self.factor
        if len(factor) == 1:
            return factor[0].copy()
        if factor.shape[1] == n:
            return np.sqrt(np.sum(np.tril(factor) ** 2, axis=1))
        amounts, directions = factor[1:, n], factor[1:, :n]
        return factor[0, :n] * np.sqrt(1.0 + (amounts * (2.0 + amounts)) @ directions**2)

    @property
    def log_volume(self) -> float:
        """Log of det L."""
        return float(np.log(metric_factor.diagonal(self.factor, self.dim)).sum())

    @property
    def entropy(self) -> float:
        """-E log q."""
        return 0.5 * self.dim * (1.0 + LOG_2PI) + self.log_volume

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return draws, shape (count, dim)."""
        return self.place(rng.standard_normal((count, self.dim)))

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Return positions m + L z for rows z, shape (row, dim)."""
        out = np.empty_like(rows)
        original(self.location, self.factor, rows, out)
        return out

    def log_density(self, positions: np.ndarray) -> np.ndarray:
        """Return the normalized log density at rows of positions, shape (row,)."""
        z = metric_factor.inverse_times_rows(self.factor, positions - self.location)
        return -0.5 * (np.sum(z**2, axis=1) + self.dim * LOG_2PI) - self.log_volume


@jit
def _values(density, positions, out):
    for i in range(positions.shape[0]):
        out[i] = value(density, positions[i])


def log_densities(density: Density, positions: np.ndarray) -> np.ndarray:
    """Return the log density at rows of positions, shape (row,); -inf if it fails."""
    out = np.empty(len(positions))
    _values(density, np.ascontiguousarray(positions), out)
    return out
