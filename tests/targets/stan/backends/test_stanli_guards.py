"""The guards of the embedded backend: programs with known faults are right, refused or reported.

The programs with faults are those of `stanli_reproducers`.
"""

import importlib.metadata
import json
import os
import warnings
from typing import NamedTuple

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.runs.stan_nuts.stan_nuts import choose_engine
from stanadapt.targets.stan import program
from stanadapt.targets.stan.backends import stanli
from stanadapt.targets.stan.missing_functions import without_function
from tests.fuzz import program_runner
from tests.helpers import stanli_reproducers
from tests.helpers.codes import raises, warns
from tests.helpers.cores import use_cores
from tests.helpers.stanli_programs import assert_density, normal_sum
from tests.helpers.stanli_reproducers import REPRODUCERS

NESTED = REPRODUCERS["nested loops"]


@pytest.mark.parametrize(("n", "j"), [(3, 2), (7, 7), (2, 5), (100, 5)])
def test_nested_loops_of_every_size_are_right(n, j):
    x = np.random.default_rng(n).normal(size=n)
    target = sa.Target(NESTED.code, {"N": n, "J": j, "y": x})
    assert_density(
        target, lambda u: normal_sum(x[:, None], u[:n, None], np.exp(u[n:]) * np.ones((n, 1)))
    )


@pytest.fixture
def bindings(monkeypatch):
    """Return the list of the texts that are bound."""
    texts, bind = [], stanli.bind
    monkeypatch.setattr(stanli, "bind", lambda *a: texts.append(a[1]) or bind(*a))
    return texts


@pytest.mark.parametrize("cores", [1, 2])
def test_a_fit_binds_its_program_once_per_core(monkeypatch, bindings, cores):
    use_cores(monkeypatch, cores)
    target = sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli")
    assert len(bindings) == 1
    fit = sa.sample(target, "rwm", chains=4, iter_warmup=20, iter_sampling=20, seed=1)
    assert fit["posterior"]["x"].shape == (4, 20)
    assert len(bindings) == cores


@pytest.mark.parametrize("omitted", [
    ["STANLI_NO_REROLL"], ["STANLI_NO_PARTITION"], stanli.SWITCHES,
])  # fmt: skip
def test_self_test_detects_that_a_switch_is_missing(monkeypatch, omitted):
    others = tuple(name for name in stanli.SWITCHES if name not in omitted)
    assert len(others) == 3 - len(omitted)
    monkeypatch.setattr(stanli, "SWITCHES", others)
    with raises("stanli_unusable", stanli.VERSION):
        stanli.self_test(force=True)


def test_the_self_test_runs_once_per_version(monkeypatch, tmp_path, bindings):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    stanli.self_test()
    assert len(bindings) == 2
    stanli.self_test()
    assert len(bindings) == 2


def test_an_unwritable_cache_is_not_an_error(monkeypatch, tmp_path, bindings):
    """The success of the self-test is not recorded, so it runs each time."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "file"))
    for times in (1, 2):
        stanli.self_test()
        assert len(bindings) == 2 * times


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


@pytest.mark.parametrize("installed", ["0.9.6", None, "0.24.1"])
def test_the_self_test_decides_about_later_releases(monkeypatch, installed, tmp_path):
    version = importlib.metadata.version

    def answer(name):
        if name == "stanli" and installed is None:
            raise importlib.metadata.PackageNotFoundError
        return installed if name == "stanli" else version(name)

    monkeypatch.setattr(importlib.metadata, "version", answer)
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)
    code = "parameters { real x; } model { x ~ normal(0, 1); }"
    if installed == "0.24.1":
        assert sa.Target(code).backend_version == "stanli 0.24.1"
    elif installed is None:
        with raises("backend_unavailable", "install-cmdstan", "stanli"):
            sa.Target(code)
        with raises("stanli_unusable", "install-cmdstan"):
            choose_engine("auto")
    else:
        with raises("stanli_unusable", "stanli>=0.24.0", installed):
            sa.Target(code)


def test_without_an_execution_report_programs_with_branches_are_refused(monkeypatch):
    monkeypatch.setattr(stanli, "REPORT", "STANLI_NO_SUCH_REPORT")
    assert sa.Target("parameters { real x; } model { x ~ normal(0, 1); }").dim == 1
    with raises("stanli_unusable", stanli.VERSION):
        sa.Target("parameters { real x; } model { if (x > 0) x ~ normal(0, 1); }")


NORMAL = "parameters { vector[3] x; } model { x ~ normal(3, 0.1); }"


class Parabola(NamedTuple):
    """A density with a gradient that may be wrong, and the noise of an ODE solver."""

    factor: float
    noise: float

    def param_unc_num(self):
        return 3

    def log_density_gradient(self, x):
        if np.isnan(self.noise):
            raise RuntimeError(f"integer arithmetic {stanli.INTEGER_FAULT}")
        value = -50 * np.sum((x - 3) ** 2) + self.noise * np.sin(1e9 * x.sum())
        return value, -100 * self.factor * (x - 3)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_a_wrong_gradient_is_refused_and_a_noisy_density_is_not(noise):
    code = program.read(NORMAL)
    assert stanli._check(code, Parabola(1.0, noise)) == ()
    with raises("gradient_mismatch", "unsafe=True"):
        stanli._check(code, Parabola(1.02, noise))
    with raises("unsupported_construct"):
        stanli._check(code, Parabola(1.0, np.nan))


def test_a_gradient_that_is_wrong_at_one_of_the_points_is_refused():
    model = Parabola(1.0, 0.0)
    first = stanli.finite_points(model)[0]

    class WrongInPlaces(Parabola):
        def log_density_gradient(self, x):
            value, gradient = super().log_density_gradient(x)
            return value, gradient * (1.02 if np.abs(x - first).max() < 0.1 else 1.0)

    with raises("gradient_mismatch"):
        stanli._check(program.read(NORMAL), WrongInPlaces(1.0, 0.0))


def test_the_error_of_a_gradient_is_relative_to_its_length():
    point, direction = np.array([1.0, 2.0, 4.0]), np.array([-500.0, -200.0, 300.0])
    slope = 0.02 * 100 * (3 - point) @ direction / np.linalg.norm(direction)
    length = 102 * np.linalg.norm(3 - point)
    error = stanli.gradient_error(Parabola(1.02, 0.0), point, direction)
    assert error == pytest.approx(abs(slope) / (1.0 + length), rel=1e-4)

    class Huge(Parabola):
        def log_density_gradient(self, x):
            return -1e25, super().log_density_gradient(x)[1]

    # differences are only rounding, and show nothing
    assert stanli.gradient_error(Huge(1.0, 0.0), point, direction) is None


def test_a_density_that_is_finite_only_far_away_is_not_refused():
    """Guard 4 needs finite points; without any, it has compared nothing, and says so."""
    code = "parameters {{ real x; }} model {{ 0 ~ normal(0, x - {}); }}"
    with warns("nothing_compared"):
        target = sa.Target(code.format(50))
    assert np.isfinite(target.evaluate(np.array([60.0]))[0])
    with warnings.catch_warnings(action="error"):
        sa.Target(code.format(0.95))  # seldom within 1 of zero


def test_quantities_are_never_silently_dropped():
    code = "parameters { matrix[2, 2] M; } model { to_vector(M) ~ normal(0, 1); }"
    quantities = "real a = M[1, 1]; complex z = to_complex(M[1, 1], 1);"
    with warns("quantities_left_out", "refuses their block"):
        target = sa.Target(f"{code} generated quantities {{ {quantities} }}")
    assert target.column_names == [f"M.{i}.{j}" for j in (1, 2) for i in (1, 2)]
    assert target.model_of(1).param_names(include_gq=True) == target.column_names


ORDINAL = """
functions { int draw_rng(real a, vector c) { return ordered_logistic_rng(a, c); } }
data { int N; array[N] int y; }
parameters { real a; ordered[2] c; }
model { a ~ normal(0, 1); c ~ normal(0, 2); y ~ ordered_logistic(rep_vector(a, N), c); }
generated quantities {
  array[N] int y_rep;
  vector[N] log_lik;
  int high = 0;
  real pair = neg_binomial_rng(2, 3), other = pair;
  array[2] real means = {normal_rng(a, 1), 1};
  for (n in 1:N) {
    if (n > 1) y_rep[n] = draw_rng(a, c); // the rest; stays
    high += y_rep[n] > 1;
    log_lik[n] = ordered_logistic_lpmf(y[n] | a, c);
  }
}
"""


def test_quantities_that_need_a_missing_function_are_left_out_alone():
    data = {"N": 3, "y": [1, 2, 3]}
    with warns("quantities_left_out", "pair, other, y_rep, high of the generated quantities"):
        target = sa.Target(ORDINAL, data, backend="stanli")
    fit = sa.sample(target, "nuts", seed=1, chains=1, iter_sampling=100, show_progress=False)
    assert set(fit.posterior) == {"a", "c", "means"}
    first = {name: each[0, 0] for name, each in fit.posterior.items()}
    log_lik = float(fit.log_likelihood["log_lik"][0, 0, 0])
    odds = np.exp(float(first["c"][0]) - float(first["a"]))
    assert log_lik == pytest.approx(np.log(odds / (1 + odds)))
    names = target.model_of(1).param_names(include_gq=True)
    assert names == target.column_names


@pytest.mark.parametrize(("quantities", "rest"), [
    ("int k = f_rng(); if (k > 1) { } real a = 1;", None),
    ("real a = 1; if (a > 2) a = f_rng(); else a = 3;", None),
    ("int k = 0; for (i in 1:3) { if (f_rng() > i) break; k = i; }", None),
    ("real a = 1;", None),
    ("real<lower=0> a = f_rng(), b; real<lower=0> c = 1;", "ab"),
    ("array[2] real a; int i = 1; a[i] = f_rng(); i += 1;", "a"),
    ("real a; real b; real c; (a, b) = f_rng(); c = a;", "abc"),
])  # fmt: skip
def test_whatever_depends_on_a_missing_function_is_recognized(quantities, rest):
    found = without_function(f"generated quantities {{ {quantities} }}", "f_rng")
    assert found is None if rest is None else (found[1] == list(rest) and "f_rng" not in found[0])


def test_branches_of_quantities_alone_leave_them_out():
    code = "parameters { real x; } model { x ~ normal(0, 1); } generated quantities { BRANCH }"
    branch = "array[2] real z; for (i in 1:2) if (x > i) { z[i] = x; break; } else z[i] = 0;"
    with warns("quantities_left_out"):
        target = sa.Target(code.replace("BRANCH", branch))
    chains = [target.model_of(chain).param_names(include_gq=True) for chain in (0, 1)]
    assert chains == [["x"], ["x"]]  # the second is bound without the checks
    # the block of the model still refuses the program, with the reason that it had
    with raises("unsupported_construct"):
        sa.Target(
            "parameters { matrix[2, 2] M; } model { target += trace(M); } "
            "generated quantities { real t = trace(M); }"
        )


def test_data_of_every_format_are_spliced():
    code = "data { real a; } parameters { real x; } model { x ~ normal(a, 1); }"
    for text in ('{"a": 2}', '{ "a" : 2 } ', '{"a":2,"unused":[1,2]}', json.dumps({"a": 2.0})):
        gradient = sa.Target(code, text).evaluate(np.zeros(1))[1]
        assert gradient[0] == pytest.approx(2.0)
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", "{}")


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


@pytest.fixture(scope="module", params=[True, False], ids=["with guards", "without guards"])
def verdicts(request):
    """Verdicts on all of them."""
    verdicts = program_runner.run(
        f"{stanli_reproducers.__name__}:reproducer", range(len(REPRODUCERS)), request.param
    )
    return request.param, dict(zip(REPRODUCERS, verdicts, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("name", REPRODUCERS)
def test_each_fault_exists_and_is_guarded_against(verdicts, name):
    guards, by_name = verdicts
    expected, verdict = REPRODUCERS[name], by_name[name]
    assert verdict.outcome == (expected.with_guards if guards else expected.without), verdict
    if not guards:
        assert verdict.reason == expected.reason
    elif expected.with_guards == "refused":
        assert "control flow may depend on parameters" in verdict.reason


@pytest.mark.cmdstan
@pytest.mark.soak
@pytest.mark.parametrize("name", REPRODUCERS)
def test_stan_itself_agrees(name):
    """For programs that the guards refuse, only this shows that stanli is at fault."""
    program = REPRODUCERS[name]
    target = sa.Target(program.code, program.data, backend="cmdstan")
    assert program_runner.verdict(program, 0, target.model).outcome == "right"
