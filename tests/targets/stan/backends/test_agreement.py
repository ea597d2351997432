"""The comparison of a compiled density with the embedded backend's, and the table of known faults.

The compiled models are stood in for by embedded ones of the same or of a wrong program, so that no
compiler is needed; the last tests use CmdStan 2.27.0, on programs that it computes without harm.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import agreement, known_faults, stanli
from stanadapt.targets.stan.program import Program
from tests.helpers.checked import checked
from tests.helpers.codes import raises, warns

NORMAL = "parameters { vector[2] x; } model { x ~ normal(1, 2); }"
SPARSE = """
data { vector[6] w; array[6] int v; array[5] int u; vector[4] y; }
parameters { vector[3] b; }
model { b ~ normal(0, 1); y ~ normal(csr_matrix_times_vector(4, 3, w, v, u, b), 0.1); }
"""
MATRIX = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 0], [0, 1, 1]])
SPARSE_DATA = {
    "w": [1.0, 2, 3, 4, 1, 1],
    "v": [1, 3, 2, 1, 2, 3],
    "u": [1, 3, 4, 5, 7],
    "y": MATRIX @ [1.0, -1, 0.5],
}


def program(code):
    return Program("schools", code, None, ())


def bound(code, data="{}"):
    return stanli.construct(program(code), checked(data), unsafe=True)[0]


class Native:
    """A model of which single methods are replaced."""

    def __init__(self, model, **replaced):
        self.model, self.replaced = model, replaced

    def __getattr__(self, name):
        """Return the replacement, or the attribute of the model."""
        return self.replaced.get(name) or getattr(self.model, name)


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Ignore the remark that unsafe models were not checked."""


def compared(code, native_code=None, data="{}", version="2.99.0", **replaced):
    native = Native(bound(native_code or code, data), **replaced)
    return agreement.check(program(code), checked(data), native, "Compiled 1", version)


@pytest.mark.parametrize("constant", ["", "target += 37.5;"])
def test_densities_that_differ_by_a_constant_agree(constant):
    outcome = compared(NORMAL, NORMAL.replace("x ~", f"{constant} x ~"))
    assert outcome == f"agrees with stanli {stanli.VERSION} at 3 points"


@pytest.mark.parametrize("wrong", [
    NORMAL.replace("2)", "2.1)"), NORMAL.replace("1,", "0.9,"), NORMAL.replace("x ~", "x[1] ~"),
], ids=["scale", "location", "coordinate"])  # fmt: skip
def test_a_wrong_density_is_an_error_with_both_numbers_and_the_point(wrong):
    point = stanli.finite_points(bound(NORMAL))[0]
    ours, theirs = (bound(code).log_density(point) for code in (wrong, NORMAL))
    shown = [f"{point[0]:.4f}".rstrip("0"), f"{ours:.8g}", f"{theirs:.8g}"]
    with raises("densities_disagree", "Compiled 1", stanli.VERSION, "unsafe=True", *shown):
        compared(NORMAL, wrong)


def test_values_and_gradients_that_contradict_each_other_are_errors():
    model = bound(NORMAL)

    def shifted(point):
        value, gradient = model.log_density_gradient(point)
        return value + 0.1 * point[0], gradient

    with raises("densities_disagree", "Compiled 1"):
        compared(NORMAL, log_density_gradient=shifted)

    def wrong(point):
        value, gradient = model.log_density_gradient(point)
        return value, gradient * [1.0, 2.0]

    replaced = {
        "log_density_gradient": wrong,
        "log_density": lambda point, propto: model.log_density(point),
    }
    with raises("densities_disagree", "Do not trust Compiled 1"):
        compared(NORMAL, **replaced)
    still = {"log_density_gradient": lambda point: (model.log_density(point), np.zeros(2))}
    with raises("densities_disagree", "Do not trust Compiled 1"):
        compared(NORMAL, **{**replaced, **still})
    compared_at = np.array(stanli.finite_points(model))

    def fails_beside(point):
        if not (compared_at == point).all(axis=1).any():
            raise RuntimeError("no value")
        return wrong(point)

    with raises("densities_disagree", "trust neither"):
        compared(NORMAL, **{**replaced, "log_density_gradient": fails_beside})


def test_throwing_densities_and_small_derivatives_are_errors():
    with raises("densities_disagree", "Compiled 1 fails"):
        compared(NORMAL, NORMAL.replace("x ~", 'reject("index 0 out of range"); x ~'))
    # it is 10^10 times smaller than the other one, and half of what it should be
    narrow = NORMAL.replace("normal(1, 2)", "normal(1, [1e-2, 1e3]')")
    assert narrow != NORMAL
    with raises("densities_disagree", "coordinate 2"):
        compared(narrow, narrow.replace("1e3", "1414.2"))


SOLVED = """
functions { vector slope(real t, vector y, vector x) { return [x[1] - y[1]]'; } }
parameters { vector[2] x; }
model { x ~ normal(1, 2); ode_rk45(slope, [1.0]', 0, {1.0}, x)[1][1] ~ normal(0, 1); }
"""


@pytest.mark.parametrize(("lost", "outcome"), [
    ([], "agrees with stanli {} at 3 points"),
    ([0], "agrees with stanli {} at 2 points; Compiled 1 does not solve"),
    ([0, 1, 2], "not compared: Compiled 1 does not solve"),
])  # fmt: skip
def test_a_solver_that_fails_is_no_disagreement(lost, outcome):
    model, calls = bound(SOLVED), []

    def fail(point):
        calls.append(point)
        if len(calls) - 1 in lost:
            raise RuntimeError("Failed to integrate to next output time")
        return model.log_density_gradient(point)

    assert compared(SOLVED, log_density_gradient=fail).startswith(outcome.format(stanli.VERSION))
    with raises("densities_disagree", "Compiled 1"):  # of a program without a solver, or wrong
        compared(NORMAL, log_density_gradient=throw)
    with raises("densities_disagree", "Compiled 1"):
        compared(SOLVED, SOLVED.replace("(1, 2)", "(1, 2.1)"))


@pytest.mark.parametrize("outcome", [
    "agrees with stanli {} at 2 points; {} {} at 1 of 3 points", "not compared: {1} {2} at 3",
])  # fmt: skip
def test_the_embedded_backend_is_taken_if_compiled_code_does_not_solve_equations(outcome):
    compiled = "CmdStan 2.27.0"
    outcome = outcome.format(stanli.installed(), compiled, agreement.UNSOLVED)

    def load(program, data, unsafe, report):
        return backends.Loaded(bound(NORMAL), compiled, 3.0, density_check=outcome)

    native = backends.Backend("cmdstan", load, True, lambda: (True, ""))
    embedded = backends.BACKENDS["stanli"]
    choices = [(native, "usable"), (embedded, "usable")]
    found = backends.load_first(choices, program(SOLVED), {}, False, print)
    assert found.backend is embedded
    assert found.reason.startswith(f"{compiled} {agreement.UNSOLVED}")
    assert found.loaded.density_check.startswith(outcome.split()[0])
    assert backends.load_first(choices[:1], program(SOLVED), {}, False, print).backend is native
    # nor where it takes the program without its generated quantities
    part = embedded._replace(load=lambda *given: embedded.load(*given)._replace(program=given[0]))
    choices[1] = part, "usable"
    assert backends.load_first(choices, program(SOLVED), {}, False, print).backend is native


def test_errors_of_approximation_and_throwing_quantities_are_none():
    """Releases differ by 1e-4 in the tails of some distribution functions."""
    near = NORMAL.replace("2)", "2.0002)")
    assert compared(NORMAL, near).startswith("agrees")
    code = NORMAL + " generated quantities { real<lower=100> z = x[1]; }"
    assert compared(code, NORMAL).startswith("agrees")
    with raises("densities_disagree", "Compiled 1"):
        compared(code, NORMAL.replace("2)", "2.1)"))


def throw(point):
    raise RuntimeError("z is below its bound")


RANDOM = f"transformed data {{ real m = normal_rng(0, 1); }} {NORMAL.replace('(1', '(m')}"


@pytest.mark.parametrize(("code", "constrain", "why"), [
    (NORMAL.replace("x ~", "target += negative_infinity(); x ~"), None, "the density is finite at"),
    (NORMAL.replace("x ~", "if (x[1] > 0) target += x[1]; x ~"), None, "parameter_branches"),
    (RANDOM, None, "random"), (NORMAL, lambda point: point[::-1], "releases"),
    (NORMAL, throw, "throws"),
])  # fmt: skip
def test_what_cannot_be_compared_is_not_called_agreement(code, constrain, why):
    outcome = compared(code, NORMAL, param_constrain=constrain)
    assert outcome.startswith("not compared")
    assert why in outcome


@pytest.mark.parametrize(("loops", "n", "large"), [(0, 9999, 0), (1, 400, 0), (1, 600, 1),
                                                  (2, 20, 0), (2, 30, 1)])  # fmt: skip
def test_programs_with_large_loops_are_not_bound_a_second_time(loops, n, large):
    code, times = "data { int N; } " + NORMAL.replace("x ~", "for (i in 1:N) " * loops + "x ~"), []

    def bind(*arguments):
        times.append(arguments)
        return bound(NORMAL)

    data = json.dumps({"N": n})
    outcome = agreement.check(program(code), checked(data), bound(NORMAL), "", "2.99.0", bind)
    assert ("large" in outcome) == bool(large) == (not times)


OUTER = "parameters { vector[2] x; } model { x ~ normal(0, 1); target += -sum(exp(x * x ' )); }"
COVARIANCE = "parameters { vector[2] x; } model { x ~ multi_normal([0, 0]', [[2, 1], [1, 2]]); }"


@pytest.mark.parametrize(("code", "characters", "large"), [
    (NORMAL, 25_000, 0), (NORMAL, 1_000_000, 1), (COVARIANCE, 19_000, 0), (COVARIANCE, 25_000, 1),
    (OUTER, 25_000, 1),
])  # fmt: skip
def test_large_data_are_not_bound_a_second_time(code, characters, large):
    """Where the work may grow with the square or cube of the size, less counts as large."""
    data, times = json.dumps({"y": "0" * characters}), []

    def bind(*arguments):
        times.append(arguments)
        return bound(code)

    outcome = agreement.check(program(code), checked(data), bound(code), "", "2.99.0", bind)
    assert ("large" in outcome) == bool(large) == (not times)


@pytest.mark.parametrize(("code", "most"), [(NORMAL, 100_000), (OUTER, 300)])
def test_of_many_parameters_fewer_where_the_work_may_be_their_square(code, most):
    """Native models are stood for, since an outer product of 100,000 does not fit into memory."""
    for dim in (most, most + 1):
        native, times = SimpleNamespace(param_unc_num=lambda dim=dim: dim), []

        def bind(*arguments, times=times):
            times.append(arguments)
            raise StanadaptError("unsupported_construct", "it is not bound.")

        outcome = agreement.check(program(code), checked("{}"), native, "", "2.99.0", bind)
        assert ("large" in outcome) == (dim > most) == (not times)


def test_guards_that_compare_nothing():
    code = "parameters { real x; } model { x ~ uniform(5, 6); }"
    with warns("nothing_compared", f"{stanli.TRIES} random points"):
        sa.Target(code, backend="stanli")


@pytest.mark.parametrize(
    ("version", "found"),
    [("2.26.1", 0), ("2.27.0", 1), ("2.28.0", 0), ("2.36.0", 0), ("unknown", 0)],
)
def test_faults_belong_to_releases(version, found):
    assert len(known_faults.find(SPARSE, version)) == found


@pytest.mark.parametrize(
    "code",
    [
        NORMAL + "// csr_matrix_times_vector(",
        NORMAL
        + "generated quantities { vector[4] m = csr_matrix_times_vector(4, 3, w, v, u, x); }",
        NORMAL.replace("x ~", "real matrix_exp_2 = 1; x ~"),
    ],
)
def test_calls_outside_the_density_do_not_count(code):
    assert known_faults.find(code, "2.27.0") == []


@pytest.mark.parametrize("code", [SPARSE, NORMAL])
def test_the_embedded_backend_comes_before_a_faulty_release(computer, code):
    computer(cmdstan="2.27.0")
    names = ("bridgestan", "cmdstan", "stanli")
    choices = [(backends.BACKENDS[name], "usable") for name in names]
    ordered = backends.without_faults_first(choices, program(code))
    faulty = code == SPARSE
    assert [b.name for b, _ in ordered] == (
        ["bridgestan", "stanli", "cmdstan"] if faulty else list(names)
    )
    assert ("csr_matrix_times_vector" in ordered[1][1]) == faulty
    only = [(backends.BACKENDS["cmdstan"], "requested")]
    assert backends.without_faults_first(only, program(code)) == only


@pytest.mark.parametrize(
    ("refusal", "why"), [("parameter_branches", "cannot run"), ("syntax_error", "is too old for")]
)
def test_the_reason_for_a_faulty_release_is_the_refusal_of_the_other(computer, refusal, why):
    """Data that the embedded backend cannot read are no obstacle for CmdStan either."""

    def refuse(program, data, unsafe, report):
        raise StanadaptError(refusal, "the first line\nand more")

    def load(program, data, unsafe, report):
        return backends.Loaded(None, "CmdStan 2.27.0")

    computer(cmdstan="2.27.0")
    made = {"cmdstan": (load, True), "stanli": (refuse, False)}
    choices = [
        (backends.Backend(name, *parts, lambda: (True, "")), name) for name, parts in made.items()
    ]
    found = backends.load_first(choices, program(SPARSE), SPARSE_DATA, False, print)
    assert found.backend.name == "cmdstan"
    assert found.reason == f"a preferred one {why} the program: the first line"
    missing = {**SPARSE_DATA, "y": [1.0, 2.0, 3.0, np.nan]}
    assert backends.load_first(choices, program(SPARSE), missing, False, print).data


@pytest.mark.cmdstan
def test_sparse_products_are_left_to_the_embedded_backend(monkeypatch):
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)
    target = sa.Target(SPARSE, SPARSE_DATA)
    b = np.array([0.3, 0.2, -0.1])
    residual = (SPARSE_DATA["y"] - MATRIX @ b) / 0.1
    value, gradient, _ = target.evaluate(b)
    assert target.backend == "stanli"
    assert "2586" in target.backend_reason
    np.testing.assert_allclose(value, -0.5 * residual @ residual - 0.5 * b @ b, rtol=1e-12)
    np.testing.assert_allclose(gradient, MATRIX.T @ residual / 0.1 - b, rtol=1e-12)


def test_known_faults_explain_and_forbid():
    code = NORMAL.replace("x ~", "target += sum(matrix_exp(x * x')); x ~")
    with raises("densities_disagree", "Trust the", "#2616"):
        compared(code, NORMAL, version="2.28.0")
    data = json.dumps({name: list(values) for name, values in SPARSE_DATA.items()})
    with raises("densities_disagree", "not evaluated", "csr_matrix_times_vector"):
        compared(SPARSE, data=data, version="2.27.0", log_density_gradient=pytest.fail)
    assert compared(SPARSE, data=data, version="2.28.0").startswith("agrees")
    code = SPARSE.replace("model {", "model { matrix[2, 2] e = matrix_exp(diag_matrix(b[1:2]));")
    faults = known_faults.find(code, "2.27.0")
    assert [fault.function for fault in faults] == ["csr_matrix_times_vector", "matrix_exp"]
    assert "fixed in 2.29.0" in known_faults.describe(faults, "2.27.0")


@pytest.mark.cmdstan
def test_a_right_density_agrees_and_a_large_one_says_that_it_was_not_compared():
    assert sa.Target(NORMAL, backend="cmdstan").density_check.startswith("agrees with stanli")
    assert sa.Target(NORMAL, backend="cmdstan", unsafe=True).density_check == "not compared"
