"""Every message has a code; a code has one meaning, and does not depend on the text."""

import ast
import pickle
import warnings

import pytest

from stanadapt.errors import (
    NOTE,
    STAGES,
    VERDICT,
    Code,
    ConvergenceWarning,
    Message,
    StanadaptError,
    all_codes,
    codes_of,
    warn,
)
from tests.helpers.repository import PACKAGE

CODES = all_codes()


@pytest.mark.parametrize("name", CODES)
def test_a_code_is_a_name_with_a_meaning_and_a_cure(name):
    code = CODES[name]
    assert name.isidentifier()
    assert name == name.lower()
    assert code.kind in (*STAGES, VERDICT, NOTE)
    for text in (code.meaning, code.cure):
        assert text[0].isupper()
        assert text.endswith(".")


def test_no_code_is_declared_twice():
    with pytest.raises(ValueError, match="out_of_range"):
        Code("out_of_range", "settings", "It is.", "Do not.")


def test_every_code_is_used():
    """By the name of its constant, in a file other than the one that declares it."""
    names = {}
    for path in PACKAGE.rglob("messages.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                names[node.targets[0].id] = path
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    unused = [n for n, p in names.items() if not any(n in t for q, t in texts.items() if q != p)]
    assert unused == []
    assert len(names) == len(CODES)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["StanadaptError", "warn"])
def test_errors_are_raised_with_a_code(name):
    """The first argument of an error is a constant, or a call that returns one: no bare text."""
    bare = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
            if called and isinstance(node.args[0], ast.Constant | ast.JoinedStr | ast.BinOp):
                bare.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert bare == []


def test_a_message_is_text_with_a_code():
    message = Message(CODES["out_of_range"], "x is too large.")
    assert message == "x is too large."
    assert codes_of([message, "plain"]) == ["out_of_range", ""]
    copied = pickle.loads(pickle.dumps(message))
    assert (copied, copied.code) == (message, "out_of_range")


def test_an_error_shows_stage_text_and_code():
    error = StanadaptError(CODES["out_of_range"], "x is too large.", " Stan's words \n")
    assert str(error) == "settings: x is too large. [out_of_range]\nStan says:\nStan's words"
    assert (error.stage, error.code) == ("settings", "out_of_range")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.code) == (str(error), error.code)


def test_a_warning_has_the_code_of_its_message():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(Message(CODES["out_of_range"], "x is large."), ConvergenceWarning)
    assert caught[0].message.code == "out_of_range"
    assert str(caught[0].message) == "x is large. [out_of_range]"
    assert caught[0].filename == __file__


def test_a_library_that_calls_the_package_is_not_where_a_warning_points():
    between = {"__name__": "numba.core.caching", "warn": warn}
    exec("def load(text):\n    warn(text)", between)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        between["load"]("words")
    assert caught[0].filename == __file__
