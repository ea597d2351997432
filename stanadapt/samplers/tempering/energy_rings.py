"""Swaps between any two levels of parallel tempering with states in the same energy ring.

A ring is an interval of l, the log density of the target. One of the pairs (i, j) of levels with
states in the same ring is picked uniformly, and swapped with the ratio of parallel tempering on the
path b l + (1 - b) psi,

    log ratio = (b_i - b_j) (Delta_j - Delta_i),    Delta = l - psi.

A swap leaves the set of states unchanged, and so the number of pairs to pick from: this is exact
for every ladder, and for any rings that are fixed while draws are kept. The boundaries are
quantiles of l over the states of all levels in the last round of warm-up. Throughout warm-up
neighbors swap, so that the ladder is learned as in parallel tempering.

References
----------
That of `equi_energy`: the rings. Baragatti, Grimaud and Pommeret (2013), Parallel tempering with
equi-energy moves, Statistics and Computing 23: swaps within them. Deviation: their chains sample
powers of the target; here they are on the path from a reference, and boundaries are learned.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.points import acceptance_probability
from stanadapt.samplers.tempering import swaps
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.path import TARGET, log_ratio

# number of values of l from which the boundaries are learned
KEPT = 4096


class EnergyRings(NamedTuple):
    """Rings of l, updated in place."""

    # values of l between one ring and the next, increasing; inf before they are learned, when all
    # states lie in the first ring; shape (rings - 1,)
    boundaries: np.ndarray
    # values of l in the last round of warm-up, without some sweeps; NaN if a row has no value
    seen: np.ndarray
    # for the latest sweep: the RING of each level's state, and the number of hotter levels in the
    # same ring (PARTNERS), shape (2, room); without room if there are no rings
    members: np.ndarray
    without_pair: np.ndarray  # number of sweeps in which no two states shared a ring, shape (1,)


RING, PARTNERS = 0, 1


def no_rings(count: int, room: int) -> EnergyRings:
    """Return EnergyRings to be learned, for at most `room` levels; with 0, there are no rings."""
    boundaries = np.full(count - 1 if room > 0 else 0, np.inf)
    seen = np.full(max(KEPT, room) if room > 0 else 0, np.nan)
    return EnergyRings(boundaries, seen, np.zeros((2, room), np.int64), np.zeros(1, np.int64))


@jit
def keep(rings, tempering, t, iter_warmup):
    """In the last round of warm-up, keep l of all levels after sweep t."""
    n = t - (iter_warmup >> 1)
    if n < 0 or rings.seen.shape[0] == 0:
        return
    count, last = tempering.ladder.size[0], iter_warmup - (iter_warmup >> 1) - 1
    stride = last // (rings.seen.shape[0] // count) + 1
    if n % stride == 0:
        for k in range(count):
            row = tempering.order[0, k]
            rings.seen[n // stride * count + k] = tempering.replicas.logs[row, TARGET]


def learn(rings: EnergyRings) -> None:
    """Set the boundaries to quantiles of the finite values, so that all rings get equally many."""
    values, count = np.sort(rings.seen[np.isfinite(rings.seen)]), len(rings.boundaries) + 1
    if len(values):
        rings.boundaries[:] = values[np.arange(1, count) * len(values) // count]


@jit
def sweep(tempering, rings, rng):
    """Move every chain, then swap two that share a ring: `swaps.sweep` after warm-up."""
    acceptance_rate, steps, diverging = swaps.move_levels(tempering, 0.0, False, rng)
    swaps.swap_neighbors(tempering, swaps.NEITHER, rng)
    swap_rate = swap(tempering, rings, rng)
    trips = swaps.count_round_trips(tempering)
    levels = tempering.ladder.size[0]
    return swaps.ParallelTemperingInfo(acceptance_rate, swap_rate, steps, diverging, trips, levels)


@jit
def swap(tempering, rings, rng):
    """Swap two levels in the same ring; returns the acceptance probability, 0 without a pair."""
    pairs = find_pairs(tempering, rings)
    if pairs == 0:
        rings.without_pair[0] += 1
        return 0.0
    i, j = find_pair(rings.members, int(rng.random() * pairs))
    order, levels, replicas = tempering.order[0], tempering.ladder.levels, tempering.replicas
    delta_i, delta_j = log_ratio(replicas, order[i]), log_ratio(replicas, order[j])
    rate = acceptance_probability((levels[i, B] - levels[j, B]) * (delta_j - delta_i))
    if rng.random() < rate:
        order[i], order[j] = order[j], order[i]
    return rate


@jit
def find_pairs(tempering, rings):
    """Fill in the members of all rings; returns the number of pairs of levels that share one."""
    total, boundaries, members = 0, rings.boundaries, rings.members
    for j in range(tempering.ladder.size[0]):
        log_density, ring = tempering.replicas.logs[tempering.order[0, j], TARGET], 0
        while ring < boundaries.shape[0] and log_density >= boundaries[ring]:
            ring += 1
        members[RING, j], members[PARTNERS, j] = ring, 0
        for i in range(j):
            members[PARTNERS, j] += members[RING, i] == ring
        total += members[PARTNERS, j]
    return total


@jit
def find_pair(members, n):
    """Return pair n = 0, 1, ... of levels i < j that share a ring, in the order of j, then of i."""
    j = 0
    while n >= members[PARTNERS, j]:
        n -= members[PARTNERS, j]
        j += 1
    i = 0
    while n > 0 or members[RING, i] != members[RING, j]:
        n -= members[RING, i] == members[RING, j]
        i += 1
    return i, j
