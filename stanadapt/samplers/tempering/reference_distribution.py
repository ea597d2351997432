"""The reference distribution p0: the normalized density at the hot end of a tempering path.

Between it and the target lie the densities target^b p0^(1 - b), b in [0, 1]. Since p0 is
normalized, these are proper for every target (Hoelder: Z(b) <= Z(1)^b), unlike the pure powers
target^b. It is a Gaussian or a multivariate Student t: both can be sampled exactly.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.elementwise import logs
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm, vector_sum
from stanadapt.engine.wrapped_density import Matrix, Vector
from stanadapt.errors import StanadaptError, is_real

DEGREES, LOG_CONSTANT = 0, 1  # entries of CompiledReference.numbers
# below this, or above its inverse, 1 / sd^2 may be infinite or 0
SMALLEST_SD = 1e-150


class CompiledReference(NamedTuple):
    """A reference distribution for compiled code; its arrays are updated in place."""

    mean: Vector  # shape (dim,)
    factor: Matrix  # L of the scale matrix L L^T, stored as in `engine/numerics/triangular`
    precision: Vector  # 1 / L_ii^2 of each parameter, used if the factor is diagonal; shape (dim,)
    # DEGREES of freedom, infinite for a Gaussian; LOG_CONSTANT, the log of the density at the mean
    numbers: Vector
    work: Vector  # workspace, shape (dim,)


def no_reference() -> CompiledReference:
    """Return a reference without parameters, which is never evaluated."""
    none = np.empty(0)
    return CompiledReference(none, np.empty((0, 0)), none, none, none)


def make_reference(mean: np.ndarray, factor: np.ndarray, degrees: float) -> CompiledReference:
    """Return a CompiledReference with copies of mean and factor."""
    dim = mean.shape[0]
    reference = CompiledReference(
        mean.copy(), factor.copy(), np.empty(dim), np.array([degrees, 0.0]), np.empty(dim)
    )  # fmt: skip
    normalize(reference)
    return reference


@jit
def reference_of_worker(reference):
    """Return the same reference with its own workspace."""
    return replace(reference, work=np.empty(reference.mean.shape[0]))


def scales(reference: CompiledReference) -> np.ndarray:
    """Return the diagonal of the factor, shape (dim,)."""
    factor = reference.factor
    return factor[0] if len(factor) < len(reference.mean) else np.diagonal(factor)


def normalize(reference: CompiledReference) -> None:
    """Recompute precisions and the constant after a change of factor or degrees."""
    dim, degrees, diagonal = len(reference.mean), reference.numbers[DEGREES], scales(reference)
    reference.precision[:] = 1.0 / (diagonal * diagonal)
    log_constant = np.subtract.accumulate([0.0, *logs(diagonal)])[-1]
    if degrees < np.inf:
        half = 0.5 * (degrees + dim)
        log_constant += math.lgamma(half) - math.lgamma(0.5 * degrees)
        log_constant -= 0.5 * dim * math.log(np.pi * degrees)
    else:
        log_constant -= 0.5 * dim * math.log(2.0 * np.pi)
    reference.numbers[LOG_CONSTANT] = log_constant


@jit
def log_density(reference, position):
    """Log of the normalized density at position, shape (dim,)."""
    degrees, square = reference.numbers[DEGREES], _squared_distance(reference, position)
    if degrees < np.inf:
        square = (degrees + reference.mean.shape[0]) * np.log1p(square / degrees)
    return reference.numbers[LOG_CONSTANT] - 0.5 * square


@inline
def is_diagonal(reference):
    return reference.factor.shape[0] < reference.mean.shape[0]


@inline
def log_density_and_gradient(reference, position, gradient):
    """`log_density`; its gradient is written into `gradient`, shape (dim,)."""
    degrees = reference.numbers[DEGREES]
    square = _squared_distance(reference, position)
    if is_diagonal(reference):
        mean, precision = reference.mean, reference.precision
        for i in range(gradient.shape[0]):
            gradient[i] = (mean[i] - position[i]) * precision[i]
    else:
        factors.transposed_solve(reference.factor, reference.work, gradient)
        for i in range(gradient.shape[0]):
            gradient[i] = -gradient[i]
    if degrees < np.inf:
        total = degrees + reference.mean.shape[0]
        shrinkage = total / (degrees + square)
        square = total * np.log1p(square / degrees)
        for i in range(gradient.shape[0]):
            gradient[i] *= shrinkage
    return reference.numbers[LOG_CONSTANT] - 0.5 * square


@jit
def draw(reference, out, rng):
    """Draw from the reference into out, shape (dim,)."""
    fill_normal(rng, reference.work)
    degrees, stretch = reference.numbers[DEGREES], 1.0
    if degrees < np.inf:
        stretch = np.sqrt(degrees / rng.chisquare(degrees))
    factors.times(reference.factor, reference.work, out)
    for i in range(out.shape[0]):
        out[i] = reference.mean[i] + stretch * out[i]


@inline
def _squared_distance(reference, position):
    """|z|^2 for z = L^-1 (position - mean); a dense factor leaves z in reference.work."""
    # local names: attribute lookups inside the loop would keep it from being vectorized
    mean, precision, work = reference.mean, reference.precision, reference.work
    if is_diagonal(reference):
        for i in range(work.shape[0]):
            difference = position[i] - mean[i]
            work[i] = difference * difference * precision[i]
        return vector_sum(work, work.shape[0])
    for i in range(work.shape[0]):
        work[i] = position[i] - mean[i]
    factors.solve(reference.factor, work, work)
    return squared_norm(work)


class ReferenceDistribution:
    """A reference distribution chosen by the user, on the unconstrained scale.

    Parameters
    ----------
    mean : array_like
        Mean, shape (dim,).
    sd : float or array_like, optional
        Standard deviations of a Gaussian (scales of a Student t), shape (dim,) or one number.
    covariance : array_like, optional
        Instead of sd: covariance of a Gaussian (scale matrix of a Student t), shape (dim, dim).
    degrees : float
        Degrees of freedom of a multivariate Student t; infinite, the default, for a Gaussian.

    Raises
    ------
    StanadaptError
        Stage "settings" for values that do not define a proper distribution.

    Examples
    --------
    >>> from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
    >>> ReferenceDistribution(mean=[0.0, 1.0], sd=3.0)
    ReferenceDistribution(Gaussian, 2 parameters)
    >>> ReferenceDistribution([0.0], sd=2.0, degrees=5)
    ReferenceDistribution(Student t, 5 degrees, 1 parameters)
    """

    def __init__(
        self, mean: Any, sd: Any = None, covariance: Any = None, degrees: float = math.inf
    ) -> None:
        self.mean = _numbers("mean", mean)
        if self.mean.ndim != 1 or self.mean.size == 0:
            raise _invalid(f"mean must have shape (dim,), got {self.mean.shape}.")
        if (sd is None) == (covariance is None):
            raise _invalid("give either sd or covariance.")
        if not is_real(degrees) or not degrees > 0:
            raise _invalid(f"degrees must be a number above 0, or infinite, got {degrees!r}.")
        self.degrees = float(degrees)
        self.factor = self._diagonal(sd) if covariance is None else self._dense(covariance)

    def _diagonal(self, sd: Any) -> np.ndarray:
        scales = _numbers("sd", sd)
        if scales.shape not in ((), self.mean.shape) or not np.all(scales > 0):
            raise _invalid(
                f"sd must be positive, and one number or of shape {self.mean.shape}, got shape "
                f"{scales.shape}, smallest {scales.min(initial=np.inf):g}: it would be improper."
            )
        if scales.min() < SMALLEST_SD or scales.max() > 1.0 / SMALLEST_SD:
            raise _invalid(
                f"sd must lie between {SMALLEST_SD:g} and {1.0 / SMALLEST_SD:g}, got "
                f"{scales.min():g} to {scales.max():g}: rescale the parameter."
            )
        return np.broadcast_to(scales, (1, self.mean.size)).copy()

    def _dense(self, covariance: Any) -> np.ndarray:
        matrix, shape = _numbers("covariance", covariance), 2 * self.mean.shape
        if matrix.shape != shape or not np.allclose(matrix, matrix.T):
            raise _invalid(
                f"covariance must be symmetric, of shape {shape}, got shape {matrix.shape}."
            )
        try:
            return np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise _invalid(
                "covariance must be positive definite: otherwise it is improper."
            ) from None

    def __repr__(self) -> str:
        kind = "Gaussian" if math.isinf(self.degrees) else f"Student t, {self.degrees:g} degrees"
        return f"ReferenceDistribution({kind}, {self.mean.size} parameters)"

    def compiled(self, dim: int) -> CompiledReference:
        """Return a copy for compiled code; StanadaptError unless it has `dim` parameters."""
        if self.mean.size != dim:
            raise _invalid(
                f"the target has {dim} unconstrained parameters, but mean has {self.mean.size}.",
                "reference_size",
            )
        return make_reference(self.mean, self.factor, self.degrees)


def recorded_reference(group: Any) -> ReferenceDistribution:
    """Return the reference in the group `tempering` of a fit, of one chain."""
    name = "covariance" if "reference_covariance" in group else "sd"
    spread: dict[str, Any] = {name: group[f"reference_{name}"].values}
    degrees = float(group["reference_degrees"]) if "reference_degrees" in group else math.inf
    return ReferenceDistribution(group["reference_mean"].values, degrees=degrees, **spread)


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise _invalid(f"{name} must be numbers, got {values!r}.") from None
    if not np.all(np.isfinite(array)):
        raise _invalid(f"{name} must be finite, got {values!r}.")
    return array


def _invalid(message: str, code: str = "invalid_reference") -> StanadaptError:
    return StanadaptError(code, f"reference distribution: {message}")
