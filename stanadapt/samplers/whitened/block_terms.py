"""Search for the functions of a few hubs that make all gradients of a block linear in the rest.

In a conditionally Gaussian model, the gradient by each coordinate of the block is a sum of

    f_k(hubs) (h_k - A_k x),     f_k = a product of exp(c p) or of powers of a bounded value

(see `engine.block_map`): linear in A and h once the functions are known. Functions are added
greedily, each one of those there times one factor, as long as the share of the gradients that a
regression leaves on held-out rows falls. Regressions share their first part, so that a candidate
costs the orthogonal complement of its own columns only.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from stanadapt.engine.block_map import (
    INVERSE,
    LINEAR,
    LOWER,
    PRECISION,
    RATIO,
    RECIPROCAL,
    SLOPE,
    SQUARE,
    WIDTH,
)

# A factor: a hub, whether it is an exponential, and its exponent, or the code of a power.
# A function is a product of factors, in order; () is 1.
Factor = tuple[int, bool, int]
Function = tuple[Factor, ...]
# hubs that the program declares with bounds: (slope, lower, width) with two, None with one; and
# others that multiply members, such as slopes and loadings, with UNBOUNDED
UNBOUNDED = (0.0, 0.0, 0.0)
Hints = Mapping[int, tuple[float, float, float] | None]


def hints_of(bounds: np.ndarray) -> Hints:
    """Return the hints in rows of `targets.declared_bounds`."""
    return {int(i): (a, b, width) if width else None for i, a, b, width in bounds.tolist()}


# exponents of the logarithm of a scale, and powers of a scale with an upper bound, and of others
EXPONENTS = (-2, -1, 1, 2)
SCALES, CORRELATIONS = (PRECISION, RECIPROCAL, LINEAR, SQUARE), (LINEAR, SQUARE, INVERSE, RATIO)
LOADINGS = (LINEAR, SQUARE)
MOST_FUNCTIONS = 9
# coordinates tried as hubs: declared with bounds, others, and scales that a correlation may join
MOST_DECLARED, MOST_OTHERS, MOST_PAIRED = 8, 3, 5
# the score is the mean log share of the gradients that is left; the gain that a function must have,
# and the most that one may cost which is left out
GAIN, NEEDLESS = 0.05, 0.02
SMALLEST_SHARE, LARGEST_SHARE = 1e-9, 1.5
# rows of a regression per column; relative size of a column below which it is not independent
ROWS_PER_COLUMN, DEPENDENT = 1.25, 1e-11
RIDGE = 1e-12


class Rows(NamedTuple):
    """Positions and gradients in units of standard deviations, shape (row, dim)."""

    mean: np.ndarray
    sd: np.ndarray
    positions: np.ndarray
    gradients: np.ndarray
    weights: np.ndarray  # shape (row,)
    hints: Hints

    @classmethod
    def standardize(cls, positions: np.ndarray, gradients: np.ndarray, hints: Hints) -> "Rows":
        """Return rows in these units, each weighted by the size of its gradient."""
        mean, sd = positions.mean(axis=0), positions.std(axis=0)
        sd = np.where(sd > 0.0, sd, 1.0)
        g = gradients * sd
        size = np.sqrt(np.mean(g**2, axis=1))
        weights = 1.0 / np.maximum(np.maximum(size, 0.1 * np.median(size)), 1e-300)
        return cls(mean, sd, (positions - mean) / sd, g, weights, hints)

    def function(self, factors: Function) -> np.ndarray:
        """Return a function at all rows; exponentials are 1 at the mean of their hubs."""
        values = np.ones(len(self.positions))
        for hub, exponential, number in factors:
            if exponential:
                away = self.sd[hub] * self.positions[:, hub]
                values = values * np.exp(np.minimum(np.maximum(number * away, -60.0), 60.0))
            else:
                position = self.mean[hub] + self.sd[hub] * self.positions[:, hub]
                values = values * _power(self.hints[hub], number, position)
        return values

    def design(self, factors: Function, columns: np.ndarray) -> np.ndarray:
        """Return the weighted columns of a function: times each coordinate, and alone."""
        linear = np.ones((len(self.positions), len(columns) + 1))
        linear[:, :-1] = self.positions[:, columns]
        return linear * (self.function(factors) * self.weights)[:, None]


def _power(
    bounds: tuple[float, float, float] | None, code: int, position: np.ndarray
) -> np.ndarray:
    assert bounds is not None
    v = bounds[LOWER] + bounds[WIDTH] / (1.0 + np.exp(-bounds[SLOPE] * position))
    v = position if bounds == UNBOUNDED else v
    if code in (RECIPROCAL, PRECISION):
        return 1.0 / v if code == RECIPROCAL else 1.0 / v**2
    inverse = 1.0 / np.maximum(1.0 - v * v, 1e-14)
    return {LINEAR: v, SQUARE: v * v, INVERSE: inverse, RATIO: v * inverse}[code]


def hubs_of(functions: list[Function]) -> list[int]:
    """Return the hubs of some functions, in order."""
    return sorted({hub for function in functions for hub, _, _ in function})


class _Regression:
    """The regression of all gradients but those of hubs on some functions, and what it leaves."""

    def __init__(self, rows: Rows, functions: list[Function]) -> None:
        self.rows, self.functions = rows, functions
        self.needs_all = False  # whether it was tried to leave out each function
        dim = rows.positions.shape[1]
        self.columns = np.setdiff1d(np.arange(dim), hubs_of(functions))
        self.learned = np.arange(len(rows.positions)) % 3 < 2
        design = np.concatenate([rows.design(f, self.columns) for f in functions], axis=1)
        y = rows.gradients[:, self.columns] * rows.weights[:, None]
        x, self.judged = design[self.learned], design[~self.learned]
        self.possible = self.allows(0)
        if not self.possible:
            self.score, self.logs = np.inf, np.full(len(self.columns), np.inf)
            self.left, self.left_judged = y[self.learned], y[~self.learned]
            return
        size = np.sqrt(np.mean(x**2, axis=0))
        size[size == 0.0] = 1.0
        self.judged = self.judged / size
        self.basis, self.triangle = np.linalg.qr(x / size)
        diagonal = np.abs(np.diagonal(self.triangle))
        dependent = diagonal < DEPENDENT * diagonal.max()
        self.basis[:, dependent], self.triangle[dependent] = 0.0, 0.0
        self.triangle[dependent, dependent] = 1.0
        onto = self.basis.T @ y[self.learned]
        self.left = y[self.learned] - self.basis @ onto
        self.left_judged = y[~self.learned] - self.judged @ self._solve(onto)
        self.whole = np.maximum(np.mean(y[~self.learned] ** 2, axis=0), 1e-300)
        self.logs = self._logs(self.left_judged)
        self.score = float(self.logs.mean()) if len(self.logs) else np.inf

    def _solve(self, values: np.ndarray) -> np.ndarray:
        return solve_triangular(self.triangle, values, check_finite=False)

    def _logs(self, left: np.ndarray) -> np.ndarray:
        shares = np.add.reduce(left * left, axis=0) / len(left) / self.whole
        return np.log(np.maximum(np.fmin(shares, LARGEST_SHARE), SMALLEST_SHARE))  # 1.5 for NaN

    def allows(self, more: int) -> bool:
        """Whether there are rows enough for some more functions."""
        needed = (len(self.functions) + more) * (len(self.columns) + 1) * ROWS_PER_COLUMN
        return len(self.columns) > 0 and self.learned.sum() >= needed

    def gain(self, function: Function) -> float:
        """Return by how much the score would fall with one more function."""
        if not self.allows(1):
            return -np.inf
        x = self.rows.design(function, self.columns)
        x, judged = x[self.learned], x[~self.learned]
        size = np.sqrt(np.add.reduce(x * x, axis=0) / len(x))
        size[size == 0.0] = 1.0
        x, judged = x / size, judged / size
        shared = self.basis.T @ x
        x = x - self.basis @ shared
        judged = judged - self.judged @ self._solve(shared)
        gram = x.T @ x
        gram.flat[:: len(gram) + 1] += RIDGE * len(x)
        factor, failed = lapack.dpotrf(gram, clean=False)
        if failed:
            return -np.inf
        slope, _ = lapack.dpotrs(factor, x.T @ self.left)
        # the hubs of the new function will not be members of the block
        kept = np.ones(len(self.columns), bool)
        for hub, _, _ in function:
            kept &= self.columns != hub
        logs = self._logs(self.left_judged - judged @ slope)
        return float(np.mean((self.logs - logs)[kept])) if kept.any() else -np.inf

    def likely_hubs(self) -> np.ndarray:
        """Return all coordinates, those first whose position goes with the size of gradients."""
        left = np.empty((len(self.learned), len(self.columns)))
        left[self.learned], left[~self.learned] = self.left, self.left_judged
        score = np.zeros(self.rows.positions.shape[1])
        for values, floor in ((left, 1e-12), (self.rows.gradients[:, self.columns], 1e-6)):
            sizes = np.log(values**2 + floor * np.mean(values**2, axis=0) + 1e-300)
            sizes = (sizes - sizes.mean(axis=0)) / np.maximum(sizes.std(axis=0), 1e-12)
            found = np.square(sizes.T @ self.rows.positions / len(values))
            found[np.arange(len(self.columns)), self.columns] = 0.0
            score += found.mean(axis=0)
        return np.argsort(-score, kind="stable")


def search_functions(rows: Rows) -> list[Function]:
    """Return the functions that explain the gradients; [()] if none beyond a constant does."""
    now, seen = _Regression(rows, [()]), set()
    # functions that were there before were only added to be dropped
    while now.possible and frozenset(now.functions) not in seen:
        seen.add(frozenset(now.functions))
        if len(now.functions) < MOST_FUNCTIONS:
            tried = _candidates(rows, now)
            gains = [now.gain(function) for function in tried]
            if gains and max(gains) > GAIN:
                best = tried[int(np.argmax(gains))]
                now = _without_needless(_Regression(rows, [*now.functions, best]), now)
                now = _with_correlations(rows, now)
        if len(now.functions) == MOST_FUNCTIONS or frozenset(now.functions) in seen:
            now = _without_needless(_with_common_factor(rows, now))
    return now.functions


def _candidates(rows: Rows, now: _Regression) -> list[Function]:
    order = [int(k) for k in now.likely_hubs()]
    declared = [k for k in order if k in rows.hints][:MOST_DECLARED]
    others = [k for k in order if k not in rows.hints][:MOST_OTHERS]
    tried: dict[Function, None] = {}
    # 1 may have been dropped, since it is the prior of a few coordinates alone
    begun = dict.fromkeys([*now.functions, ()])
    for hub in dict.fromkeys([*hubs_of(now.functions), *declared, *others]):
        for factor in factors(rows.hints.get(hub), hub):
            for function in begun:
                product = times(function, factor)
                if product is not None and product not in now.functions:
                    tried[product] = None
    return list(tried)


def factors(bounds: tuple[float, float, float] | None, hub: int) -> list[Factor]:
    if bounds is None:
        return [(hub, True, exponent) for exponent in EXPONENTS]
    if bounds == UNBOUNDED:
        return [(hub, False, power) for power in LOADINGS]
    positive = bounds[LOWER] > -SMALLEST_SHARE * bounds[WIDTH]
    return [(hub, False, power) for power in (SCALES if positive else CORRELATIONS)]


def times(function: Function, factor: Factor) -> Function | None:
    """Return a function times a factor; None for exponents beyond 2, and powers of powers."""
    hub, exponential, number = factor
    there = {other: (kind, value) for other, kind, value in function}
    if hub in there:
        number += there[hub][1]
        if not exponential or abs(number) > max(EXPONENTS):
            return None
    there[hub] = exponential, number
    return tuple(sorted((h, kind, value) for h, (kind, value) in there.items() if value))


def _without_needless(now: _Regression, known: _Regression | None = None) -> _Regression:
    """Drop functions, one after the other, that explain almost nothing.

    `known` is a regression that was made before, and may be one of those without a function.
    """
    if now.needs_all:
        return now
    for old in now.functions if len(now.functions) > 1 else ():
        rest = [f for f in now.functions if f != old]
        kept = known if known and known.functions == rest else _Regression(now.rows, rest)
        new = np.isin(kept.columns, now.columns)
        if kept.possible and kept.logs[new].mean() <= now.score + NEEDLESS:
            return _without_needless(kept)
    now.needs_all = True
    return now


def _with_common_factor(rows: Rows, now: _Regression) -> _Regression:
    """Give all functions but the constant the same factor of a hub: such as a variance of the data.

    Where the likelihood determines the block, its precision and its shift nearly cancel at each
    row: the factor of either alone would explain little. And of a hub that hardly varies, the right
    exponent shows only when all have it.
    """
    tried = [now]
    for hub, bounds in rows.hints.items():
        for factor in factors(bounds, hub):
            others = [[x for x in function if x[0] != hub] for function in now.functions]
            functions = dict.fromkeys([(), *(tuple(sorted([*f, factor])) for f in others)])
            tried.append(_Regression(rows, list(functions)))
    best = min(tried, key=lambda each: _score_beside(each, now))
    return best if _score_beside(best, now) < _score_beside(now, best) - GAIN else now


def _score_beside(one: _Regression, other: _Regression) -> float:
    """Return the score of a regression over the coordinates that are no hubs of another either."""
    both = np.isin(one.columns, other.columns)
    return float(one.logs[both].mean()) if both.any() else np.inf


def _with_correlations(rows: Rows, now: _Regression) -> _Regression:
    """Offer the three functions of a pair of scales with an unknown correlation.

    One at a time, they would not be found.
    """
    scales = [k for k in now.likely_hubs() if rows.hints.get(int(k), ()) is None][:MOST_PAIRED]
    best = now
    for hub in (hub for hub, bounds in rows.hints.items() if bounds is not None):
        for one, other in combinations(sorted(map(int, scales)), 2):
            single = [((k, True, -2),) for k in (one, other)]
            factors: list[Function] = [((k, True, -2), (hub, False, INVERSE)) for k in (one, other)]
            factors.append(((one, True, -1), (other, True, -1), (hub, False, RATIO)))
            kept = [f for f in now.functions if f not in single and hub not in hubs_of([f])]
            tried = _Regression(rows, [*kept, *(tuple(sorted(f)) for f in factors)])
            if tried.score < best.score - GAIN:
                best = tried
    return best
