"""Random names, labels and attributes: kept, or refused before the first draw."""

import secrets
import time
from collections import Counter

import pytest

from tests.fuzz import random_labels

SOAK_SECONDS = 600.0


def judge(seeds):
    """Return all faults, and the number of cases by the code of their refusal ("" if kept)."""
    judged = [random_labels.faults(seed) for seed in seeds]
    return [fault for faults, _ in judged for fault in faults], Counter(c for _, c in judged)


@pytest.mark.slow
def test_what_is_accepted_is_kept():
    faults, outcomes = judge(range(24))
    assert not faults
    assert outcomes[""] > 8
    assert outcomes["wrong_labels"] > 3


def test_a_seed_determines_the_case():
    assert str(random_labels.case(7)) == str(random_labels.case(7))
    assert random_labels.case(7).shapes != random_labels.case(8).shapes


@pytest.mark.soak
def test_fresh_names_for_ten_minutes():
    first, end, seed = secrets.randbelow(2**31), time.monotonic() + SOAK_SECONDS, 0
    while time.monotonic() < end:
        faults, _ = random_labels.faults(first + seed)
        assert not faults
        seed += 1
    assert seed > 100
