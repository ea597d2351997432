"""A Gaussian with the mean and covariance of draws."""

from stanadapt.engine.compiled import triangular
from stanadapt.engine.compiled.jit import jit

SMALLEST = 1e-300


@jit
def fit_to_draws(positions, location, factor):
    """Write mean and factor L of the covariance L L^T of draws, shape (draw, dim).

    Of shape (1, dim), the factor has the standard deviations alone. Correlations are shrunk, by a
    tenth with ten draws per parameter, so that L exists however few draws there are.
    """
    count, n = positions.shape
    for i in range(n):
        location[i] = positions[:, i].mean()
    share = count / (count + n)
    for i in range(n):
        for j in range(i + 1 if factor.shape[0] == n else 0):
            total = 0.0
            for k in range(count):
                total += (positions[k, i] - location[i]) * (positions[k, j] - location[j])
            factor[i, j] = (share if j < i else 1.0) * total / count
        variance = max(positions[:, i].var(), SMALLEST)
        if factor.shape[0] == n:
            factor[i, i] = variance
        else:
            factor[0, i] = variance**0.5
    if factor.shape[0] == n:
        triangular.cholesky(factor)
