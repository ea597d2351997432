"""Rows of integer arrays that transformed data assign, which stanli reads in one form only."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import stanli
from stanadapt.targets.stan.backends.stanli_faults import complete_rows
from tests.helpers.codes import raises

DATA = {"y": [[1, 2, 3], [4, 5, 6]]}
PROGRAM = """
functions { FUNCTION }
data { array[2, 3] int y; }
transformed data { STATEMENTS }
parameters { real x; }
model { target += x * SLOPE; }
"""
Z = "array[2, 3] int z = rep_array(0, 2, 3); "
SUM = "int s = 0; for (i in 1:2) s += sum(z[i]);"
LAST = "int s = z[2, 3];"
# in a function: its name, and what it returns for the data
FUNCTION = "int last(array[,] int w) { array[2, 3] int z = w; z[1] = w[2]; return z[1, 3]; }"
# statements, the factor of x, and its value; all but the first two are wrong as they are
CASES = [
    (f"{Z} for (i in 1:2) for (j in 1:3) z[i][j] = y[i, j]; {SUM}", "s", 21),
    (f"{Z} z[2, ] = y[2]; {LAST}", "s", 6),
    (f"{Z} for (i in 1:2) z[i] = y[i]; {SUM}", "s", 21),
    (f"array[2, 3] int z; for (i in 1:2) z[i] = y[i]; {SUM}", "s", 21),
    (f"{Z} z [\n size(y)\n ] = {{1, 2, 3}}; {LAST}", "s", 3),
    (f"array[2, 3] int z = y; z[2] = sort_desc(z[2]); {LAST}", "s", 4),
    ("array[2, 3] int v = y, z = y; z[1] = z[2]; int s = z[1, 3];", "s", 6),
    (f"array[2, 3] int<lower=(2 > 1 ? 0 : 1), upper=9> z = y; z[2] = y[1]; {LAST}", "s", 3),
    ("int s; { array[2, 3] int z = y; if (1) z[2] = y[1]; s = z[2, 3]; }", "s", 3),
    ("int s = last(y);", "s", 6),
]
RIGHT_AS_THEY_ARE = 2


def program(statements, slope):
    parts = {"FUNCTION": FUNCTION, "STATEMENTS": statements, "SLOPE": slope}
    code = PROGRAM
    for name, text in parts.items():
        code = code.replace(name, text)
    return code


def slope_of(code):
    """Return the factor of x in the log density, which is linear."""
    target = sa.Target(code, DATA, backend="stanli")
    return target.evaluate([1.0])[0] - target.evaluate([0.0])[0]


@pytest.mark.parametrize(("statements", "slope", "value"), CASES)
def test_all_reads_see_the_assigned_rows(statements, slope, value):
    assert slope_of(program(statements, slope)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_stanli_itself_is_wrong(monkeypatch, case):
    """If a release reads rows in any form, they need no other."""
    monkeypatch.setattr(stanli, "complete_rows", lambda code: code)
    statements, slope, value = CASES[case]
    right = slope_of(program(statements, slope)) == pytest.approx(value, rel=1e-12)
    assert right == (case < RIGHT_AS_THEY_ARE)


@pytest.mark.parametrize("distribution", ["poisson(a)", "binomial(9, a / 9)"])
def test_observed_rows(distribution):
    code = f"""
    data {{ array[6] int y; }}
    transformed data {{
      array[2, 3] int z; // z[1] = 0
      for (k in 1:2) z[k] = y[(3 * k - 2):(3 * k)];
    }}
    parameters {{ real<lower=0, upper=9> a; }}
    model {{ for (k in 1:2) z[k] ~ {distribution}; }}
    """
    by_rows = sa.Target(code, {"y": [1, 2, 3, 4, 5, 6]}, backend="stanli")
    flat = "data { array[6] int y; } parameters { real<lower=0, upper=9> a; } model { y ~ D; }"
    flat = flat.replace("D", distribution)
    at_once = sa.Target(flat, {"y": [1, 2, 3, 4, 5, 6]}, backend="stanli")
    for place in (-0.7, 0.4):
        value, gradient, _ = by_rows.evaluate([place])
        expected, slope, _ = at_once.evaluate([place])
        np.testing.assert_allclose([value, gradient[0]], [expected, slope[0]], rtol=1e-10)


@pytest.mark.parametrize("code", [
    "model { array[2, 3] int z; z[1] = y; }",
    "transformed data { array[3] int z; z[1] = 2; array[1, 2, 3] int w; w[1] = y; }",
    "transformed data { array[2, 3] real z; z[1] = y; array[2, 3] vector[2] v; v[1] = u; }",
    "transformed data { array[2, 3] int z; z[1, 2] = 3; z[1][2] = 3; print(z[1] == y[1]); }",
    "transformed data { array[2, 3] int z = y; /* z[1] = y[1]; */ // z[1] = y[1];\n }",
    "functions { int f(array[,] int z) { return 1; } int g() { array[3] int z; z[1] = 2; } }",
    "transformed data { array[2, 3] int z; z[] = y; array[2] int a; a[z[1, 1]] = 1; }",
])  # fmt: skip
def test_other_assignments_stay_as_they_are(code):
    assert complete_rows(code) == code


def test_other_variables_of_the_same_name_are_a_refusal():
    clash = "{ array[2] int z; z[1] = 2; } { array[2, 3] int z = y; z[1] = y[2]; }"
    with raises("unsupported_construct", "transformed data", "name"):
        sa.Target(program(clash, "1"), DATA, backend="stanli")


def test_errors_are_those_of_the_text_as_it_was_given():
    with pytest.raises(sa.StanadaptError, match=r"z\[1\] = 1.5") as caught:
        sa.Target(program(f"{Z} z[1] = 1.5;", "1"), DATA, backend="stanli")
    assert caught.value.code == "syntax_error"


@pytest.mark.parametrize("block", ["STATEMENTS", "FUNCTION"])
def test_a_loop_over_rows_does_not_blame_the_data(block):
    loop = "for (row in y) for (e in row) s += e;"
    function = f"real total(array[,] int y) {{ real s = 0; {loop} return s; }}"
    parts = (
        {"FUNCTION": "", "STATEMENTS": f"real s = 0; {loop}"}
        if block == "STATEMENTS"
        else {"FUNCTION": function, "STATEMENTS": "real s = total(y);"}
    )
    code = PROGRAM.replace("SLOPE", "s")
    for name, text in parts.items():
        code = code.replace(name, text)
    with raises("unsupported_construct", "for (i in 1:size(x))"):
        sa.Target(code, DATA, backend="stanli")


def test_an_index_out_of_bounds_is_still_a_matter_of_the_data():
    with raises("index_out_of_range"):
        sa.Target(program("real s = y[3, 1];", "s"), DATA, backend="stanli")
