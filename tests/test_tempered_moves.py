"""Moves at a temperature: exact draws stay exact draws, and what is kept of them stays true."""

import numpy as np
import pytest
from scipy import stats
from targets import Awkward
from tempered_formula import MIDDLE, WIDE, Tempered, surprises

from stanadapt._jit import jit
from stanadapt.board import no_board
from stanadapt.density import FAILED_CALLS, GRADIENT_CALLS, VALUE_CALLS
from stanadapt.ladder import LOG_STEP, B, no_ladder
from stanadapt.reference_law import ReferenceLaw
from stanadapt.tempered_moves import (
    DIVERGING,
    RATE,
    SMALLEST,
    STEPS,
    Moves,
    Options,
    make_mover,
    move,
)
from stanadapt.tempered_path import LAW, POSITION, PRIOR, Path, copy_place, evaluate, no_places

REPLICATES, MOVES = 20_000, 4
SIZES = {Moves.hmc: 0.9, Moves.nuts: 0.9, Moves.random_walk: 1.0}
TEMPERATURES = [0.0, 0.1 * SMALLEST, 0.05, 0.4, 1.0]


@jit
def _apart(one, other):
    """Distance, 0 of equal infinities; infinite where either is NaN."""
    found = 0.0 if one == other else abs(one - other)
    return found if found < np.inf else np.inf


@jit
def _moved(path, mover, ladder, starts, moves, gradients, out, rng):
    """Make moves from every start; rows of out: acceptance, steps, diverging, still true."""
    places, again = no_places(1, 3), no_places(1, 3)
    for row in range(starts.shape[0]):
        places.vectors[0, POSITION] = starts[row]
        evaluate(path, places, 0, gradients)
        out[row, :] = 0.0
        for _ in range(moves):
            move(np.int64(0), path, mover, ladder, places, 1, None, None, rng)
            out[row, 0] += mover.numbers[0, RATE]
            out[row, 1] += mover.numbers[0, STEPS]
            out[row, 2] += mover.numbers[0, DIVERGING]
        starts[row] = places.vectors[0, POSITION]
        copy_place(places, 0, again, 0)
        evaluate(path, again, 0, gradients)
        for part in range(2):
            error = _apart(places.logs[0, part], again.logs[0, part])
            out[row, 3] = max(out[row, 3], error)
        for part in range(1, 3 if gradients else 1):
            for i in range(3):
                error = _apart(places.vectors[0, part, i], again.vectors[0, part, i])
                out[row, 3] = max(out[row, 3], error / (1.0 + abs(again.vectors[0, part, i])))


def make_path(wall, b):
    """Return a path from a law; where b = 0, at which that would be drawn from, from prior data."""
    prior = Awkward().wall.ctypes.data
    law = ReferenceLaw(MIDDLE, WIDE).law(3)
    return Path(Awkward(wall).density(), law, LAW if b > 0 else PRIOR, prior)


def moved(kind, b, starts, wall=np.inf, scale=None, step_size=None, leapfrogs=4, moves=MOVES):
    """Return where the moves end, what they reported, and the path with its counters."""
    path, rng = make_path(wall, b), np.random.default_rng(int(1000 * b) + kind)
    mover, ladder = make_mover(1, 3, Options(kind, leapfrogs, 4), no_board()), no_ladder(1, 3)
    # unequal scales, off from the target's own
    ladder.scale[:] = np.array([[1.2, 0.15, 3.0]]) if scale is None else scale
    x, out = starts.copy(), np.empty((len(starts), 4))
    ladder.levels[0, B] = b
    ladder.levels[0, LOG_STEP] = np.log(SIZES[kind] if step_size is None else step_size)
    gradients = kind != Moves.random_walk
    _moved(path, mover, ladder, x, moves, gradients, out, rng)
    return x, out, path


@pytest.mark.parametrize("wall", [np.inf, 1.0])
@pytest.mark.parametrize("b", TEMPERATURES)
@pytest.mark.parametrize("kind", Moves)
def test_exact_draws_stay_exact(kind, b, wall):
    """Seven moments within 4.5 standard errors: by chance one test of 20,000 fails, by the normal.

    The error of a second moment is about a hundredth of it. Where b = 0 the wall does not count.
    """
    law = Tempered(b, wall) if b > 0 else Tempered(1.0)
    starts = law.draws(REPLICATES, np.random.default_rng(1))
    x, out, _ = moved(kind, b, starts, wall)
    assert np.abs(surprises(x, law)).max() < 4.5
    assert stats.kstest(x[:2000, 0], law.first_below).pvalue > 1e-5
    assert out[:, 3].max() < 1e-7
    # the check above had power: moves that fail often, and go far
    rate = out[:, 0].mean() / MOVES
    assert 0.15 < rate < 0.97
    correlation = [np.corrcoef(starts[:, i], x[:, i])[0, 1] for i in range(3)]
    assert np.min(correlation) < 0.7


@pytest.mark.parametrize("kind", Moves)
def test_nothing_but_the_product_of_scale_and_step_counts(kind):
    starts = Tempered(0.4).draws(200, np.random.default_rng(2))
    scale = np.array([[1.0, 0.125, 4.0]])
    one, _, _ = moved(kind, 0.4, starts, scale=scale, step_size=1.0)
    other, _, _ = moved(kind, 0.4, starts, scale=0.5 * scale, step_size=2.0)
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, starts)


@pytest.mark.parametrize("wall", [np.inf, 1.0])
@pytest.mark.parametrize("kind", Moves)
def test_steps_are_the_evaluations(kind, wall):
    for b in (0.1 * SMALLEST, 0.4):
        starts = Tempered(b, wall).draws(500, np.random.default_rng(3))
        _, out, path = moved(kind, b, starts, wall)
        used, unused = GRADIENT_CALLS, VALUE_CALLS
        if kind == Moves.random_walk:
            used, unused = unused, used
        # at the start, and once more for the comparison
        assert path.target.calls[used] == out[:, 1].sum() + 2 * len(starts)
        assert path.target.calls[unused] == 0
        assert (path.target.calls[FAILED_CALLS] > 0) == (wall < np.inf)


def test_every_number_of_leapfrogs_is_as_likely():
    starts = Tempered(0.4).draws(5000, np.random.default_rng(4))
    _, out, _ = moved(Moves.hmc, 0.4, starts, step_size=0.01, leapfrogs=5, moves=1)
    counts = np.bincount(out[:, 1].astype(int), minlength=6)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-5


def test_a_trajectory_that_hits_the_wall_stops_there_and_diverges():
    law = Tempered(1.0, wall=-2.0)
    starts = law.draws(2000, np.random.default_rng(5))
    _, out, path = moved(Moves.hmc, 1.0, starts, wall=-2.0, leapfrogs=6, moves=1)
    assert path.target.calls[FAILED_CALLS] == out[:, 2].sum() > 100
    assert np.all(out[out[:, 2] == 1, 0] == 0)


@pytest.mark.parametrize("kind", Moves)
def test_moves_without_size_are_always_accepted(kind):
    starts = Tempered(0.4).draws(50, np.random.default_rng(6))
    x, out, _ = moved(kind, 0.4, starts, step_size=1e-9)
    np.testing.assert_allclose(out[:, 0], MOVES, rtol=1e-6)
    np.testing.assert_allclose(x, starts, atol=1e-6)


@pytest.mark.parametrize("kind", Moves)
def test_moves_beyond_all_numbers_are_rejected(kind):
    starts = Tempered(0.4).draws(50, np.random.default_rng(7))
    x, out, _ = moved(kind, 0.4, starts, step_size=1e200)
    np.testing.assert_array_equal(x, starts)
    assert not out[:, 0].any()
