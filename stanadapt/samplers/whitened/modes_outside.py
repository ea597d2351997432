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

Climbs find only modes that a point in the box may lead to. The test and its numbers are ours; the
bound of the entropy is theorem 8.6.5 of Cover and Thomas (2006), Elements of Information Theory.
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
from stanadapt.engine.density import GRADIENT_CALLS, Density
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.points import GradientPoint, start_at
from stanadapt.errors import Message
from stanadapt.results import Fit
from stanadapt.samplers.whitened.arrival import Newton, newton_from, sides_for
from stanadapt.samplers.whitened.climb import climb, no_climb
from stanadapt.samplers.whitened.further_climbs import LOWER, TOO_FAR
from stanadapt.samplers.whitened.window import unit_of_levels
from stanadapt.targets.stan.backends.agreement import solves_equations
from stanadapt.targets.target import Target

# share of the mass, at least, of modes that make a fit suspect
LEAST_SHARE = 0.05
# climbs, modes whose mass is estimated, and gradients of all climbs: share of those of the run, and
# number in any case
CLIMBS, MOST_MODES, SHARE_OF_RUN, MOST_GRADIENTS = 64, 4, 0.05, 1000
# starting values without `inits` are within this of 0, and climbs begin in a box as many times as
# wide as that of these and the draws
USUAL, WIDER = 2.0, 2.0
# gradients from the end of a climb to its mode, points for a mass, and their degrees of freedom
TO_THE_MODE, POINTS, FREEDOM = 200, 256, 5.0
# parameters up to which modes are sought, draws per chain from which on, and draws that are used:
# for a level, and otherwise
MOST_PARAMETERS, LEAST_DRAWS, FOR_LEVEL, DRAWS = 50, 200, 128, 2000
# effective draws that a usable fit has at least, by which its covariance is known
EFFECTIVE = 400
SHOWN = 5  # parameters whose values a message lists


class Outside(NamedTuple):
    """A mode outside of all draws, on the unconstrained scale, and its share of the mass."""

    position: np.ndarray  # shape (dim,)
    share: float


class Cloud(NamedTuple):
    """Draws as an ellipsoid: x = mean + root z, root a lower triangle."""

    draws: np.ndarray  # shape (draw, dim)
    mean: np.ndarray
    root: np.ndarray
    farthest: float  # largest length of z
    level: float  # mean log density
    log_mass: float  # upper bound of the log integral over their region

    def has(self, position: np.ndarray) -> bool:
        """Whether a position is no farther away than the farthest draw."""
        return bool(_lengths(self.root, position - self.mean)[0] <= self.farthest)


def find_modes_outside(target: Target, fit: Fit, calls: float = np.inf) -> list[Outside]:
    """Return modes that all draws of a fit lack; `calls` are the gradients of the run."""
    most = min(SHARE_OF_RUN * calls, MOST_GRADIENTS)
    few = results.dataset(fit, "posterior").sizes["draw"] < LEAST_DRAWS
    hard = target.dim > MOST_PARAMETERS or target.noise_size or solves_equations(target.program)
    if few or hard or most < CLIMBS:
        return []
    rows, _ = parameter_rows(target, fit)
    cloud = _cloud(target, target.unconstrain_rows(rows[:: -(-len(rows) // DRAWS)]))
    if cloud is None:
        return []
    rng = np.random.default_rng(np.ascontiguousarray(cloud.draws[0]).view(np.uint64))
    density, masses = target.density(), []
    known: list[tuple[np.ndarray, np.ndarray]] = []
    for end in _ends(target, density, cloud, int(most), rng):
        if len(known) == MOST_MODES or any(_is_at(mode, end.position) for mode in known):
            continue
        mode = _mode(density, end, cloud)
        if mode is None or cloud.has(mode[0]) or any(_is_at(one, mode[0]) for one in known):
            continue
        known.append(mode)
        within = _lengths(mode[1], cloud.draws - mode[0]) < _radius(target.dim)
        masses.append(-np.inf if within.any() else _log_mass(target, *mode, rng))
    shares = np.exp(masses - logsumexp([cloud.log_mass, *masses]))
    return [Outside(mode[0], float(share)) for mode, share in zip(known, shares, strict=True)]


def _cloud(target: Target, x: np.ndarray) -> Cloud | None:
    x = x[np.isfinite(x).all(axis=1)]
    n = target.dim
    some = np.linspace(0, len(x) - 1, FOR_LEVEL).astype(int)
    try:
        root = np.linalg.cholesky(np.cov(x.T).reshape(n, n))
        level = float(target.evaluate_rows(x[some])[0].mean())
    except (np.linalg.LinAlgError, IndexError):  # no draws are left, or they do not vary
        return None
    # an estimated covariance has a smaller determinant
    missing = n * (n + 1) / (2 * EFFECTIVE)
    entropy = 0.5 * (n * (np.log(2.0 * np.pi) + 1.0) + missing) + np.log(np.diag(root)).sum()
    mean = x.mean(axis=0)
    if not np.isfinite(level):
        return None
    return Cloud(x, mean, root, _lengths(root, x - mean).max(), level, level + entropy)


def _ends(
    target: Target, density: Density, cloud: Cloud, most: int, rng: np.random.Generator
) -> list[GradientPoint]:
    """Return ends of climbs outside of the draws, from the highest down."""
    low = np.minimum(cloud.draws.min(axis=0), -USUAL)
    high = np.maximum(cloud.draws.max(axis=0), USUAL)
    middle, half = 0.5 * (low + high), 0.5 * WIDER * (high - low)
    strata = rng.permuted(np.tile(np.arange(CLIMBS), (target.dim, 1)), axis=1).T
    starts = middle + half * (2.0 * (strata + rng.random(strata.shape)) / CLIMBS - 1.0)
    values, _ = target.evaluate_rows(starts)
    lowest = cloud.level - LOWER * unit_of_levels(target.dim)
    plan = no_climb()._replace(enough=max(target.dim, 4) / 2, newton=True)
    first, ends = int(density.calls[GRADIENT_CALLS]), []
    for start in starts[values > cloud.level - TOO_FAR]:
        left = most - CLIMBS - int(density.calls[GRADIENT_CALLS] - first)
        if left <= 0:
            break
        end, _ = climb(density, start_at(density, start), cloud.root, plan._replace(gradients=left))
        if end.log_density > lowest and not cloud.has(end.position):
            ends.append(end)
    return sorted(ends, key=lambda end: -end.log_density)


def _mode(
    density: Density, end: GradientPoint, cloud: Cloud
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the mode above an end, and M with M M^T = |H|^-1 there; None if it is not regular."""
    plan = no_climb()._replace(enough=1e-3, newton=True, gradients=TO_THE_MODE)
    top, found = climb(density, end, cloud.root, plan._replace(sides=sides_for(density.dim)))
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
    with one_blas_thread():
        return np.linalg.norm(solve_triangular(root, np.atleast_2d(rows).T, lower=True), axis=0)


# --- reasons and remedies -------------------------------------------------------------------------


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
        f"{', ...' if len(values) > SHOWN else ''}. Start chains there and here (inits). If they "
        "stay apart, give that fit as reference_distribution= to 'parallel_tempering', which "
        "moves between the modes."
    )
    yield reasons.Reason(BY_DENSITY["mode_missed"], Message("mode_missed", text))
