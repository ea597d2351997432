"""The package's prose keeps to the words of its field."""

import ast
import re

import pytest

from tests.helpers.repository import PACKAGE, parsed
from tests.helpers.vocabulary import BRITISH, BUDGET, measure, prose

RATES, FILES = measure()


@pytest.mark.parametrize("tic", BUDGET)
def test_a_tic_stays_rare(tic):
    """Uses per 10,000 words of strings, comments and pages."""
    assert RATES[tic] <= BUDGET[tic][1], FILES[tic].most_common(10)


def test_spelling_is_american():
    found = {str(path): re.findall(BRITISH, text) for path, text in prose()}
    assert {path: words for path, words in found.items() if words} == {}


def test_headings_of_docstrings_are_lines():
    """A paragraph that was filled with its heading would be printed as "References ------- ..."."""
    broken = [
        f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'module')}"
        for path in PACKAGE.rglob("*.py")
        for node in parsed(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and re.search(r"\S +----", ast.get_docstring(node) or "")
    ]
    assert broken == []
