"""The guards of the embedded backend: programs with known faults are right, refused or reported.

The programs are minimal examples written for this file; the right values come from numpy.
"""

import importlib.metadata
import json
import os

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import stanli
from stanadapt.targets.stan.data import to_json
from stanadapt.targets.stan.program import Program
from tests.helpers.codes import raises, warns
from tests.helpers.stanli_programs import RNG, STORE, K, X, assert_density, normal_sum

QUIET = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")

# --- nested loops --------------------------------------------------------------------------------

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
@QUIET
def test_nested_loops_are_right(n, j):
    target = sa.Target(NESTED, {"N": n, "J": j, "x": X[:n]})

    def log_density(theta):
        t, ls = theta[:n], theta[n:]
        return normal_sum(X[:n, None], t[:, None], np.exp(ls) * np.ones((n, 1)))

    assert_density(target, log_density)


@QUIET
def test_nested_loops_over_means_are_right():
    target = sa.Target(NESTED_MEANS, {"N": 7, "J": 3, "x": X})
    assert_density(target, lambda m: normal_sum(X[:, None], m, 1.0))


@QUIET
def test_nested_loops_of_a_hundred_by_five_are_finite():
    x = RNG.normal(size=100)
    target = sa.Target(NESTED, {"N": 100, "J": 5, "x": x})
    value, gradient, message = target.evaluate(np.zeros(105))
    assert message == ""
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient[:100], 5 * x, rtol=1e-12)


# --- a store that does not depend on the loop ----------------------------------------------------


@QUIET
def test_invariant_stores_are_right():
    y = X[::-1] + 0.3
    target = sa.Target(STORE, {"N": 7, "x": X, "y": y.copy(), "k": K})
    assert_density(
        target, lambda t: normal_sum(y, np.where(K > 3, X * t[1], X), np.exp(t[0]) + 0 * X)
    )


# --- a vector overwritten after use --------------------------------------------------------------

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


@QUIET
def test_overwritten_vectors_have_right_gradients():
    target = sa.Target(OVERWRITTEN, {"N": 7, "x": X})

    def log_density(theta):
        v, w = theta[:7], np.exp(theta[7]) * theta[:7]
        return (
            normal_sum(X, v, 1.0) + normal_sum(X, w, 2.0) + normal_sum(w + v**2, 0.0, 3.0)
        )  # fmt: skip

    assert_density(target, log_density)


# --- guard 1: the switches work, and the self-test detects if they do not ------------------------


@pytest.fixture
def no_switches(monkeypatch):
    monkeypatch.setattr(stanli, "SWITCHES", ())


@pytest.fixture
def built(monkeypatch):
    """Return the list of programs that the self-test builds."""
    programs, build = [], stanli.Binding.build
    monkeypatch.setattr(
        stanli.Binding, "build", lambda *a, **k: programs.append(a) or build(*a, **k)
    )
    return programs


def test_self_test_passes(built):
    stanli.self_test(force=True)
    assert len(built) == 2


def test_self_test_fails_without_the_switches(no_switches):
    with raises("stanli_unusable", stanli.VERSION):
        stanli.self_test(force=True)


@pytest.mark.parametrize("omitted", ["STANLI_NO_REROLL", "STANLI_NO_PARTITION"])
def test_self_test_detects_that_a_switch_is_missing(monkeypatch, omitted):
    others = tuple(name for name in stanli.SWITCHES if name != omitted)
    assert len(others) == 2
    monkeypatch.setattr(stanli, "SWITCHES", others)
    with raises("stanli_unusable"):
        stanli.self_test(force=True)


@pytest.mark.parametrize(("code", "dim"), [(NESTED, 10), (STORE, 2)])
def test_the_programs_of_this_file_are_wrong_without_the_switches(monkeypatch, code, dim):
    """Otherwise the tests above would pass even without the guards."""
    program = Program("p", code, None, ())
    data = to_json({"N": 7, "J": 3, "x": X, "y": X[::-1].copy() + 0.3, "k": K}, program)
    mir, point, switches = stanli._translate(program), np.linspace(-0.5, 0.5, dim), stanli.SWITCHES
    values = []
    for some in ((), switches):
        monkeypatch.setattr(stanli, "SWITCHES", some)
        model = stanli.Binding(program, data, mir, (True,)).build()
        values.append(stanli.evaluate(model, point)[0])
    assert abs(values[0] - values[1]) > 1e-3


def test_the_self_test_runs_once_per_version(monkeypatch, tmp_path, built):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    stanli.self_test()
    assert len(built) == 2
    stanli.self_test()
    assert len(built) == 2


def test_an_unwritable_cache_is_not_an_error(monkeypatch, tmp_path, built):
    """The success of the self-test is not recorded, so it runs each time."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "file"))
    for times in (1, 2):
        stanli.self_test()
        assert len(built) == 2 * times


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
    with raises("unsupported_construct"):
        sa.Target("parameters { matrix[2, 2] M; } model { target += trace(M); }")
    assert dict(os.environ) == saved


def test_standard_error_is_restored(capfd):
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", show_progress=False)
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"


def test_another_version_is_refused(monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.25.0" if name == "stanli" else version(name)
    )
    with raises("stanli_unusable", "pip install stanli==0.24.0", "0.25.0"):
        sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")


def test_without_an_execution_report_programs_with_branches_are_refused(monkeypatch):
    monkeypatch.setattr(stanli, "REPORT", "STANLI_NO_SUCH_REPORT")
    assert sa.Target("parameters { real x; } model { x ~ normal(0, 1); }").dim == 1
    with raises("stanli_unusable", stanli.VERSION):
        sa.Target("parameters { real x; } model { if (1 > 0) x ~ normal(0, 1); }")


# --- guard 4: the default build and the derivative -----------------------------------------------


@pytest.mark.parametrize("code", [NESTED, STORE])
def test_a_wrong_default_build_gives_a_warning(code):
    data = {"N": 7, "J": 3, "x": X, "y": X[::-1].copy(), "k": K}
    with warns("optimizer_fault", "program", "install-cmdstan") as caught:
        sa.Target(code, data)
    assert len(caught) == 1


def test_a_right_default_build_gives_no_warning(recwarn):
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    assert len(recwarn) == 0


def test_a_wrong_gradient_is_refused(monkeypatch):
    evaluate = stanli.evaluate

    def wrong(model, point):
        value, gradient = evaluate(model, point)
        return value, 1.02 * gradient

    monkeypatch.setattr(stanli, "evaluate", wrong)
    with raises("gradient_mismatch", "unsafe=True"):
        sa.Target("parameters { vector[3] x; } model { x ~ normal(3, 0.1); }")


def test_a_density_that_is_finite_only_far_away_is_not_refused():
    """Guard 3 needs finite points; without any, it has compared nothing, and says so."""
    with warns("nothing_compared"):
        target = sa.Target("parameters { real x; } model { 0 ~ normal(0, x - 50); }")
    assert np.isfinite(target.evaluate(np.array([60.0]))[0])


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(6), np.zeros((6, 1)), np.zeros((1, 3, 2))]
)
def test_data_of_the_wrong_shape_are_refused(matrix):
    code = "data { matrix[3, 2] M; } parameters { real x; } model { x ~ normal(sum(M), 1); }"
    with raises("data_wrong_shape", "`matrix[3, 2] M`"):
        sa.Target(code, {"M": matrix})


# --- quantities that stanli cannot compute -------------------------------------------------------


@pytest.mark.parametrize(
    "quantity", ["real t = trace(M);", "complex z = to_complex(M[1, 1], 1);"]
)  # fmt: skip
def test_quantities_are_never_silently_dropped(quantity):
    code = "parameters { matrix[2, 2] M; } model { to_vector(M) ~ normal(0, 1); }"
    with raises("unsupported_construct") as caught:
        sa.Target(f"{code} generated quantities {{ real a = M[1, 1]; {quantity} }}")
    assert "generated quantities" in caught.value.stan


def test_data_of_every_format_are_spliced():
    code = "data { real a; } parameters { real x; } model { x ~ normal(a, 1); }"
    for text in ('{"a": 2}', '{ "a" : 2 } ', '{"a":2,"unused":[1,2]}', json.dumps({"a": 2.0})):
        gradient = sa.Target(code, text).evaluate(np.zeros(1))[1]
        assert gradient[0] == pytest.approx(2.0)
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", "{}")


# --- output of programs --------------------------------------------------------------------------


def test_arrays_are_printed_flat_as_the_documentation_says(capfd):
    """Stan prints rows in brackets; a release that does so too needs other words in the docs."""
    code = """
    data { array[2, 3] int a; matrix[2, 3] m; } parameters { real x; }
    model {
      print("array ", a, " matrix ", m, " row ", a[2], " vector ", m[, 2]); x ~ normal(0, 1);
    }
    """
    rows = [[1, 2, 3], [4, 5, 6]]
    target = sa.Target(code, {"a": rows, "m": rows})
    capfd.readouterr()
    target.evaluate(np.zeros(1))
    printed = "array [1,2,3,4,5,6] matrix [1,4,2,5,3,6] row [4,5,6] vector [2,5]"
    assert printed in capfd.readouterr().out
