"""Find modes outside of all draws of a fit, by climbs to them and by importance sampling.

Chains may all have arrived in one mode, and then no statistic of their draws shows another. So when
a fit is judged, climbs begin from random points around the draws and the usual starting values. If
some end outside of all draws, the mass around the mode there is compared with that of the draws.
With a Student distribution at the mode, shaped by the curvature, the mean of the importance weights
within an ellipsoid estimates its integral without bias, so that it exceeds k times the true one
with a probability of at most 1 / k. The integral over the region of the draws x is at most

    exp(E[log p(x)]) sqrt((2 pi e)^n det Cov(x)),

since no distribution with this covariance has more entropy than the Gaussian. The share of the mode
is hence underestimated, whatever the posterior: if it is large, and no draw is in the ellipsoid,
the draws lack it. Necks and flat tails, where climbs may end as well, have small shares.

A third of the climbs begin farther away, each coordinate at a distance of any order of magnitude up
to REACH times the box. Far out, about any point leads to a mode as wide as that of the draws; the
narrower it is, the fewer do, and in several dimensions hardly any.

The test and its numbers are ours; the bound of the entropy is theorem 8.6.5 of Cover and Thomas
(2006), Elements of Information Theory.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from stanadapt import results
from stanadapt.diagnostics import reasons
from stanadapt.diagnostics.modes import parameter_rows
from stanadapt.diagnostics.verdict import BY_DENSITY
from stanadapt.engine.compiled.jit import rarely_called
from stanadapt.engine.density import GRADIENT_CALLS, Density, gradient_of_program
from stanadapt.engine.inverse_hessian import LEAST_CURVATURE
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import copy, inner_product, squared_norm
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.points import start_at
from stanadapt.errors import Message
from stanadapt.results import Fit
from stanadapt.samplers.whitened.arrival import Newton, newton_from, sides_for
from stanadapt.samplers.whitened.climb import (
    FLATTER,
    LONGER,
    SHORTER,
    TRIES,
    climb,
    no_climb,
)
from stanadapt.samplers.whitened.further_climbs import LOWER, TOO_FAR
from stanadapt.samplers.whitened.window import unit_of_levels
from stanadapt.targets.stan.backends.agreement import solves_equations
from stanadapt.targets.target import Target

# share of the mass, at least, of modes that make a fit suspect
LEAST_SHARE = 0.05
# climbs at most, modes whose mass is estimated, and gradients of all climbs: share of those of the
# run, and number in any case
CLIMBS, MOST_MODES, SHARE_OF_RUN, MOST_GRADIENTS = 1024, 4, 0.02, 1000
# starting values without `inits` are within this of 0, and climbs begin in a box as many times as
# wide as that of these and the draws; share of climbs from outside, and how far
USUAL, WIDER, FARTHER, REACH = 2.0, 2.0, 1 / 3, 50.0
# least gain of a step, as a share of what its slope promises: a quadratic gains a half. If it might
# be less, a step out of a narrow mode may end among the draws
GAIN = 0.25
# error of the log density at its maximum, if the slope is that of the draws' Gaussian, as a share
NEARLY = 0.2
# gradients from the end of a climb to its mode, points for a mass, and their degrees of freedom
TO_THE_MODE, POINTS, FREEDOM = 200, 256, 5.0
# parameters up to which modes are sought, draws per chain from which on, and draws that are used:
# for a rough level, for that of a mass, and otherwise
MOST_PARAMETERS, LEAST_DRAWS, ROUGH, FOR_LEVEL, DRAWS = 50, 200, 16, 128, 2000
# effective draws that a usable fit has at least, by which its covariance is known
EFFECTIVE = 400
SAME_HEIGHT = 0.01  # largest difference of log densities of mirror images
SHOWN = 5  # parameters whose values a message lists


class Outside(NamedTuple):
    """A mode outside of all draws, on the unconstrained scale, and its share of the mass."""

    position: np.ndarray  # shape (dim,)
    share: float
    mirrored: bool  # whether it is as high as the mode of the draws, as mirror images are


class Cloud(NamedTuple):
    """Draws as an ellipsoid: x = mean + root z, root a lower triangle."""

    draws: np.ndarray  # shape (draw, dim)
    mean: np.ndarray
    root: np.ndarray
    farthest: float  # largest length of z
    level: float  # mean log density, from a few of them
    entropy: float  # upper bound of that of their distribution

    def has(self, position: np.ndarray) -> bool:
        """Whether a position is no farther away than the farthest draw."""
        return bool(_lengths(self.root, position - self.mean)[0] <= self.farthest)


def find_modes_outside(target: Target, fit: Fit, calls: float = np.inf) -> list[Outside]:
    """Return modes that all draws of a fit lack; `calls` are the gradients of the run."""
    most = min(SHARE_OF_RUN * calls, MOST_GRADIENTS)
    few = results.dataset(fit, "posterior").sizes["draw"] < LEAST_DRAWS
    hard = target.dim > MOST_PARAMETERS or target.noise_size or solves_equations(target.program)
    if few or hard:
        return []
    rows, _ = parameter_rows(target, fit)
    cloud = _cloud(target, target.unconstrain_rows(rows[:: -(-len(rows) // DRAWS)]))
    if cloud is None:
        return []
    rng = np.random.default_rng(np.ascontiguousarray(cloud.draws[0]).view(np.uint64))
    density, masses, tried = target.density(), [], 0
    known: list[tuple[np.ndarray, np.ndarray]] = []
    for end in _ends(density, cloud, int(most), rng):
        position = cloud.mean + cloud.root @ end
        if tried == MOST_MODES or any(_is_at(mode, position) for mode in known):
            continue
        tried += 1
        mode = _mode(density, end, cloud)
        if mode is None or cloud.has(mode[0]) or any(_is_at(one, mode[0]) for one in known):
            continue
        known.append(mode)
        within = _lengths(mode[1], cloud.draws - mode[0]) < _radius(target.dim)
        masses.append(-np.inf if within.any() else _log_mass(target, *mode, rng))
    if not known:
        return []
    log_mass = _level(target, cloud.draws, FOR_LEVEL) + cloud.entropy
    shares = np.exp(masses - logsumexp([log_mass, *masses]))
    heights, _ = target.evaluate_rows(np.array([mode[0] for mode in known]))
    same = np.abs(heights - _to_top(density, np.zeros(target.dim), cloud)) < SAME_HEIGHT
    found = zip([mode[0] for mode in known], shares.tolist(), same.tolist(), strict=True)
    return [Outside(*mode) for mode in found]


def _cloud(target: Target, x: np.ndarray) -> Cloud | None:
    x = x[np.isfinite(x).all(axis=1)]
    n = target.dim
    if len(x) <= n:  # the others are on a boundary
        return None
    try:
        root = np.linalg.cholesky(np.cov(x.T).reshape(n, n))
        level = _level(target, x, ROUGH)
    except np.linalg.LinAlgError:  # they do not vary
        return None
    # an estimated covariance has a smaller determinant
    missing = n * (n + 1) / (2 * EFFECTIVE)
    entropy = 0.5 * (n * (np.log(2.0 * np.pi) + 1.0) + missing) + np.log(np.diag(root)).sum()
    mean = x.mean(axis=0)
    if not np.isfinite(level):
        return None
    return Cloud(x, mean, root, _lengths(root, x - mean).max(), level, entropy)


def _level(target: Target, x: np.ndarray, count: int) -> float:
    """Return the mean log density of this many of the draws."""
    some = np.linspace(0, len(x) - 1, count).astype(int)
    return float(target.evaluate_rows(x[some])[0].mean())


def _starts(cloud: Cloud, rng: np.random.Generator) -> np.ndarray:
    """Return where climbs begin: in a box around the draws, and farther away."""
    low = np.minimum(cloud.draws.min(axis=0), -USUAL)
    high = np.maximum(cloud.draws.max(axis=0), USUAL)
    middle, half = 0.5 * (low + high), 0.5 * WIDER * (high - low)
    within = rng.uniform(-1.0, 1.0, (CLIMBS, len(middle)))
    times = np.where(rng.random((CLIMBS, 1)) < FARTHER, REACH ** rng.random(within.shape), 1.0)
    return middle + half * times * within


def _ends(density: Density, cloud: Cloud, most: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return ends of climbs outside of the draws, in units of the cloud, from the highest down."""
    rows = _in_units(cloud.root, _starts(cloud, rng) - cloud.mean)
    values, radius = np.empty(CLIMBS), cloud.farthest**2
    below = LOWER * unit_of_levels(density.dim)
    _climb_rows(density, rows, cloud.mean, cloud.root, radius, cloud.level, below, most, values)
    return [rows[row] for row in np.argsort(-values) if values[row] > -np.inf]


@rarely_called
def _climb_rows(density, rows, mean, root, radius, level, below, most, values):
    """Climb from rows outside of the cloud; write ends, and -inf for the value of those within."""
    values[:] = -np.inf
    enough = max(density.dim, 4) / 2
    for row in range(len(rows)):
        left = most - density.calls[GRADIENT_CALLS]
        if left <= 0:
            break
        if squared_norm(rows[row]) > radius:
            top = _climb(density, rows[row], mean, root, radius, level, below, enough, left)
            if top > level - below and squared_norm(rows[row]) > radius:
                values[row] = top


@rarely_called
def _climb(density, z, mean, root, radius, level, below, enough, most):
    """Climb from z by BFGS, until it is among the draws or near a mode; return the log density.

    As `climb`, whose Python would take 30 us a gradient: here are hundreds of climbs, in few
    dimensions. The rise that is left may be `enough`. Where the slope is that of a Gaussian with
    the draws' covariance, whose mode is among them, no climb is needed, and -inf is returned.
    """
    n, used, gained, learned, lowest = len(z), 1, 0.0, False, level - below
    inverse, x, gradient = np.eye(n), np.empty(n), np.empty(n)
    slope, direction, product = np.empty(n), np.empty(n), np.empty(n)
    there, slope_there = np.empty(n), np.empty(n)
    value = _slope_at(density, z, mean, root, x, gradient, slope)
    if not value > lowest - TOO_FAR:
        return -np.inf
    for i in range(n):
        there[i] = z[i] + slope[i]
    error = np.abs(value + 0.5 * squared_norm(slope) - level)
    if squared_norm(there) <= radius and error < below + NEARLY * np.abs(value - level):
        return -np.inf
    while used < most and not (value > lowest and squared_norm(z) <= radius):
        for i in range(n):
            direction[i] = inner_product(inverse[i], slope, n)
        rise = inner_product(slope, direction, n)
        if not rise > 0.0 or (learned and 0.5 * rise <= enough and gained <= enough):
            break
        low, high, size, good, higher = 0.0, np.inf, 1.0, False, -np.inf
        for _ in range(min(TRIES, most - used)):
            used += 1
            for i in range(n):
                there[i] = z[i] + size * direction[i]
            higher = _slope_at(density, there, mean, root, x, gradient, slope_there)
            if not higher - value >= GAIN * size * rise:
                high = size
            elif inner_product(slope_there, direction, n) > FLATTER * rise:
                low = size
            else:
                good = True
                break
            if high == np.inf:
                size = LONGER * low
            else:
                size = 0.5 * (low + high) if low > 0.0 else SHORTER * high
        if not higher > value:
            break
        gained = higher - value
        for i in range(n):
            direction[i] = there[i] - z[i]
            product[i] = slope[i] - slope_there[i]
        _learn(inverse, direction, product, learned)
        learned, value = True, higher
        copy(there, z)
        copy(slope_there, slope)
        if not good:
            break
    return value


@rarely_called
def _slope_at(density, z, mean, root, x, gradient, slope):
    """Return the log density at mean + root z, and write its slope along z."""
    triangular.times(root, z, x)
    for i in range(len(z)):
        x[i] += mean[i]
        if not np.isfinite(x[i]):
            return -np.inf
    value = gradient_of_program(density, x, gradient)
    triangular.transposed_times(root, gradient, slope)
    return value


@rarely_called
def _learn(inverse, step, fall, learned):
    """Update an inverse Hessian by a step and the fall of the slope, if that shows a curvature."""
    n = len(step)
    curved, steep = inner_product(step, fall, n), squared_norm(fall)
    if not curved > LEAST_CURVATURE * np.sqrt(squared_norm(step) * steep):
        return
    if not learned:
        inverse *= curved / steep
    product = np.empty(n)
    for i in range(n):
        product[i] = inner_product(inverse[i], fall, n)
    share = (1.0 + inner_product(fall, product, n) / curved) / curved
    for i in range(n):
        for j in range(n):
            crossed = product[i] * step[j] + step[i] * product[j]
            inverse[i, j] += share * step[i] * step[j] - crossed / curved


def _to_top(density: Density, z: np.ndarray, cloud: Cloud) -> float:
    """Move z to the mode above it, and return the log density there."""
    top = _climb(density, z, cloud.mean, cloud.root, -1.0, -np.inf, 0.0, 1e-3, TO_THE_MODE)
    return float(top)


def _mode(density: Density, end: np.ndarray, cloud: Cloud) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the mode above an end, and M with M M^T = |H|^-1 there; None if it is not regular."""
    z = end.copy()
    _to_top(density, z, cloud)
    top = start_at(density, cloud.mean + cloud.root @ z)
    plan = no_climb()._replace(sides=sides_for(density.dim))
    top, found = climb(density, top, cloud.root, plan)
    with one_blas_thread():
        newton: Newton | None = newton_from(found.curvature, found.force, cloud.root)
    return None if newton is None else (top.position, newton.root)


def _log_mass(
    target: Target, center: np.ndarray, root: np.ndarray, rng: np.random.Generator
) -> float:
    """Estimate the log integral of the density over the ellipsoid around a mode."""
    n, f = len(center), FREEDOM
    z = rng.normal(size=(POINTS, n)) / np.sqrt(rng.chisquare(f, (POINTS, 1)) / f)
    squares = np.sum(z**2, axis=1)
    inside = squares < _radius(n) ** 2
    log_q = gammaln((f + n) / 2) - gammaln(f / 2) - n / 2 * np.log(f * np.pi)
    log_q = log_q - (f + n) / 2 * np.log1p(squares / f) - np.log(np.abs(np.diag(root))).sum()
    values, _ = target.evaluate_rows(center + np.einsum("ij,kj->ki", root, z))
    log_weights = np.where(inside, values - log_q, -np.inf)
    return float(logsumexp(log_weights) - np.log(POINTS))


def _radius(dim: int) -> float:
    """Return the radius of the ellipsoid, which holds nearly all of a Gaussian."""
    return float(np.sqrt(dim + 3.0 * np.sqrt(2.0 * dim) + 2.0))


def _is_at(mode: tuple[np.ndarray, np.ndarray], position: np.ndarray) -> bool:
    return bool(_lengths(mode[1], position - mode[0])[0] < _radius(len(position)))


def _lengths(root: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the lengths of rows, shape (m, n) or (n,), in units of a lower triangle."""
    return np.linalg.norm(_in_units(root, np.atleast_2d(rows)), axis=1)


def _in_units(root: np.ndarray, rows: np.ndarray) -> np.ndarray:
    with one_blas_thread():
        return np.ascontiguousarray(solve_triangular(root, rows.T, lower=True).T)


# --- reasons and remedies -------------------------------------------------------------------------

APART = (
    "Start chains there and here (inits). If they stay apart, give that fit as "
    "reference_distribution= to 'parallel_tempering', which moves between the modes."
)
MIRRORED = (
    "It is as high as the mode of the draws. If it is a mirror image, in which elements exchange "
    "their roles, or signs change, order the parameters or declare a bound, or take the draws as "
    f"those of one image. If not: {APART[0].lower()}{APART[1:]}"
)


def modes_missed(target: Any, fit: Fit) -> Iterator[reasons.Reason]:
    """Yield a reason against a fit if all its draws lack modes that have a share of the mass."""
    if target.target is not target:  # a distribution that is built from a program
        return
    calls = results.attribute(fit, "n_gradients")
    found = find_modes_outside(target, fit, np.inf if calls is None else float(calls))
    share = sum(mode.share for mode in found)
    if share < LEAST_SHARE:
        return
    heaviest = max(found, key=lambda mode: mode.share)
    values = list(results.scalars(target.constrain(heaviest.position)).items())
    place = ", ".join(f"{name} = {value:.4g}" for name, value in values[:SHOWN])
    text = (
        f"All draws lack a mode that has some {heaviest.share:.0%} of the mass, around {place}"
        f"{', ...' if len(values) > SHOWN else ''}. {MIRRORED if heaviest.mirrored else APART}"
    )
    yield reasons.Reason(BY_DENSITY["mode_missed"], Message("mode_missed", text))
