"""What names a piece of machine code: the code and constants that are in it, and nothing else."""

import re
from enum import Enum
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from numba import float64, int64, njit, typeof, types

from stanadapt.engine.compiled import dependencies
from stanadapt.engine.compiled.by_reference import ByReference
from stanadapt.engine.compiled.dependencies import INSTALLED, hash_of_code, hash_of_sampler
from stanadapt.engine.compiled.jit import jit
from tests.helpers.other_process import printed
from tests.helpers.repository import PACKAGE

MODULE = '''"""A file of a user."""
from enum import IntEnum
from typing import NamedTuple
import numpy as np
from numba import njit
from numba.extending import intrinsic, overload, types

class Pair(NamedTuple):
    one: float
    other: float = 1.0

class Kind(IntEnum):
    SLOW = 1
    FAST = 2

def outer(AROUND, step=1.0):
    @njit
    def around(x):
        return x + AROUND
    return around

closed = outer(VALUE)

def chosen(x):
    """Only for compiled code."""

@overload(chosen)
def _chosen(x):
    def of_numbers(x):
        return x + 1.0
    return of_numbers

@intrinsic
def emitted(typing, x):
    def emit(context, builder, signature, arguments):
        return arguments[0]
    return x(x), emit

@njit
def helper(x, y=0.5):
    # a comment
    return 2 * x + y

@njit
def tried(x):
    try:
        y = 2.0 * x
        y += 1.0 / x
    except Exception:
        return 0.0
    return y

@njit
def unrelated(x):
    return x

@njit
def scaled(x):
    """Return a number."""
    if x in {1.0, 2.0, 3.0}:
        return x + VALUE
    many = [helper(each) for each in (x, x)]
    pair = Pair(x, Kind.FAST)
    return sum(many) + closed(x) + its_numbers.OTHER + chosen(x) + emitted(pair.one) + tried(x)
'''


def hash_for(edit=("", ""), value=1.0, other=1.0, signature=(float64,)):
    """Return the hash of `scaled`, after an edit of the file, with values of constants."""
    module = ModuleType("its_numbers")
    module.OTHER = other
    text = MODULE.replace(*edit)
    assert text != MODULE or edit == ("", "")
    place = {"VALUE": value, "its_numbers": module, "__name__": "a_users_file"}
    exec(compile(text, "a_users_file.py", "exec"), place)
    return hash_of_code(place["scaled"].py_func, signature)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Return a number."""', '"""Return something else."""'),
        ('"""Return a number."""', '"""Return a number.\n\n    Of two lines.\n    """'),
        ("# a comment", "# another\n\n    # and one more"),
        ('"""A file of a user."""', ""),
        ("    return x\n\n@njit\ndef scaled", "    return 3 * x\n\n@njit\ndef scaled"),
        ("SLOW = 1\n", "SLOW = 1  # as it was\n"),
    ],
)
def test_what_is_not_compiled_does_not_count(old, new):
    assert hash_for((old, new)) == hash_for() is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + VALUE", "x - VALUE"),
        ("{1.0, 2.0, 3.0}", "{1.0, 2.0, 4.0}"),
        ("2 * x + y", "3 * x + y"),  # of a callee
        ("y=0.5", "y=0.75"),
        ("x + AROUND", "x - AROUND"),
        ("return x + 1.0", "return x + 2.0"),  # by `overload`
        ("return arguments[0]", "return builder.fneg(arguments[0])"),  # by `intrinsic`
        ("one: float\n    other: float", "other: float\n    one: float"),
        ("other: float = 1.0", "other: float = 2.0"),
        ("FAST = 2", "FAST = 3"),
        ("closed(x)", "helper(x)"),
        ("closed = outer(VALUE)", "closed = outer(2 * VALUE)"),
        ("helper(each)", "helper(each, y=1.0)"),
        # the same bytecode, but for the statements that are tried
        (
            "        y += 1.0 / x\n    except Exception:\n        return 0.0\n",
            "    except Exception:\n        return 0.0\n    else:\n        y += 1.0 / x\n",
        ),
    ],
)
def test_all_that_is_compiled_counts(old, new):
    assert hash_for((old, new)) != hash_for()


@pytest.mark.parametrize(("one", "other"), [
    (1.0, 2.0), (1, 1.0), (1, True), ("one", "other"), ((1.0, (2, 3)), (1.0, (2, 4))),
    (np.arange(3.0), np.array([0.0, 1.0, 3.0])), (np.arange(6), np.arange(6).reshape(2, 3)),
    (np.float64(1.0), np.float32(1.0)), (np.dtype("float64"), np.dtype("float32")),
    (np.float64, np.float32), (np.sin, np.cos), (frozenset("ab"), frozenset("ac")),
    (int64, float64),
])  # fmt: skip
def test_values_of_globals_count_wherever_they_come_from(one, other):
    """Numba compiles them as constants: later processes would run with those of the first."""
    for name in ("value", "other"):
        first, again, second = (hash_for(**{name: value}) for value in (one, one, other))
        assert first == again != second
        assert None not in (first, second)


@pytest.mark.parametrize("decorator", [njit, jit])
def test_compiled_functions_of_other_packages_count_and_their_plain_ones_do_not(decorator):
    """A package of samplers may get a new release; NumPy's functions are Numba's."""
    found = []
    for number in (1, 1, 2):
        text = (
            f"def plain(x):\n    return {number}\n@decorator\ndef called(x):\n    return {number}"
        )
        place = {"decorator": decorator}
        exec(compile(text, f"{INSTALLED[1]}/others/file.py", "exec"), place)
        for name in ("called", "plain"):
            names = {"named": place[name]}
            exec("def function(x):\n    return named(x)", names)
            found.append(hash_of_code(names["function"], (float64,)))
    assert found[0] == found[2] != found[4]
    assert found[1] == found[3] == found[5]


def test_equal_functions_with_other_constants_around_them_are_not_taken_for_one_another():
    """Both are described once: what calls them must tell which of them it calls where."""
    text = """
def outer(step):
    @njit
    def around(x):
        return x + step
    return around

one, other = outer(first), outer(second)

def function(x):
    return one(x) / other(x)
"""
    found = []
    for first, second in ((1.0, 2.0), (1.0, 2.0), (2.0, 1.0)):
        place = {"njit": njit, "first": first, "second": second}
        exec(text, place)
        found.append(hash_of_code(place["function"], (float64,)))
    assert found[0] == found[1] != found[2]


def test_code_with_constants_of_two_times_is_not_kept():
    """Its callees may have those with which they were compiled first."""
    place = {"FACTOR": 1.0}
    exec("def function(x):\n    return x * FACTOR", place)
    first = hash_of_code(place["function"], (float64,))
    place["FACTOR"] = 2.0
    assert hash_of_code(place["function"], (float64,)) is None
    place["FACTOR"] = 1.0
    assert hash_of_code(place["function"], (float64,)) == first


# --- signatures -----------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two numbers."""

    one: float
    other: float


def renamed(fields):
    """Return a class like `Pair`, as a module that was edited has it."""
    made = NamedTuple("Pair", [(name, float) for name in fields])
    made.__module__, made.__qualname__ = Pair.__module__, "Pair"
    return made


def in_package(function, line=1):
    """Put a function at a line of a file of the package."""
    file = str(PACKAGE / "engine" / "x.py")
    function.__code__ = function.__code__.replace(co_filename=file, co_firstlineno=line)
    return function


@in_package
def of_package(x):
    """As a function of the package: nothing but its name and its signature counts."""
    return x


@pytest.mark.parametrize(("number", "line"), [(2.0, 1), (1.0, 2)])
def test_functions_of_the_package_differ_by_their_lines_and_the_values_around_them(number, line):
    def made(number, line):
        return in_package(lambda x: x + number, line)

    one, again, other = (
        hash_of_code(made(*each), (float64,)) for each in ((1.0, 1), (1.0, 1), (number, line))
    )
    assert one == again != other


def test_fields_of_classes_count_and_names_of_their_modules_do_not():
    """Code for (one, other) reads the first number as `one`."""
    kinds = [typeof(made(1.0, 2.0)) for made in (Pair, renamed(["other", "one"]))]
    assert str(kinds[0]) == str(kinds[1])
    for wrapped in (lambda kind: kind, ByReference, types.Optional, lambda k: types.Tuple([k, k])):
        one, other = (hash_of_code(of_package, (wrapped(kind),)) for kind in kinds)
        assert one != other
        assert None not in (one, other)
    assert ByReference(kinds[0]) != ByReference(kinds[1])
    # A script has another name in each of its workers
    elsewhere = renamed(Pair._fields)
    elsewhere.__module__ = "elsewhere"
    one, other = (hash_of_sampler(of_package, [kind]) for kind in (Pair, elsewhere))
    assert one == other != hash_of_sampler(of_package, [renamed(["other", "one"])])


def test_types_count():
    kinds = [
        float64, int64, float64[:], float64[::1], typeof((1.0, 2)), typeof((1.0, 2.0)),
        types.Array(float64, 1, "C", readonly=True), typeof(np.random.default_rng()),
        types.Omitted(1.0), types.Omitted(2.0), types.literal(1), types.literal(2),
    ]  # fmt: skip
    found = [hash_of_code(of_package, (kind,)) for kind in kinds]
    assert len({*found}) == len(kinds)
    assert None not in found


def test_functions_that_are_chosen_by_a_class_count(monkeypatch):
    """As those of a sampler by the class of its settings."""
    chosen = {}
    monkeypatch.setattr(dependencies, "CHOSEN_BY_CLASS", [lambda kind: chosen.get(kind, ())])
    kind, found = typeof(Pair(1.0, 2.0)), []
    for function in (lambda x: x, lambda x: 2 * x, lambda x: x):
        chosen[Pair] = (function, True)
        found.append(hash_of_code(of_package, (kind,)))
    assert found[0] == found[2] != found[1]


def test_what_another_process_would_not_recognize_is_not_kept():
    class Local(NamedTuple):
        one: float

    class Script(NamedTuple):
        one: float

    Script.__module__, Script.__qualname__ = "__main__", "Script"
    assert hash_for(value=Enum("Kind", {"ONE": object()}).ONE) is None  # its text is an address
    function_as_argument = typeof(njit(of_package))
    for kind in (typeof(Local(1.0)), typeof(Script(1.0)), function_as_argument):
        assert hash_of_code(of_package, (kind,)) is None


# --- in all processes -----------------------------------------------------------------------------


def test_hashes_are_the_same_in_all_processes():
    """A set has another order in each; without equal hashes nothing would be found in the cache."""
    code = "from tests.engine.compiled.test_dependencies import *; print(hash_for(value=('a', 1)))"
    (found,) = {printed(code, PYTHONHASHSEED=seed) for seed in "123"}
    assert found != "None\n"


def test_compiled_code_is_in_the_files_of_which_the_package_has_a_hash():
    """And takes no constant from others."""
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        # others may call compiled functions as Python ones, which is no part of any cache
        imported = re.findall(r"compiled\.jit import (.*)", path.read_text())
        uses_numba = imported not in ([], ["as_python"])
        assert not uses_numba or room in ("engine", "samplers"), path


def test_the_hash_of_the_package_is_that_of_all_these_files(tmp_path, monkeypatch):
    monkeypatch.setattr(dependencies, "PACKAGE", tmp_path)
    files = [tmp_path / name for name in ("engine/a.py", "samplers/deep/b.py", "samplers/c.txt")]
    found = []
    for text in ("", "x = 1"):
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            found.append(dependencies._hash_of_package())
    assert found[1] == found[2]
    assert found[4] == found[5]
    files[0].rename(files[0].with_name("z.py"))
    found.append(dependencies._hash_of_package())
    assert len(set(found)) == 5
