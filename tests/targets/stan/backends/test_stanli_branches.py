"""Guards of the embedded backend: branches on parameters, and rows of arrays that data assign."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import stanli
from stanadapt.targets.stan.backends.stanli_faults import complete_rows
from tests.helpers.codes import raises, warns
from tests.helpers.repository import ROOT
from tests.helpers.stanli_programs import K, X, assert_density, normal_sum
from tests.helpers.stanli_reproducers import REPRODUCERS

BRANCHES = {
    "guarded logarithm": (
        """
data { int N; vector[N] x; }
parameters { real a; }
model {
  vector[N] z = x;
  a ~ normal(0, 1);
  for (n in 1:N) {
    if (a * x[n] > 0.2) z[n] = a * x[n];
    if (z[n] > 0) target += log(z[n]);
  }
}
""",
        {"N": 7, "x": X},
        [8, 9],
    ),
    "loop that a parameter ends": (
        """
functions {
  real shrink(real x) {
    real y = x;
    while (y > 0.1) { y = y / 2; }
    return y;
  }
}
parameters { real<lower=0> a; }
model { a ~ exponential(1); target += -shrink(a); }
""",
        None,
        [5],
    ),
    "branch in transformed parameters": (
        """
parameters { real a; }
transformed parameters {
  real b = 1;
  if (a > 0) b = 2 * a;
}
model { a ~ normal(b, 1); }
""",
        None,
        [5],
    ),
}
REFUSED = {name: r for name, r in REPRODUCERS.items() if r.with_guards == "refused"}


@pytest.mark.parametrize(("code", "data", "lines"), BRANCHES.values(), ids=list(BRANCHES))
def test_branches_on_parameters_are_refused_with_their_lines(code, data, lines):
    with raises("parameter_branches", "cmdstan", "unsafe=True", stanli.VERSION) as caught:
        sa.Target(code, data)
    for number in lines:
        shown = f"line {number}: {code.splitlines()[number - 1].strip()}"
        assert shown in caught.value.message


@pytest.mark.parametrize("name", REFUSED)
def test_they_are_refused_before_any_evaluation(monkeypatch, name):
    """Because some such programs kill the process at their first gradient."""

    def evaluated(model, point):
        raise AssertionError("the density was evaluated")

    monkeypatch.setattr(stanli, "evaluate", evaluated)
    with raises("parameter_branches"):
        sa.Target(REFUSED[name].code, REFUSED[name].data)


def test_unsafe_omits_the_checks_of_branches_alone():
    with warns("checks_omitted", "unsafe=True") as caught:
        target = sa.Target(REFUSED["changed constant"].code, unsafe=True)
    assert len(caught) == 1
    assert target.dim == 2
    with raises("data_wrong_shape", "x "):
        sa.Target(
            "data { vector[7] x; } parameters { real a; } model { }", {"x": X[:3]}, unsafe=True
        )
    code = "parameters { real x; } model { x ~ normal(0, 1); /* if (x > 0) ? : */ } // while"
    assert_density(sa.Target(code), lambda u: -0.5 * u[0] ** 2)


def test_branches_on_data_are_accepted():
    code = """
    data { int N; vector[N] x; array[N] int k; }
    transformed data {
      int large = 0;
      for (n in 1:N) { if (k[n] > 3) large += 1; }
    }
    parameters { real b; }
    model {
      b ~ normal(0, large > 0 ? 2.0 : 1.0);
      for (n in 1:N) {
        if (k[n] > 3) { x[n] ~ normal(b, 1); } else { x[n] ~ normal(-b, 2); }
      }
    }
    """
    target = sa.Target(code, {"N": 7, "x": X, "k": K})
    large = K > 3

    def log_density(b):
        return (
            -0.125 * b[0] ** 2 + normal_sum(X[large], b[0], 1.0) + normal_sum(X[~large], -b[0], 2.0)
        )

    assert_density(target, log_density)


def test_recurrences_that_branch_on_data_are_accepted():
    """Stanli's interpreter runs them correctly; short ones are unrolled."""
    code = """
    data { int N; vector[N] x; array[N] int k; int only; }
    parameters { real<lower=0, upper=1> b; }
    model {
      vector[N] h;
      h[1] = 1;
      for (n in 2:N) { h[n] = k[n] > 3 && only == 1 ? h[n - 1] : 0.5 + b * h[n - 1]; }
      x ~ normal(0, h);
    }
    """
    x, ks = np.tile(X, 6), np.tile(K, 6)
    target = sa.Target(code, {"N": 42, "x": x, "k": ks, "only": 1})

    def log_density(u):
        b, h = 1 / (1 + np.exp(-u[0])), [1.0]
        for k in ks[1:]:
            h.append(h[-1] if k > 3 else 0.5 + b * h[-1])
        return normal_sum(x, 0.0, np.array(h)) + np.log(b) + np.log1p(-b)

    assert_density(target, log_density)


@pytest.mark.cmdstan
@pytest.mark.slow
@pytest.mark.parametrize("prior_only", [0, 1])
def test_a_program_in_the_form_of_brms_is_exact(prior_only):
    """The one of the page for users of R, with its branch on data."""
    folder = ROOT / "docs" / "_static"
    data = json.loads((folder / "pupils.json").read_text()) | {"prior_only": prior_only}
    ours, stan = (
        sa.Target(folder / "pupils.stan", data, backend=backend)
        for backend in ("stanli", "cmdstan")
    )
    rng = np.random.default_rng(1)
    points = rng.normal(size=(20, ours.dim))
    found, expected = ([target.evaluate(x)[:2] for x in points] for target in (ours, stan))
    for (value, gradient), (exact, slope) in zip(found, expected, strict=True):
        assert value == pytest.approx(exact, rel=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)


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


def test_what_rows_cannot_be_is_refused_in_the_users_words():
    clash = "{ array[2] int z; z[1] = 2; } { array[2, 3] int z = y; z[1] = y[2]; }"
    with raises("unsupported_construct", "transformed data", "name"):
        sa.Target(program(clash, "1"), DATA, backend="stanli")
    with pytest.raises(sa.StanadaptError, match=r"z\[1\] = 1.5") as caught:
        sa.Target(program(f"{Z} z[1] = 1.5;", "1"), DATA, backend="stanli")
    assert caught.value.code == "syntax_error"
    with raises("index_out_of_range"):
        sa.Target(program("real s = y[3, 1];", "s"), DATA, backend="stanli")


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
