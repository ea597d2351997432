"""The priors behind a fitted map: which coordinates set the scale and location of others exactly.

Coordinates with the same prior form a group. If x_j ~ normal(x_l, exp(x_k)), the gradient of x_j
contains the term -exp(a + b x_k) (x_j - x_l) with the a of the group, however weak the prior is
next to the likelihood. Gradients have no noise: in a regression on this term its coefficient is 1
for a member, and 0 for any other coordinate.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened import conditionals
from stanadapt.samplers.whitened.conditionals import NONE, SMALLEST, A, B, Draws, Fits, S

# fewest coordinates that are a group
LEAST_MEMBERS = 2
# groups, of many, that are offered to one coordinate
MOST_OFFERED = 12
# other terms in the regression of a gradient, and coordinates among which they are chosen
EXPLAINED_BY, MOST_NEAR = 8, 32
# a column of the regression that differs from those before by less than this share adds nothing
SINGULAR = 1e-10
# standard errors by which the coefficient of a prior's term must differ from 0, and may differ from
# 1; and the factor by which it may differ from 1 in any case
CLEAR, COMPATIBLE, ALIKE = 4.0, 4.0, 1.5


class Prior(NamedTuple):
    """Drivers of scale and location, and the slopes of the log precision in the former.

    A second driver of the scale, and the slope in it, may be absent.
    """

    scale: int
    location: int
    slope: int
    second: int = NONE
    second_slope: int = 0

    def renumbered(self, numbers: np.ndarray) -> "Prior":
        """Return the prior with other numbers of coordinates, as `Fits.renumbered`."""
        scale, location, second = (
            int(numbers[driver]) if driver >= 0 else NONE
            for driver in (self.scale, self.location, self.second)
        )
        return self._replace(scale=scale, location=location, second=second)

    @property
    def drivers(self) -> set[int]:
        """Numbers of its drivers."""
        return {driver for driver in (self.scale, self.second, self.location) if driver >= 0}

    @property
    def scales(self) -> list[tuple[int, int]]:
        """The drivers of the scale, each with its slope."""
        both = (self.scale, self.slope), (self.second, self.second_slope)
        return [(driver, slope) for driver, slope in both if driver >= 0]


class Group(NamedTuple):
    """Coordinates with the same prior, by their numbers.

    The draws do not tell whether unclear members have this prior, since the data say much more: to
    map one too many costs nothing, and one too few cuts off a neck.
    """

    prior: Prior
    members: tuple[int, ...]
    unclear: tuple[int, ...] = ()

    def renumbered(self, numbers: np.ndarray) -> "Group":
        """Return the group with other numbers of coordinates."""
        members, unclear = (
            tuple(int(numbers[j]) for j in found) for found in (self.members, self.unclear)
        )
        return Group(self.prior.renumbered(numbers), members, unclear)


# --- terms of priors in gradients -----------------------------------------------------------------


def size_of(group: Group, fits: dict[int, Fits], draws: Draws) -> float:
    """Return the group's a in the program's units: the median of its members, by their fits."""
    scale, second, found = group.prior.scale, group.prior.second, []
    for j in group.members:
        numbers = fits[j].numbers[0]
        shift = numbers[B] * draws.mean[scale] / draws.sd[scale]
        shift += numbers[S] * draws.mean[second] / draws.sd[second]
        found.append(numbers[A] - shift - 2.0 * np.log(draws.sd[j]))
    return float(np.median(found))


def likeliest(j: int, groups: list[Group], sizes: list[float], draws: Draws) -> list[int]:
    """Return the numbers of the groups whose terms are most correlated with the gradient."""
    if len(groups) <= MOST_OFFERED:
        return list(range(len(groups)))
    terms = np.nan_to_num(_prior_terms(j, groups, sizes, draws), posinf=0.0, neginf=0.0)
    scores = conditionals.correlations(terms, draws.gradients[[j]])[:, 0]
    return sorted(np.argsort(-scores, kind="stable")[:MOST_OFFERED].tolist())


def coefficients(
    j: int, groups: list[Group], sizes: list[float], draws: Draws, near: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the groups' terms in the gradient of a coordinate, and their errors.

    The gradient is regressed on the terms of all groups, and on those coordinates near it, and
    their products with the coordinate itself, that explain most of the rest.
    """
    terms = _prior_terms(j, groups, sizes, draws)
    if not np.isfinite(terms).all():
        return np.zeros(len(groups)), np.full(len(groups), np.inf)
    z, g = draws.positions, draws.gradients[j]
    others = z[np.unique([*near, *(d for group in groups for d in group.prior.drivers)])]
    others = np.concatenate([others, z[j] * others])
    others -= others.mean(axis=1, keepdims=True)
    others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), SMALLEST)
    norms = np.maximum(np.linalg.norm(terms, axis=1), SMALLEST)
    rows = [np.ones(z.shape[1]), z[j], *(terms / norms[:, None])]
    with one_blas_thread():
        rows += _explaining(g, np.stack(rows, axis=1), others)
        design = np.stack(rows, axis=1)
        values, _, rank, _ = np.linalg.lstsq(design, g, rcond=SINGULAR)
        rest = g - design @ values
        variance = rest @ rest / max(len(rest) - int(rank), 1)
        # of a coordinate that never moved, 0 may come out as a negative number
        inverse = np.maximum(np.diag(np.linalg.pinv(design.T @ design)), 0.0)
        errors = np.sqrt(variance * inverse)
    here = slice(2, 2 + len(groups))
    return values[here] / norms, errors[here] / norms


def _explaining(g: np.ndarray, design: np.ndarray, others: np.ndarray) -> list[np.ndarray]:
    """Choose rows of `others`, one by one, that explain most of the residual of g.

    The residual is that of a regression on the design and the rows chosen so far.
    """
    basis, sizes = np.linalg.qr(design)
    basis = basis[:, np.abs(np.diag(sizes)) > SINGULAR * np.linalg.norm(design, axis=0)]
    rest = g - basis @ (basis.T @ g)
    chosen = []
    for _ in range(EXPLAINED_BY):
        row = others[np.argmax(np.abs(others @ rest))]
        chosen.append(row)
        new = row - basis @ (basis.T @ row)
        new -= basis @ (basis.T @ new)  # once more, for rounding
        size = np.linalg.norm(new)
        if size > SINGULAR * np.linalg.norm(row):
            new /= size
            basis = np.column_stack([basis, new])
            rest = rest - (new @ rest) * new
    return chosen


def nearest(draws: Draws) -> np.ndarray:
    """Return the numbers of the coordinates most correlated with each gradient, one row each."""
    scores = conditionals.correlations(draws.gradients, draws.positions)
    count = min(MOST_NEAR, len(scores))
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _prior_terms(j: int, groups: list[Group], sizes: list[float], draws: Draws) -> np.ndarray:
    """Return -exp(a + b x_k) (x_j - x_l) in standardized units, shape (group, draw)."""
    positions = draws.mean[:, None] + draws.sd[:, None] * draws.positions
    out = np.empty((len(groups), positions.shape[1]))
    for row, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        scale, location, slope, second, second_slope = group.prior
        center = positions[location] if location >= 0 else 0.0
        exponent = size + slope * positions[scale] + second_slope * positions[second]
        exponent = np.clip(exponent, -conditionals.LARGEST_EXPONENT, conditionals.LARGEST_EXPONENT)
        out[row] = -np.exp(exponent) * (positions[j] - center) * draws.sd[j]
    return out


def choose_group(values: np.ndarray, errors: np.ndarray) -> tuple[int | None, bool]:
    """Choose by coefficients that are 1 for the coordinate's own group and 0 for the others.

    Returns the group's number, if any, and whether its term is clearly there. If the draws cannot
    tell 1 from 0, a single group is taken for the own one: a member that is left out costs more
    than a coordinate too many, for which the term of the prior is small.
    """
    clear = np.flatnonzero(_is_clear(values, errors))
    if len(clear):
        return int(clear[np.argmin(np.abs(values - 1.0)[clear])]), True
    if len(values) == 1 and _may_be_one(values, errors)[0]:
        return 0, False
    return None, False


def _is_clear(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    return _may_be_one(values, errors) & (values > CLEAR * errors)


def _may_be_one(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    alike = np.abs(np.log(np.maximum(values, SMALLEST))) <= np.log(ALIKE)
    return (np.abs(values - 1.0) <= COMPATIBLE * errors) | alike
