"""Checking the data against the data block: accepted values, and every kind of error."""

import json
import re
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import stanli

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import program
from tests.helpers.checked import checked, to_json
from tests.helpers.codes import raises, raises_in

REGRESSION = (
    "int N; int K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; real<lower=0> s; vector[K] m;"
)
GOOD = MappingProxyType(
    {"N": 3, "K": 2, "X": [[1, 2], [3, 4], [5, 6]], "y": [0, 1, 1], "s": 1.5, "m": [0.5, 1]}
)
DECLARED = {
    "X": "`matrix[3, 2] X`",
    "y": "`array[3] int<lower=0, upper=1> y`",
    "s": "`real<lower=0> s`",
    "N": "`int N`",
}
SHAPE, KIND, WHOLE = "data_wrong_shape", "data_not_numeric", "data_not_integer"
FINITE, BOUNDS = "data_not_finite", "data_out_of_bounds"


def stan(declared):
    return program.read(
        f"data {{\n{declared}\n}}\nparameters {{ real mu; }}\nmodel {{ mu ~ normal(0, 1); }}"
    )


def accept(declared, given, **options):
    """Return the values as Stan would read them."""
    return json.loads(to_json(given, stan(declared), **options))


def refuse(code, declared, given, *facts, **options):
    """Expect an error with this code and these facts; return its message."""
    with raises(code, *facts) as caught:
        to_json(given, stan(declared), **options)
    return caught.value.message


def refuse_both(code, name, value, *facts):
    """Expect the error for a mapping and for text; return both messages."""
    text = as_text(name, value)
    given = (json.loads(text), text)
    return [refuse(code, REGRESSION, each, *facts) for each in given]


def changed(**values):
    return {**GOOD, **values}


def as_text(name, value):
    """Return the good data as JSON text with one value replaced by the given JSON."""
    return json.dumps(changed(**{name: "?"})).replace('"?"', value)


def test_all_forms_of_data_agree(tmp_path):
    text = json.dumps(dict(GOOD), indent=1)
    path = tmp_path / "data.json"
    path.write_text(text, encoding="utf-8-sig")
    arrays = {name: np.asarray(value) for name, value in GOOD.items()}
    forms = [dict(GOOD), GOOD, arrays, text, " \n" + text, "\ufeff" + text, str(path), path]
    for form in forms:
        assert accept(REGRESSION, form) == GOOD
    for form in (text, str(path), path, "\ufeff" + text):
        assert to_json(form, stan(REGRESSION)) == text
    assert to_json(arrays, stan(REGRESSION)) == to_json(GOOD, stan(REGRESSION))


def test_programs_without_data_and_undeclared_entries():
    assert to_json(None, program.read("model { }")) == "{}"
    assert to_json({}, program.read("model { }")) == "{}"
    refuse("data_missing", "int N;", None, "N", "`int N`")
    labels = {"names": ["a", "b"], "note": None, "ragged": [[1], [2, 3]], "flag": True, 7: 1}
    assert accept("int N;", {"N": 1, **labels}) == {"N": 1}
    numeric = '{"N": 1, "other": [1.5, 2], "none": []}'
    assert to_json(numeric, stan("int N;")) == numeric
    for extra in ('"a"', "null", "true", "[true, 1]", "[[1], [2, 3]]", '{"a": 1}', "NaN", "1e999"):
        assert to_json(f'{{"N": 1, "other": {extra}}}', stan("int N;")) == '{"N": 1}'


def test_the_hash_of_data_is_that_of_their_numbers():
    """Not of how they are written, of undeclared entries, or of their order."""
    names = ["y", "N", "m"]
    same = [
        '{"N": 2, "y": [1, 2], "m": [[1, -0.0], [2, 3]]}',
        '{"m":[[1.0,0],[2,3.00]],"extra":"a", "y":[1.0,2e0],\n"N":2}',
    ]
    assert len({checked(text).digest(names) for text in same}) == 1
    others = [
        '{"N": 2, "y": [1, 3], "m": [[1, 0], [2, 3]]}',
        '{"N": 2, "y": [1, 2], "m": [1, 0, 2, 3]}',
        '{"N": 1, "y": [2, 2], "m": [[1, 0], [2, 3]]}',
        '{"N": 2, "y": [1, "NaN"], "m": [[1, 0], [2, 3]]}',
        '{"N": 2, "y": {"1": 1, "2": 2}, "m": [[1, 0], [2, 3]]}',
    ]
    assert len({checked(text).digest(names) for text in [*same, *others]}) == 1 + len(others)


def test_numbers_of_every_kind_are_written_as_what_is_declared():
    one_by_one = [[True, False, True], [True, 0, 1], (1, 0, 1), [np.int32(1), np.bool_(False), 1]]
    arrays = [np.array([1, 0, 1], dtype=kind) for kind in ("?", "u1", "i8", "u8", "O")]
    tables = [pd.Series([1, 0, 1], dtype=kind) for kind in ("bool", "int64", "Int64", "object")]
    for y in (*one_by_one, *arrays, *tables, np.ma.array([1, 0, 1], mask=False)):
        assert '"y": [1,0,1]' in to_json(changed(y=y), stan(REGRESSION))
    assert accept("array[4] int x;", {"x": range(4)}) == {"x": [0, 1, 2, 3]}
    table = pd.DataFrame({"a": [1, 3, 5], "b": [2.0, 4.0, 6.0]})
    arrays = [np.array(table, dtype=kind) for kind in ("f4", "f8", "g", "i2", "O")]
    transposed = np.array([[1, 3, 5], [2, 4, 6]]).T
    for matrix in (table, *arrays, transposed, [np.array([1, 2]), (3, 4), pd.Series([5, 6])]):
        text = to_json(changed(X=matrix), stan(REGRESSION))
        assert '"X": [[1.0,2.0],[3.0,4.0],[5.0,6.0]]' in text
    values = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    assert np.array_equal(accept("vector[50] x;", {"x": values})["x"], values)
    for text in ('{"x": [3000000000, 1]}', '{"x": [-3000000000, 1.5]}'):
        assert "3000000000.0" in to_json(text, stan("vector[2] x;"))
    assert to_json({"x": 3000000000}, stan("real x;")) == '{"x": 3000000000.0}'
    assert accept("real x;", f'{{"x": {10**30}}}') == {"x": 1e30}
    for text in ('{"x": 3e9}', '{"x": 3000000000.0}', '{"x": 2147483647}'):
        assert to_json(text, stan("real x;")) == text


def test_files_and_texts_that_are_not_data(tmp_path):
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    for path in (tmp_path / "gone.json", tmp_path, str(tmp_path / "latin.json")):
        with raises_in("files", path):
            to_json(path, stan(""))
    (tmp_path / "words").write_text("N is 3\n")
    refuse("data_not_json", "", tmp_path / "words", tmp_path / "words", "line 1 column 1", ".csv")
    refuse("data_not_json", "", '{"a": 1\n"b": 2}', "line 2 column 1")
    for text in ("{" * 10**5, '{"a":' + "[" * 10**5, '{"a":' + "1" * 5000 + "}"):
        refuse("data_not_json", "", text)
    refuse("data_wrong_type", "", "[1, 2]", "list")
    (tmp_path / "number.json").write_text("3")
    refuse("data_wrong_type", "", tmp_path / "number.json", "int 3")
    refuse("data_wrong_type", "", [pd.DataFrame()], "list", '{"x": table["x"], ...}')
    refuse("data_repeated", "int N;", '{"N": 1, "N": 2}', "N")


def test_all_missing_variables_are_listed_with_similar_names():
    facts = [
        "N, X, y, s, m",
        "`int N`, `matrix[N, K] X`, `array[N] int<lower=0, upper=1> y`, `real<lower=0> s`, "
        "`vector[K] m`",
        "n, K, x, extra",
    ]
    message = refuse("data_missing", REGRESSION, {"n": 3, "K": 2, "x": 1, "extra": 0}, *facts)
    for near, meant in (("n", "N"), ("x", "X")):  # each pair stands in a question
        assert re.search(rf"\b{near}\b[^?]*\b{meant}\?", message)
    assert "?" not in refuse("data_missing", "int N;", {}, "N")


@pytest.mark.parametrize(("name", "value", "code", "facts"), [
    ("X", "[[1, 3, 5], [2, 4, 6]]", SHAPE, ["(2, 3)", "X.T"]),
    ("X", "[1, 2, 3, 4, 5, 6]", SHAPE, ["6", "X.reshape(3, 2)"]),
    ("X", "[[1, 2], [3, 4]]", SHAPE, ["N = 3"]), ("X", "[[1], [2]]", SHAPE, ["N = 3", "K = 2"]),
    ("X", "[1, 2]", SHAPE, ["2 levels"]), ("X", "1", SHAPE, ["2 levels"]),
    ("y", "[[0], [1], [1]]", SHAPE, ["y.reshape(3)"]), ("y", "[0, 1]", SHAPE, ["2"]),
    ("y", "1", SHAPE, ["list"]), ("s", "[1.5]", SHAPE, ["1"]),
    ("X", "[[1, 2], [3], [5, 6]]", SHAPE, ["X[1]", "length 2", "X[2]", "length 1"]),
    ("X", "[[1, 2], 3, [5, 6]]", SHAPE, ["X[1]", "length 2", "X[2]"]),
    ("X", "[[[1], [2]], [[1, 2], [3, 4]]]", SHAPE, ["X[1, 1]", "X[2, 1]"]),
    ("y", "[1.0, 1.5, 0]", WHOLE, ["y[2] is 1.5"]),
    ("y", "[0, 1.5, 1.0]", WHOLE, ["y[2] is 1.5", "real"]),
    ("y", "[0, 1, null]", KIND, ["y[3]", "null", "missing"]),
    ("y", '["a", 1, 1]', KIND, ["y[1]", "'a'"]), ("y", '[0, {"a": 1}, 1]', KIND, ["y[2]"]),
    ("y", "[0, NaN, 1]", FINITE, ["y[2]", "NaN", "missing"]),
    ("y", '[0, "NaN", 1]', FINITE, ["y[2]", "NaN"]),
    ("y", "[0, 2147483648, 1]", WHOLE, ["y[2] is 2147483648"]),
    ("y", "[0, -9223372036854775809, 99999999999999999999]", WHOLE, ["-9223372036854775809"]),
    ("N", "9" * 25, WHOLE, ["-2147483648", "2147483647", "real"]),
    ("X", "[[1, 2], [3, null], [5, 6]]", KIND, ["X[2, 2]", "null"]),
    ("X", "[[1, 2], [3, 4], [NaN, 6]]", FINITE, ["X[3, 1]", "NaN"]),
    ("X", "[[1, -Infinity], [3, 4], [5, 6]]", FINITE, ["X[1, 2]"]), ("s", '"Inf"', FINITE, []),
    ("s", "1" * 400, FINITE, []), ("s", '"1.5"', KIND, ["'1.5'"]),
])  # fmt: skip
def test_wrong_values(name, value, code, facts):
    for message in refuse_both(code, name, value, DECLARED[name], *facts):
        assert message.startswith((f"{name} ", f"{name}["))


def test_wrong_shapes_of_arrays():
    facts = ["X[1]", "length 2", "X[2]", "length 3"]
    refuse(SHAPE, REGRESSION, changed(X=[np.ones(2), np.ones(3)]), *facts)
    refuse(BOUNDS, REGRESSION, changed(N=-3), "X ", "`matrix[-3, 2] X`")
    given = {"z": np.zeros((2, 4, 3))}
    refuse(SHAPE, "array[2, 3] row_vector[4] z;", given, "z.swapaxes(-1, -2)")


# The number of sizes of each type; -2 means one size for a square type.
TYPES = {
    **dict.fromkeys(["int", "real"], 0),
    **dict.fromkeys(["vector", "row_vector", "simplex", "unit_vector", "ordered"], 1),
    **dict.fromkeys(["positive_ordered", "sum_to_zero_vector"], 1),
    **dict.fromkeys(["matrix", "cholesky_factor_cov"], 2),
    **dict.fromkeys(["cov_matrix", "corr_matrix", "cholesky_factor_corr"], -2),
    "cholesky_factor_cov ": -2,
}


def random_declaration(rng, base, rank):
    """Make declarations with distinct sizes, which preceding ints set, and data to match."""
    depth = int(rng.integers(0 if rank else 1, 3))
    sizes = [int(size) for size in rng.permutation(np.arange(2, 8))[: depth + abs(rank)]]
    sizes[-1] = sizes[-2] if rank == -2 else sizes[-1]
    names = [f"n{i}" for i in range(len(sizes))]
    inner = names[depth : depth + 1] if rank == -2 else names[depth:]
    inner = f"[{', '.join(inner)}]" if inner else ""
    base, array = base.strip(), ", ".join(names[:depth])
    old = f"{base}{inner} x[{array}];" if depth else f"{base}{inner} x;"
    new = f"array[{array}] {base}{inner} x;" if depth else old
    x = rng.integers(0, 9, sizes) if base == "int" else rng.normal(size=sizes)
    ints = f"int {', '.join(names)};"
    return [f"{ints} {new}", f"{ints} {old}"], {**dict(zip(names, sizes, strict=True)), "x": x}


def wrong_shapes(x):
    """Yield arrays with other shapes than `x`, most with the same number of elements."""
    yield x.ravel() if x.ndim > 1 else x.reshape(-1, 1)
    yield x[np.newaxis]
    yield x[..., np.newaxis]
    for axis in range(x.ndim):
        yield np.delete(x, 0, axis)
        yield np.concatenate([x, x], axis)
        yield x.take(0, axis)
        for other in range(axis):
            if x.shape[axis] != x.shape[other]:
                yield x.swapaxes(axis, other)


@pytest.mark.thorough
@pytest.mark.parametrize("base", TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_right_shapes_are_accepted_and_wrong_ones_refused(base, seed):
    declared, given = random_declaration(np.random.default_rng(seed), base, TYPES[base])
    x, declared_type = given["x"], f"{base.strip()}["
    for form in declared:
        assert accept(form, given)["x"] == x.tolist()
        text = json.dumps({**given, "x": x.tolist()})
        assert to_json(text, stan(form)) == text
        for wrong in wrong_shapes(x):
            for bad in ({**given, "x": wrong}, json.dumps({**given, "x": wrong.tolist()})):
                message = refuse(SHAPE, form, bad, *x.shape)
                assert message.startswith("x ")
                assert declared_type in message or TYPES[base] == 0


def test_empty_containers_and_sizes_that_cannot_be_computed():
    declared = "int N; matrix[N, 3] X; matrix[2, N] Z; vector[N] v;"
    for x, z in ([[], []], [[], [[], []]], [[[]], [[], []]], [np.zeros((0, 3)), np.zeros((2, 0))]):
        given = accept(declared, {"N": 0, "X": x, "Z": z, "v": []})
        assert given == {"N": 0, "X": [], "Z": [[], []], "v": []}
    given = {"N": 1, "X": [], "Z": [[1], [1]], "v": [1]}
    refuse(SHAPE, declared, given, "X ", "0", "`matrix[1, 3] X`")
    text = '{"N": 0, "y": [], "w": [[], []]}'
    declared = "int N; array[N] int y; array[2, N] int w;"
    for given in (text, json.loads(text)):
        refuse(SHAPE, declared, given, "`array[0] int y`", "`stanadapt install-cmdstan`")
        assert accept(declared, given, compiled=True) == json.loads(text)
    for written in ("f(N)", "N'", "s[4]", "N / 0"):
        declared = f"int N; array[3] int s; array[{written}] vector[N] x;"
        given = {"N": 3, "s": [1, 2, 3]}
        for x in (np.zeros((5, 3)), np.zeros((1, 3)), np.zeros((0, 3)), []):
            assert accept(declared, {**given, "x": x})["x"] == np.asarray(x).tolist()
        for shape in [(5,), (5, 2), (5, 3, 1)]:
            x = np.zeros(shape)
            refuse(SHAPE, declared, {**given, "x": x}, f"`array[{written}] vector[3] x`")


@pytest.mark.parametrize("value", ["[true, 0, 1]", "[true, false, true]"])
def test_booleans_of_json_are_refused(value):
    refuse(KIND, REGRESSION, as_text("y", value), "y[1] is true", DECLARED["y"])
    refuse(KIND, "real s;", '{"s": false}', "s is false")


def test_missing_values_and_other_objects_are_reported():
    masked = np.ma.array([0, 7, 1], mask=[False, True, False])
    for y in (pd.Series([0, None, 1]), pd.array([0, None, 1], dtype="Int64"), masked):
        with pytest.raises(StanadaptError) as caught:
            to_json(changed(y=y), stan(REGRESSION))
        assert caught.value.code in (KIND, FINITE)
        assert caught.value.message.startswith("y[2] is N")
        assert "missing" in caught.value.message
    refuse(KIND, REGRESSION, changed(y={0, 1}), "y is a set, which has no order")
    refuse(KIND, REGRESSION, changed(s=1j), "s is complex 1j")


@pytest.mark.parametrize("unit", ["[ns]", "[us]", "[D]", ""])
@pytest.mark.parametrize("declared", ["vector[2] x;", "array[2] int x;"])
def test_dates_and_durations_are_not_numbers(declared, unit):
    """NumPy makes integers of those in nanoseconds, and of durations without a unit."""
    durations = np.array([1, 2], dtype=f"timedelta64{unit}")
    for x in (durations, list(durations), np.array([durations[0], 1], dtype=object)):
        refuse(KIND, declared, {"x": x}, "x holds durations", "x / np.timedelta64(1, 'D')")
    if unit:
        dates = np.array(["2020-01-01", "2020-01-02"], dtype=f"datetime64{unit}")
        for x in (dates, list(dates), pd.Series(dates)):
            refuse(KIND, declared, {"x": x}, "x holds dates", "(x - x.min()) / np.timedelta64")


@pytest.mark.parametrize(("declared", "values", "facts"), [
    ("int<lower=0> x;", "-1", ["x is -1", "lower bound 0"]),
    ("array[3] int<upper=K> x;", "[1, 3, 3]", ["x[2] is 3", "upper bound K = 2", "2 of 3"]),
    ("real<lower=a> x;", "1.4", ["x is 1.4", "lower bound a = 1.5"]),
    ("vector<upper=u>[2] x;", "[1, 2.5]", ["x[2] is 2.5", "upper bound u = 2.0", "1 of 2"]),
    ("array[1] vector<lower=-u>[2] x;", "[[1, -3]]", ["x[1, 2] is -3.0", "lower bound"]),
    ("matrix<lower=-1>[1, 2] x;", "[[1, -2]]", ["x[1, 2] is -2.0", "lower bound -1", "1 of 2"]),
    ("real<lower=-pi(), upper=pi()> x;", "3.2", ["upper bound pi() = 3.14159265"]),
    ("real<lower=0, upper=1/2> x;", "0.3", ["upper bound 1/2 = 0"]),
])  # fmt: skip
def test_bounds(declared, values, facts):
    given = {"K": 2, "a": 1.5, "u": [1, 2], "x": json.loads(values)}
    refuse(BOUNDS, f"int K; real a; vector[2] u; {declared}", given, *facts)


def test_bounds_and_numbers_that_are_not_finite():
    for declared in ("array[2] int<lower=0, upper=1> y;", "array[2] real<lower=f(1), upper=1> y;"):
        assert accept(declared, {"y": [0, 1]}) == {"y": [0, 1]}
    assert accept("vector<offset=5, multiplier=2>[2] x;", {"x": [0, 9]}) == {"x": [0, 9]}
    values = {"x": [1, float("nan"), float("inf"), float("-inf")], "s": float("nan")}
    expected = {"x": [1, "NaN", "Inf", "-Inf"], "s": "NaN"}
    for given in (values, expected, json.dumps(values), json.dumps(expected)):
        assert accept("vector[4] x; real s;", given, compiled=True) == expected
    refuse(FINITE, "int n;", {"n": float("nan")}, "n is NaN", compiled=True)
    # As in Stan, NaN satisfies no bound.
    refuse(BOUNDS, "real<lower=0> x;", {"x": float("nan")}, "lower", compiled=True)


def test_several_declarators_comments_and_foreign_types():
    declared = """
      int<lower=0> N, K; // vector[9] gone;
      vector[N] a, b; int y[K, N], z; /* real c; */ vector[2] w[K];
      tuple(int, array[2] real<lower=0>) t, u; array[2] complex c; complex_vector[N] d;
    """
    given = {"N": 3, "K": 1, "a": [1, 2, 3], "b": [1, 2, 3], "y": [[1, 2, 3]], "z": 4}
    refuse("data_missing", declared, given, "w, t, u, c, d")
    given |= {"w": [[1, 2]], "t": (1, [2.5, 3]), "u": (1, [2, 3]), "c": [1 + 2j, 3j], "d": [1j] * 3}
    assert accept(declared, given)["t"] == {"1": 1, "2": [2.5, 3]}
    refuse(SHAPE, declared, {**given, "y": [[1], [2], [3]]}, "`array[1, 3] int y`")
    refuse("data_not_json", declared, {**given, "t": object()})


I2, I3 = np.eye(2), np.eye(3)


@pytest.mark.parametrize(("declared", "given"), [
    ("", None), (REGRESSION, GOOD),
    (REGRESSION, changed(y=[True, False, True], note="text", X=I3[:, :2], s=3 * 10**9)),
    (REGRESSION, json.dumps(changed(note=None, s=3 * 10**9))),
    ("int N; matrix[N, 3] X; matrix[2, N] Z;", {"N": 0, "X": [], "Z": []}),
    ("int N; matrix[N, 3] X; matrix[2, N] Z;", '{"N": 0, "X": [[]], "Z": []}'),
    ("vector[2] x; real s;", {"x": ["NaN", float("inf")], "s": float("nan")}),
    ("vector[2] x; real s;", '{"x": [NaN, -Infinity], "s": 1e999}'),
    ("simplex[2] a; unit_vector[2] c;", {"a": [0.5, 0.5], "c": [0, 1]}),
    ("ordered[2] a; positive_ordered[2] c;", {"a": [-1, 1], "c": [0, 1]}),
    ("cov_matrix[2] a; corr_matrix[2] b;", {"a": I2, "b": I2}),
    ("cholesky_factor_cov[3, 2] a; cholesky_factor_corr[2] b;", {"a": I3[:, :2], "b": I2}),
    ("sum_to_zero_vector[2] a; cholesky_factor_cov[2] b;", {"a": [1, -1], "b": I2}),
    ("array[2, 3] row_vector<lower=0>[4] a;", {"a": np.ones((2, 3, 4))}),
])  # fmt: skip
def test_stanli_reads_what_is_accepted(declared, given, monkeypatch):
    for switch in ("STANLI_NO_REROLL", "STANLI_NO_PARTITION", "STANLI_NO_INTERPRETER"):
        monkeypatch.setenv(switch, "1")
    text = to_json(given, stan(declared), compiled=True)
    model = stanli.bridgestan_model(stan_code=stan(declared).code, data=text)
    assert model.param_unc_num() == 1
