"""Settings as their fields declare them: types, ranges, comments, and the values that they take."""

from enum import IntEnum
from typing import Annotated, NamedTuple

import pytest

from stanadapt.engine import settings
from stanadapt.engine.settings import INFINITY, Between, Numbers, declared, field_comments, typed
from stanadapt.samplers import registered
from tests.helpers.codes import raises
from tests.helpers.other_process import printed


class Color(IntEnum):
    red = 0
    blue = 1


class Settings(NamedTuple):
    """One field of each kind."""

    rate: settings.Probability = 0.5  # in units of # per second
    # a text that takes
    # two lines
    size: Annotated[float, "of a step", Between(0.25, ends="[)")] = 1.0
    count: settings.Count = 3  # fmt: skip

    # no comment of the next field: a blank line is between them

    masses: Annotated[Numbers, Between(0)] = Numbers((1.0, 2.0))
    # one of the two
    color: Color = Color.red  # and its end
    flag: Annotated[bool, "a text that several samplers share"] = False


# kind, default, values, text
DECLARED = {
    "rate": (float, 0.5, "between 0 and 1", "in units of # per second"),
    "size": (float, 1.0, "at least 0.25", "a text that takes two lines"),
    "count": (int, 3, "at least 1", ""),
    "masses": (Numbers, (1.0, 2.0), "positive", ""),
    "color": (Color, Color.red, "one of red, blue", "one of the two and its end"),
    "flag": (bool, False, "true or false", "a text that several samplers share"),
}


def test_declarations_are_read_and_explained():
    found = declared(Settings).items()
    assert {name: (s.kind, s.default, s.values, s.text) for name, s in found} == DECLARED
    for sampler in registered().values():
        for setting in declared(sampler.settings).values():
            assert len(setting.text) > 10, (sampler.name, setting.name)


def test_a_class_without_source_has_no_comments():
    code = (
        "from typing import NamedTuple\n"
        "from stanadapt.engine.settings import declared\n"
        "class Settings(NamedTuple):\n    size: float = 1.0  # of a step\n"
        "print(declared(Settings)['size'])"
    )
    assert "text=''" in printed(code)
    assert field_comments(int) == {}


# range, its name, numbers within, numbers beyond
RANGES = [
    (Between(0, 1), "between 0 and 1", [1e-300, 0.5], [0.0, 1.0]),
    (Between(0, 1, "[)"), "at least 0 and below 1", [0.0, 0.5], [-1e-300, 1.0]),
    (Between(0, 1, "(]"), "above 0 and at most 1", [0.5, 1.0], [0.0, 1.1]),
    (Between(1, 12, "[]"), "at least 1 and at most 12", [1, 12], [0, 13]),
    (Between(0), "positive", [1e-300, 1e300], [0.0, INFINITY]),
    (Between(-INFINITY), "finite", [-1e300, 1e300], [-INFINITY, INFINITY]),
    (Between(-3), "above -3", [0.0], [-3.0]),
    (Between(2, ends="[)"), "at least 2", [2, 10**15], [1, INFINITY]),
]


@pytest.mark.parametrize(("range_", "name", "within", "beyond"), RANGES)
def test_a_range_contains_what_it_names(range_, name, within, beyond):
    assert str(range_) == name
    assert all(map(range_.contains, within))
    assert not any(map(range_.contains, [*beyond, float("nan")]))


@pytest.mark.parametrize(("name", "given", "taken"), [
    ("rate", "0.25", 0.25), ("size", 3, 3.0), ("count", 4.0, 4),
    ("masses", "1, 2 3", (1.0, 2.0, 3.0)), ("masses", 5, (5.0,)), ("color", "blue", Color.blue),
    ("flag", "True", True),
])  # fmt: skip
def test_values_are_cast_as_declared(name, given, taken):
    value = typed("mine", declared(Settings)[name], given)
    assert (value, type(value)) == (taken, declared(Settings)[name].kind)


@pytest.mark.parametrize(("name", "given", "facts"), [
    ("rate", 1.0, ["between 0 and 1, without these two", "1.0"]),
    ("masses", (0.0, 1.0), ["positive, got"]),
    ("rate", 1.5, ["between 0 and 1, got 1.5"]), ("rate", True, ["a number", "True"]),
    ("count", 2.5, ["a whole number", "2.5"]), ("masses", [1.0, -2.0], ["positive", "-2"]),
    ("masses", [[1.0]], ["numbers", "[[1.0]]"]), ("color", "green", ["red, blue", "'green'"]),
    ("flag", 2, ["true or false", "2"]),
])  # fmt: skip
def test_other_values_are_errors(name, given, facts):
    with raises("invalid_setting", f"mine: {name}", *facts):
        typed("mine", declared(Settings)[name], given)
