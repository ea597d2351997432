#!/bin/sh
# Numba 0.68.1: compiled functions that are called from Python tell named tuples apart by the names of class
# and fields, and not by their classes. If two modules have a class `Settings(width)` each, and a function is
# chosen by the class (`overload`), that of the class which Numba saw first runs for the other one too, without
# a word: of two samplers in files of their own, or of a file before and after it was edited and reloaded.
# Called from compiled code, the right one runs, since the types that `typeof` gives them differ.
# Seen: 1 for both classes, where the second should give 2; called for the second, first and second again, 2, 1
# and 1; and one signature for two types. With a class of another name, each has its own.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PY'
from collections import namedtuple

import numba
from numba.extending import overload

first = namedtuple("Settings", "width", module="first")
second = namedtuple("Settings", "width", module="second")
other = namedtuple("Other", "width", module="second")
NUMBERS = {first: 1, second: 2, other: 3}


def number(settings):
    """Replaced in compiled code."""


@overload(number)
def _number(settings):
    found = NUMBERS[settings.instance_class]
    return lambda settings: found


def make():
    return numba.njit(lambda settings: number(settings))


@numba.njit
def from_compiled_code():
    return number(first(1.0)), number(second(1.0))


assert numba.typeof(first(1.0)) != numba.typeof(second(1.0))
assert from_compiled_code() == (1, 2)
function, reverse = make(), make()
found = [function(kind(1.0)) for kind in (first, second, other)]
print("first, second, other:", found, "signatures:", function.signatures)
again = [reverse(kind(1.0)) for kind in (second, first, second)]
print("second, first, second:", again)
assert found == [1, 1, 3]
assert len(function.signatures) == 2
assert again == [2, 1, 1]
PY
