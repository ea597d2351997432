"""Guard 3 of the embedded backend: programs that branch on parameters are refused."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import stanli
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


def test_unsafe_accepts_them_with_a_warning():
    with warns("checks_omitted", "unsafe=True") as caught:
        target = sa.Target(REFUSED["changed constant"].code, unsafe=True)
    assert len(caught) == 1
    assert target.dim == 2


def test_unsafe_does_not_skip_the_data_check():
    with raises("data_wrong_shape", "x "):
        sa.Target(
            "data { vector[7] x; } parameters { real a; } model { }", {"x": X[:3]}, unsafe=True
        )


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


def test_comments_are_not_branches():
    code = "parameters { real x; } model { x ~ normal(0, 1); /* if (x > 0) ? : */ } // while"
    assert_density(sa.Target(code), lambda u: -0.5 * u[0] ** 2)


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
