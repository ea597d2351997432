"""Runs under random limits: what ends them, at any moment, costs no draw."""

import secrets
import time

import pytest

from tests.fuzz import random_limits
from tests.helpers.stan_target import shared_target

SOAK_SECONDS = 600.0
# of each way to end: length, time, the progress function, its error, Ctrl-C; and in a folder
SEEDS = (2, 6, 7, 13, 19, 20, 22, 28, 188)
target = shared_target(random_limits.PROGRAM)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_no_draw_is_lost(target, seed):
    assert random_limits.faults(target, seed) == []


def test_the_seeds_end_in_every_way():
    chosen = [random_limits.limits(seed) for seed in SEEDS]
    assert any("max_minutes" in each.arguments for each in chosen)
    assert any(each.signal_at for each in chosen)
    assert any(each.kept for each in chosen)
    assert any(each.ends_at for each in chosen)
    assert any(each.arguments["parallel_chains"] < each.arguments["chains"] for each in chosen)
    assert {each.arguments["sampler"] for each in chosen} == {"rwm", "nuts"}


@pytest.mark.soak
def test_fresh_limits_for_ten_minutes(target):
    first, end, seed = secrets.randbelow(2**31), time.monotonic() + SOAK_SECONDS, 0
    while time.monotonic() < end:
        assert random_limits.faults(target, first + seed) == []
        seed += 1
    assert seed > 10
