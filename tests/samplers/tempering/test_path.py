"""The densities between reference and target: formula, gradients, both ends, failures, counts."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.engine.density import (
    COUNTERS,
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    GRADIENT_CALLS,
    VALUE_CALLS,
    value,
    value_and_gradient,
)
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    LARGEST_LOG_RATIO,
    POSITION,
    POWER,
    PRIOR,
    PRIOR_COUNTERS,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    Tempered,
    evaluate,
    evaluate_reference,
    fill_slope,
    log_density_of,
    log_ratio,
    mix,
    no_replicas,
    recover_target,
    store,
)
from tests.helpers.targets import MEAN, SD
from tests.helpers.tempered_formula import REFERENCE_MEAN, REFERENCE_SD, log_target
from tests.helpers.tempering import make_path

REFERENCES = {"distribution": DISTRIBUTION, "power": POWER, "prior": PRIOR}
TEMPERATURES = [0.0, 1e-3, 0.3, 1.0]


def tempered(path, b):
    return Tempered(path, b, 3, no_replicas(1, 3))


def psi(kind, x):
    if kind == DISTRIBUTION:
        return stats.norm(REFERENCE_MEAN, REFERENCE_SD).logpdf(x).sum()
    return log_target(x) if kind == PRIOR else 0.0


def points(count, seed):
    return MEAN + 2 * SD * np.random.default_rng(seed).standard_normal((count, 3))


@pytest.fixture(params=REFERENCES, ids=str)
def kind(request):
    return REFERENCES[request.param]


@pytest.mark.parametrize("b", TEMPERATURES)
def test_values_gradients_and_evidence_are_those_of_the_formula(kind, b):
    path = make_path(kind)
    density, gradient = tempered(path, b), np.empty(3)
    for x in points(20, 1):
        expected = b * log_target(x) + (1 - b) * psi(kind, x)
        assert value(density, x) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert value_and_gradient(density, x, gradient) == value(density, x)
        for i in range(3):
            step = 1e-5 * SD[i] * np.eye(3)[i]
            numeric = (value(density, x + step) - value(density, x - step)) / (2e-5 * SD[i])
            assert gradient[i] == pytest.approx(numeric, rel=1e-6, abs=1e-6 / SD[i])
    # -inf unless b = 0; the reference is evaluated all the same
    path = make_path(kind, wall=1.0)
    density, gradient = tempered(path, b), np.empty(3)
    expected = psi(kind, BEYOND) if b == 0 else -np.inf
    assert value_and_gradient(density, BEYOND, gradient) == pytest.approx(expected)
    assert value(density, BEYOND) == pytest.approx(expected)
    assert np.isfinite(gradient).all()
    assert path.target.calls[FAILED_CALLS] == 2
    replicas = no_replicas(1, 3)
    store(density, BEYOND, replicas, 0)
    assert log_ratio(replicas, 0) == -np.inf


@pytest.mark.parametrize("b", TEMPERATURES)
def test_a_stored_evaluation_serves_every_temperature(kind, b):
    path = make_path(kind)
    density, replicas, gradient = tempered(path, b), no_replicas(2, 3), np.empty(3)
    expected_slope, slope, colder = np.empty(3), np.empty(3), tempered(path, 0.6)
    for x in points(10, 2):
        value_and_gradient(density, x, gradient)
        store(density, x, replicas, 1)
        np.testing.assert_array_equal(replicas.vectors[1, POSITION], x)
        assert replicas.logs[1, TARGET] == pytest.approx(log_target(x), rel=1e-12)
        assert replicas.logs[1, REFERENCE] == pytest.approx(psi(kind, x), rel=1e-12)
        assert log_ratio(replicas, 1) == pytest.approx(
            log_target(x) - psi(kind, x), rel=1e-10, abs=1e-10
        )
        expected = value_and_gradient(colder, x, expected_slope)
        assert log_density_of(replicas, 1, 0.6) == pytest.approx(expected, rel=1e-12)
        fill_slope(replicas, 1, 0.6, slope)
        np.testing.assert_allclose(slope, expected_slope, rtol=1e-12, atol=1e-12)
    assert np.all(replicas.logs[0] == -np.inf)  # the other row is unchanged


@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0])
def test_recover_target_finds_both_parts_without_an_evaluation(kind, b):
    path = make_path(kind)
    density, gradient = tempered(path, b), np.empty(3)
    for x in points(10, 3):
        log_density = value_and_gradient(density, x, gradient)
        logs, vectors = density.latest.logs.copy(), density.latest.vectors.copy()
        density.latest.logs[:], density.latest.vectors[:] = np.nan, np.nan
        before = path.target.calls[:PRIOR_COUNTERS].copy()
        recover_target(density, x, log_density, gradient)
        np.testing.assert_array_equal(path.target.calls[:PRIOR_COUNTERS], before)
        np.testing.assert_allclose(density.latest.logs, logs, rtol=1e-9, atol=1e-9)
        slopes = density.latest.vectors[0, SLOPE:]
        np.testing.assert_allclose(slopes, vectors[0, SLOPE:], rtol=1e-9, atol=1e-9)


def test_each_call_evaluates_the_target_once(kind):
    """The prior-only data have their own counters."""
    path = make_path(kind)
    calls, x, gradient = path.target.calls, MEAN, np.empty(3)
    assert PRIOR_COUNTERS + 4 <= COUNTERS
    value(tempered(path, 0.5), x)
    replicas = no_replicas(1, 3)
    replicas.vectors[0, POSITION] = x
    evaluate(path, replicas, 0, False)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 0)
    value_and_gradient(tempered(path, 0.5), x, gradient)
    evaluate(path, replicas, 0, True)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 2)
    evaluate_reference(path, replicas, 0, False)
    evaluate_reference(path, replicas, 0, True)
    assert (calls[VALUE_CALLS], calls[GRADIENT_CALLS]) == (2, 2)
    priors = (3, 3) if kind == PRIOR else (0, 0)
    assert tuple(calls[PRIOR_COUNTERS : PRIOR_COUNTERS + 2]) == priors
    assert not calls[4:PRIOR_COUNTERS].any()
    assert not calls[[FAILED_CALLS, FAILED_IN_A_ROW]].any()


def test_evaluate_fills_in_both_parts(kind):
    path = make_path(kind)
    replicas, gradient = no_replicas(2, 3), np.empty(3)
    for x in points(5, 4):
        for with_gradient in (False, True):
            replicas.logs[:] = np.nan
            replicas.vectors[1, POSITION] = x
            evaluate(path, replicas, 1, with_gradient)
            assert replicas.logs[1, TARGET] == pytest.approx(log_target(x), rel=1e-12)
            assert replicas.logs[1, REFERENCE] == pytest.approx(psi(kind, x), rel=1e-12)
        value_and_gradient(path.target, x, gradient)
        np.testing.assert_array_equal(replicas.vectors[1, SLOPE], gradient)
        gaussian = -(x - REFERENCE_MEAN) / REFERENCE_SD**2
        expected = {DISTRIBUTION: gaussian, POWER: np.zeros(3), PRIOR: gradient}[kind]
        np.testing.assert_allclose(replicas.vectors[1, REFERENCE_SLOPE], expected, rtol=1e-12)


def test_evaluate_reference_after_a_change_of_the_reference():
    path = make_path(DISTRIBUTION)
    replicas = no_replicas(1, 3)
    replicas.vectors[0, POSITION] = MEAN
    evaluate(path, replicas, 0, True)
    path.reference.mean[:] = MEAN
    evaluate_reference(path, replicas, 0, True)
    expected = stats.norm(0, REFERENCE_SD).logpdf(0 * REFERENCE_SD).sum()
    assert replicas.logs[0, REFERENCE] == pytest.approx(expected)
    assert not replicas.vectors[0, REFERENCE_SLOPE].any()
    assert replicas.logs[0, TARGET] == pytest.approx(log_target(MEAN))


BEYOND = np.array([2.0, 1.0, -2.0])


@pytest.mark.parametrize(("b", "parts", "expected"), [
    (0.0, (-np.inf, -3.0), -3.0), (0.0, (5.0, -np.inf), -np.inf), (1.0, (5.0, -np.inf), 5.0),
    (1.0, (-np.inf, -3.0), -np.inf), (0.25, (-np.inf, -3.0), -np.inf),
    (0.25, (4.0, -np.inf), -np.inf), (0.25, (-np.inf, -np.inf), -np.inf), (0.25, (4.0, 8.0), 7.0),
])  # fmt: skip
def test_a_part_that_is_not_finite_counts_unless_its_weight_is_zero(b, parts, expected):
    assert mix(b, *parts) == expected


def test_failures_are_counted_and_ratios_never_nan():
    """A failing prior must neither stop a chain with a valid target nor keep one alive."""
    gradient = np.empty(3)
    path = make_path(PRIOR, prior_wall=1.0)
    assert value(tempered(path, 0.5), BEYOND) == -np.inf
    assert value_and_gradient(tempered(path, 0.5), BEYOND, gradient) == -np.inf
    assert path.target.calls[FAILED_CALLS] == path.target.calls[FAILED_IN_A_ROW] == 0
    assert path.target.calls[PRIOR_COUNTERS + FAILED_CALLS] == 2
    path = make_path(PRIOR, wall=1.0)
    assert value_and_gradient(tempered(path, 0.5), BEYOND, gradient) == -np.inf
    assert path.target.calls[FAILED_IN_A_ROW] == 1
    assert path.target.calls[PRIOR_COUNTERS + FAILED_CALLS] == 0
    replicas = no_replicas(3, 1)
    replicas.logs[:] = [[2.0, -np.inf], [-np.inf, 3.0], [2.5, 3.0]]
    assert [log_ratio(replicas, row) for row in range(3)] == [LARGEST_LOG_RATIO, -np.inf, -0.5]
