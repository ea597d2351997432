"""The rails of the embedded backend: each class of its faults is right, refused, or told.

The programs are minimal cases written for this file; what is right comes from numpy.
"""

import importlib.metadata
import json
import os

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.backends import stanli
from stanadapt.data import to_json
from stanadapt.errors import StanadaptError
from stanadapt.program import Program

X = np.array([0.5, -1.0, 2.0, 0.3, 1.5, -0.7, 0.9])
K = np.array([1, 5, 2, 4, 6, 1, 7])
RNG = np.random.default_rng(2024)


def derivative(function, theta, h=1e-5):
    steps = h * np.eye(theta.size)
    return np.array([(function(theta + s) - function(theta - s)) / (2 * h) for s in steps])


def assert_density(target, log_density, n=5):
    """Values up to one constant, and gradients, at n random points."""
    points = RNG.uniform(-1, 1, (n, target.dim))
    found = [target.evaluate(point) for point in points]
    values = np.array([value for value, _, _ in found])
    expected = np.array([log_density(point) for point in points])
    np.testing.assert_allclose(values - values[0], expected - expected[0], atol=1e-10)
    for point, (_, gradient, _) in zip(points, found, strict=True):
        np.testing.assert_allclose(gradient, derivative(log_density, point), rtol=1e-6, atol=1e-7)


def normal_sum(x, mean, sd):
    return np.sum(-np.log(sd) - 0.5 * ((x - mean) / sd) ** 2)


# --- E: nested loops -----------------------------------------------------------------------------

NESTED = """
data { int N; int J; vector[N] x; }
parameters { vector[N] t; vector[J] ls; }
model {
  for (n in 1:N) { for (j in 1:J) { x[n] ~ normal(t[n], exp(ls[j])); } }
}
"""
NESTED_MEANS = """
data { int N; int J; vector[N] x; }
parameters { vector[J] m; }
model {
  for (n in 1:N) { for (j in 1:J) { x[n] ~ normal(m[j], 1); } }
}
"""


@pytest.mark.parametrize(("n", "j"), [(3, 2), (4, 2), (7, 3), (7, 7), (2, 5)])
@pytest.mark.filterwarnings("ignore:stanli's optimiser")
def test_nested_loops_are_right(n, j):
    target = sa.Target(NESTED, {"N": n, "J": j, "x": X[:n]})

    def log_density(theta):
        t, ls = theta[:n], theta[n:]
        return normal_sum(X[:n, None], t[:, None], np.exp(ls) * np.ones((n, 1)))

    assert_density(target, log_density)


@pytest.mark.filterwarnings("ignore:stanli's optimiser")
def test_nested_loops_over_means_are_right():
    target = sa.Target(NESTED_MEANS, {"N": 7, "J": 3, "x": X})
    assert_density(target, lambda m: normal_sum(X[:, None], m, 1.0))


@pytest.mark.filterwarnings("ignore:stanli's optimiser")
def test_nested_loops_of_a_hundred_by_five_are_finite():
    x = RNG.normal(size=100)
    target = sa.Target(NESTED, {"N": 100, "J": 5, "x": x})
    value, gradient, words = target.evaluate(np.zeros(105))
    assert words == ""
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient[:100], 5 * x, rtol=1e-12)


# --- B: a store that does not depend on the loop -------------------------------------------------

STORE = """
data { int N; vector[N] x; vector[N] y; array[N] int k; }
parameters { real a; real b; }
model {
  vector[N] mu;
  vector[N] sg = rep_vector(2, N);
  for (n in 1:N) {
    sg[n] = exp(a);
    if (k[n] > 3) { mu[n] = x[n] * b; } else { mu[n] = x[n]; }
  }
  y ~ normal(mu, sg);
}
"""


@pytest.mark.filterwarnings("ignore:stanli's optimiser")
def test_invariant_stores_are_right():
    y = X[::-1] + 0.3
    target = sa.Target(STORE, {"N": 7, "x": X, "y": y.copy(), "k": K})
    assert_density(
        target, lambda t: normal_sum(y, np.where(K > 3, X * t[1], X), np.exp(t[0]) + 0 * X)
    )


# --- G: a vector overwritten after use -----------------------------------------------------------

OVERWRITTEN = """
data { int N; vector[N] x; }
parameters { vector[N] v; real s; }
model {
  vector[N] w = v;
  x ~ normal(w, 1);
  for (n in 1:N) { w[n] = exp(s) * w[n]; }
  x ~ normal(w, 2);
  for (n in 1:N) { w[n] = w[n] + square(v[n]); }
  w ~ normal(0, 3);
}
"""


@pytest.mark.filterwarnings("ignore:stanli's optimiser")
def test_overwritten_vectors_have_right_gradients():
    target = sa.Target(OVERWRITTEN, {"N": 7, "x": X})

    def log_density(theta):
        v, w = theta[:7], np.exp(theta[7]) * theta[:7]
        return (
            normal_sum(X, v, 1.0) + normal_sum(X, w, 2.0) + normal_sum(w + v**2, 0.0, 3.0)
        )  # fmt: skip

    assert_density(target, log_density)


# --- rail 1: the switches act, and the test would see if they did not -----------------------------


@pytest.fixture
def no_switches(monkeypatch):
    monkeypatch.setattr(stanli, "SWITCHES", ())


def test_self_test_passes():
    stanli.self_test(force=True)


def test_self_test_fails_without_the_switches(no_switches):
    with pytest.raises(StanadaptError, match="fails its self-test") as caught:
        stanli.self_test(force=True)
    assert caught.value.stage == "installation"


@pytest.mark.parametrize("left_out", ["STANLI_NO_REROLL", "STANLI_NO_PARTITION"])
def test_self_test_misses_each_switch(monkeypatch, left_out):
    kept = tuple(name for name in stanli.SWITCHES if name != left_out)
    assert len(kept) == 2
    monkeypatch.setattr(stanli, "SWITCHES", kept)
    with pytest.raises(StanadaptError, match="fails its self-test"):
        stanli.self_test(force=True)


@pytest.mark.parametrize(("code", "dim"), [(NESTED, 10), (STORE, 2)])
def test_the_programs_of_this_file_are_wrong_without_the_switches(monkeypatch, code, dim):
    """Otherwise the tests above would pass whatever the rails did."""
    program = Program("p", code, None, ())
    data = to_json({"N": 7, "J": 3, "x": X, "y": X[::-1].copy() + 0.3, "k": K}, program)
    mir, point, switches = stanli._translate(program), np.linspace(-0.5, 0.5, dim), stanli.SWITCHES
    values = []
    for chosen in ((), switches):
        monkeypatch.setattr(stanli, "SWITCHES", chosen)
        model, _ = stanli._build(mir, "p", data)
        values.append(stanli._evaluate(model, point)[0])
    assert abs(values[0] - values[1]) > 1e-3


def test_the_self_test_runs_once_a_version(monkeypatch, tmp_path):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    built = []
    build = stanli._build
    monkeypatch.setattr(stanli, "_build", lambda *a, **k: built.append(1) or build(*a, **k))
    stanli.self_test()
    assert len(built) == 2
    stanli.self_test()
    assert len(built) == 2


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "file"))
    stanli.self_test()


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_is_restored(monkeypatch, before):
    names = (*stanli.SWITCHES, stanli.REPORT)
    for name in names:
        if before is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, before)
    saved = dict(os.environ)
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    assert dict(os.environ) == saved
    with pytest.raises(StanadaptError):
        sa.Target("parameters { matrix[2, 2] M; } model { target += trace(M); }")
    assert dict(os.environ) == saved


def test_standard_error_is_given_back(capfd):
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"


def test_another_version_is_refused(monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.25.0" if name == "stanli" else version(name)
    )
    with pytest.raises(StanadaptError, match=r"pip install stanli==0\.24\.0") as caught:
        sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    assert caught.value.stage == "installation"
    assert "stanli 0.25.0 is installed" in caught.value.message


def test_without_an_execution_report_nothing_is_trusted(monkeypatch):
    monkeypatch.setattr(stanli, "REPORT", "STANLI_NO_SUCH_REPORT")
    with pytest.raises(StanadaptError, match="no execution report") as caught:
        sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    assert caught.value.stage == "installation"


# --- rail 3: the default build and the derivative ------------------------------------------------


@pytest.mark.parametrize("code", [NESTED, STORE])
def test_a_wrong_default_build_is_told(code):
    data = {"N": 7, "J": 3, "x": X, "y": X[::-1].copy(), "k": K}
    with pytest.warns(UserWarning, match="optimiser gets program wrong") as told:
        sa.Target(code, data)
    assert len(told) == 1
    assert "install-cmdstan" in str(told[0].message)


def test_a_right_default_build_is_not_worth_a_word(recwarn):
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    assert len(recwarn) == 0


def test_a_gradient_that_is_no_derivative_is_refused(monkeypatch):
    evaluate = stanli._evaluate

    def off(model, point):
        value, gradient = evaluate(model, point)
        return value, 1.02 * gradient

    monkeypatch.setattr(stanli, "_evaluate", off)
    with pytest.raises(StanadaptError, match="not the derivative") as caught:
        sa.Target("parameters { vector[3] x; } model { x ~ normal(3, 0.1); }")
    assert caught.value.stage == "initialisation"


def test_a_density_that_is_finite_nowhere_near_is_not_refused():
    """Rail 3 needs finite points; where it finds none, the sampler's search tells."""
    target = sa.Target("parameters { real x; } model { 0 ~ normal(0, x - 50); }")
    assert np.isfinite(target.evaluate(np.array([60.0]))[0])


# --- D: shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(6), np.zeros((6, 1)), np.zeros((1, 3, 2))]
)
def test_data_of_the_right_count_and_wrong_shape_are_refused(matrix):
    code = "data { matrix[3, 2] M; } parameters { real x; } model { x ~ normal(sum(M), 1); }"
    with pytest.raises(StanadaptError, match="declared as") as caught:
        sa.Target(code, {"M": matrix})
    assert caught.value.stage == "data"


# --- quantities that stanli cannot compute -------------------------------------------------------


@pytest.mark.parametrize(
    "quantity", ["real t = trace(M);", "complex z = to_complex(M[1, 1], 1);"]
)  # fmt: skip
def test_quantities_are_never_dropped_in_silence(quantity):
    code = "parameters { matrix[2, 2] M; } model { to_vector(M) ~ normal(0, 1); }"
    with pytest.raises(StanadaptError, match="lacks a construct") as caught:
        sa.Target(f"{code} generated quantities {{ real a = M[1, 1]; {quantity} }}")
    assert "generated quantities" in caught.value.stan


def test_the_data_are_spliced_whatever_they_are():
    code = "data { real a; } parameters { real x; } model { x ~ normal(a, 1); }"
    for text in ('{"a": 2}', '{ "a" : 2 } ', '{"a":2,"unused":[1,2]}', json.dumps({"a": 2.0})):
        gradient = sa.Target(code, text).evaluate(np.zeros(1))[1]
        assert gradient[0] == pytest.approx(2.0)
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", "{}")
