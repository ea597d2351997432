"""The package's prose keeps to the words of its field."""

import re

import pytest

from tests.helpers.vocabulary import BRITISH, BUDGET, measure, prose

RATES, FILES = measure()


@pytest.mark.parametrize("tic", BUDGET)
def test_a_tic_stays_rare(tic):
    """Uses per 10,000 words of strings, comments and pages."""
    assert RATES[tic] <= BUDGET[tic][1], FILES[tic].most_common(10)


def test_spelling_is_american():
    found = {str(path): re.findall(BRITISH, text) for path, text in prose()}
    assert {path: words for path, words in found.items() if words} == {}
