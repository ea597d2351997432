"""Refusals name what each backend lacks, advise what can help, and show no switches of others."""

import threading

import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError, StanadaptWarning
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import refusals
from stanadapt.targets.stan.program import Program
from tests.helpers.codes import raises
from tests.helpers.cores import use_cores
from tests.targets.stan.constructs import older_syntax

JACOBIAN = (
    "parameters { real x; }\ntransformed parameters { real s = exp(x); jacobian += x; }\n"
    "model { s ~ exponential(1); }"
)
TRACE = "parameters { matrix[2, 2] x; } model { target += trace(x) - sum(x .* x); }"
QUANTITY = (
    "parameters { matrix[2, 2] x; } model { to_vector(x) ~ std_normal(); }\n"
    "generated quantities { real t = trace(x); }"
)
BRANCH = "parameters { real x; } model { if (x > 0) target += -x; else target += -x * x; }"
TUPLE = (
    "parameters { real x; } transformed parameters { tuple(real, real) t = (x, 1.0); }\n"
    "model { x ~ std_normal(); }"
)
OLD = {each.name: (each.code, each.data) for each in older_syntax.CONSTRUCTS if each.until} | {
    "bounded": ("parameters { real<lower=0> s[3]; } model { s ~ exponential(1); }", None),
    "matrices": ("parameters { matrix[2, 2] s[3]; } model { }", None),
}
EXCERPT = """Semantic error in 'program', line 2, column 3 to column 4:
   -------------------------------------------------
     2:   bad
   -------------------------------------------------

Identifier 'bad' not in scope.
"""


def refusal(code, **options):
    with pytest.raises((StanadaptError, StanadaptWarning)) as caught:
        sa.Target(code, backend="stanli", **options)
    return caught.value


LEADS = [  # what is installed, and what a refusal names and does not name
    ({}, ["stanadapt install-cmdstan"], []),
    ({"cmdstan": "2.35.0"}, ["CmdStan 2.35.0", "backend='cmdstan'"], ["install-cmdstan"]),
    ({"cmdstan": "2.27.0", "refuses": EXCERPT},
     ["CmdStan 2.27.0", "Identifier 'bad' not in scope", "newer CmdStan"], ["backend='cmdstan'"]),
    ({"cmdstan": "2.35.0", "compiler": False}, ["no-g++ and no-make could not be found"], []),
]  # fmt: skip


@pytest.mark.parametrize(("installed", "named", "not_named"), LEADS)
@pytest.mark.parametrize("code", [JACOBIAN, TRACE, QUANTITY, BRANCH, TUPLE])
def test_refusals_lead_where_the_program_can_run(computer, code, installed, named, not_named):
    computer(**installed)
    message = str(refusal(code))
    assert all(fact in message for fact in named), message
    assert not any(fact in message for fact in not_named), message


@pytest.mark.parametrize("code", [JACOBIAN, TRACE, QUANTITY, TUPLE])
def test_switches_and_addresses_of_the_embedded_backend_are_not_shown(computer, code):
    text = str(refusal(code))
    assert not any(word in text for word in ("STANLI_", "http", "nset it", "report", "build abi"))
    assert not any(word in text for word in ("(pattern", "(meta"))


def test_lines_of_older_syntax_are_named_with_what_to_write(computer):
    computer()
    code = "data { int N;\n int<lower=0> y[N]; }\nparameters { real x; }\n"
    code += "model {\n increment_log_prob(x);\n}"
    message = refusal(code, data={"N": 1, "y": [1]}).message
    assert "In line 2, write `array[N] real x`" in message
    assert "In line 5, write `target += x`" in message


def test_reasons_of_backends_are_kept_and_ages_told(computer):
    assert "trace" in refusal(TRACE).stan
    left_out = str(refusal(QUANTITY))
    assert "(no compiled path: generated quantities (unsupported function trace))" in left_out
    assert "STuple" in refusal(TUPLE).stan
    assert refusals.reason_of_stanli("stanli MIR check: s is -1, but must be 0. Really.") == (
        "stanli MIR check: s is -1, but must be 0. Really."
    )
    newer = "parameters { sum_to_zero_vector[3] x; } model { }"
    text = refusals.too_old("2.27.0", program(newer))
    assert "backend='stanli'" in text
    assert "newer CmdStan" in text
    assert refusals.too_old("2.27.0", program("parameters { real x } model { }")) == ""


@pytest.mark.parametrize("form", OLD)
def test_old_syntax_is_explained_and_answered_with_the_cmdstan_that_accepts_it(computer, form):
    code, data = OLD[form]
    error = refusal(code, data=data)
    assert error.code == "syntax_error"
    assert "2.32" in error.message
    assert "stanc --print-canonical" in error.message
    computer(cmdstan="2.27.0")
    message = refusal(code, data=data).message
    assert "CmdStan 2.27.0" in message
    assert "backend='cmdstan'" in message


@pytest.mark.parametrize("code", [
    "parameters { real x } model { }",
    "parameters { real x; } // # no old comment\nmodel { x ~ normal(0, y); }",
    "parameters { vector[2] x; } model { x[1] ~ normal(0, 1) print(\"a # b\"); }",
])  # fmt: skip
def test_other_errors_are_not_taken_for_old_syntax(computer, code):
    assert "2.32" not in refusal(code).message
    computer(cmdstan="2.27.0", refuses=EXCERPT)
    assert "2.32" not in refusal(code).message
    assert "2.32" not in refusal(OLD["# comments"][0]).message  # CmdStan 2.27 would accept the hash


def program(code):
    return Program("program", code, None, ())


def errors(*texts):
    return [(f"B{i}", StanadaptError("syntax_error", "no.", text)) for i, text in enumerate(texts)]


def test_of_several_syntax_errors_those_at_other_lines_are_all_shown(computer):
    at_one_line = refusals.of_all(program("model { }"), errors("x, line 3, old", "x, line 3, new"))
    assert at_one_line.stan == "x, line 3, new"
    differing = refusals.of_all(program("model { }"), errors("line 3, old", "line 4, new"))
    for error in (at_one_line, differing):
        assert "B0" in error.message
        assert "B1" in error.message
    assert "line 3, old" in differing.stan
    assert "line 4, new" in differing.stan
    (only,) = errors("line 3")
    assert refusals.of_all(program("model { }"), [only]) is only[1]


@pytest.mark.parametrize(("installed", "quicker"), [
    ({}, "install-cmdstan"), ({"cmdstan": "2.35.0"}, "backend='cmdstan'"),
    ({"cmdstan": "2.34.0", "compiler": False}, ""), ({"cmdstan": "2.27.0", "refuses": EXCERPT}, ""),
])  # fmt: skip
def test_a_slow_binding_is_reported_with_a_quicker_backend(computer, installed, quicker):
    computer(**installed)
    text = refusals.slow_to_bind(program("parameters { real x; } model { x ~ normal(0, 1); }"))
    assert quicker in text
    assert ("cmdstan" in text) == bool(quicker)


def test_chains_share_a_model_that_takes_long_to_bind(monkeypatch):
    code = "parameters { real x; } model { x ~ normal(0, 1); }"
    use_cores(monkeypatch, 2)
    target = sa.Target(code, backend="stanli")
    assert target.model_of(1) is not target.model
    monkeypatch.setattr("stanadapt.targets.bound_program.LONG", 0.0)
    long = sa.Target(code, backend="stanli")
    assert long.model_of(1) is long.model


@pytest.mark.thorough
def test_a_binding_that_takes_long_is_announced(monkeypatch, capsys):
    construct, text, announced = backends.stanli.construct, refusals.slow_to_bind, threading.Event()

    def announcing(program):
        announced.set()
        return text(program)

    def slow(*arguments):
        assert announced.wait(60)
        return construct(*arguments)

    monkeypatch.setattr(backends.refusals, "slow_to_bind", announcing)
    monkeypatch.setattr(backends.stanli, "construct", slow)
    sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli")
    assert "loops, which it unrolls" in capsys.readouterr().err


@pytest.mark.cmdstan
def test_cmdstan_and_the_embedded_backend_together():
    with raises("unsupported_construct", "CmdStan", "jacobian") as caught:
        sa.Target(JACOBIAN)
    assert "backend='cmdstan'" not in caught.value.message
