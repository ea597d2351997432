"""User errors of every kind raise a StanadaptError with the right code or stage, and the facts."""

import math
import typing

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine import registry
from stanadapt.engine.settings import Numbers
from stanadapt.errors import STAGES, StanadaptError
from stanadapt.samplers import initial_values
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
RUN = {"chains": 2, "iter_warmup": 5, "iter_sampling": 10, "seed": 1}


def refused(kind, facts, function, *arguments, **keywords):
    """Expect an error with this code, or this stage if another room declares the code."""
    with pytest.raises(StanadaptError) as caught:
        function(*arguments, **keywords)
    error = caught.value
    assert kind in (error.code, error.stage), str(error)
    assert error.stage in STAGES
    for fact in facts:
        assert fact in error.message, str(error)
    assert str(error).startswith(f"{error.stage}: ")
    assert error.message.rstrip().endswith((".", ")", "?")) or error.stan
    return error


target = shared_target(NORMAL)


@pytest.mark.parametrize(("code", "facts"), [
    ("parameters { real x; }\nmodel {\n  x ~ normal(0, 1)\n}\n", ["line 4, column 0"]),
    (NORMAL.replace("normal", "nomal"), ["nomal", "line 1, column"]),
    ("parameters { real x; }\nmodel { y ~ normal(0, 1); }", ["line 2", '"y"']),
])  # fmt: skip
def test_syntax_errors_have_file_line_and_column(tmp_path, code, facts):
    path = tmp_path / "semicolon.stan"
    path.write_text(code)
    error = refused("syntax_error", ["semicolon"], sa.Target, path)
    for fact in (*facts, str(path)):
        assert fact in error.stan
    assert "string" not in error.stan.splitlines()[0]


def test_transformed_data_that_reject():
    code = 'data { int N; } transformed data { reject("N is ", N, "."); } ' + NORMAL
    error = refused("data_rejected", [], sa.Target, code, {"N": 3})
    assert "N is 3." in error.stan


@pytest.mark.filterwarnings(r"ignore:.*\[nothing_compared\]")
def test_no_usable_initial_value_after_a_hundred_tries():
    target = sa.Target("parameters { real x; } model { 0 ~ normal(0, x - 50); }")
    for function in (sa.sample, sa.stan_nuts):
        keywords = {"backend": "stanli"} if function is sa.stan_nuts else {}
        error = refused("initialization", ["100"], function, target, **RUN, **keywords)
        assert "Scale parameter is -" in error.stan
    assert initial_values.TRIES == 100


@pytest.mark.parametrize("function", [sa.sample, sa.stan_nuts])
@pytest.mark.parametrize(("name", "bad"), [
    *[("chains", bad) for bad in (0, -1, 1.5, "2", None, True, math.nan)],
    *[("parallel_chains", bad) for bad in (0, -1, 0.5, "2")],
    *[("iter_sampling", bad) for bad in (0, -5, 10.0, "10", math.inf)],
    *[("iter_warmup", bad) for bad in (-1, 2.5, "x")],
    *[("thin", bad) for bad in (0, -1, 1.5, None)],
    *[("seed", bad) for bad in (-1, 1.5, "x", 2**32)],
])  # fmt: skip
def test_numbers_of_a_run(target, function, name, bad):
    refused("settings", [name, repr(bad)], function, target, **(RUN | {name: bad}))


@pytest.mark.parametrize("function", [sa.sample, sa.stan_nuts])
def test_thin_that_leaves_nothing(target, function):
    facts = ["thin", "iter_sampling (10)", "got 11"]
    refused("settings", facts, function, target, **(RUN | {"thin": 11}))


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        ("model.stan", "'model.stan'"),
        (None, "None"),
        (5, "5"),
        ({"x": 1}, "an object of type dict"),
        ("model { " + "x;" * 99 + "}", f"'model {{ {'x;' * 14}x...{';x' * 18};}}'"),
    ],
)
def test_only_targets_can_be_sampled(thing, shown):
    for function in (sa.sample, sa.stan_nuts):
        refused("not_a_target", [f"got {shown}."], function, thing, **RUN)


BAD = {
    float: [-1, math.nan, math.inf, -math.inf, "abc", "", None, [1.0], {}, True, 1j],
    int: [-1, 0, 1.5, math.nan, math.inf, "abc", "1.5", None, [1], True],
    bool: ["abc", 2, -1, None, math.nan, []],
    Numbers: ["abc", "1,x", -1, math.nan, math.inf, None, [1.0, math.nan], [[1.0]], {}, True, 1j],
}
NOT_MEMBERS = ["abc", "", "Linear", 0, 1.5, None, True, []]  # of an enumeration
ZERO_IS_A_NUMBER = [("hmc", "leapfrogs", 0), ("walnuts", "max_halvings", 0)]


@pytest.mark.parametrize("sampler", registry.registered())
def test_value_out_of_range(target, sampler):
    declared = registry.registered()[sampler].settings
    for name, kind in typing.get_type_hints(declared).items():
        for bad in BAD.get(kind, NOT_MEMBERS):
            if kind is int and bad == 0 and declared()._asdict()[name] == 0:
                continue  # 0 lets the sampler choose
            if (sampler, name, bad) in ZERO_IS_A_NUMBER:
                continue
            facts = [f"{sampler}: {name}"]
            error = refused("settings", facts, sa.sample, target, sampler, **RUN, **{name: bad})
            shown = {repr(bad), str(bad)}
            if isinstance(bad, int | float) and not isinstance(bad, bool):
                shown |= {str(float(bad))}
            assert any(text in error.message for text in shown), error.message


@pytest.mark.parametrize(
    ("name", "bad"),
    [("adapt_delta", 0), ("adapt_delta", 1), ("adapt_delta", math.nan), ("adapt_delta", "x"),
     ("adapt_delta", None), ("max_treedepth", 0), ("max_treedepth", 2.5)],
)  # fmt: skip
def test_settings_of_nuts(target, name, bad):
    refused("settings", [name, repr(bad)], sa.stan_nuts, target, **RUN, **{name: bad})


def test_broken_cmdstan(target, tmp_path, monkeypatch):
    monkeypatch.setenv("CMDSTAN", str(tmp_path))
    facts = [str(tmp_path), "no makefile", "install-cmdstan"]
    error = refused("installation", facts, sa.stan_nuts, target, backend="cmdstan", **RUN)
    assert ".." not in error.message


DATA = {"N": 50, "x": np.zeros(50), "X": np.zeros((50, 2)), "g": [1] * 10 + [3] * 40}
HEAD = "data { int N; vector[N] x; matrix[N, 2] X; array[N] int g; }\n"
MODEL = "parameters { vector[2] mu; } model { mu ~ normal(0, 1);\n"
NATIVE = pytest.param("cmdstan", marks=[pytest.mark.cmdstan, pytest.mark.slow])


@pytest.mark.parametrize(("statement", "facts"), [
    ("mu[1] ~ normal(x[51], 1);", ["51", "50 elements", "line 3", "x[51]"]),
    ("x ~ normal(mu[g], 1);", ["index 3", "2 elements", "line 3", "g[11] is 3"]),
    ("for (i in 1:N) x[i] ~ normal(mu[g[i]], 1);", ["index 3", "2 elements", "g[11] is 3"]),
    ("for (i in 1:N) target += X[i, 3];", ["index 3", "2 elements", "line 3"]),
    ("for (i in 1:3) target += mu[i];", ["index 3", "2 elements"]),
    ("x[2:60] ~ normal(0, 1);", ["60", "50 elements", "line 3"]),
])  # fmt: skip
def test_the_embedded_backend(statement, facts):
    with raises("index_out_of_range", *facts):
        sa.Target(f"{HEAD}{MODEL}{statement} }}", DATA)


@pytest.mark.parametrize("backend", ["stanli", NATIVE])
def test_transformed_data(backend):
    code = f"{HEAD}transformed data {{ real z = x[N + 1]; }}\n{MODEL} }}"
    with raises("index_out_of_range", "51", "50 elements"):
        sa.Target(code, DATA, backend=backend)


@pytest.mark.cmdstan
@pytest.mark.slow
def test_compiled_programs_say_so_at_the_start():
    code = f"{HEAD}{MODEL}x ~ normal(mu[g], 1); }}"
    target = sa.Target(code, DATA, backend="cmdstan")
    with raises("index_out_of_range", "index 3", "2 elements", "line 3", "g[11] is 3"):
        sa.sample(target)
