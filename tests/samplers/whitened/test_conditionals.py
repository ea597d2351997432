"""Fits of conditional distributions: exact models are found exactly, in any units."""

import numpy as np
import pytest

from stanadapt.samplers.whitened import conditional_kernels as kernels
from stanadapt.samplers.whitened.conditionals import (
    ABSENT,
    PARAMETERS,
    A,
    B,
    C,
    D,
    Draws,
    E,
    Fits,
    Q,
    S,
    W,
    _Model,
    divergence,
    fit,
)

COUNT, UNITS = 60, np.array([1e-4, 30.0, 2.0, 0.7])
# of coordinate 2, given 0, 3 and 1, in units of the standardized draws
TRUE = {A: 0.4, B: -1.2, S: 0.6, C: -0.8, D: 0.9, E: -0.3, W: 0.7, Q: 0.0}
CURVE = {A: 1.1, B: 0.0, S: 0.0, C: ABSENT, D: 0.0, E: 0.5, W: -0.6, Q: 0.9}


def numbers_of(found):
    out = np.zeros((1, PARAMETERS))
    out[0, list(found)] = list(found.values())
    return out


def made(numbers, seed=1, count=COUNT):
    """Draws of four coordinates, the third with this conditional, in standardized units."""
    rng = np.random.default_rng(seed)
    a, b, s, c, d, e, w, q = numbers[0]
    z = rng.standard_normal((4, count))
    learned, own = np.exp(a + b * z[0] + s * z[3]), np.exp(c)
    precision = own + learned
    mean = (own * d + learned * (e + w * z[1] + q * z[1] ** 2)) / precision
    z[2] = mean + z[2] / np.sqrt(precision)
    gradients = np.zeros((4, count))
    gradients[2] = -precision * (z[2] - mean)
    return Draws(z, gradients, np.zeros(4), np.ones(4))


def model(numbers, free, scale=0, location=1, second=3):
    chosen = np.zeros((1, PARAMETERS), bool)
    chosen[0, free] = True
    return Fits(
        np.array([2]), np.array([scale]), np.array([second]), np.array([location]), numbers, chosen
    )


def test_the_true_model_has_no_divergence_and_other_numbers_stay():
    draws = made(numbers_of(TRUE))
    assert divergence(model(numbers_of(TRUE), [A]), draws)[0] < 1e-25
    # and of one with an error in each of its numbers, it is not
    for wrong in (A, B, S, C, D, E, W, Q):
        numbers = numbers_of(TRUE)
        numbers[0, wrong] += 0.05
        assert divergence(model(numbers, [A]), draws)[0] > 1e-6
    start = numbers_of(TRUE)
    start[0, [A, C]] += 0.3
    found = fit(model(start, [A]), made(numbers_of(TRUE)))
    fixed = [B, S, C, D, E, W, Q]
    np.testing.assert_array_equal(found.numbers[0, fixed], start[0, fixed])
    assert found.numbers[0, A] != start[0, A]


@pytest.mark.parametrize(("true", "free"), [
    (TRUE, [A, B, S, C, D, E, W]), (CURVE, [A, E, W, Q]),
])  # fmt: skip
def test_a_fit_finds_the_numbers_from_few_draws(true, free):
    draws, start = made(numbers_of(true)), numbers_of(true)
    start[0, free] += np.random.default_rng(2).uniform(-0.5, 0.5, len(free))
    found = fit(model(start, free), draws)
    assert divergence(found, draws)[0] < 1e-8
    np.testing.assert_allclose(found.numbers[0, free], numbers_of(true)[0, free], atol=1e-3)


@pytest.mark.parametrize("seed", [1, 7, 19])
def test_a_fit_from_far_away_takes_its_time(seed):
    """It goes on after iterations without gain, and for as long as there is one."""
    draws, start, free = made(numbers_of(TRUE)), numbers_of(TRUE), [A, B, S, C, D, E, W]
    start[0, free] += np.random.default_rng(seed).uniform(-2.0, 2.0, len(free))
    begun, found = (fit(model(start, free), draws, *few) for few in ([kernels.PATIENCE], []))
    assert divergence(found, draws)[0] < 1e-8 < 1e-3 < divergence(begun, draws)[0]


def test_many_fits_are_those_made_alone():
    """They advance together, in chunks; those that have ended are left out."""
    draws, rng = made(numbers_of(TRUE)), np.random.default_rng(4)
    starts = numbers_of(TRUE) + 0.3 * rng.standard_normal((300, PARAMETERS))
    starts[:, Q] = 0.0
    free = np.isin(np.arange(PARAMETERS), [A, B, S, C, D, E, W])
    many = Fits(*(np.full(300, i) for i in (2, 0, 3, 1)), starts, np.tile(free, (300, 1)))
    found = divergence(fit(many, draws), draws)
    for row in (0, 127, 128, 299):
        alone = divergence(fit(many.take(np.array([row])), draws), draws)[0]
        assert found[row] <= alone + 1e-3


def test_units_and_absent_drivers_do_not_matter():
    draws, mean, sd = made(numbers_of(TRUE)), np.array([3.0, -500.0, 0.1, 20.0]), UNITS
    raw = Draws.standardize(mean + sd * draws.positions.T, draws.gradients.T / sd, mean, sd)
    np.testing.assert_allclose(raw.positions, draws.positions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(raw.gradients, draws.gradients, rtol=1e-12)
    # with -1, an array would be indexed from its end
    draws = made(numbers_of({**TRUE, B: 0.0, S: 0.0, W: 0.0}))
    same = draws._replace(positions=np.concatenate([draws.positions, 1e6 + draws.positions[:1]]))
    without = model(numbers_of(TRUE), [A], scale=-1, location=-1, second=-1)
    assert divergence(without, same)[0] < 1e-25


@pytest.mark.parametrize("second", [3, -1])
def test_compiled_parts_are_array_operations_to_the_last_bit(second):
    numbers, draws = numbers_of(TRUE | {Q: 0.2}), made(numbers_of(TRUE))
    model_of = _Model(model(numbers, list(TRUE), second=second), draws)
    at, (z_k, z_l, x), g = model_of.evaluate(numbers), draws.positions[:3], draws.gradients[2]
    a, b, s, c, d, e, w, q = numbers[0]
    z_h = draws.positions[3] if second >= 0 else 0.0 * x
    learned, own = np.exp(a + b * z_k + s * z_h), np.exp(c)
    precision, center = own + learned, e + (w + q * z_l) * z_l
    mean, root = (own * d + learned * center) / precision, np.sqrt(precision)
    np.testing.assert_array_equal(at.residuals[0], root * (x - mean) + g / root)
    half = 0.5 * (x - g / precision + mean)
    by_a, by_c, by_e = (
        learned * ((half - center) / root),
        own * ((half - d) / root),
        -learned / root,
    )
    slopes = np.stack([
        by_a, by_a * z_k, by_a * z_h, by_c, -own / root, by_e, by_e * z_l, by_e * z_l * z_l,
    ])  # fmt: skip
    normal, right = model_of.normal_equations(np.array([0]), numbers, at)
    np.testing.assert_array_equal(normal[0], slopes @ slopes.T)
    np.testing.assert_array_equal(right[0], (slopes @ at.residuals[0][:, None])[:, 0])


def test_a_fit_without_finite_equations_does_not_move():
    normal, right = np.ones((2, PARAMETERS, PARAMETERS)), np.ones((2, PARAMETERS))
    normal[0, 1, 2], free, places = (
        np.inf,
        np.ones((2, PARAMETERS), bool),
        np.empty((2, PARAMETERS)),
    )
    enlarged, sides = np.empty_like(normal), np.empty_like(right)
    kernels.damp(normal, right, free, np.ones(2), enlarged, sides)
    steps = np.linalg.solve(enlarged, sides[:, :, None])
    kernels.move(numbers := np.full((2, PARAMETERS), 0.3), steps, free, places)
    np.testing.assert_array_equal(places[0], numbers[0])
    assert (places[1] < numbers[1]).all()


def test_fits_end_after_a_while_and_steps_are_limited():
    """A place that is worse only enlarges the damping, and a small gain counts as none."""
    places, numbers = (np.full((3, PARAMETERS), each) for each in (1.0, 0.0))
    best, damping, idle, better = np.ones(3), np.ones(3), np.full(3, 5), np.zeros(3, bool)
    values = np.array([0.5, 1.0 - 0.5 * kernels.LEAST_GAIN, 1.5])
    kernels.accept(places, values, numbers, best, damping, idle, better)
    assert (better.tolist(), idle.tolist()) == ([True, True, False], [0, 6, 6])
    assert numbers[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert best.tolist() == [*values[:2], 1.0]
    np.testing.assert_allclose(damping, [0.2, 0.2, 5.0], rtol=1e-12)
    numbers, free = np.zeros((2, PARAMETERS)), np.ones((2, PARAMETERS), bool)
    places, steps = np.empty_like(numbers), np.full((2, PARAMETERS, 1), 5.0)
    steps[1] *= -1.0
    kernels.move(numbers, steps, free, places)
    limited = [kernels.LONGEST_STEP if n in (A, B, S, C) else 5.0 for n in range(PARAMETERS)]
    np.testing.assert_array_equal(places, np.outer([-1.0, 1.0], limited))
    numbers, out = np.zeros((3, PARAMETERS)), np.empty((3, 2))
    numbers[:, A] = 100.0, -100.0, np.nan
    kernels.exponents(numbers, *2 * [np.zeros(3, int)], np.zeros((1, 2)), out)
    np.testing.assert_array_equal(out[:, 1], [60.0, -60.0, np.nan])
