"""Tables as data: files, numbers of rows, groups, whole numbers with a decimal point."""

import json

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.targets.stan.program import Program
from tests.helpers.checked import to_json
from tests.helpers.codes import raises, warns

CODE = "data { int<lower=0> N; vector[N] y; array[N] int<lower=1> g; } model { }"
FRAME = pd.DataFrame({"y": [1.5, 2.5, 0.5], "g": [1.0, 2.0, 1.0], "note": ["a", "b", "c"]})


def read(data, code=CODE):
    return json.loads(to_json(data, Program("p", code, None, ())))


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.CSV", "rows.csv.gz"])
def test_a_file_and_a_frame_are_the_same_data(tmp_path, name):
    path = tmp_path / name
    FRAME.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    for data in (path, str(path), FRAME, FRAME.to_records(index=False)):
        with warns("size_from_rows", "N = 3"):
            assert read(data) == {"N": 3, "y": [1.5, 2.5, 0.5], "g": [1, 2, 1]}


@pytest.mark.parametrize(
    ("code", "lacking"),
    [
        (CODE.replace("int<lower=0> N;", "int<lower=0> N; int K;"), "N, K"),
        ("data { int K; array[3] real y; } model { }", "K"),  # not a size
        ("data { int N; vector[N] y; real m; } model { }", "N, m"),
    ],
)
def test_a_size_is_counted_only_if_nothing_else_can_be_meant(code, lacking, tmp_path):
    with raises("data_missing", lacking):
        read(FRAME, code)
    FRAME.to_csv(tmp_path / "t.csv")
    with raises("data_missing", "int J = max(group);", "as JSON"):
        read(tmp_path / "t.csv", "data { int K; vector[3] y; } model { }")


def test_whole_numbers_with_a_decimal_point_are_integers():
    code = "data { int n; array[2] int k; } model { }"
    for data in ({"n": 2.0, "k": np.array([1.0, 3.0])}, '{"n": 2.0, "k": [1, 3.0]}'):
        text = to_json(data, Program("p", code, None, ()))
        assert "." not in text
        assert json.loads(text) == {"n": 2, "k": [1, 3]}
    with raises("data_not_integer", "k[2]", "1.5"):
        read({"n": 2, "k": [1.0, 1.5]}, code)
    with raises("data_not_integer", "-2147483648"):
        read({"n": 3e9, "k": [1, 2]}, code)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("0.34", "pandas.to_numeric(y)"),
        ("3,5", "to_numeric"),
        ("A", "factorize"),
        ("A", "(y == 'A') * 1"),
    ],
)
def test_the_cure_of_text_is_that_of_its_content(text, cure):
    with raises("data_not_numeric", cure):
        read({"N": 1, "y": [text], "g": [1]})


def test_groups_are_numbered_by_sorted_labels(tmp_path):
    frame = pd.DataFrame({"score": [1.0, 2.5, 0.5], "school": ["B", "A", "B"], "year": [9, 7, 9]})
    names = {"score": "y", "school": "g"}
    data = sa.stan_data(frame, names, groups={"school": "J", "year": "T"}, prior=[1, 2])
    assert {name: np.asarray(x).tolist() for name, x in data.items()} == {
        "N": 3, "y": [1.0, 2.5, 0.5], "g": [2, 1, 2], "J": 2, "year": [2, 1, 2], "T": 2,
        "prior": [1, 2],
    }  # fmt: skip
    assert data.coords == {"school": ["A", "B"], "year": [7, 9]}
    frame.to_csv(tmp_path / "t.csv", index=False)
    again = sa.stan_data(tmp_path / "t.csv", rows="n", groups={"school": "J"})
    assert (again["n"], again["school"].tolist()) == (3, [2, 1, 2])


def test_mistakes_in_tables_are_told(tmp_path):
    missing = FRAME.assign(y=[1.0, None, 2.0])
    with raises("missing_values", "y", "1 of 3", "rows 2", "dropna"):
        sa.stan_data(missing, {"y": "y"})
    with raises("unknown_column", "'z'", "y, g, note"):
        sa.stan_data(FRAME, {"z": "y"})
    with raises("data_wrong_type", "list"):
        sa.stan_data([1, 2])
    with raises("file_missing", "none.csv"):
        read(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_text('a,b\n1,2,3\n"1')
    with raises("file_unreadable", "bad.csv"):
        read(tmp_path / "bad.csv")
    with raises("file_unreadable", "trial.XLSX", "pandas.read_excel"):
        read(tmp_path / "trial.XLSX")


@pytest.mark.parametrize(("text", "facts"), [
    ("y\n1,2\n3,4\n", ["Expected 1 fields in line 2, saw 2"]),
    ("y,g\n0,1,2\n1,3,4\n", ["Expected 2 fields"]), ("y;g\n1;2\n", ["y;g", "sep="]),
    ("y;g\n1,5;2\n", ["y;g", "sep="]),
])  # fmt: skip
def test_rows_that_are_not_those_of_the_header_are_refused(tmp_path, text, facts):
    (tmp_path / "t.csv").write_text(text)
    with raises("file_unreadable", *facts):
        sa.stan_data(tmp_path / "t.csv")


def test_spaces_and_single_words_in_files(tmp_path):
    (tmp_path / "t.csv").write_text("y , g\n1.5, 1\n2.5, 2\n")
    with warns("size_from_rows"):
        assert read(tmp_path / "t.csv") == {"N": 2, "y": [1.5, 2.5], "g": [1, 2]}
    (tmp_path / "t.csv").write_text("y,g\n1,1\na,1\n")
    with warns("size_from_rows"), raises("data_not_numeric", "y[2]", "'a'", "factorize"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(("columns", "options"), [
    ({"y": "a", "g": "a"}, {"groups": {"g": "J"}}), (["g"], {"groups": {"g": "N"}}),
    ({"y": "N"}, {}), (None, {"y": 3}),
])  # fmt: skip
def test_no_entry_replaces_another(columns, options):
    with raises("data_repeated", "twice"):
        sa.stan_data(FRAME, columns, **options)


def test_repeated_columns_and_lists_of_them():
    twice = pd.DataFrame([[1.0, 2.0]], columns=["y", "y"])
    for use in (sa.stan_data, read):
        with raises("data_repeated", "two columns"):
            use(twice)
    assert sorted(sa.stan_data(FRAME, ["y"])) == ["N", "y"]
    with raises("data_wrong_type", '"school": "J"'):
        sa.stan_data(FRAME, groups=["g"])
