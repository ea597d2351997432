"""Look for a Gaussian block during warm-up, and continue in its coordinates.

Where the posterior is not close to a Gaussian and no triangular map brings it near one, or the log
density does not settle, gradients may still be linear in most coordinates, given a few others
(`block_structure`). To see this takes some hundred gradients, at places from which a regression can
be made. Before the next iterations, each chain computes its share of them, around positions
where chains have been: its moves stay the same, whether a block is found or not. If one is found,
its map is taken as it is and never learned again, and warm-up begins again in its coordinates: the
posterior is another one there. Of many hubs, it may have those of one series alone: then gradients
where each hub moves are computed, too, and the block of all series takes its place if it is exact.

If there is none, the posterior may still be Gaussian but for the likelihood of each member: that of
counts, for example. Once more, gradients are computed, around one position. They show the block of
its second order there (`sparse_block.find_nearly_block`), whose map is taken if the draws of the
last window are much closer to a Gaussian in its coordinates. Functions of hubs that the likelihood
multiplies members with, and its own parameters, are seen beforehand (`scaled_block`), as are
innovations of a process: its states take their place. Any map of this form is a change of
variables, so that draws are as exact as before.

The design and its limits are ours.
"""

from typing import Any

import numpy as np

from stanadapt.engine import metric_factor, walk_map
from stanadapt.engine.block_map import WIDTH, BlockMap, pack, unpacked
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.triangular_map import no_map
from stanadapt.engine.warmup import END, Change, Progress, Result, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block_structure import (
    MOST_COORDINATES,
    GaussianBlock,
    find_block,
    is_exact,
    is_tied,
    rows_needed,
    times_scale,
)
from stanadapt.samplers.whitened.block_terms import UNBOUNDED, hints_of
from stanadapt.samplers.whitened.choose_metric import WHILE_TRAVELING
from stanadapt.samplers.whitened.fisher_metric import MANY, fisher_metric, scales_alone
from stanadapt.samplers.whitened.loadings import find_loadings, pairs_to_find_loadings
from stanadapt.samplers.whitened.probes import NO_PROBES, Probes
from stanadapt.samplers.whitened.scaled_block import (
    KNOTS,
    Scales,
    find_scaled_block,
    find_scales,
    influence,
    pairs_with_scales,
    places_without,
)
from stanadapt.samplers.whitened.sparse_block import (
    MOST_BOUNDED,
    MOST_IN_SPARSE_BLOCK,
    NOTHING,
    find_nearly_block,
    find_sparse_block,
    has_many_hubs,
    pairs_needed,
    pairs_of_places,
    places,
)
from stanadapt.samplers.whitened.sparse_precision import ask_again, with_precision
from stanadapt.samplers.whitened.straighten import LARGEST_REST
from stanadapt.samplers.whitened.straightened import (
    Straightened,
    apply_map,
    distance_of,
    parts_with,
    parts_with_scales,
)
from stanadapt.samplers.whitened.window import make_window

# Distance from a Gaussian from which a block is looked for; that with a triangular map which is as
# good as a block whose members are not tied to each other; and the part of one coordinate in that
# without a map from which one is looked for in any case. With triangular maps that leave up to
# 0.22, centered hierarchies cost half as many gradients as with blocks; with those that leave
# 0.09, a local level model lacks a tail.
FAR, GOOD, PART = 0.1, 0.25, 1.0
# distance of new places from those where chains were, in standard deviations
AWAY = 0.5
# share of the D of members of a block with a constant precision of the likelihood that is left, at
# most, if this falls with a scale
CLOSER = 0.8
# draws of a window, at least, that judge a block that is nearly Gaussian
JUDGED = 20
# members of such a block, at least: of fewer, its places would cost more than they save; and if
# they have scales that are no products of parameters
FEWEST, FEWEST_SCALED = 20, 8


def seek_block_too(learn: Change, settings: Any, progress: Progress, states: States) -> Result:
    """Let a stage also look for a block, or a sparse precision, beside its own work."""
    probes = [state.probes.rows for state in states if len(state.probes.rows)]
    sought = bool(probes) and progress.learned.probes_seek_block
    if probes:
        states = [state._replace(probes=NO_PROBES) for state in states]
        progress = progress.learning(probes_seek_block=False)
        progress = progress if sought else with_precision(progress, states, probes)
    progress, states = learn(settings, progress, states)
    if sought:
        return _judge(settings, progress, states, probes)
    return ask_if_wanted(settings, progress, ask_again(settings, progress, states))


def has_good_map(progress: Progress) -> bool:
    found = progress.learned.straightened
    return found.map_is_used and found.distance < GOOD


def _is_far(distance: float, part: float) -> bool:
    return distance >= FAR or part >= PART


def ask_if_wanted(settings: Any, progress: Progress, states: States) -> Result:
    """Give each chain places at which to compute gradients, if a block is to be looked for."""
    learned = progress.learned
    long = (parts.METRIC, parts.NUTS_METRIC) if learned.settled else (parts.SURVEY,)
    if len(learned.process) and progress.then in long:
        progress = progress.learning(process=NO_PROBES.rows)
        return _ask_for_pairs(progress, states, learned.process, first=False)
    found, dim = learned.straightened, learned.dim
    known = np.isfinite(found.distance_before)
    far = known and _is_far(found.distance_before, found.part)
    far = far and not (dim > MOST_COORDINATES and has_good_map(progress))
    far |= dim > MANY and progress.then == parts.NUTS_METRIC
    wanted = progress.then == parts.SURVEY or ((far or learned.linear) and progress.then != END)
    bounded = progress.bounds[:, 0].astype(int)
    possible = dim <= MOST_COORDINATES or (
        dim <= MOST_IN_SPARSE_BLOCK and 0 < len(bounded) <= MOST_BOUNDED
    )
    if not settings.straighten or learned.block_sought or not possible or not wanted:
        return progress, states
    x, g = _finite(*make_window(states).pooled)
    if len(x) < 2:
        return progress, states
    few = dim <= MOST_COORDINATES
    rows = _places(x, g, progress.used) if few else places(x, g, bounded)
    return _give(progress, states, rows, places_without(x, _scales(progress)))


def _give(progress: Progress, states: States, rows: np.ndarray, last: np.ndarray) -> Result:
    """Give chains places in turn, and the first one also the last places."""
    given = [rows[k :: len(states)] for k in range(len(states))]
    given[0] = np.concatenate([given[0], last])
    return progress.learning(probes_seek_block=True), [
        state._replace(probes=Probes(np.ascontiguousarray(own)))
        for state, own in zip(states, given, strict=True)
    ]


def _places(x: np.ndarray, g: np.ndarray, seed: int) -> np.ndarray:
    """Return draws and their gradients, and places around draws, shape (row, 2, dim)."""
    dim = x.shape[1]
    needed = rows_needed(dim)
    x, g = x[-needed:], g[-needed:]
    with one_blas_thread(), np.errstate(all="ignore"):
        factor = fisher_metric(x, g, np.ones(dim)).factor
        rng = np.random.default_rng(seed)  # of places alone, not of moves
        noise = rng.standard_normal((needed - len(x), dim))
        around = x[rng.integers(len(x), size=len(noise))]
        around = around + AWAY * noise @ metric_factor.written_out(factor, dim).T
    rows = np.full((needed, 2, dim), np.nan)
    rows[: len(x), 0], rows[: len(x), 1], rows[len(x) :, 0] = x, g, around
    return rows


def _finite(x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    usable = np.isfinite(x).all(axis=1) & np.isfinite(g).all(axis=1)
    return x[usable], g[usable]


def _judge(settings: Any, progress: Progress, states: States, probes: list[np.ndarray]) -> Result:
    """Take the block that rows of all chains show, if any, and begin again in its coordinates."""
    learned = progress.learned
    dim, exact = learned.dim, not learned.block_sought
    before, part = learned.straightened.distance_before, learned.straightened.part
    if not np.isfinite(before):
        before, part = distance_of(*_finite(*make_window(states).pooled))
        if dim <= MOST_COORDINATES and not _is_far(before, part):
            return progress, states
    progress = progress.learning(block_sought=True)
    asked = len(probes[0]) - (2 + KNOTS) * len(_scales(progress))
    probes, last = [probes[0][:asked], *probes[1:]], probes[0][asked:]
    rows = np.concatenate(probes)
    if dim > MOST_COORDINATES or not exact:  # in the order in which chains were given them
        count = len(probes)
        given = [k + count * np.arange(len(own)) for k, own in enumerate(probes)]
        rows = rows[np.argsort(np.concatenate(given))]
    scales = None if exact else find_scales(last, progress.bounds)
    rows = rows if scales is None else _of_states(scales.walk, rows)
    rows, products = _with_products_apart(progress, rows, scales)
    if len(products) and not has_good_map(progress):
        loadings = find_loadings(products, _scales(progress))
        if 0 < len(loadings) <= MOST_BOUNDED - len(_scales(progress)):
            return _ask_for_pairs(progress.learning(loadings=loadings), states, last, False)
    found = in_block(settings, progress, rows, before, part, scales)
    if found is not None and scales is not None and scales.has_process:
        found = _with_scale_if_closer(found, rows, last, states)
    if found is not None and is_exact(_block_of(found), *_finite(*make_window(states).pooled)):
        known = found.learned.straightened._replace(normal=True)
        found = found.learning(straightened=known)
    if has_good_map(progress) and not (found is not None and exact and _is_one_chain(found)):
        return progress, states
    former = progress.learned.straightened
    if former.block_is_used:  # a part of it, exactly
        found = _if_larger(former, found)
    elif found is None and (scales is None or _moved(rows, scales.others)):
        with_loadings = len(progress.learned.loadings) > 0
        progress = progress.learning(loadings=NOTHING)
        return _ask_for_pairs(progress, states, last, exact, seeks_loadings=not with_loadings)
    sure = exact or former.block_is_used
    if found is None or not (sure or is_closer(progress, found, states)):
        early = not progress.learned.settled or len(make_window(states).pooled[0]) < JUDGED
        again = scales is not None and scales.has_process and early
        return progress.learning(process=last if again else NO_PROBES.rows), states
    window = parts.window_of(found, states)
    progress = parts.learn_metric(settings, found, window, WHILE_TRAVELING)
    progress = parts.with_levels_of(progress, window).to(parts.TRAVEL)
    return _ask_for_the_rest(progress, states, last) if exact else (progress, states)


def _block_of(progress: Progress) -> BlockMap:
    return unpacked(progress.learned.straightened.straightening.block)


def _is_one_chain(found: Progress) -> bool:
    """Whether members of a block are tied to each other, and not through a few such as their mean.

    The dependence among states that follow each other changes with their scales, which no
    triangular map has: it may be good where chains have been, and keep them out of a neck.
    """
    return is_tied(_block_of(found))


def _scales(progress: Progress) -> np.ndarray:
    """Return the bounded coordinates on which a block that is nearly Gaussian may depend."""
    bounded = progress.bounds[:, 0].astype(int)
    many = len(bounded) > min(MOST_BOUNDED, progress.learned.dim - FEWEST_SCALED)
    return bounded[:0] if many else bounded


def _of_states(walk: walk_map.Walk, rows: np.ndarray) -> np.ndarray:
    """Return rows, shape (row, 2, dim), by the states of a process in place of its innovations."""
    if len(walk.members) == 0:  # nothing to be compiled
        return rows
    x, g = (np.ascontiguousarray(rows[:, k]) for k in (0, 1))
    walk_map.enter_rows(walk, x, g)
    return np.stack([x, g], axis=1)


def _moved(rows: np.ndarray, coordinates: np.ndarray) -> bool:
    return bool(np.ptp(rows[:, 0, coordinates], axis=0).any())


def _ask_for_pairs(
    progress: Progress,
    states: States,
    last: np.ndarray,
    first: bool,
    seeks_loadings: bool = True,
) -> Result:
    """Give each chain places that show a block which is nearly Gaussian.

    If there was none, other coordinates may multiply members: places that show this follow. If they
    do not, a parameter of the likelihood stays: the block is that for this value.
    """
    bounded = _scales(progress)
    x, _ = _finite(*make_window(states).pooled)
    if not len(bounded) or progress.then == END or len(x) < 2:
        return progress, states
    scales = find_scales(last, progress.bounds)
    if not scales.are_factors:
        return _give(progress, states, pairs_with_scales(x, bounded, scales), last)
    if x.shape[1] - len(bounded) < FEWEST:
        return progress, states
    loadings = progress.learned.loadings
    still = scales.others[: 0 if first or len(loadings) else None]
    x = _of_states(scales.walk, np.stack([x, x], axis=1))[:, 0]
    rows = pairs_of_places(x, bounded, scales.by, still, loadings, scales.has_process)
    if len(still) and seeks_loadings and x.shape[1] <= MOST_COORDINATES and not scales.by.any():
        rows = np.concatenate([rows, pairs_to_find_loadings(x, bounded)])
    if scales.has_process:
        innovations = np.ascontiguousarray(rows[:, 0])
        walk_map.leave_rows(scales.walk, innovations)
        rows[:, 0] = innovations
    return _give(progress, states, rows, last)


def _ask_for_the_rest(progress: Progress, states: States, last: np.ndarray) -> Result:
    """Give each chain places that show a larger block, if there are many hubs and it has a few.

    Independent series have a block each. Functions of all their hubs may be too many for a greedy
    search, which ends with those of one, but not for one that moves each hub.
    """
    block, bounded = _block_of(progress), _scales(progress)
    rest = np.setdiff1d(np.arange(progress.learned.dim), [*block.block, *bounded])
    possible = len(rest) and has_many_hubs(bounded, None)
    if not possible or np.isin(bounded, block.hubs).all():
        return progress, states
    scales = find_scales(last, progress.bounds)
    many = scales.are_factors and has_many_hubs(bounded, scales.by)
    return _ask_for_pairs(progress, states, last, first=True) if many else (progress, states)


def _if_larger(former: Straightened, found: Progress | None) -> Progress | None:
    """Return a warm-up in the block that was found, if it has a former one and is exact, too."""
    if found is None or not found.learned.straightened.normal:
        return None
    part, whole = unpacked(former.straightening.block).block, _block_of(found).block
    if len(whole) == len(part) or not np.isin(part, whole).all():
        return None
    return found.learning(straightened=found.learned.straightened._replace(exact=True))


def _with_products_apart(
    progress: Progress, rows: np.ndarray, scales: Scales | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that show a block which is nearly Gaussian, and those that show loadings."""
    if scales is None or not scales.are_factors or len(progress.learned.loadings):
        return rows, rows[:0]
    bounded = _scales(progress)
    many_hubs = has_many_hubs(bounded, scales.by, scales.has_process)
    count = 2 * sum(pairs_needed(rows.shape[2], bounded, many_hubs))
    return rows[:count], rows[count:]


def is_closer(progress: Progress, found: Progress, states: States, most: float = PART) -> bool:
    """Whether draws are much closer to a Gaussian in the block than they are without it.

    If a likelihood keeps each of many coordinates from a normal, perhaps only the farthest becomes
    closer: a scale. The few outside of the block may be correlated.
    """
    former, new = (each.learned.straightened for each in (progress, found))
    x, g = _finite(*make_window(states).pooled)
    mapped = apply_map(new.straightening, x, g)
    after = parts_with_scales(*mapped[:2])
    rival = former.distance if former.map_is_used else new.distance_before
    closer = after.mean() < LARGEST_REST * rival
    process = len(_block_of(found).walk.members) > 0
    if x.shape[1] > MOST_COORDINATES or process:
        with_scales = parts_with_scales(x, g)
        farthest = with_scales.max()
        if process:  # few draws do not show the correlations of innovations
            rival = max(rival, LARGEST_REST * with_scales.mean())
        others = np.setdiff1d(np.arange(x.shape[1]), _block_of(found).block)
        y, slopes = (each[:, others] for each in mapped[:2])
        after[others] = parts_with(fisher_metric(y, slopes, np.ones(len(others))), y, slopes)
        closer |= after.mean() < rival and after.max() < LARGEST_REST * farthest
        closer &= not process or after.mean() < most
    return bool(len(x) >= JUDGED and closer)


def _with_scale_if_closer(
    found: Progress, rows: np.ndarray, last: np.ndarray, states: States
) -> Progress:
    """Let the precision of the likelihood fall with a scale of its own, if draws are closer then.

    This scale did not move while the block was looked for: the precision is not exactly of this
    form, such as that of Student-t errors.
    """
    block = _block_of(found)
    x, g = _finite(*make_window(states).pooled)
    scales = found.bounds[found.bounds[:, 1 + WIDTH] == 0.0, 0].astype(int)
    for hub in np.setdiff1d(scales[np.ptp(rows[:, 0, scales], axis=0) == 0.0], block.hubs):
        by = influence(last, len(found.bounds))[found.bounds[:, 0] == hub][0]
        other = times_scale(block, int(hub), rows[0, 0, hub], by)
        if other is not None and _left(other, x, g) < CLOSER * _left(block, x, g):
            block = other
    straightened = found.learned.straightened
    return found.learning(straightened=straightened._replace(straightening=no_map(pack(block))))


def _left(block: BlockMap, x: np.ndarray, g: np.ndarray) -> float:
    """Return the part of usual members in D: hubs, for which chains may still look, are far."""
    parts_of_all = parts_with_scales(*apply_map(no_map(pack(block)), x, g)[:2])
    return float(np.median(parts_of_all[block.block]))


def _with_walk(found: GaussianBlock | None, walk: walk_map.Walk) -> GaussianBlock | None:
    """Return a block of the states of a process, if it has all of them, as one of innovations."""
    if found is None or not np.isin(walk.members, found.map.block).all():
        return None
    return found._replace(map=found.map._replace(walk=walk))


def in_block(
    settings: Any,
    progress: Progress,
    rows: np.ndarray,
    before: float,
    part: float,
    scales: Scales | None = None,
) -> Progress | None:
    """Return a warm-up that begins again in the coordinates of the block that rows show, if any.

    Rows of positions and gradients have shape (row, 2, dim), and are pairs, with the scales in
    the likelihood, if it need not be exact.
    """
    loadings = progress.learned.loadings.tolist()
    try:
        hints = {**hints_of(progress.bounds), **dict.fromkeys(loadings, UNBOUNDED)}
        if scales is not None and scales.are_factors:
            block = find_nearly_block(rows, hints, scales.by, scales.has_process)
            block = _with_walk(block, scales.walk)
        elif scales is not None:
            block = find_scaled_block(rows, hints, scales)
            rows = rows[: len(rows) // 2]  # in the others, a scale is nearly zero
        elif rows.shape[2] <= MOST_COORDINATES:
            block = find_block(rows[:, 0], rows[:, 1], hints)
        else:
            block = find_sparse_block(rows, hints)
    except np.linalg.LinAlgError:  # no convergence
        block = None
    if block is None:
        return None
    map_of_block, exact = no_map(pack(block.map)), scales is None
    straightened = Straightened(map_of_block, (), before, np.inf, part=part, exact=exact)
    sd = rows[:, 0].std(axis=0)
    sd[block.map.block] = 1.0
    sd[~(sd > 0.0)] = 1.0
    learned = parts.anew(
        settings, progress.learned, metric=scales_alone(sd), straightened=straightened,
        attempts=0, block_sought=True,
    )  # fmt: skip
    return progress._replace(learned=learned)
