"""Log densities in Python: with NumPy, Numba and JAX, for every sampler."""

import math
import warnings

import numba
import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import codes_of
from tests.helpers.codes import raises

# of short runs
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
MEAN, SD = np.array([1.0, -3.0]), np.array([0.5, 4.0])


def of_numpy(x):
    z = (x - MEAN) / SD
    return -0.5 * z @ z, -z / SD


@numba.njit
def of_numba(x):
    z = (x - MEAN) / SD
    return -0.5 * np.sum(z * z), -z / SD


def value(x):
    return of_numpy(x)[0]


def slope(x):
    return of_numpy(x)[1]


def with_jax():
    numpy = pytest.importorskip("jax.numpy")

    def of_jax(x):
        z = (x - MEAN) / SD
        return -0.5 * numpy.sum(z * z)

    return sa.Density(of_jax, 2)


TARGETS = {
    "numpy": lambda: sa.Density(of_numpy, 2),
    "two functions": lambda: sa.Density(value, 2, gradient=slope),
    "numba": lambda: sa.Density(of_numba, 2),
    "jax": with_jax,
}


@pytest.mark.parametrize("kind", TARGETS)
def test_values_gradients_and_draws_are_those_of_the_program(kind):
    target = TARGETS[kind]()
    point = np.array([0.3, 2.0])
    found, gradient, message = target.evaluate(point)
    expected, exact = of_numpy(point)
    assert message == ""
    assert found == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, exact, rtol=1e-12)
    assert target.backend == ("numpy" if kind == "two functions" else kind)
    assert 0.0 < target.seconds_per_call < 1.0
    assert "per gradient" in repr(target)
    mode = sa.optimize(target, seed=1)
    np.testing.assert_allclose(mode["mode"], MEAN, atol=1e-6)
    np.testing.assert_allclose(mode["sd"], SD, rtol=1e-4)
    code = """transformed data { vector[2] m = [1, -3]'; vector[2] s = [0.5, 4]'; }
    parameters { vector[2] x; } model { x ~ normal(m, s); }"""
    program = sa.Target(code)
    run = {"seed": 1, "chains": 2, "iter_warmup": 200, "iter_sampling": 400}
    ours, theirs = (sa.sample(t, **run) for t in (TARGETS[kind](), program))
    x, y = (results.dataset(fit, "posterior")["x"].values for fit in (ours, theirs))
    np.testing.assert_allclose(x, y, atol=1e-6)
    assert ours.attrs["seconds_per_call"] > 0.0


def test_names_labels_files_and_starts(tmp_path):
    target = sa.Density(of_numpy, 2, names=["a", "b"], name="bell")
    run = {"iter_warmup": 60, "iter_sampling": 60, "seed": 1}
    fit = sa.sample(target, "am", inits={"a": 1.0, "b": -3.0}, run=tmp_path / "run", **run)
    again = sa.load(sa.save(fit, tmp_path / "fit.nc"))
    assert again.attrs["model"] == "bell"
    assert list(results.dataset(again, "posterior").data_vars) == ["a", "b"]
    with raises("run_needs_target", "bell"):
        sa.resume(tmp_path / "run")
    longer = sa.resume(tmp_path / "run", target, iter_sampling=80)
    assert results.dataset(longer, "posterior").sizes["draw"] == 80
    labelled = sa.Density(of_numpy, 2, dims={"x": ["side"]}, coords={"side": ["left", "right"]})
    assert labelled.labels.dims == {"x": ["side"]}
    with raises("not_a_stan_program", "bell"):
        sa.stan_nuts(target)
    with raises("not_a_stan_program"):
        target.with_data({})


def raising(x):
    raise KeyError("mu")


def one_key_missing(x):
    scale = {True: 1.0, False: {"a": 2.0}}[bool(x[0] < 0.0)]
    return (-0.5 * x @ x, -x) if x[0] < 0.0 else (scale["b"], x)


@numba.njit
def half_line(x):
    if x[0] < 0.0:
        raise ValueError("negative")
    return -x[0], -np.ones(1)


@pytest.mark.parametrize(
    ("function", "options", "facts"),
    [
        (raising, {}, ["raising", "KeyError", "mu"]),
        (value, {}, ["value", "gradient="]),
        (lambda x: (0.0, np.zeros(3)), {}, ["(3,)", "(2,)"]),
        (lambda x: (np.zeros(2), np.zeros(2)), {}, ["shape (2,)"]),
        (lambda x: ("a", x), {}, ["returned 'a'"]),
        (lambda x: (-0.5 * x @ x + 1j, -x), {}, ["returned", "1j", "not real"]),
        (lambda x: None, {}, ["returned None"]),
        (lambda x: "a", {}, ["returned 'a'"]),
        (lambda x: 5, {}, ["returned 5 and no gradient"]),
        (one_key_missing, {}, ["KeyError", "'b'", "in one_key_missing, line"]),
        (5, {}, ["5", "no function"]),
        (of_numpy, {"names": ["a"]}, ["2 different names"]),
        (of_numpy, {"names": "ab"}, ["2 different names"]),
        (of_numpy, {"names": ["theta", "theta[1]"]}, ["theta[1]", "vector x"]),
        (of_numpy, {"names": ["lp__", "x y"]}, ["lp__"]),
    ],
)
def test_bad_functions_are_refused_in_words(function, options, facts):
    with raises("wrong_density", *facts):
        sa.Density(function, 2, **options)


def test_wrong_gradients_and_densities_without_a_start():
    with raises("gradient_mismatch", "differences"):
        sa.Density(lambda x: (-0.5 * x @ x, x), 2)
    target = sa.Density(lambda x: (math.nan, x), 2)
    with raises("initialization_failed", "-inf"):
        sa.sample(target)
    with raises("not_a_name", "[1, 2]"):
        sa.Density(of_numpy, 2, names=[1, 2])
    with raises("reserved_name", "Rename it."):
        sa.Density(of_numpy, 2, names=["chain", "b"])


def test_errors_outside_the_support_are_zeros_and_named():
    target = sa.Density(half_line, 1)
    fit = sa.sample(target, "rwm", seed=1, iter_warmup=200, iter_sampling=400)
    assert results.dataset(fit, "posterior")["x"].min() > 0.0

    def function(x):
        return -0.5 * (x - 1.0) @ (x - 1.0) + 1 // int(x[0] < 0.5), 1.0 - x

    found = sa.optimize(sa.Density(function, 2), seed=1)
    assert "failed_evaluations" in codes_of(found.attrs["messages"])
    assert "raised ZeroDivisionError" in repr(found)


def cut(x, error):
    if x[0] > 1.0:
        raise error
    return -0.5 * x @ x, -x


@numba.njit
def cut_by_numba(x):
    if x[0] > 1.0:
        raise KeyError("typo")
    return -0.5 * np.sum(x * x), -x


@pytest.mark.parametrize(
    ("function", "verdict", "facts"),
    [
        (lambda x: cut(x, KeyError("typo")), "do not use", ["KeyError: 'typo' in cut, line"]),
        (lambda x: cut(x, 5) if x[0] > 1.0 else cut(x, None), "do not use", ["TypeError"]),
        (lambda x: None if x[0] > 1.0 else cut(x, None), "do not use", ["returned None"]),
        (cut_by_numba, "do not use", ["KeyError", "typo"]),
        (lambda x: cut(x, ValueError("outside")), "fine", ["hard edges", "Jacobian"]),
        (lambda x: cut(x, np.linalg.LinAlgError("outside")), "fine", ["hard edges", "Jacobian"]),
    ],
)
def test_a_fault_of_a_function_is_no_end_of_its_support(function, verdict, facts):
    target = sa.Density(function, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = sa.sample(target, "nuts", seed=1, chains=2, iter_warmup=300)
    told = " ".join(str(each.message) for each in caught)
    assert fit.attrs["verdict"] == verdict
    assert results.dataset(fit, "posterior").sizes["draw"] == 1000
    assert all(fact in told for fact in facts), told
    assert "parameters block" not in told
    assert ("hard edges" in told) == (verdict == "fine")


def test_a_climb_names_a_fault_and_the_next_run_begins_without_it():
    broken = [True]

    def function(x):
        if broken[0] and x[0] > 0.5:
            raise TypeError("a typo")
        return -0.5 * (x - 1.0) @ (x - 1.0), 1.0 - x

    broken[0] = False
    target = sa.Density(function, 2)
    broken[0] = True
    found = sa.optimize(target, seed=1)
    assert "density_raised" in codes_of(found.attrs["messages"])
    assert "a typo" in repr(found)
    first = sa.sample(target, "nuts", seed=1, iter_sampling=200, inits=0.0)
    broken[0] = False
    again = sa.sample(target, "nuts", seed=1)
    assert first.attrs["verdict"] == "do not use"
    assert again.attrs["verdict"] == "fine"


def test_a_fit_does_not_contain_its_function():
    target = sa.Density(of_numpy, 2)
    fit = sa.sample(target, "rwm", seed=1, iter_warmup=60, iter_sampling=60)
    for use in (sa.Target.of_fit, sa.generate):
        with raises("not_a_stan_program", "Make the Density again"):
            use(fit)
    with raises("nothing_to_generate", "from the draws"):
        sa.generate(fit, target)
