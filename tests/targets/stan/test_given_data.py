"""Data in the forms that users have: tables, datasets, R's dumps, compressed files, and others."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import program
from stanadapt.targets.stan.r_dump import read_r_dump
from tests.helpers.checked import to_json
from tests.helpers.codes import raises


def stan(declared):
    return program.read(f"data {{ {declared} }} parameters {{ real a; }} model {{ }}")


def read(declared, given):
    return json.loads(to_json(given, stan(declared)))


DUMP = """
# from R
N <- 3L
"K" <-
2
y <- c(1.5, -2, 3e-1) ; big <- 1e+05
M <-
structure(c(1, 2, 3, 4, 5, 6), .Dim = c(3L, 2L))
A <- structure(1:12, .Dim = 2:4 - 0)
"""


def test_a_dump_of_r_is_read(tmp_path):
    path = tmp_path / "data.R"
    path.write_text(
        DUMP.replace("2:4 - 0", "c(2, 3, 2), .Dimnames = list(NULL, c('a', 'b', 'c'), NULL)")
    )
    declared = "int N; int K; vector[N] y; int big; matrix[N, K] M; array[2, 3, 2] int A;"
    expected = {
        "N": 3, "K": 2, "y": [1.5, -2, 0.3], "big": 100_000, "M": [[1, 4], [2, 5], [3, 6]],
        "A": np.arange(1, 13).reshape(2, 3, 2, order="F").tolist(),
    }  # fmt: skip
    assert read(declared, path) == expected
    assert read(declared, path.read_text()) == expected


@pytest.mark.parametrize(("text", "value"), [
    ("3", 3), ("-3L", -3), ("3.0", 3.0), ("1e3", 1000), ("- 2", -2), ("TRUE", 1),
    ("c(1, 2)", [1, 2]), ("c(1.0, 2)", [1.0, 2.0]), ("c(a = 1, b = 2)", [1, 2]), ("1:3", [1, 2, 3]),
    ("c(1:2, 5)", [1, 2, 5]), ("3:1", [3, 2, 1]), ("c(5)", [5]), ("integer(0)", []),
    ("double(2)", [0.0, 0.0]), ("-Inf", -np.inf), ("c(NA, NaN)", [np.nan, np.nan]),
    ("structure(numeric(0), .Dim = c(0L, 3L))", np.zeros((0, 3))),
    ("structure(c(1, 2), .Names = c('x', \"y\"))", [1, 2]),
])  # fmt: skip
def test_values_of_a_dump(text, value):
    read_value = read_r_dump(f"x <- {text}\n", "It")["x"]
    np.testing.assert_array_equal(read_value, value)
    assert np.asarray(read_value).shape == np.shape(value)
    if np.size(value):
        assert np.asarray(read_value).dtype == np.asarray(value).dtype


@pytest.mark.parametrize(("text", "facts"), [
    ("N <- 3\ny <- rnorm(N)\n", ["line 2", "rnorm"]),
    ("N <- 3\ny <- c(1, 2\n", ["line 3", "parenthesis"]),
    ("N <- \n", ["line 2", "number"]),
    ("y <- structure(1:5, .Dim = c(2, 2))", ["4", "5"]),
    ("y <- 1:2.5", ["whole numbers"]),
    ("N <- 3 +", ["line 1"]),
    ("N <- 3\ny <- numeric(-1)", ["line 2", "length"]), ("y <- numeric(0.5)", ["length"]),
    ("y <- 1:100000000000000", ["length"]), ("y <- numeric(1e30)", ["length"]),
    ("y <- structure('a', .Dim='b')", ["dimensions"]), ("y <- c(list(1:2, 3), 4)", ["dimensions"]),
    ("y <- " + "c(" * 5000, ["dimensions"]),
])  # fmt: skip
def test_other_text_of_r_is_refused_at_its_line(tmp_path, text, facts):
    path = tmp_path / "data.R"
    path.write_text(text)
    with raises("data_not_r_dump", str(path), "write_stan_json", *facts):
        to_json(path, stan("int N; vector[2] y;"))


def test_a_dump_is_checked_like_other_data():
    with raises("data_repeated", "N"):
        to_json("N <- 3\nN <- 4\n", stan("int N;"))
    with raises("data_wrong_shape", "y", "vector[3] y"):
        to_json("y <- c(1, 2)", stan("vector[3] y;"))
    with raises("data_not_numeric", "y"):
        to_json("y <- c('a', 'b')", stan("vector[2] y;"))


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
@pytest.mark.parametrize("text", ['\ufeff{"y": [1, 2.5]}', "y <- c(1, 2.5)"])
def test_compressed_files_are_read(tmp_path, module, text):
    path = tmp_path / "data.json.gz"
    path.write_bytes(module.compress(text.encode()))
    assert read("vector[2] y;", path) == {"y": [1, 2.5]}


# named, because gzip writes the time of day into the bytes: two workers would see different tests
@pytest.mark.parametrize(("content", "fact"), [
    (gzip.compress(b'{"y": [1, 2.5]}')[:-9], "decompressed"),
    (gzip.compress(b"RDX3\nX\n"), "R's binary format"), (gzip.compress(b"\xff\xfe"), "UTF-8"),
    (b"RDX3\nX\n\x00\xff", "R's binary format"), (b"\x1f\x8b", "decompressed"),
], ids=["cut short", "compressed RDS", "compressed bytes", "RDS", "bare mark"])  # fmt: skip
def test_broken_and_binary_files_are_refused(tmp_path, content, fact):
    path = tmp_path / "data.gz"
    path.write_bytes(content)
    with raises("file_unreadable", str(path), fact):
        to_json(path, stan("vector[2] y;"))


TABLE = pd.DataFrame({"y": [1.5, 2.5], "k": [1, 2], "group": ["a", "b"], 7: [0, 0]})


class Polars:
    """A table as those of polars: it has columns, and neither keys nor to_numpy."""

    columns = ("y", "k")

    def __getitem__(self, name):
        return TABLE[name]


RECORDS = TABLE[["y", "k"]].to_records(index=False)


@pytest.mark.parametrize("table", [TABLE, TABLE.iloc[::-1].iloc[::-1], Polars(), RECORDS])
def test_columns_of_a_table_are_vectors(table):
    expected = {"y": [1.5, 2.5], "k": [1, 2]}
    assert read("vector[2] y; array[2] int k;", table) == expected


def test_tables_have_sizes_and_are_data_of_targets():
    declared = "int N; int K; vector[N] y;"
    for table, how in ((TABLE, '{**data, "N": len(data)}'), (Polars(), "**data.to_dict()")):
        with raises("data_missing", how, 'stan_data(data, groups={"group": "J"})'):
            to_json(table, stan(declared))
    assert read(declared, {**TABLE, "N": 2, "K": 1}) == {"N": 2, "K": 1, "y": [1.5, 2.5]}
    with pytest.raises(StanadaptError) as caught:
        to_json(TABLE, stan("int N; vector[N] z;"))
    assert "len(data)" not in caught.value.message
    code = "data { vector[2] y; } parameters { real a; } model { y ~ normal(a, 1); }"
    target = sa.Target(code, TABLE)
    assert target.evaluate(np.zeros(1))[1] == pytest.approx([4.0])
    same = sa.Target(code, {"y": TABLE["y"]})
    assert target.data_hash == same.data_hash


def test_variables_and_coordinates_of_a_dataset_are_arrays():
    variables = {"m": (("row", "column"), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), "k": 3}
    dataset = xr.Dataset(variables, {"row": [10, 20], "column": ["a", "b", "c"]})
    declared = "int k; array[2] int row; matrix[2, 3] m;"
    assert read(declared, dataset) == {"k": 3, "row": [10, 20], "m": [[1, 2, 3], [4, 5, 6]]}
    with raises("data_missing", '"n": data.sizes[...]'):
        to_json(dataset, stan("int n; " + declared))
    with raises("data_wrong_type", '{"m": data}'):
        to_json(dataset["m"], stan("matrix[2, 3] m;"))


class Tensor:
    """An array on a device from which NumPy cannot read."""

    def __array__(self, *args, **kwargs):
        raise TypeError("use Tensor.cpu() first")


@pytest.mark.parametrize(("value", "fact"), [
    (TABLE["y"].to_dict(), "list(y.values())"), (TABLE.to_dict()["y"], "to_dict('list')"),
    ((x for x in (1, 2)), "list(y)"), (map(float, "12"), "list(y)"), (iter([1, 2]), "list(y)"),
    ({1: 2.0, 2: 3.0}.values(), "list(y)"), ({1: 2.0, 2: 3.0}.keys(), "list(y)"),
    ({1, 2}, "sorted(y)"), (frozenset({1, 2}), "sorted(y)"),
    (sparse.csr_matrix(np.eye(2)), "y.toarray()"), (sparse.coo_array(np.eye(2)), "y.toarray()"),
    (Tensor(), "use Tensor.cpu() first"),
])  # fmt: skip
def test_values_in_other_forms_get_the_sentence_that_helps(value, fact):
    with raises("data_not_numeric", "y is a", fact):
        to_json({"y": value}, stan("vector[2] y;"))
    # an entry that is not declared is no matter
    assert read("int N;", {"y": value, "N": 3}) == {"N": 3}


@pytest.mark.parametrize("container", [list, tuple])
def test_masked_elements_within_lists_are_missing(container):
    """NumPy makes an array of the lists without the masks."""
    pair = container([np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3, 4])])
    with raises("data_not_finite", "y[1, 2] is NaN"):
        to_json({"y": pair}, stan("matrix[2, 2] y;"))
    with raises("data_not_finite", "y[1, 1, 2] is NaN"):
        to_json({"y": [pair]}, stan("array[1] matrix[2, 2] y;"))
    with raises("data_not_finite", "y[2] is NaN"):
        to_json({"y": container([1, np.ma.masked])}, stan("array[2] int y;"))
    none_masked = container([[1, 2], np.ma.array([3, 4])])
    assert read("matrix[2, 2] y;", {"y": none_masked}) == {"y": [[1, 2], [3, 4]]}


def test_masked_text_and_categories_are_refused():
    masked = np.ma.array(["a", "b"], mask=[0, 1])
    with raises("data_not_numeric", "y[1]"):
        to_json({"y": masked}, stan("vector[2] y;"))
    assert read("int N;", {"y": masked, "N": 3}) == {"N": 3}
    with raises("data_not_numeric", "group[1]", "pandas.factorize(group)[0] + 1"):
        to_json(TABLE, stan("array[2] int group;"))
    with raises("data_not_numeric", "y[1]"):
        to_json({"y": pd.Categorical(["a", "b"])}, stan("array[2] int y;"))
