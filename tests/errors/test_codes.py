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
    codes,
    codes_of,
    warn,
)
from tests.helpers.repository import PACKAGE

CODES = all_codes()
# the position of the code among the arguments of what every file may call
TAKE_A_CODE = {"StanadaptError": 0, "Message": 0, "Check": 0}
# what functions with a parameter `code` return, if that is the code of a message and not a program
MADE_WITH_A_CODE = ("StanadaptError", "Verification")


@pytest.mark.parametrize("name", CODES)
def test_a_code_is_a_name_with_a_meaning(name):
    code = CODES[name]
    assert name.isidentifier()
    assert name == name.lower()
    assert code.kind in (*STAGES, VERDICT, NOTE)
    for text in (code.meaning, code.cure or "Each message states the cure."):
        assert text[0].isupper()
        assert text.endswith(".")


def test_no_code_is_declared_twice():
    with pytest.raises(ValueError, match="out_of_range"):
        Code("out_of_range", "settings", "It is.", "Do not.")


def test_a_code_of_an_author_is_one_of_all_and_travels():
    code = Code("made_up_for_this_test", NOTE, "It is.")
    try:
        copied = pickle.loads(pickle.dumps(code))
        assert all_codes()["made_up_for_this_test"] is code
        assert (copied, copied.kind, copied.meaning) == (code, NOTE, "It is.")
    finally:
        codes._table().pop("made_up_for_this_test")


def test_an_error_needs_the_code_of_a_stage():
    for code in ("low_ess", "no_such_code"):
        with pytest.raises(ValueError, match=code):
            StanadaptError(code, "It is wrong.")


def literals():
    """Yield (place, code) for each literal that is given as the code of an error or a message."""
    for path in PACKAGE.rglob("*.py"):
        tree, positions = ast.parse(path.read_text()), dict(TAKE_A_CODE)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or node) in (
                MADE_WITH_A_CODE
            ):
                names = [argument.arg for argument in node.args.args]
                if "code" in names:
                    positions[node.name] = names.index("code") - (names[0] == "self")
                    backwards = zip(reversed(names), reversed(node.args.defaults), strict=False)
                    yield from _strings(path, dict(backwards).get("code"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if called in positions:
                    for argument in node.args[positions[called] :][:1]:
                        yield from _strings(path, argument)
                    for keyword in node.keywords:
                        if keyword.arg == "code":
                            yield from _strings(path, keyword.value)


def _strings(path, argument):
    """Yield the literals of an argument, or of the branches of a conditional expression."""
    for node in (argument, *(ast.iter_child_nodes(argument) if argument else ())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value


def test_every_code_that_is_given_is_in_the_table():
    given = list(literals())
    assert [(place, code) for place, code in given if code not in CODES] == []
    assert len(given) > 400  # the search finds them


def test_every_code_of_the_table_is_given_somewhere():
    """As a whole string in a file of the package: some pass through tables and variables."""
    strings = {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(CODES.keys() - strings) == []


def test_a_message_is_text_with_a_code():
    message = Message("out_of_range", "x is too large.")
    assert message == "x is too large."
    assert codes_of([message, "plain"]) == ["out_of_range", ""]
    copied = pickle.loads(pickle.dumps(message))
    assert (copied, copied.code) == (message, "out_of_range")


def test_an_error_shows_stage_text_and_code():
    error = StanadaptError("out_of_range", "x is too large.", " Stan's words \n")
    assert str(error) == "settings: x is too large. [out_of_range]\nStan says:\nStan's words"
    assert (error.stage, error.code) == ("settings", "out_of_range")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.code) == (str(error), error.code)


def test_a_warning_has_the_code_of_its_message():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(Message("out_of_range", "x is large."), ConvergenceWarning)
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
