"""Checking the data against the data block: what is accepted, and every error message."""

import json
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import stanli

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import data, program

REGRESSION = (
    "int N; int K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; real<lower=0> s; vector[K] m;"
)
GOOD = MappingProxyType(
    {"N": 3, "K": 2, "X": [[1, 2], [3, 4], [5, 6]], "y": [0, 1, 1], "s": 1.5, "m": [0.5, 1]}
)
MATRIX, ARRAY = "matrix[3, 2] X", "array[3] int<lower=0, upper=1> y"
MISSING = "Stan has no missing values: give the observed values and their indices"


def stan(declared):
    return program.read(
        f"data {{\n{declared}\n}}\nparameters {{ real mu; }}\nmodel {{ mu ~ normal(0, 1); }}"
    )


def accept(declared, given, **options):
    """Values as Stan would read them."""
    return json.loads(data.to_json(given, stan(declared), **options))


def refusal(declared, given, stage="data", **options):
    with pytest.raises(StanadaptError) as caught:
        data.to_json(given, stan(declared), **options)
    assert caught.value.stage == stage
    return caught.value.message


def changed(**values):
    return {**GOOD, **values}


def as_text(name, value):
    """The good data as JSON text with one value replaced by the given JSON."""
    return json.dumps(changed(**{name: "?"})).replace('"?"', value)


def refusals(name, value):
    """Error messages for the same values in a mapping and in text."""
    text = as_text(name, value)
    return refusal(REGRESSION, json.loads(text)), refusal(REGRESSION, text)


def test_all_forms_of_data_agree(tmp_path):
    text = json.dumps(dict(GOOD), indent=1)
    path = tmp_path / "data.json"
    path.write_text(text, encoding="utf-8-sig")
    arrays = {name: np.asarray(value) for name, value in GOOD.items()}
    forms = [dict(GOOD), GOOD, arrays, text, " \n" + text, "\ufeff" + text, str(path), path]
    for form in forms:
        assert accept(REGRESSION, form) == GOOD
    for form in (text, str(path), path, "\ufeff" + text):
        assert data.to_json(form, stan(REGRESSION)) == text
    assert data.to_json(arrays, stan(REGRESSION)) == data.to_json(GOOD, stan(REGRESSION))


def test_programs_without_data():
    assert data.to_json(None, program.read("model { }")) == "{}"
    assert data.to_json({}, program.read("model { }")) == "{}"
    assert data.digest("{}") == "44136fa355b3678a"
    assert refusal("int N;", None).startswith("The data lack N; the program declares `int N`.")


def test_integers_of_every_kind_are_written_as_integers():
    one_by_one = [[True, False, True], [True, 0, 1], (1, 0, 1), [np.int32(1), np.bool_(False), 1]]
    arrays = [np.array([1, 0, 1], dtype=kind) for kind in ("?", "u1", "i8", "u8", "O")]
    tables = [pd.Series([1, 0, 1], dtype=kind) for kind in ("bool", "int64", "Int64", "object")]
    for y in (*one_by_one, *arrays, *tables, np.ma.array([1, 0, 1], mask=False)):
        assert '"y": [1, 0, 1]' in data.to_json(changed(y=y), stan(REGRESSION))
    assert accept("array[4] int x;", {"x": range(4)}) == {"x": [0, 1, 2, 3]}


def test_reals_of_every_kind_are_written_as_doubles():
    table = pd.DataFrame({"a": [1, 3, 5], "b": [2.0, 4.0, 6.0]})
    arrays = [np.array(table, dtype=kind) for kind in ("f4", "f8", "g", "i2", "O")]
    transposed = np.array([[1, 3, 5], [2, 4, 6]]).T
    for matrix in (table, *arrays, transposed, [np.array([1, 2]), (3, 4), pd.Series([5, 6])]):
        text = data.to_json(changed(X=matrix), stan(REGRESSION))
        assert '"X": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]' in text


def test_doubles_survive_to_the_last_bit():
    values = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    assert np.array_equal(accept("vector[50] x;", {"x": values})["x"], values)


def test_files_and_texts_that_are_not_data(tmp_path):
    assert "There is no data file at" in refusal("", tmp_path / "gone.json", "files")
    assert "which is a folder" in refusal("", tmp_path, "files")
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    assert "is not UTF-8: line 1" in refusal("", str(tmp_path / "latin.json"), "files")
    (tmp_path / "old.R").write_text("N <- 3\n")
    message = refusal("", tmp_path / "old.R")
    assert f"{tmp_path / 'old.R'} is not valid JSON: Expecting value: line 1 column 1" in message
    assert "Expecting ',' delimiter: line 2 column 1" in refusal("", '{"a": 1\n"b": 2}')
    assert "is not valid JSON" in refusal("", "{" * 10**5)
    assert "is not valid JSON" in refusal("", '{"a":' + "[" * 10**5)
    assert "is not valid JSON" in refusal("", '{"a":' + "1" * 5000 + "}")
    assert "must be a JSON object, names and values in braces, got a list" in refusal("", "[1, 2]")
    (tmp_path / "number.json").write_text("3")
    assert "got int 3" in refusal("", tmp_path / "number.json")
    assert 'got DataFrame. For a table, use {"x": table["x"], ...}' in refusal("", pd.DataFrame())
    assert "The data give N twice" in refusal("int N;", '{"N": 1, "N": 2}')


def test_all_missing_variables_are_listed_with_similar_names():
    message = refusal(REGRESSION, {"n": 3, "K": 2, "x": 1, "extra": 0})
    assert message.startswith(
        "The data lack N, X, y, s, m; the program declares `int N`, `matrix[N, K] X`, "
        "`array[N] int<lower=0, upper=1> y`, `real<lower=0> s`, `vector[K] m`. "
        "They contain n, K, x, extra."
    )
    assert message.endswith(" Is n in the data meant to be N? Is x in the data meant to be X?")
    assert refusal("int N;", {}).endswith("They are empty.")


def test_undeclared_entries_are_harmless():
    labels = {"names": ["a", "b"], "note": None, "ragged": [[1], [2, 3]], "flag": True, 7: 1}
    assert accept("int N;", {"N": 1, **labels}) == {"N": 1}
    numeric = '{"N": 1, "other": [1.5, 2], "none": []}'
    assert data.to_json(numeric, stan("int N;")) == numeric
    for extra in ('"a"', "null", "true", "[true, 1]", "[[1], [2, 3]]", '{"a": 1}', "NaN", "1e999"):
        assert data.to_json(f'{{"N": 1, "other": {extra}}}', stan("int N;")) == '{"N": 1}'


def test_large_integers_of_real_variables_get_a_decimal_point():
    for text in ('{"x": [3000000000, 1]}', '{"x": [-3000000000, 1.5]}'):
        assert "3000000000.0" in data.to_json(text, stan("vector[2] x;"))
    assert data.to_json({"x": 3000000000}, stan("real x;")) == '{"x": 3000000000.0}'
    assert accept("real x;", f'{{"x": {10**30}}}') == {"x": 1e30}
    for text in ('{"x": 3e9}', '{"x": 3000000000.0}', '{"x": 2147483647}'):
        assert data.to_json(text, stan("real x;")) == text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("X", "[[1, 3, 5], [2, 4, 6]]", "of shape (2, 3), but X is declared as `matrix[3, 2] X`"),
        ("X", "[[1, 3, 5], [2, 4, 6]]", "The transpose fits: give X.T"),
        ("X", "[1, 2, 3, 4, 5, 6]", "a flat list of 6, but X is declared as `matrix[3, 2] X`"),
        ("X", "[1, 2, 3, 4, 5, 6]", "The number of values is right: give nested lists, the outerm"),
        ("X", "[1, 2, 3, 4, 5, 6]", "or X.reshape(3, 2) if they are in that order"),
        ("X", "[[1, 2], [3, 4]]", "Correct X or its size, N = 3."),
        ("X", "[[1], [2]]", "Correct X or its size, N = 3 and K = 2."),
        ("X", "[1, 2]", "a flat list of 2, but X is declared as `matrix[3, 2] X`. Give 2 levels"),
        ("X", "1", "a single number, but X is declared as `matrix[3, 2] X`. Give 2 levels"),
        ("y", "[[0], [1], [1]]", "give a flat list, or y.reshape(3) if"),
        ("y", "[0, 1]", f"a flat list of 2, but y is declared as `{ARRAY}`"),
        ("y", "1", "Give a list."),
        ("s", "[1.5]", "a flat list of 1, but s is declared as `real<lower=0> s`. Give the number"),
        ("X", "[[1, 2], [3], [5, 6]]", "ragged (X[1] has length 2, X[2] has length 1), but"),
        ("X", "[[1, 2], 3, [5, 6]]", "ragged (X[1] has length 2, X[2] is not a list)"),
        ("X", "[[[1], [2]], [[1, 2], [3, 4]]]", "X[1, 1] has length 1, X[2, 1] has length 2"),
        ("y", "[1.0, 1.5, 0]", "[2] is 1.5, but y is declared as `array[3] int<lower=0, upper=1>"),
        ("y", "[0, 1.5, 1.0]", "Declare it real, or round the data."),
        ("y", "[0, 1, null]", f"[3] is null, but y is declared as `{ARRAY}`. {MISSING}"),
        ("y", '["a", 1, 1]', "[1] is the string 'a', but"),
        ("y", '[0, {"a": 1}, 1]', "[2] is an object, but"),
        ("y", "[0, NaN, 1]", f"[2] is NaN, but y is declared as `{ARRAY}`. {MISSING}"),
        ("y", '[0, "NaN", 1]', "[2] is NaN, but"),
        ("y", "[0, 2147483648, 1]", "[2] is 2147483648, but"),
        ("y", "[0, -9223372036854775809, 99999999999999999999]", "[2] is -9223372036854775809,"),
        ("N", "9" * 25, "Stan's int ranges from -2147483648 to 2147483647: declare it real."),
        ("X", "[[1, 2], [3, null], [5, 6]]", "[2, 2] is null, but"),
        ("X", "[[1, 2], [3, 4], [NaN, 6]]", f"[3, 1] is NaN, but X is declared as `{MATRIX}`"),
        ("X", "[[1, -Infinity], [3, 4], [5, 6]]", "[1, 2] is infinite, but"),
        ("s", '"Inf"', " is infinite, but s is declared as `real<lower=0> s`. Data must be finite"),
        ("s", "1" * 400, " is infinite, but"),
        ("s", '"1.5"', " is the string '1.5', but s is declared as `real<lower=0> s`. Stan's data"),
    ],
)
def test_wrong_values(name, value, expected):
    for message in refusals(name, value):
        assert message.startswith((f"{name} is ", f"{name}["))
        assert expected in message


def test_wrong_shapes_of_arrays():
    message = refusal(REGRESSION, changed(X=[np.ones(2), np.ones(3)]))
    assert "X is ragged (X[1] has length 2, X[2] has length 3)" in message
    message = refusal(REGRESSION, changed(N=-3))
    assert "X cannot have a negative size, but X is declared as `matrix[-3, 2] X`" in message
    message = refusal("array[2, 3] row_vector[4] z;", {"z": np.zeros((2, 4, 3))})
    assert "The transpose fits: give z.swapaxes(-1, -2)" in message


# Each type and the number of its own sizes; -2 means one size for a square type.
TYPES = {
    **dict.fromkeys(["int", "real"], 0),
    **dict.fromkeys(["vector", "row_vector", "simplex", "unit_vector", "ordered"], 1),
    **dict.fromkeys(["positive_ordered", "sum_to_zero_vector"], 1),
    **dict.fromkeys(["matrix", "cholesky_factor_cov"], 2),
    **dict.fromkeys(["cov_matrix", "corr_matrix", "cholesky_factor_corr"], -2),
    "cholesky_factor_cov ": -2,
}


def random_declaration(rng, base, rank):
    """Declarations with distinct sizes, given by preceding ints, and data of that shape."""
    depth = int(rng.integers(0 if rank else 1, 3))
    sizes = [int(size) for size in rng.permutation(np.arange(2, 8))[: depth + abs(rank)]]
    sizes[-1] = sizes[-2] if rank == -2 else sizes[-1]
    names = [f"n{i}" for i in range(len(sizes))]
    own = names[depth : depth + 1] if rank == -2 else names[depth:]
    own = f"[{', '.join(own)}]" if own else ""
    base, array = base.strip(), ", ".join(names[:depth])
    old = f"{base}{own} x[{array}];" if depth else f"{base}{own} x;"
    new = f"array[{array}] {base}{own} x;" if depth else old
    x = rng.integers(0, 9, sizes) if base == "int" else rng.normal(size=sizes)
    ints = f"int {', '.join(names)};"
    return [f"{ints} {new}", f"{ints} {old}"], {**dict(zip(names, sizes, strict=True)), "x": x}


def wrong_shapes(x):
    """Arrays with other shapes than `x`, most with the same number of elements."""
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


@pytest.mark.parametrize("base", TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_right_shapes_are_accepted_and_wrong_ones_refused(base, seed):
    declared, given = random_declaration(np.random.default_rng(seed), base, TYPES[base])
    x, declared_type = given["x"], f"{base.strip()}["
    for form in declared:
        assert accept(form, given)["x"] == x.tolist()
        text = json.dumps({**given, "x": x.tolist()})
        assert data.to_json(text, stan(form)) == text
        for wrong in wrong_shapes(x):
            for bad in ({**given, "x": wrong}, json.dumps({**given, "x": wrong.tolist()})):
                message = refusal(form, bad)
                assert message.startswith("x is ")
                assert all(str(size) in message for size in x.shape)
                assert declared_type in message or TYPES[base] == 0


def test_empty_containers():
    declared = "int N; matrix[N, 3] X; matrix[2, N] Z; vector[N] v;"
    for x, z in ([[], []], [[], [[], []]], [[[]], [[], []]], [np.zeros((0, 3)), np.zeros((2, 0))]):
        given = accept(declared, {"N": 0, "X": x, "Z": z, "v": []})
        assert given == {"N": 0, "X": [], "Z": [[], []], "v": []}
    assert "X is a flat list of 0, but X is declared as `matrix[1, 3] X`" in refusal(
        declared, {"N": 1, "X": [], "Z": [[1], [1]], "v": [1]}
    )
    text = '{"N": 0, "y": [], "w": [[], []]}'
    declared = "int N; array[N] int y; array[2, N] int w;"
    for given in (text, json.loads(text)):
        message = refusal(declared, given)
        assert "y is empty, but y is declared as `array[0] int y`. The embedded" in message
        assert "`stanadapt install-cmdstan`" in message
        assert accept(declared, given, allow_empty_int=True) == json.loads(text)


def test_decimals_without_fraction_are_not_integers():
    for y in ([0, 1.0, 1], np.array([0.5, 1.0, 1]) * 2):
        message = refusal(REGRESSION, changed(y=y))
        hint = "Stan accepts no decimal number for an int: give np.asarray(y).astype(int)."
        assert hint in message
    in_dict, in_text = refusals("y", "[0, 1.0, 1]")
    assert in_dict.startswith("y[2] is 1.0, but y is declared as")
    assert in_text.endswith("Write 1: Stan accepts no decimal point in an int.")
    assert refusal(REGRESSION, changed(N=np.float64(3))).endswith("give int(N).")


@pytest.mark.parametrize("value", ["[true, 0, 1]", "[true, false, true]"])
def test_booleans_of_json_are_refused(value):
    message = refusal(REGRESSION, as_text("y", value))
    assert message.startswith("y[1] is true, but y is declared as")
    assert message.endswith("Write 1 for true and 0 for false.")
    assert "s is false" in refusal("real s;", '{"s": false}')


def test_missing_values_of_tables_are_reported_as_missing():
    masked = np.ma.array([0, 7, 1], mask=[False, True, False])
    for y in (pd.Series([0, None, 1]), pd.array([0, None, 1], dtype="Int64"), masked):
        message = refusal(REGRESSION, changed(y=y))
        assert message.startswith("y[2] is N")
        assert MISSING in message


def test_values_that_are_not_numbers():
    assert "y is set {" in refusal(REGRESSION, changed(y={0, 1}))
    assert "s is complex 1j" in refusal(REGRESSION, changed(s=1j))
    assert "x[1] is" in refusal("vector[1] x;", {"x": np.array(["2020"], dtype="datetime64[Y]")})


def test_nonfinite_reals_where_they_are_allowed():
    values = {"x": [1, float("nan"), float("inf"), float("-inf")], "s": float("nan")}
    expected = {"x": [1, "NaN", "Inf", "-Inf"], "s": "NaN"}
    for given in (values, expected, json.dumps(values), json.dumps(expected)):
        assert accept("vector[4] x; real s;", given, allow_nonfinite=True) == expected
    assert "n is NaN" in refusal("int n;", {"n": float("nan")}, allow_nonfinite=True)
    # As in Stan, NaN satisfies no bound.
    assert "below" in refusal("real<lower=0> x;", {"x": float("nan")}, allow_nonfinite=True)


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("int<lower=0> x;", "-1", "x is -1, below the lower bound 0, but x is declared as"),
        ("array[3] int<upper=K> x;", "[1, 3, 3]", "x[2] is 3, above the upper bound K = 2 (2 of 3"),
        ("real<lower=a> x;", "1.4", "x is 1.4, below the lower bound a = 1.5, but"),
        ("vector<upper=u>[2] x;", "[1, 2.5]", "x[2] is 2.5, above the upper bound u = 2.0 (1 of 2"),
        ("array[1] vector<lower=-u>[2] x;", "[[1, -3]]", "x[1, 2] is -3.0, below the lower bound"),
        ("matrix<lower=-1>[1, 2] x;", "[[1, -2]]", "x[1, 2] is -2.0, below the lower bound -1 (1"),
        ("real<lower=-pi(), upper=pi()> x;", "3.2", "above the upper bound pi() = 3.14159265"),
        ("real<lower=0, upper=1/2> x;", "0.3", "above the upper bound 1/2 = 0, but"),
    ],
)
def test_bounds(declared, values, expected):
    given = {"K": 2, "a": 1.5, "u": [1, 2], "x": json.loads(values)}
    assert expected in refusal(f"int K; real a; vector[2] u; {declared}", given)


def test_bounds_include_their_ends_and_unknown_ones_are_left_to_stan():
    for declared in ("array[2] int<lower=0, upper=1> y;", "array[2] real<lower=f(1), upper=1> y;"):
        assert accept(declared, {"y": [0, 1]}) == {"y": [0, 1]}
    assert accept("vector<offset=5, multiplier=2>[2] x;", {"x": [0, 9]}) == {"x": [0, 9]}


def test_if_a_size_cannot_be_computed_the_rank_is_checked():
    for written in ("f(N)", "N'", "s[4]", "N / 0"):
        declared = f"int N; array[3] int s; array[{written}] vector[N] x;"
        given = {"N": 3, "s": [1, 2, 3]}
        for x in (np.zeros((5, 3)), np.zeros((1, 3)), np.zeros((0, 3)), []):
            assert accept(declared, {**given, "x": x})["x"] == np.asarray(x).tolist()
        for shape in [(5,), (5, 2), (5, 3, 1)]:
            message = refusal(declared, {**given, "x": np.zeros(shape)})
            assert f"`array[{written}] vector[3] x`" in message


def test_several_declarators_comments_and_foreign_types():
    declared = """
      int<lower=0> N, K; // vector[9] gone;
      vector[N] a, b; int y[K, N], z; /* real c; */ vector[2] w[K];
      tuple(int, array[2] real<lower=0>) t, u; array[2] complex c; complex_vector[N] d;
    """
    given = {"N": 3, "K": 1, "a": [1, 2, 3], "b": [1, 2, 3], "y": [[1, 2, 3]], "z": 4}
    assert "lack w, t, u, c, d;" in refusal(declared, given)
    given |= {"w": [[1, 2]], "t": (1, [2.5, 3]), "u": (1, [2, 3]), "c": [1 + 2j, 3j], "d": [1j] * 3}
    assert accept(declared, given)["t"] == {"1": 1, "2": [2.5, 3]}
    assert "`array[1, 3] int y`" in refusal(declared, {**given, "y": [[1], [2], [3]]})
    assert "cannot be written as JSON" in refusal(declared, {**given, "t": object()})


I2, I3 = np.eye(2), np.eye(3)


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("", None),
        (REGRESSION, GOOD),
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
    ],
)
def test_stanli_reads_what_is_accepted(declared, given, monkeypatch):
    for switch in ("STANLI_NO_REROLL", "STANLI_NO_PARTITION", "STANLI_NO_INTERPRETER"):
        monkeypatch.setenv(switch, "1")
    text = data.to_json(given, stan(declared), allow_nonfinite=True)
    model = stanli.bridgestan_model(stan_code=stan(declared).code, data=text)
    assert model.param_unc_num() == 1
