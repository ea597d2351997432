"""Find tails of scales that the draws of a fit lack, by the gradients at its draws.

Where many states collapse together, a neck, trajectories do not enter, and no statistic of the
draws shows what is missing: R-hat, effective sample sizes and E-BFMI agree with chains that all
lack the same. But given the exact block of a posterior (`block_structure`), the gradient by a hub p
is the score s of its marginal density, and for any bounded f

    E[f'(p) + f(p) s] = 0      (Stein's identity: integration by parts)

Let f be a ramp from 1 at the lower 0.5 % of the draws to 0 at their 5 %. If the draws thin out
toward the tail faster than the density, the mean is negative. It uses the slope of the density,
where a comparison of shares has their binomial noise. On gradients without the block, the
same means have no power: most of their variance is that of the gradient given the hub.

The two ramps, their limits and the use of an exact block are ours; see Gorham and Mackey (2015),
Measuring sample quality with Stein's method, for the identity as a test of draws.

"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from stanadapt import results
from stanadapt.diagnostics import reasons
from stanadapt.diagnostics.mixing import mixing
from stanadapt.diagnostics.modes import parameter_rows
from stanadapt.diagnostics.ranked import size_of_mean
from stanadapt.diagnostics.verdict import BY_DENSITY
from stanadapt.engine.block_map import BlockMap, unpacked
from stanadapt.errors import Message
from stanadapt.results import Fit
from stanadapt.samplers.whitened.block_structure import (
    LEAST_MEMBERS,
    MOST_COORDINATES,
    GaussianBlock,
    apply_block,
    find_block,
    is_exact,
    rows_needed,
)
from stanadapt.samplers.whitened.block_terms import UNBOUNDED, hints_of
from stanadapt.samplers.whitened.findings import BLOCK, NEARLY, members_and_hubs
from stanadapt.samplers.whitened.loadings import find_loadings, pairs_to_find_loadings
from stanadapt.samplers.whitened.sparse_block import (
    MOST_BOUNDED,
    NOTHING,
    find_nearly_block,
    find_sparse_block,
    has_many_hubs,
    pairs_of_places,
    places,
)
from stanadapt.samplers.whitened.straightened import distance_of
from stanadapt.targets.declared_bounds import declared_bounds
from stanadapt.targets.target import Target

# ramps: between these quantiles of the draws, from either end
RAMPS = ((0.005, 0.05), (0.01, 0.1))
# a mean below zero by as many Monte Carlo errors is a reason against the fit, also by fewer if this
# is so in two tails, or a remark
MISSING, MISSING_TWO, DOUBTFUL = 4.0, 3.5, 3.0
# number of tails for which these are; of more, as many have a smaller mean by chance
FEW_TAILS = 4
# draws per chain below which quantiles mean nothing
LEAST_DRAWS = 200
# largest share of the gradients of a run that are evaluated to judge it, and number in any case
SHARE_OF_RUN, MOST_GRADIENTS = 0.1, 8000
# posteriors closer to a Gaussian than this, on average and in each coordinate, are not looked at
NEAR_GAUSSIAN, PART = 0.03, 1.0
SIDES = ("small", "large")


class Tail(NamedTuple):
    """A tail of a hub, and the smaller z of its ramps; far below 0 if draws are missing there."""

    coordinate: int
    side: str  # one of `SIDES`
    z: float


class Found(NamedTuple):
    """The block of a posterior, and the tails of its hubs."""

    block: BlockMap
    tails: list[Tail]
    is_used: bool = False  # whether the draws were made in its coordinates
    exact: bool = True


def find_tails(
    target: Target, fit: Fit, most: float = np.inf, known: BlockMap | None = None
) -> Found | None:
    """Return the exact block of a target and the tails of its hubs in a fit; None without a block.

    `most` is the largest number of gradients that may be evaluated, and `known` the block if it
    was found before.
    """
    most = min(most, MOST_GRADIENTS)
    few = min(target.dim, MOST_COORDINATES)
    kind = results.attribute(fit, BLOCK)
    unknown = few < target.dim and known is None and kind is None
    if target.noise_size or unknown or most < rows_needed(few):
        return None
    sizes = results.dataset(fit, "posterior").sizes
    if sizes["draw"] < LEAST_DRAWS or _is_near(results.attribute(fit, "distance_from_gaussian")):
        return None
    rows, _ = parameter_rows(target, fit)
    block = _search(target, rows, kind, most) if known is None else known
    if block is None:
        return None
    per_chain = len(rows) // sizes["chain"]
    most_rows = int(min(most, len(rows))) // sizes["chain"]
    kept = np.linspace(0, per_chain - 1, min(most_rows, per_chain)).round().astype(int)
    chosen = (np.arange(0, len(rows), per_chain)[:, None] + kept).ravel()
    positions, gradients = _evaluated(target, rows[chosen])
    if not (np.isfinite(positions).all() and np.isfinite(gradients).all()):
        return Found(block, [])
    y, slopes, _ = apply_block(block, positions, gradients)
    lasting = kind is not None or 2 * len(block.hubs) > FEW_TAILS
    tails = []
    for hub in block.hubs:
        draws, scores = (values[:, hub].reshape(sizes["chain"], -1) for values in (y, slopes))
        z = _ramps(draws, scores, lasting)
        tails += [Tail(int(hub), side, one) for side, one in zip(SIDES, z, strict=True)]
    return Found(block, tails, kind is not None, kind != NEARLY)


def _search(target: Target, rows: np.ndarray, kind: str | None, most: float) -> BlockMap | None:
    """Return the block that gradients at some of the rows, or around, show: that of a run, if any.

    `kind` is that of the block of the run; of places around draws, each set has at most `most`.
    """
    count = min(rows_needed(min(target.dim, MOST_COORDINATES)), len(rows))
    few = np.linspace(0, len(rows) - 1, count).round().astype(int)
    bounds = declared_bounds(target)
    if kind == NEARLY or target.dim > MOST_COORDINATES:
        return _search_sparse(target, target.unconstrain_rows(rows[few]), bounds, kind)
    positions, gradients = _evaluated(target, rows[few])
    finite = np.isfinite(positions).all(axis=1) & np.isfinite(gradients).all(axis=1)
    if finite.mean() < 0.9:
        return None
    x, g = positions[finite], gradients[finite]
    distance, farthest = distance_of(x, g)
    if distance < NEAR_GAUSSIAN and farthest < PART:
        return None
    part = _map_of(find_block, x, g, hints_of(bounds))
    return _search_further(target, x, g, bounds, part, most)


def _search_further(
    target: Target,
    x: np.ndarray,
    g: np.ndarray,
    bounds: np.ndarray,
    part: BlockMap | None,
    most: float,
) -> BlockMap | None:
    """Return the block of many hubs, or of some without bounds, or else the part that is known.

    Its places are those of warm-up. It must be exact at draws `x` with gradients `g`.
    """
    bounded, dim = bounds[:, 0].astype(int), x.shape[1]
    known = NOTHING if part is None else part.block
    left_out = np.setdiff1d(np.arange(dim), [*known, *bounded])
    most_hubs = min(MOST_BOUNDED, dim - LEAST_MEMBERS)
    if not len(left_out) or not 0 < len(bounded) <= most_hubs:
        return part

    def larger(loadings: np.ndarray) -> BlockMap | None:
        no_factors = np.zeros((len(bounded), dim))
        pairs = pairs_of_places(x, bounded, no_factors, loadings=loadings)
        if len(pairs) > most:
            return None
        hints = {**hints_of(bounds), **dict.fromkeys(loadings.tolist(), UNBOUNDED)}
        found = _map_of(find_nearly_block, _with_gradients(target, pairs), hints)
        if found is None or len(found.block) <= len(known):
            return None
        return found if np.isin(known, found.block).all() and is_exact(found, x, g) else None

    found = larger(NOTHING) if has_many_hubs(bounded, None) else None
    pairs = pairs_to_find_loadings(x, bounded)
    if found is None and len(pairs) <= most:
        loadings = find_loadings(_with_gradients(target, pairs), bounded)
        if 0 < len(loadings) <= most_hubs - len(bounded):
            found = larger(loadings)
    return part if found is None else found


def _search_sparse(
    target: Target, x: np.ndarray, bounds: np.ndarray, kind: str | None
) -> BlockMap | None:
    """Return the block of many coordinates, or one that is nearly Gaussian, from places around."""
    bounded, hints = bounds[:, 0].astype(int), hints_of(bounds)
    if kind == NEARLY:  # of effects that no scale multiplies
        pairs = pairs_of_places(x, bounded, np.zeros((len(bounded), target.dim)))
        return _map_of(find_nearly_block, _with_gradients(target, pairs), hints)
    asked = places(x, np.full_like(x, np.nan), bounded)
    return _map_of(find_sparse_block, _with_gradients(target, asked), hints)


def _with_gradients(target: Target, rows: np.ndarray) -> np.ndarray:
    rows[:, 1] = target.evaluate_rows(rows[:, 0])[1]
    return rows


def _map_of(search: Callable[..., GaussianBlock | None], *known: Any) -> BlockMap | None:
    try:
        block = search(*known)
    except np.linalg.LinAlgError:  # no convergence
        return None
    return None if block is None else block.map


def _is_near(distance: Any) -> bool:
    return distance is not None and bool(distance < NEAR_GAUSSIAN)


def _evaluated(target: Target, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    positions = target.unconstrain_rows(rows)
    return positions, target.evaluate_rows(positions)[1]


def _ramps(draws: np.ndarray, scores: np.ndarray, lasting: bool) -> tuple[float, float]:
    """Return the smaller z of the ramps at the lower and at the upper end; shape (chain, draw)."""
    sd = max(float(draws.std()), 1e-300)
    found = []
    for sign in (1.0, -1.0):
        x, s, z = sign * draws / sd, sign * sd * scores, []
        for outer, inner in RAMPS:
            low, high = np.quantile(x, (outer, inner))
            width = max(high - low, 1e-12)
            ramp = np.clip((high - x) / width, 0.0, 1.0)
            values = ramp * s - ((x > low) & (x < high)) / width
            z.append(_z(values, ramp, lasting))
        found.append(float(np.min(z)))
    return found[0], found[1]


def _z(values: np.ndarray, ramp: np.ndarray, lasting: bool) -> float:
    """Return the mean in units of its Monte Carlo error.

    Values are below and above zero in turn, so that they seem to be less correlated than excursions
    to a tail are. Draws in the coordinates of the block enter necks, and lack a tail by chance
    alone: their error is that of a size between those of the values and of the ramp (`lasting`).
    Other draws may never enter one: with the larger error, a third of the wrong fits of few hubs
    would be passed. Of more, 2 of 25 right fits would be suspect with the smaller, and the wrong
    ones fail other checks, too.
    """
    size, sd = mixing(values).ess_bulk, float(values.std())
    if lasting:
        size = np.sqrt(size_of_mean(values) * size_of_mean(ramp))
    return float(values.mean()) * np.sqrt(size) / sd if size > 0.0 and sd > 0.0 else 0.0


# --- reasons and remedies -------------------------------------------------------------------------


def missing_tails(target: Any, fit: Fit, learned: Any = None) -> Iterator[reasons.Reason]:
    """Yield reasons against a fit whose draws lack a tail of a hub.

    `learned` are the findings of its warm-up, which may have looked for a block.
    """
    if target.target is not target:  # a distribution that is built from a program
        return
    known = None
    if getattr(learned, "block_sought", False):
        if not learned.straightened.block_is_used:
            return
        known = unpacked(learned.straightened.straightening.block.copy())
    calls = results.attribute(fit, "n_gradients")
    most = np.inf if calls is None else SHARE_OF_RUN * float(calls)
    yield from reasons_of(target, find_tails(target, fit, most, known))


def reasons_of(target: Target, found: Found | None) -> Iterator[reasons.Reason]:
    """Yield a reason for each tail that is missing, or a remark for one that may be."""
    if found is None:
        return
    names = target.coordinate_names
    share = FEW_TAILS / max(FEW_TAILS, len(found.tails))
    one, both, doubtful = ndtri(share * ndtr(-np.array([MISSING, MISSING_TWO, DOUBTFUL])))
    two = sum(tail.z < both for tail in found.tails) > 1
    for tail in found.tails:
        if not tail.z < doubtful:
            continue
        missing = tail.z < (both if two else one)
        text = (
            f"The draws {'lack' if missing else 'may lack'} {tail.side} values of "
            f"{names[tail.coordinate]}: toward that tail they thin out faster than the density "
            f"(z = {tail.z:.1f}). {in_words(target, found)}: {_remedy(target, found)}"
        )
        if missing:
            yield reasons.Reason(BY_DENSITY["tail_missing"], Message("tail_missing", text))
        else:
            yield reasons.Reason(BY_DENSITY["tail_doubtful"], Message("tail_doubtful", text))


def in_words(target: Target, found: Found) -> str:
    """Return which coordinates are normal given which hubs."""
    members, hubs = members_and_hubs(found.block, target.coordinate_names)
    return f"Given {hubs}, {members} are {'exactly' if found.exact else 'nearly'} normal"


def _remedy(target: Target, found: Found) -> str:
    """Name the statements in which members of the block have a scale among the hubs."""
    if found.is_used:  # these statements do no harm then, but steps may be too long for the hubs
        return "sample again with adapt_delta=0.99, or with more draws."
    names, block = target.coordinate_names, found.block
    members, hubs = (
        {results.variable_of(names[int(j)]) for j in numbers}
        for numbers in (block.block, block.hubs)
    )
    lines = []
    for number, line in enumerate(target.program.code.splitlines(), 1):
        for left, right in re.findall(r"(\w+)[^;~{}]*~([^;]*);", line):
            if left in members and hubs & set(re.findall(r"\w+", right)):
                lines.append(number)
    where = f"the priors in line {', '.join(map(str, dict.fromkeys(lines)))}" if lines else "them"
    return f"write {where} with standard normal residuals in place of parameters, and sample again."
