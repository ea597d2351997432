"""The operations in random programs: the text of each in Stan, and its computation in numpy.

Values are complex, with the directions of the derivative as last axis (`random_syntax`), so
every function here is analytic or uses real parts only to choose a branch.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from tests.fuzz.random_syntax import Form, first, integer


def _inv_logit(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def _larger(p: Any, q: Any) -> Any:
    return np.where(np.real(p) > np.real(q), p, q)


def _log_sum_exp(v: np.ndarray) -> np.ndarray:
    shift = np.max(v.real)
    return shift + np.log(np.sum(np.exp(v - shift), axis=0))


def _log_mix(weight: Any, p: Any, q: Any) -> Any:
    shift = max(first(p), first(q))
    return shift + np.log(weight * np.exp(p - shift) + (1 - weight) * np.exp(q - shift))


def _product(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.sum(matrix * vector, axis=1)


def _dot(v: Any, w: Any) -> Any:
    return np.sum(v * w, axis=0)


def _normal(y: Any, location: Any, scale: Any) -> Any:
    return -0.5 * np.square((y - location) / scale) - np.log(scale) - 0.5 * np.log(2 * np.pi)


def _cauchy(y: Any, location: Any, scale: Any) -> Any:
    return -np.log1p(np.square((y - location) / scale)) - np.log(scale) - np.log(np.pi)


def _logistic(y: Any, location: Any, scale: Any) -> Any:
    z = (y - location) / scale
    return -z - np.log(scale) - 2 * np.log1p(np.exp(-z))


def _student_t(y: Any, freedom: float, location: Any, scale: Any) -> Any:
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi)
    squares = np.square((y - location) / scale)
    return constant - np.log(scale) - (freedom + 1) / 2 * np.log1p(squares / freedom)


def _poisson_log(count: Any, logarithm: Any) -> Any:
    return count * logarithm - np.exp(logarithm) - gammaln(np.real(count) + 1)


def _bernoulli_logit(outcome: Any, logit: Any) -> Any:
    return outcome * logit - np.log1p(np.exp(logit))


TANH = Form("tanh({0})", np.tanh)
NEGATIVE = Form("-{0}", np.negative)
ADD = Form("({0} + {1})", np.add)
SUBTRACT = Form("({0} - {1})", np.subtract)
SCALE = Form("({0} * {1})", np.multiply)

# of numbers and of vectors; the values of BOUNDED are between -1 and 1
UNARY = (
    Form("log1p(square({0}))", lambda z: np.log1p(z * z)),
    Form("sqrt(1 + square({0}))", lambda z: np.sqrt(1 + z * z)),
    Form("atan({0})", np.arctan),
)
BOUNDED = (
    TANH,
    Form("sin({0})", np.sin),
    Form("inv_logit({0})", _inv_logit),
    Form("exp(-square({0}))", lambda z: np.exp(-z * z)),
    Form("square(tanh({0}))", lambda z: np.square(np.tanh(z))),
)
# positive and bounded away from zero, for the scales of densities
POSITIVE = (
    Form("exp(0.5 * tanh({0}))", lambda z: np.exp(0.5 * np.tanh(z))),
    Form("(0.7 + square({0}))", lambda z: 0.7 + z * z),
    Form("sqrt(1 + square({0}))", lambda z: np.sqrt(1 + z * z)),
)
SMALL = Form("(0.3 * tanh({0}))", lambda z: 0.3 * np.tanh(z))
EXP = Form("exp({0})", np.exp)

SCALAR_BINARY = (
    ADD, ADD, SUBTRACT, SCALE, SCALE,
    Form("({0} / (1.5 + square({1})))", lambda p, q: p / (1.5 + q * q)),
    Form("fmax({0}, {1})", _larger),
    Form("(tanh({0})^3 + {1})", lambda p, q: np.tanh(p) * np.square(np.tanh(p)) + q),
)  # fmt: skip
VECTOR_UNARY = (
    Form("cumulative_sum({0})", lambda v: np.cumsum(v, axis=0)),
    Form("reverse({0})", lambda v: v[::-1]),
    Form("log_softmax({0})", lambda v: v - _log_sum_exp(v)),
    Form("softmax({0})", lambda v: np.exp(v - _log_sum_exp(v))),
)
VECTOR_BINARY = (
    ADD,
    SUBTRACT,
    Form("({0} .* {1})", np.multiply),
    Form("({0} ./ (1.5 + square({1})))", lambda p, q: p / (1.5 + q * q)),
)
# of a number and a vector
MIXED = (SCALE, ADD, Form("({1} - {0})", lambda p, v: v - p))
REDUCTIONS = (
    Form("sum({0})", lambda v: np.sum(v, axis=0)),
    Form("mean({0})", lambda v: np.mean(v, axis=0)),
    Form("log_sum_exp({0})", _log_sum_exp),
    Form("dot_self(tanh({0}))", lambda v: np.sum(np.square(np.tanh(v)), axis=0)),
)
DOT = Form("dot_product({0}, {1})", _dot)
PRODUCT = Form("({0} * {1})", _product)
ROWS_DOT = Form("rows_dot_product({0}, {1})", lambda p, q: np.sum(p * q, axis=1))
COLUMN = Form("col({0}, {1})", lambda matrix, j: matrix[:, integer(j) - 1])
TO_VECTOR = Form("to_vector({0})", lambda v: v)
TO_ARRAY = Form("to_array_1d({0})", lambda v: v)
TRANSPOSED = Form("({0})'", lambda v: v)  # row and column vectors have the same shape here
LOG_MIX = Form("log_mix(inv_logit({0}), {1}, {2})", lambda w, p, q: _log_mix(_inv_logit(w), p, q))

# of integers; indices are Python numbers
BEFORE = Form("{0} - 1", lambda i: i - 1)
ABOVE = Form("{0} > {1}", lambda p, q: first(p) > first(q))
LESS = Form("{0} < {1}", lambda p, q: first(p) < first(q))
FAR = Form("square({0}) > 0.19", lambda z: first(z) ** 2 > 0.19)
EQUAL = Form("{0} == {1}", lambda p, q: first(p) == first(q))
BOTH = Form("{0} && {1}", lambda p, q: p and q)
EITHER = Form("({0} || {1})", lambda p, q: p or q)
NOT = Form("!({0})", lambda p: not p)

NORMAL = Form("normal_lpdf", _normal)
LOCATED = (NORMAL, NORMAL, NORMAL, Form("cauchy_lpdf", _cauchy), Form("logistic_lpdf", _logistic))
NORMAL_VALUE = Form("normal_lpdf({0} | {1}, {2})", _normal)
STUDENT_T = Form("student_t_lpdf", _student_t)
POISSON_LOG = Form("poisson_log_lpmf", _poisson_log)
BERNOULLI_LOGIT = Form("bernoulli_logit_lpmf", _bernoulli_logit)


def spliced(low: int) -> Form:
    """The first elements of one vector, then the last elements of another."""

    def compute(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        p, q = np.broadcast_arrays(p, q)
        return np.concatenate([p[:low], q[low:]])

    return Form(f"append_row(({{0}})[1:{low}], ({{1}})[{low + 1}:N])", compute)


def repeated(size: str, n: int) -> Form:
    return Form(f"rep_vector({{0}}, {size})", lambda p: np.repeat(np.atleast_2d(p), n, axis=0))


def mirrored(size: str, n: int) -> Form:
    return Form(f"{size} + 1 - {{0}}", lambda i: n + 1 - i)
