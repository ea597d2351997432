"""Checked data: arrays that are handed on, and text that is written in parts."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.results import labels
from stanadapt.targets.stan import checked_data, program
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.data import check
from tests.helpers.checked import checked

RNG = np.random.default_rng(1)
MATRIX = RNG.normal(size=(9, 3)) * 10.0 ** RNG.integers(-30, 30, (9, 3))
TUPLES = "tuple(real, array[2] int) t; array[2] tuple(real, int) u;"
# declarations, and data
KINDS = {
    "nothing": ("", None),
    "lists": ("matrix[2, 2] x; array[2] int y;", {"x": [[1, 2], [3, 4.5]], "y": [3, 4]}),
    "arrays": ("matrix[9, 3] x; real s;", {"x": MATRIX, "s": np.float32(0.1)}),
    "transposed": ("matrix[3, 9] x;", {"x": MATRIX.T}),
    "strided": ("matrix[3, 3] x;", {"x": MATRIX[::3]}),
    "big-endian": ("matrix[9, 3] x;", {"x": MATRIX.astype(">f8")}),
    "many dimensions": ("array[2, 3] matrix[2, 2] x;", {"x": np.arange(24).reshape(2, 3, 2, 2)}),
    "whole numbers": ("array[12] int y; array[12] real z;", {"y": np.arange(12), "z": range(12)}),
    "booleans": ("array[3] int y;", {"y": [True, False, True]}),
    "a table": ("vector[2] a; array[2] int b;", pd.DataFrame({"a": [1.0, 2], "b": [1, 2]})),
    "no elements": ("int N; matrix[N, 3] x; matrix[2, N] z; array[N] int i;",
                    {"N": 0, "x": np.zeros((0, 3)), "z": [[], []], "i": []}),
    "no finite numbers": ("vector[12] x; real r; array[2] int i;",
                          {"x": [1.5, np.nan, np.inf, -np.inf] * 3, "r": -np.nan, "i": [1, 2]}),
    "tuples": (TUPLES, {"t": (1.5, [1, 2]), "u": [(1, 2), (3.5, 4)]}),
    "complex": ("complex c; vector[2] x;", {"c": 1 + 2j, "x": [1, 2]}),
    "text": ("vector[3] x; real r;", '{"x": [1, 2,3], "r":1.50, "spare": [[1], [2]]}'),
    "text with NaN": ("vector[3] x; int i;", '{"x": [1, NaN, 3], "i": 2.0}'),
    "text with tuples": ("tuple(real, array[2] int) t;", '{"t": {"1": 1, "2": [1, 2]}}'),
    "R": ("vector[2] x;", "x <- c(1, 2.5)"),
}  # fmt: skip


def stan(declared):
    return program.read(
        f"data {{ {declared} }} parameters {{ real a; }} model {{ a ~ std_normal(); }}"
    )


@pytest.fixture
def large(monkeypatch):
    """Let all data be so large that no text is kept, and five numbers be written at once."""
    monkeypatch.setattr(checked_data, "LARGE", -1)
    monkeypatch.setattr(checked_data, "PART", 5)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def sizes(request):
    if request.param:
        request.getfixturevalue("large")
    return request.param


def described(arrays):
    return {name: (x.dtype.str, x.shape, x.tolist()) for name, x in arrays.items()}


@pytest.mark.parametrize(("declared", "given"), KINDS.values(), ids=KINDS)
def test_arrays_are_those_of_the_text(sizes, declared, given):
    found = check(given, stan(declared), compiled=True)
    assert found.is_large == sizes
    assert described(found.arrays) == described(labels.arrays(found.text))
    reread = checked(found.text)
    names = stan(declared).data_names
    assert reread.digest(names) == found.digest(names)
    again = check(found, stan(declared), compiled=True)
    assert again.digest(names) == found.digest(names)


@pytest.mark.parametrize(("declared", "given"), KINDS.values(), ids=KINDS)
def test_text_in_parts_is_that_at_once(request, tmp_path, declared, given):
    whole = check(given, stan(declared), compiled=True)
    request.getfixturevalue("large")
    large = check(given, stan(declared), compiled=True)
    if isinstance(given, str) and "NaN" not in given:
        assert json.loads(large.text) == json.loads(whole.text)
    else:
        assert large.text == whole.text
    large.write(tmp_path / "data.json")
    assert (tmp_path / "data.json").read_text() == large.text
    for entry in ("", '"more": {"a": 1}'):
        with whole.argument(entry) as text, large.argument(entry) as name:
            assert json.loads(text) == json.loads(Path(name).read_text())
            # by their hash, a trial is remembered
            assert Path(name).read_text() == text or large.text != whole.text
            assert json.loads(text).get("more") == ({"a": 1} if entry else None)
        assert not Path(name).exists()


def test_the_digest_is_that_of_earlier_releases(sizes):
    data = {"N": 3, "y": [1, 2, -0.0], "m": [[1.5, 2]] * 7, "none": np.zeros((0, 2)), "r": np.nan}
    declared = "int N; vector[3] y; matrix[7, 2] m; matrix[0, 2] none; real r; tuple(int, real) t;"
    found = check({**data, "t": (1, 2.5)}, stan(declared), compiled=True)
    assert found.digest([*data, "t"]) == DIGEST


DIGEST = "139312cdda45f3f2"


def test_without_space_for_a_file_text_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(checked_data.tempfile, "tempdir", str(tmp_path / "absent"))
    many = np.arange(500_001)
    with CheckedData({"x": many}).argument() as argument:
        assert json.loads(argument)["x"] == many.tolist()


CODE = """
data { int N; matrix[N, 3] x; } parameters { vector[3] b; } model { sum(x * b) ~ normal(b, 1); }
"""


@pytest.mark.parametrize("backend", ["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)])
def test_a_target_reads_no_text_and_keeps_its_numbers(monkeypatch, sizes, backend):
    def read(text, *_):
        raise AssertionError(f"parsed: {text[:50]}")

    data, point = {"N": 9, "x": MATRIX / 1e30}, np.array([0.1, -0.2, 0.3])
    expected = sa.Target(CODE, json.dumps({"N": 9, "x": data["x"].tolist()}), backend=backend)
    monkeypatch.setattr(labels.orjson, "loads", read)
    monkeypatch.setattr("bridgestan.model.open", read, raising=False)
    target = sa.Target(CODE, data, backend=backend)
    value, gradient, _ = expected.evaluate(point)
    for made in (target, target.with_data(data), pickle.loads(pickle.dumps(target))):
        assert made.data_hash == expected.data_hash
        assert made.evaluate(point)[0] == value
        assert np.array_equal(made.evaluate(point)[1], gradient)
    data["x"][:] = 0.0
    assert json.loads(target.data) == json.loads(expected.data)
    assert np.array_equal(target.data_groups["constant_data"]["x"], json.loads(expected.data)["x"])
