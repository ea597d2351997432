"""The statement that makes a density zero is named, with its line."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.failing_statement import failing_statement
from stanadapt.targets.stan.syntax import statements
from tests.helpers.codes import raises

NESTED = """
data { int N; vector[N] y; }
parameters { real<lower=0> s; simplex[3] p; }
model {
  s ~ normal(0, 1); // a; b
  for (i in 1:N) {
    real m = 2;
    y[i] ~ uniform(0, m);
    y[i] ~ normal(m, s);
  }
  if (N > 1) p ~ dirichlet([1, 1, 1]'); else p ~ dirichlet([2, 2, 2]');
}
generated quantities { real z = p[1]; }
"""
DATA = {"N": 2, "y": [1.0, 5.0]}


def test_statements_end_with_semicolons_that_are_not_hidden():
    shown = [NESTED[start:end] for start, end, _ in statements(NESTED, "model")]
    assert shown[:4] == [
        "s ~ normal(0, 1);", "real m = 2;", "y[i] ~ uniform(0, m);", "y[i] ~ normal(m, s);",
    ]  # fmt: skip
    assert [depth for _, _, depth in statements(NESTED, "model")] == [0, 1, 1, 1, 0, 0]
    assert statements("parameters { real x; }", "model") == []


@pytest.mark.parametrize(
    ("program", "data", "facts"),
    [
        (NESTED, DATA, ["`y[i] ~ uniform(0, m);` (line 8)"]),
        (
            "parameters { real x; }\nmodel { x ~ normal(0, 1);\n"
            "  target += logistic_lccdf(50 | 0, 1); }",
            None, ["-inf", "`target += logistic_lccdf(50 | 0, 1);` (line 3)"],
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_an_error_names_the_statement(program, data, facts):
    target = sa.Target(program, data)
    with raises("initialization_failed", *facts):
        sa.sample(target, "nuts")


@pytest.mark.cmdstan
def test_statements_of_compiled_programs_are_named():
    """Their simplexes have other coordinates than those of the embedded backend."""
    target = sa.Target(NESTED, DATA, backend="cmdstan")
    assert "uniform" in failing_statement(target, np.zeros(3), True)


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_nothing_is_named_where_nothing_fails_or_the_fault_is_elsewhere():
    fine = sa.Target(NESTED, {"N": 2, "y": [1.0, 1.0]})
    assert failing_statement(fine, np.zeros(3), True) == ""
    early = (
        "parameters { real x; } transformed parameters { real y = log(-exp(x)); } "
        "model { y ~ normal(0, 1); }"
    )
    assert failing_statement(sa.Target(early), np.zeros(1), True) in (
        "",
        "`y ~ normal(0, 1);` (line 1)",
    )
