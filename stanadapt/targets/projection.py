"""Values that rounding has moved off their constraint, moved back onto it.

Stan wants constraints to hold to 1e-8. Draws saved with four bytes keep 1e-7 of their value, and
those that CmdStan writes have six digits.

Shapes are compared here, since the embedded backend only counts elements: of a transposed matrix it
makes another one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from stanio.reshape import Variable, VariableType

from stanadapt.results import element
from stanadapt.targets.stan.declarations import Declaration

# largest violation, relative to the scale of the values, that is taken as rounding
TOLERANCE = 1e-4
# relative distance of ordered values that rounding has made equal; least relative eigenvalue
GAP = 1e-8


class Violation(ValueError):
    """A value is further from its constraint than rounding explains."""


def project(declared: Sequence[Declaration], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of parameters, each on its constraint.

    Simplexes, stochastic matrices and vectors of sum zero are corrected in their sum, unit vectors
    and the rows of Cholesky factors of correlations in their length, matrices in their symmetry,
    diagonal and smallest eigenvalue, and ordered vectors with two equal elements. A violation
    above `TOLERANCE` raises Violation with variable, constraint and violation.
    """
    projected = dict(values)
    for one in declared:
        nearest, rank = NEAREST.get(one.base, (None, 0))
        if nearest is None or one.name not in values:
            continue
        given = np.asarray(values[one.name], dtype=float)
        if given.ndim < rank or not given.size:
            continue  # Stan's message is about shapes
        found = given.copy()
        for index in np.ndindex(given.shape[: given.ndim - rank]):
            found[index] = nearest(given[index])
            moved = np.abs(found[index] - given[index]).max()
            scale = np.abs(given[index]).max() or 1.0
            if not moved <= TOLERANCE * scale:
                label = element(one.name, index)
                raise Violation(
                    f"{label} is not a {one.base}: the nearest one differs by {moved:.3g}, of "
                    f"values up to {scale:.3g}; up to {TOLERANCE * scale:.3g} would be rounding"
                )
        projected[one.name] = found
    return projected


def _stochastic(x: np.ndarray) -> np.ndarray:
    positive = np.maximum(x, 0.0)
    return positive / positive.sum(axis=-1, keepdims=True)


def _centered(x: np.ndarray) -> np.ndarray:
    for axis in range(x.ndim):
        x = x - x.mean(axis=axis, keepdims=True)
    return x


def _ordered(x: np.ndarray) -> np.ndarray:
    out, gap = x.copy(), GAP * (np.abs(x).max() or 1.0)
    for i in range(1, x.size):
        if not out[i] > out[i - 1]:
            out[i] = out[i - 1] + gap
    return out


def _positive_ordered(x: np.ndarray) -> np.ndarray:
    least = GAP * (np.abs(x).max() or 1.0)
    return _ordered(np.append(x[0] if x[0] > 0 else least, x[1:]))


def _cholesky(x: np.ndarray) -> np.ndarray:
    out, diagonal = np.tril(x), np.arange(min(x.shape))
    least = GAP * (np.abs(x).max() or 1.0)
    out[diagonal, diagonal] = np.maximum(out[diagonal, diagonal], least)
    return out


def _cholesky_of_correlations(x: np.ndarray) -> np.ndarray:
    factor = _cholesky(x)
    return factor / np.linalg.norm(factor, axis=1, keepdims=True)


def _covariance(x: np.ndarray) -> np.ndarray:
    symmetric = (x + x.T) / 2.0
    if not np.isfinite(symmetric).all():
        return symmetric
    values, vectors = np.linalg.eigh(symmetric)
    least = GAP * np.abs(values).max()
    if values.min() >= least:
        return symmetric
    raised = (vectors * np.maximum(values, 2.0 * least)) @ vectors.T
    return (raised + raised.T) / 2.0


def _correlation(x: np.ndarray) -> np.ndarray:
    covariance = _covariance(x)
    scales = np.sqrt(np.diag(covariance))
    out = covariance / np.outer(scales, scales)
    np.fill_diagonal(out, 1.0)
    return out


# by type: the nearest value that satisfies the constraint, and the number of its dimensions
NEAREST: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "simplex": (_stochastic, 1),
    "unit_vector": (lambda x: x / np.linalg.norm(x), 1),
    "sum_to_zero_vector": (_centered, 1),
    "ordered": (_ordered, 1),
    "positive_ordered": (_positive_ordered, 1),
    "sum_to_zero_matrix": (_centered, 2),
    "row_stochastic_matrix": (_stochastic, 2),
    "column_stochastic_matrix": (lambda x: _stochastic(x.T).T, 2),
    "cholesky_factor_corr": (_cholesky_of_correlations, 2),
    "cholesky_factor_cov": (_cholesky, 2),
    "cov_matrix": (_covariance, 2),
    "corr_matrix": (_correlation, 2),
}


# --- shapes ---------------------------------------------------------------------------------------


def shapes_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return shapes by name; of a value without one, the reason."""
    return {name: _shape(value) for name, value in values.items()}


def _shape(value: Any) -> Any:
    try:
        return np.shape(value)
    except (TypeError, ValueError, RecursionError):
        return "none: it is not a number or array, or its lists differ in length or are too deep"


def wrong_shape(parameters: Mapping[str, Variable], shapes: Mapping[str, Any]) -> str:
    """Say which parameter has another shape than is declared; "" if none has."""
    for name, declared in parameters.items():
        # parts of complex numbers and tuples are left to Stan
        if name not in shapes or declared.type is not VariableType.SCALAR:
            continue
        if shapes[name] != declared.dimensions:
            return f"{name} must have shape {declared.dimensions}, got {shapes[name]}"
    return ""
