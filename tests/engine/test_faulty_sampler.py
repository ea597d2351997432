"""Faults of a sampler that compile and run: each check names its own."""

from typing import NamedTuple

import numpy as np
import pytest

from stanadapt.engine import points, protocol
from stanadapt.engine.checks import CHECKS, Case
from stanadapt.engine.compiled.jit import jit

NOT_A_NUMBER, STANDS_STILL, NO_RANDOMNESS, HALF_STANDS_STILL = 1, 2, 3, 4


class Settings(NamedTuple):
    """fault: 0 for none."""

    fault: int = 0


class State(NamedTuple):
    """The point, and one to write the next proposal into."""

    current: points.ValuePoint
    scratch: points.ValuePoint


class Info(NamedTuple):
    """Statistics of one iteration."""

    acceptance_rate: float
    ratio: float


def init(density, settings, position, rng):
    return State(points.value_at(density, position), points.unused_value(density.size))


@jit
def is_odd(x):
    """Whether a point lies in every other of many thin slices."""
    return np.floor(1e6 * x.position[0]) % 2.0 == 1.0


@jit
def step(density, settings, state, rng):
    x, y = state.current, state.scratch
    for i in range(density.dim):
        size = 0.1 if settings.fault == NO_RANDOMNESS else rng.standard_normal()
        y.position[i] = x.position[i] + size
    y = points.proposed(density, x, y, rng)
    rate = points.acceptance_probability(y.log_density - x.log_density)
    info = Info(rate, np.nan if settings.fault == NOT_A_NUMBER else 0.5)
    accepted = rate > 0.0 if settings.fault == NO_RANDOMNESS else rng.random() < rate
    if settings.fault == HALF_STANDS_STILL:
        accepted = accepted and not is_odd(x) and not is_odd(y)
    if accepted and settings.fault != STANDS_STILL:
        return State(y, x), info
    return State(x, y), info


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    sampler = protocol.Sampler(Settings, State, Info, init, step, uses_gradient=False)
    monkeypatch.setitem(protocol.REGISTRY, Settings, sampler)


def problem_of(check, fault):
    return CHECKS[check](Case(Settings(), {"fault": fault}))


@pytest.mark.parametrize(
    "check", ["same draws for any threads and chunks", "statistics are finite"]
)
def test_a_sampler_without_fault_passes(check):
    assert problem_of(check, 0) == ""


def test_a_statistic_that_is_not_a_number_is_named():
    """Its draws are reproducible all the same: NaN differs from itself."""
    assert problem_of("same draws for any threads and chunks", NOT_A_NUMBER) == ""
    problem = problem_of("statistics are finite", NOT_A_NUMBER)
    assert problem.code == "statistics_not_finite"
    assert "Info.ratio is not finite in 500 of 500 iterations" in problem


@pytest.mark.parametrize(
    ("fault", "code"),
    [(0, ""), (STANDS_STILL, "chains_do_not_move"), (NO_RANDOMNESS, "draws_not_reproducible")],
)
def test_chains_that_stand_still_are_told_from_those_without_randomness(fault, code):
    assert getattr(problem_of("takes its randomness from rng", fault), "code", "") == code


@pytest.mark.parametrize(("fault", "code"), [(0, ""), (HALF_STANDS_STILL, "chains_do_not_move")])
def test_chains_that_stand_still_beside_others_are_seen(fault, code):
    """The others leave the target invariant, and the starts have its moments."""
    problem = problem_of("leaves the target invariant", fault)
    assert getattr(problem, "code", "") == code, problem
