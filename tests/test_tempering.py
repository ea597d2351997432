"""Parallel tempering on a fixed ladder: every level keeps its law, swaps by the formula, evidence.

Chains begin with exact draws of their levels, many times over; whatever a sweep does wrong shows in
the moments of some level after a few of them.
"""

import numpy as np
import pytest
from targets import Awkward
from tempered_formula import LOG_EVIDENCE, MIDDLE, WIDE, Tempered, surprises

from stanadapt import tempering as engine
from stanadapt._jit import jit
from stanadapt.board import no_board
from stanadapt.ladder import LOG_STEP, B, no_ladder
from stanadapt.reference_law import ReferenceLaw
from stanadapt.tempered_moves import STEPS, Moves, Options, make_mover, move
from stanadapt.tempered_path import (
    LAW,
    POSITION,
    POWER,
    PRIOR,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    Path,
    evaluate,
    no_places,
)
from stanadapt.tempering import BACKWARD, FORWARD, REJECTION, SWEEPS, TRIPS

LEVELS = np.array([0.0, 0.02, 0.15, 0.45, 1.0])
REPLICATES, ROUNDS = 20_000, 3


def make(kind=Moves.hmc, levels=LEVELS, room=7, wall=np.inf, degrees=np.inf):
    """Return a tempering on a given ladder, with unequal steps and scales."""
    path = Path(Awkward(wall).density(), ReferenceLaw(MIDDLE, WIDE, degrees=degrees).law(3), LAW, 0)
    ladder, order = no_ladder(room, 3), np.zeros((2, room), np.int64)
    count = len(levels)
    ladder.levels[:count, B], ladder.size[0] = levels, count
    ladder.levels[:count, LOG_STEP] = np.linspace(-0.1, -0.5, count)
    ladder.scale[:count] = np.linspace(1, 0, count)[:, None] * WIDE + [1.0, 0.15, 2.5]
    order[0] = np.arange(room)
    mover = make_mover(room, 3, Options(kind, 3, 4), no_board())
    seen = engine.nothing_seen(room, 3)
    return engine.Tempering(
        path, mover, ladder, no_places(room, 3), order, seen, np.full((1, 4), np.nan)
    )


@jit
def _swept(tempering, starts, sweeps, rng, out, learning=False):
    """Sweep from each of the starts, shape (replicate, level, 3), which become the ends."""
    count, rates = tempering.ladder.size[0], np.zeros(2)
    for r in range(starts.shape[0]):
        for k in range(count):
            row = tempering.order[0, k]
            tempering.places.vectors[row, POSITION] = starts[r, k]
            evaluate(tempering.path, tempering.places, row, True)
        for i in range(sweeps):
            done = engine.sweep(tempering, 0.8, (r + i) % 2, learning, rng)
            rates[0] += done.acceptance_rate
            rates[1] += done.swap_rate
            out[r] += done.steps
        for k in range(count):
            starts[r, k] = tempering.places.vectors[tempering.order[0, k], POSITION]
    return rates / (starts.shape[0] * sweeps)


@jit
def _followed(tempering, sweeps, rng, orders, out):
    for i in range(sweeps):
        out[i] = engine.sweep(tempering, 0.8, i % 2, False, rng).round_trips
        orders[i] = tempering.order[0]


def exact(count, seed=1, levels=LEVELS):
    rng = np.random.default_rng(seed)
    return np.stack([Tempered(b).draws(count, rng) for b in levels], axis=1)


def gains(x):
    """Delta of draws, shape (replicate, level, 3), by numpy."""
    a, b = (x[..., 1] - 1.0) / 0.3, (x[..., 2] + 2.0) / 4.0
    log_target = 2 * x[..., 0] - np.exp(x[..., 0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    away = (x - MIDDLE) / WIDE
    log_law = -0.5 * (away**2).sum(axis=-1) - np.log(WIDE).sum() - 1.5 * np.log(2 * np.pi)
    return log_target - log_law


# --- the law of every level ----------------------------------------------------------------------


def test_every_level_keeps_its_law():
    """Seven moments of five levels within 4.5 standard errors: one false alarm in 4,000 tests."""
    tempering, x = make(), exact(REPLICATES)
    rates = _swept(tempering, x, ROUNDS, np.random.default_rng(2), np.zeros(REPLICATES, np.int64))
    for k, b in enumerate(LEVELS):
        assert np.abs(surprises(x[:, k], Tempered(b))).max() < 4.5
    assert np.all(rates > 0.3)  # moves and swaps do happen
    assert np.all(rates < 0.98)


def test_rejections_and_constants_are_those_of_exact_draws():
    """The first sweep watches draws that are exact but for the moves, which keep them so."""
    tempering, x = make(), exact(REPLICATES, seed=3)
    _swept(tempering, x, 1, np.random.default_rng(4), np.zeros(REPLICATES, np.int64))
    gap = np.diff(LEVELS)
    delta = gains(exact(REPLICATES, seed=5))
    rate = np.minimum(1.0, np.exp(gap * (delta[:, :-1] - delta[:, 1:])))
    seen = tempering.seen
    assert seen.counts[SWEEPS] == REPLICATES
    found = seen.levels[:4, REJECTION] / REPLICATES
    error = rate.std(axis=0) * np.sqrt(2 / REPLICATES)
    assert np.all(np.abs(found - (1 - rate).mean(axis=0)) < 4.5 * error)
    assert np.all(found > 0.1)
    assert np.ptp(found) > 0.05  # gaps are told apart
    log_z = np.zeros(7)
    engine.log_normalizers(seen, 5, log_z)
    wanted = np.array([Tempered(b).log_z for b in LEVELS])
    assert wanted[-1] == pytest.approx(LOG_EVIDENCE, abs=1e-6)
    assert wanted[0] == pytest.approx(0.0, abs=1e-6)
    # of the mean of two log-mean-exps, by the delta method
    forward, backward = np.exp(gap * delta[:, :-1]), np.exp(-gap * delta[:, 1:])
    relative = [y.std(axis=0) / y.mean(axis=0) for y in (forward, backward)]
    error = 0.5 * np.sqrt((relative[0] ** 2 + relative[1] ** 2) / REPLICATES)
    assert np.all(np.abs(np.diff(log_z[:5]) - np.diff(wanted)) < 5 * error)
    assert np.sqrt((error**2).sum()) < 0.05
    assert abs(log_z[4] - LOG_EVIDENCE) < 5 * np.sqrt((error**2).sum())


def test_moments_of_a_round_are_those_of_its_levels():
    tempering, x = make(), exact(2000, seed=6)
    _swept(tempering, x, 2, np.random.default_rng(7), np.zeros(2000, np.int64), learning=True)
    seen, n = tempering.seen, 4000
    for k, b in enumerate(LEVELS):
        law = Tempered(b)
        # two sweeps of one start are no more than one draw
        assert np.all(np.abs(seen.vectors[k, 0] - law.mean) < 5 * law.sd / np.sqrt(2000))
        np.testing.assert_allclose(seen.vectors[k, 1] / n, law.variance, rtol=0.25)
    # at the ends E[slope^2] is known: 1 / variance of a Gaussian; of the last two, the precision
    np.testing.assert_allclose(seen.vectors[0, 2] / n, WIDE**-2.0, rtol=0.25)
    precision = 1 / (0.51 * np.array([0.3, 4.0]) ** 2)
    np.testing.assert_allclose(seen.vectors[4, 2, 1:] / n, precision, rtol=0.25)


def test_constants_where_the_target_fails():
    """Half of the reference lies behind the wall; at all other levels nothing does."""
    tempering, rng, n = make(wall=1.0), np.random.default_rng(15), 5000
    laws = [Tempered(b, 1.0 if b > 0 else np.inf) for b in LEVELS]
    x = np.stack([law.draws(n, rng) for law in laws], axis=1)
    _swept(tempering, x, 1, rng, np.zeros(n, np.int64))
    log_z = np.zeros(7)
    engine.log_normalizers(tempering.seen, 5, log_z)
    # five errors of a relative 1 / sqrt(n) at each of four gaps, those of exact draws above
    np.testing.assert_allclose(log_z[:5], [law.log_z for law in laws], atol=5 * 2 * 0.014)


def test_constants_where_reference_and_target_each_fail():
    """Three places: one of the reference alone, one of both, one of the target alone."""
    tempering, rng = make(levels=[0.0, 1.0], room=2), np.random.default_rng(16)
    delta, outside, n = 0.4, 0.8, 4000
    logs = np.array([[-np.inf, np.log(0.3)], [np.log(0.7) + delta, np.log(0.7)], [0.0, -np.inf]])
    target = np.array([0.0, 0.7 * np.exp(delta), outside])
    places = tempering.places.logs
    for _ in range(n):
        order = tempering.order[0]
        places[order[0]] = logs[rng.choice(3, p=[0.3, 0.7, 0.0])]
        places[order[1]] = logs[rng.choice(3, p=target / target.sum())]
        tempering.seen.counts[SWEEPS] += 1
        engine._swap(tempering, 0, rng)
    log_z = np.zeros(2)
    engine.log_normalizers(tempering.seen, 2, log_z)
    # both estimates are shares of draws, with relative errors below sqrt(0.6 / n)
    assert log_z[1] == pytest.approx(np.log(target.sum()), abs=5 * np.sqrt(0.6 / n))


# --- swaps ---------------------------------------------------------------------------------------


def plain_swap(levels, order, delta, parity, rng):
    """Syed et al., algorithm 1, with the rates of all pairs; Delta by row."""
    order, rates = order.copy(), []
    before = delta[order]
    for k in range(len(levels) - 1):
        log_ratio = (levels[k + 1] - levels[k]) * (before[k] - before[k + 1])
        rates.append(min(1.0, np.exp(min(log_ratio, 0.0))))
        if k % 2 == parity and rng.random() < rates[-1]:
            order[[k, k + 1]] = order[[k + 1, k]]
    return order, np.array(rates)


def test_swaps_equal_the_algorithm_with_the_same_random_numbers():
    rng, swapped = np.random.default_rng(8), np.zeros(4)
    for i in range(300):
        tempering, parity = make(), i % 2
        order = tempering.order[0]
        order[:5] = rng.permutation(5)
        tempering.places.logs[:] = 3 * rng.normal(size=(7, 2))
        delta = tempering.places.logs[:, TARGET] - tempering.places.logs[:, REFERENCE]
        before = order[:5].copy()
        wanted, rates = plain_swap(LEVELS, before, delta, parity, np.random.default_rng(i))
        found = engine._swap(tempering, parity, np.random.default_rng(i))
        np.testing.assert_array_equal(order[:5], wanted)
        assert found == pytest.approx(rates.mean())
        seen, gap = tempering.seen.levels, np.diff(LEVELS)
        np.testing.assert_allclose(seen[:4, REJECTION], 1 - rates, atol=1e-12)
        np.testing.assert_allclose(seen[:4, FORWARD], gap * delta[before][:-1])
        np.testing.assert_allclose(seen[:4, BACKWARD], -gap * delta[before][1:])
        swapped += wanted[:-1] == before[1:]
    assert np.all(swapped > 20)


def test_a_failed_place_sinks_to_the_reference_and_never_rises():
    tempering = make(levels=[0.0, 0.5, 1.0], room=3)
    tempering.places.logs[:] = [[-np.inf, 1.0], [0.0, 0.0], [1.0, 0.0]]
    for i in range(50):
        engine._swap(tempering, i % 2, np.random.default_rng(i))
        assert tempering.order[0, 0] == 0
    assert np.isfinite(tempering.seen.levels[:2, REJECTION]).all()
    log_z = np.zeros(3)
    engine.forget(tempering.seen)
    tempering.seen.counts[SWEEPS] = 1
    engine._swap(tempering, 0, np.random.default_rng(1))
    engine.log_normalizers(tempering.seen, 3, log_z)
    assert np.isfinite(log_z).all()


def test_round_trips_are_counted_when_they_end():
    tempering, x = make(), exact(1, seed=9)
    _swept(tempering, x, 0, np.random.default_rng(10), np.zeros(1, np.int64))
    orders, trips = np.zeros((3000, 7), np.int64), np.zeros(3000, np.int64)
    _followed(tempering, 3000, np.random.default_rng(11), orders, trips)
    hot, wanted = set(), []
    for order in orders:
        hot.add(order[0])
        wanted.append(order[4] in hot)
        hot.discard(order[4])
    np.testing.assert_array_equal(trips, wanted)
    assert tempering.seen.counts[TRIPS] == trips.sum() > 100
    assert trips[0] == 0


# --- refreshed levels ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Moves.hmc, Moves.random_walk])
def test_the_hottest_level_is_drawn_anew(kind):
    """With what is known there, by one evaluation; other levels and references are not."""
    tempering, rng = make(kind, levels=np.array([0.0, 1e-9, 1.0])), np.random.default_rng(12)
    places, calls, slots = tempering.places, tempering.path.target.calls, tempering.mover.numbers
    rows, levels = np.array([2]), np.array([0])

    def moved(path, level):
        levels[0] = level
        move(np.int64(0), path, tempering.mover, tempering.ladder, places, 1, rows, levels, rng)
        return slots[0, STEPS]

    assert moved(tempering.path, 0) == 0
    assert calls[:2].sum() == 1
    assert calls[1] == (kind != Moves.random_walk)
    x = places.vectors[2, POSITION].copy()
    assert gains(x) == pytest.approx(places.logs[2, TARGET] - places.logs[2, REFERENCE])
    if kind != Moves.random_walk:
        np.testing.assert_allclose(places.vectors[2, REFERENCE_SLOPE], (MIDDLE - x) / WIDE**2)
        assert places.vectors[2, SLOPE, 0] == pytest.approx(2 - np.exp(x[0]))
    assert moved(tempering.path, 1) > 0
    prior = tempering.path.target.handle  # some density: as good as any here
    for other in (POWER, PRIOR):
        assert moved(tempering.path._replace(kind=other, prior_handle=prior), 0) > 0


def test_steps_are_tuned_only_while_learning():
    tempering, x = make(), exact(1, seed=13)
    _swept(tempering, x, 0, np.random.default_rng(1), np.zeros(1, np.int64))
    before = tempering.ladder.levels.copy()
    engine.sweep(tempering, 0.8, 0, False, np.random.default_rng(14))
    np.testing.assert_array_equal(tempering.ladder.levels, before)
    engine.forget(tempering.seen)
    engine.sweep(tempering, 0.0, 0, True, np.random.default_rng(14))
    change = tempering.ladder.levels - before
    # towards a rate of 0 all steps grow, but that of the level that is drawn anew
    assert np.all(change[1:5, LOG_STEP] > 0)
    assert np.all(change[1:5, LOG_STEP] <= engine.HEAD**-engine.POWER)
    assert not np.delete(change, LOG_STEP, axis=1).any()
    assert not change[[0, 5, 6]].any()
