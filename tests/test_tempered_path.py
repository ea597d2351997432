"""The densities between reference and target: formula, derivatives, both ends, failures, counts."""

import numpy as np
import pytest
from scipy import stats
from targets import MEAN, SD, Awkward
from tempered_formula import MIDDLE, WIDE

from stanadapt.density import (
    COUNTERS,
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    GRADIENT_CALLS,
    VALUE_CALLS,
    value,
    value_and_gradient,
)
from stanadapt.reference_law import ReferenceLaw
from stanadapt.tempered_path import (
    LARGEST_GAIN,
    LAW,
    POSITION,
    POWER,
    PRIOR,
    PRIOR_COUNTERS,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    Path,
    Tempered,
    copy_place,
    divide,
    evaluate,
    fill_slope,
    gain,
    log_density_of,
    mixed,
    no_places,
    refer,
    settle,
)

REFERENCES = {"law": LAW, "power": POWER, "prior": PRIOR}
TEMPERATURES = [0.0, 1e-3, 0.3, 1.0]


def make_path(kind, wall=np.inf, prior_wall=np.inf):
    """Return a path, and the target that its density is of."""
    law = ReferenceLaw(MIDDLE, WIDE).law(3)
    target = Awkward(wall)
    # the same program behind another wall stands for the prior-only data
    return Path(target.density(), law, kind, Awkward(prior_wall).wall.ctypes.data), target


def tempered(path, b):
    return Tempered(path, b, 3, no_places(1, 3))


def base(x):
    """Log density of the target, without the package's."""
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    return 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)


def psi(kind, x):
    if kind == LAW:
        return stats.norm(MIDDLE, WIDE).logpdf(x).sum()
    return base(x) if kind == PRIOR else 0.0


def points(count, seed):
    return MEAN + 2 * SD * np.random.default_rng(seed).standard_normal((count, 3))


@pytest.fixture(params=REFERENCES, ids=str)
def kind(request):
    return REFERENCES[request.param]


@pytest.mark.parametrize("b", TEMPERATURES)
def test_value_and_gradient_are_those_of_the_formula(kind, b):
    path, _ = make_path(kind)
    density, gradient = tempered(path, b), np.empty(3)
    for x in points(20, 1):
        wanted = b * base(x) + (1 - b) * psi(kind, x)
        assert value(density, x) == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert value_and_gradient(density, x, gradient) == value(density, x)
        for i in range(3):
            step = 1e-5 * SD[i] * np.eye(3)[i]
            numeric = (value(density, x + step) - value(density, x - step)) / (2e-5 * SD[i])
            assert gradient[i] == pytest.approx(numeric, rel=1e-6, abs=1e-6 / SD[i])


@pytest.mark.parametrize("b", TEMPERATURES)
def test_what_an_evaluation_found_serves_every_temperature(kind, b):
    path, _ = make_path(kind)
    density, places, gradient = tempered(path, b), no_places(2, 3), np.empty(3)
    other, slopes, cold = np.empty(3), np.empty(3), tempered(path, 0.6)
    for x in points(10, 2):
        value_and_gradient(density, x, gradient)
        settle(density, x, places, 1)
        np.testing.assert_array_equal(places.vectors[1, POSITION], x)
        assert places.logs[1, TARGET] == pytest.approx(base(x), rel=1e-12)
        assert places.logs[1, REFERENCE] == pytest.approx(psi(kind, x), rel=1e-12)
        assert gain(places, 1) == pytest.approx(base(x) - psi(kind, x), rel=1e-10, abs=1e-10)
        there = value_and_gradient(cold, x, other)
        assert log_density_of(places, 1, 0.6) == pytest.approx(there, rel=1e-12)
        fill_slope(places, 1, 0.6, slopes)
        np.testing.assert_allclose(slopes, other, rtol=1e-12, atol=1e-12)
    assert np.all(places.logs[0] == -np.inf)  # the other row was left alone


@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0])
def test_divide_finds_the_parts_without_an_evaluation(kind, b):
    path, _ = make_path(kind)
    density, gradient = tempered(path, b), np.empty(3)
    for x in points(10, 3):
        log_density = value_and_gradient(density, x, gradient)
        logs, vectors = density.found.logs.copy(), density.found.vectors.copy()
        density.found.logs[:], density.found.vectors[:] = np.nan, np.nan
        before = path.target.calls[:PRIOR_COUNTERS].copy()
        divide(density, x, log_density, gradient)
        np.testing.assert_array_equal(path.target.calls[:PRIOR_COUNTERS], before)
        np.testing.assert_allclose(density.found.logs, logs, rtol=1e-9, atol=1e-9)
        found = density.found.vectors[0, SLOPE:]
        np.testing.assert_allclose(found, vectors[0, SLOPE:], rtol=1e-9, atol=1e-9)


def test_one_evaluation_each(kind):
    """Of the target; the prior-only data have counters of their own."""
    path, _ = make_path(kind)
    calls, x, gradient = path.target.calls, MEAN, np.empty(3)
    assert PRIOR_COUNTERS + 4 <= COUNTERS
    value(tempered(path, 0.5), x)
    places = no_places(1, 3)
    places.vectors[0, POSITION] = x
    evaluate(path, places, 0, False)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 0)
    value_and_gradient(tempered(path, 0.5), x, gradient)
    evaluate(path, places, 0, True)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 2)
    refer(path, places, 0, False)
    refer(path, places, 0, True)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 2)
    priors = (3, 3) if kind == PRIOR else (0, 0)
    assert tuple(calls[PRIOR_COUNTERS : PRIOR_COUNTERS + 2]) == priors
    assert not calls[4:PRIOR_COUNTERS].any()
    assert not calls[[FAILED_CALLS, FAILED_IN_A_ROW]].any()


def test_evaluate_fills_in_both_parts(kind):
    path, _ = make_path(kind)
    places, numeric = no_places(2, 3), np.empty(3)
    for x in points(5, 4):
        for with_gradient in (False, True):
            places.logs[:] = np.nan
            places.vectors[1, POSITION] = x
            evaluate(path, places, 1, with_gradient)
            assert places.logs[1, TARGET] == pytest.approx(base(x), rel=1e-12)
            assert places.logs[1, REFERENCE] == pytest.approx(psi(kind, x), rel=1e-12)
        value_and_gradient(path.target, x, numeric)
        np.testing.assert_array_equal(places.vectors[1, SLOPE], numeric)
        wanted = {LAW: -(x - MIDDLE) / WIDE**2, POWER: np.zeros(3), PRIOR: numeric}[kind]
        np.testing.assert_allclose(places.vectors[1, REFERENCE_SLOPE], wanted, rtol=1e-12)


def test_refer_sees_a_law_that_has_moved():
    path, _ = make_path(LAW)
    places = no_places(1, 3)
    places.vectors[0, POSITION] = MEAN
    evaluate(path, places, 0, True)
    path.law.mean[:] = MEAN
    refer(path, places, 0, True)
    assert places.logs[0, REFERENCE] == pytest.approx(stats.norm(0, WIDE).logpdf(0 * WIDE).sum())
    assert not places.vectors[0, REFERENCE_SLOPE].any()
    assert places.logs[0, TARGET] == pytest.approx(base(MEAN))


# --- failures ------------------------------------------------------------------------------------

BEYOND = np.array([2.0, 1.0, -2.0])


@pytest.mark.parametrize(
    ("b", "parts", "wanted"),
    [
        (0.0, (-np.inf, -3.0), -3.0),
        (0.0, (5.0, -np.inf), -np.inf),
        (1.0, (5.0, -np.inf), 5.0),
        (1.0, (-np.inf, -3.0), -np.inf),
        (0.25, (-np.inf, -3.0), -np.inf),
        (0.25, (4.0, -np.inf), -np.inf),
        (0.25, (-np.inf, -np.inf), -np.inf),
        (0.25, (4.0, 8.0), 7.0),
    ],
)
def test_no_weight_hides_what_is_not_finite(b, parts, wanted):
    assert mixed(b, *parts) == wanted


@pytest.mark.parametrize("b", TEMPERATURES)
def test_where_the_target_throws(kind, b):
    """-inf unless b = 0; the reference is known there all the same."""
    path, _ = make_path(kind, wall=1.0)
    density, gradient = tempered(path, b), np.empty(3)
    wanted = psi(kind, BEYOND) if b == 0 else -np.inf
    assert value_and_gradient(density, BEYOND, gradient) == pytest.approx(wanted)
    assert value(density, BEYOND) == pytest.approx(wanted)
    assert np.isfinite(gradient).all()
    assert path.target.calls[FAILED_CALLS] == 2
    places = no_places(1, 3)
    settle(density, BEYOND, places, 0)
    assert gain(places, 0) == -np.inf


def test_failures_of_prior_and_target_are_counted_apart():
    """A prior that goes on failing does not stop a chain whose target is fine, nor save one."""
    gradient = np.empty(3)
    path, _ = make_path(PRIOR, prior_wall=1.0)
    assert value(tempered(path, 0.5), BEYOND) == -np.inf
    assert value_and_gradient(tempered(path, 0.5), BEYOND, gradient) == -np.inf
    assert path.target.calls[FAILED_CALLS] == path.target.calls[FAILED_IN_A_ROW] == 0
    assert path.target.calls[PRIOR_COUNTERS + FAILED_CALLS] == 2
    path, _ = make_path(PRIOR, wall=1.0)
    assert value_and_gradient(tempered(path, 0.5), BEYOND, gradient) == -np.inf
    assert path.target.calls[FAILED_IN_A_ROW] == 1
    assert path.target.calls[PRIOR_COUNTERS + FAILED_CALLS] == 0


def test_a_gain_is_never_nan():
    places = no_places(3, 1)
    places.logs[:] = [[2.0, -np.inf], [-np.inf, 3.0], [2.5, 3.0]]
    assert [gain(places, row) for row in range(3)] == [LARGEST_GAIN, -np.inf, -0.5]


def test_copies_a_place_and_nothing_else():
    rng = np.random.default_rng(5)
    one, other = no_places(2, 3), no_places(3, 3)
    one.vectors[:], one.logs[:] = rng.random((2, 3, 3)), rng.random((2, 2))
    copy_place(one, 1, other, 2)
    np.testing.assert_array_equal(other.vectors[2], one.vectors[1])
    np.testing.assert_array_equal(other.logs[2], one.logs[1])
    assert not other.vectors[:2].any()
    assert np.all(other.logs[:2] == -np.inf)
