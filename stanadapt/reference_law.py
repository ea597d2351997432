"""The reference law p0: the normalised density at the hot end of a tempering path.

Between it and the target lie the densities target^b p0^(1 - b), b in [0, 1]. Since p0 is
normalised these are proper for every target (Hoelder: Z(b) <= Z(1)^b), which the pure power
target^b is not. It is a Gaussian or a multivariate Student t: both can be drawn from exactly.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from stanadapt import factor as factors
from stanadapt._jit import inlined, jit
from stanadapt.errors import StanadaptError
from stanadapt.metropolis import fill_normal, squared_norm, vector_sum

DEGREES, LOG_CONSTANT = 0, 1  # what Law.numbers holds
# below it, and above its inverse, 1 / sd^2 is infinite or 0
SMALLEST_SD = 1e-150


class Law(NamedTuple):
    """A reference law for compiled code; its arrays are updated in place.

    mean
        Shape (dim,).
    factor
        L of the scale matrix L L^T, stored as in `factor`.
    precision
        Of each parameter, 1 / L_ii^2: used where the factor is diagonal; shape (dim,).
    numbers
        Degrees of freedom, infinite for a Gaussian, and the log of the normalising constant.
    work
        Workspace, shape (dim,).

    """

    mean: np.ndarray
    factor: np.ndarray
    precision: np.ndarray
    numbers: np.ndarray
    work: np.ndarray


@jit
def make_law(mean, factor, degrees):
    """Return a Law over copies of mean and factor."""
    dim = mean.shape[0]
    law = Law(
        mean.copy(), factor.copy(), np.empty(dim), np.array([degrees, 0.0]), np.empty(dim)
    )  # fmt: skip
    normalise(law)
    return law


@jit
def law_of_helper(law):
    """Return the same law with work of its own."""
    return Law(law.mean, law.factor, law.precision, law.numbers, np.empty(law.mean.shape[0]))


@jit
def normalise(law):
    """Compute precisions and the constant anew, after a change of factor or degrees."""
    dim, degrees = law.mean.shape[0], law.numbers[DEGREES]
    log_constant = 0.0
    for i in range(dim):
        scale = law.factor[min(i, law.factor.shape[0] - 1), i]
        law.precision[i] = 1.0 / (scale * scale)
        log_constant -= np.log(scale)
    if degrees < np.inf:
        half = 0.5 * (degrees + dim)
        log_constant += math.lgamma(half) - math.lgamma(0.5 * degrees)
        log_constant -= 0.5 * dim * np.log(np.pi * degrees)
    else:
        log_constant -= 0.5 * dim * np.log(2.0 * np.pi)
    law.numbers[LOG_CONSTANT] = log_constant


@jit
def log_density(law, position):
    """Log of the normalised density at position, shape (dim,)."""
    degrees, square = law.numbers[DEGREES], _squared_distance(law, position)
    if degrees < np.inf:
        square = (degrees + law.mean.shape[0]) * np.log1p(square / degrees)
    return law.numbers[LOG_CONSTANT] - 0.5 * square


@inlined
def is_diagonal(law):
    """Whether the parameters are not correlated."""
    return law.factor.shape[0] < law.mean.shape[0]


@inlined
def log_density_and_gradient(law, position, gradient):
    """`log_density`, its gradient written into `gradient`, shape (dim,)."""
    degrees = law.numbers[DEGREES]
    square = _squared_distance(law, position)
    if is_diagonal(law):
        mean, precision = law.mean, law.precision
        for i in range(gradient.shape[0]):
            gradient[i] = (mean[i] - position[i]) * precision[i]
    else:
        factors.transposed_solve(law.factor, law.work, gradient)
        for i in range(gradient.shape[0]):
            gradient[i] = -gradient[i]
    if degrees < np.inf:
        total = degrees + law.mean.shape[0]
        shrinking = total / (degrees + square)
        square = total * np.log1p(square / degrees)
        for i in range(gradient.shape[0]):
            gradient[i] *= shrinking
    return law.numbers[LOG_CONSTANT] - 0.5 * square


@jit
def draw(law, out, rng):
    """Draw from the law into out, shape (dim,)."""
    fill_normal(rng, law.work)
    degrees, stretch = law.numbers[DEGREES], 1.0
    if degrees < np.inf:
        stretch = np.sqrt(degrees / rng.chisquare(degrees))
    factors.times(law.factor, law.work, out)
    for i in range(out.shape[0]):
        out[i] = law.mean[i] + stretch * out[i]


@inlined
def _squared_distance(law, position):
    """|z|^2 for z = L^-1 (position - mean), which a dense law leaves in law.work."""
    # by names of their own: looked up in a loop, they would keep it from being vectorised
    mean, precision, work = law.mean, law.precision, law.work
    if is_diagonal(law):
        for i in range(work.shape[0]):
            apart = position[i] - mean[i]
            work[i] = apart * apart * precision[i]
        return vector_sum(work, work.shape[0])
    for i in range(work.shape[0]):
        work[i] = position[i] - mean[i]
    factors.solve(law.factor, work, work)
    return squared_norm(work)


class ReferenceLaw:
    """A reference law of the user's own, on the unconstrained scale.

    Parameters
    ----------
    mean
        Shape (dim,).
    sd
        Standard deviations of a Gaussian (of a Student t: its scales), shape (dim,) or a number.
    covariance
        In place of sd: of a Gaussian (of a Student t: its scale matrix), shape (dim, dim).
    degrees
        Degrees of freedom of a multivariate Student t; infinite, the default, for a Gaussian.

    Raises
    ------
    StanadaptError
        Stage "settings" for what is no proper law.

    """

    def __init__(
        self, mean: Any, sd: Any = None, covariance: Any = None, degrees: float = math.inf
    ) -> None:
        self.mean = _numbers("mean", mean)
        if self.mean.ndim != 1 or self.mean.size == 0:
            raise _wrong(f"mean must have shape (dim,), got {self.mean.shape}.")
        if (sd is None) == (covariance is None):
            raise _wrong("give either sd or covariance.")
        if not isinstance(degrees, int | float) or not degrees > 0:
            raise _wrong(f"degrees must be a number above 0, or infinite, got {degrees!r}.")
        self.degrees = float(degrees)
        self.factor = self._diagonal(sd) if covariance is None else self._dense(covariance)

    def _diagonal(self, sd: Any) -> np.ndarray:
        found = _numbers("sd", sd)
        if found.shape not in ((), self.mean.shape) or not np.all(found > 0):
            raise _wrong(
                f"sd must be positive, a number or of shape {self.mean.shape}, got shape "
                f"{found.shape}, smallest {found.min(initial=np.inf):g}: the law would be improper."
            )
        if found.min() < SMALLEST_SD or found.max() > 1.0 / SMALLEST_SD:
            raise _wrong(
                f"sd must lie between {SMALLEST_SD:g} and {1.0 / SMALLEST_SD:g}, got "
                f"{found.min():g} to {found.max():g}: give the parameter another unit."
            )
        return np.broadcast_to(found, (1, self.mean.size)).copy()

    def _dense(self, covariance: Any) -> np.ndarray:
        found, shape = _numbers("covariance", covariance), 2 * self.mean.shape
        if found.shape != shape or not np.allclose(found, found.T):
            raise _wrong(f"covariance must be symmetric, of shape {shape}, got {found.shape}.")
        try:
            return np.linalg.cholesky(found)
        except np.linalg.LinAlgError:
            raise _wrong(
                "covariance must be positive definite, else the law is improper."
            ) from None

    def __repr__(self) -> str:
        kind = "Gaussian" if math.isinf(self.degrees) else f"Student t, {self.degrees:g} degrees"
        return f"ReferenceLaw({kind}, {self.mean.size} parameters)"

    def law(self, dim: int) -> Law:
        """Return it for compiled code; StanadaptError unless it has `dim` parameters."""
        if self.mean.size != dim:
            raise _wrong(
                f"the target has {dim} unconstrained parameters, but mean {self.mean.size}."
            )
        return make_law(self.mean, self.factor, self.degrees)


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise _wrong(f"{name} must be numbers, got {values!r}.") from None
    if not np.all(np.isfinite(found)):
        raise _wrong(f"{name} must be finite, got {values!r}.")
    return found


def _wrong(message: str) -> StanadaptError:
    return StanadaptError("settings", f"reference law: {message}")
