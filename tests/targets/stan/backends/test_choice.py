"""Choosing a backend: the choice, its reason, and the errors if none can be used."""

import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import Backend, Loaded
from tests.helpers.codes import raises

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
CMDSTAN = "2.30.0"

pytestmark = pytest.mark.usefixtures("computer")


def refused(code, facts, function, *arguments, **keywords):
    with raises(code, *facts) as caught:
        function(*arguments, **keywords)
    return caught.value


EVERYTHING = {"cmdstan": CMDSTAN, "bridgestan": True}


@pytest.mark.parametrize(("installed", "name", "variable", "expected"), [
    ({}, "auto", None, ["stanli"]), ({"cmdstan": CMDSTAN}, "auto", None, ["cmdstan", "stanli"]),
    ({"bridgestan": True}, "auto", None, ["bridgestan", "stanli"]),
    (EVERYTHING, "auto", None, ["bridgestan", "cmdstan", "stanli"]),
    ({**EVERYTHING, "compiler": False}, "auto", None, ["stanli"]),
    *[(EVERYTHING, name, None, [name]) for name in backends.BACKENDS],
    *[(EVERYTHING, "auto", name, [name]) for name in backends.BACKENDS],
    *[({}, "stanli", variable, ["stanli"]) for variable in ("cmdstan", "nonsense", "auto")],
    *[({"cmdstan": CMDSTAN}, "auto", empty, ["cmdstan", "stanli"]) for empty in ("", "auto")],
])  # fmt: skip
def test_backends_that_are_tried(computer, monkeypatch, installed, name, variable, expected):
    computer(**installed)
    if variable is not None:
        monkeypatch.setenv("STANADAPT_BACKEND", variable)
    found = backends.choose(name)
    assert [backend.name for backend, _ in found] == expected
    reasons = {backend.name: why for backend, why in found}
    by_variable = name == "auto" and variable in backends.BACKENDS
    assert all(("STANADAPT_BACKEND" in why) == by_variable for why in reasons.values())
    if name == "auto" and not by_variable:
        assert "CmdStan 2.30.0" in reasons.get("cmdstan", "CmdStan 2.30.0")
        assert reasons.get("bridgestan", "/bridgestan").endswith("/bridgestan")


def test_native_backends_accept_nan_and_the_embedded_one_does_not():
    assert {b.name: b.native for b in backends.BACKENDS.values()} == {
        "bridgestan": True, "cmdstan": True, "stanli": False,
    }  # fmt: skip
    assert list(backends.BACKENDS) == [b.name for b in backends.BACKENDS.values()]


def test_a_broken_cmdstan_is_ignored_and_reported_if_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CMDSTAN", str(tmp_path))
    assert [backend.name for backend, _ in backends.choose("auto")] == ["stanli"]
    facts = [tmp_path, "it has no makefile", "install-cmdstan"]
    refused("backend_unavailable", facts, backends.choose, "cmdstan")


@pytest.mark.parametrize(
    "function", [backends.choose, lambda name: sa.Target(NORMAL, backend=name)]
)
@pytest.mark.parametrize(
    ("name", "variable", "code", "facts"),
    [
        ("auto", "Cmdstan", "unknown_backend",
         ["STANADAPT_BACKEND", "auto, bridgestan, cmdstan, stanli", "'Cmdstan'"]),
        *[(name, "", "unknown_backend", [repr(name)]) for name in ("pymc", "", "CMDSTAN", None, 3)],
        ("cmdstan", "", "backend_unavailable",
         ["'cmdstan'", "stanadapt install-cmdstan", "backend='stanli'"]),
        ("bridgestan", "", "backend_unavailable", ["BRIDGESTAN"]),
    ],
)  # fmt: skip
def test_names_that_cannot_be_used(monkeypatch, function, name, variable, code, facts):
    monkeypatch.setenv("STANADAPT_BACKEND", variable)
    error = refused(code, facts, function, name)
    assert ("STANADAPT_BACKEND" in str(error)) == bool(variable)


@pytest.mark.parametrize("name", ["bridgestan", "cmdstan"])
def test_the_error_for_a_missing_compiler_explains_how_to_install_it(computer, monkeypatch, name):
    computer(**EVERYTHING, compiler=False)
    facts = ["no-g++ and no-make could not be found", "backend='stanli'"]
    error = refused("backend_unavailable", facts, backends.choose, name)
    assert ".." not in error.message
    monkeypatch.setenv("STANADAPT_BACKEND", name)
    refused("backend_unavailable", facts, backends.choose, "auto")


class FakeBackend:
    """A backend that raises an error, or returns the model of the embedded backend."""

    def __init__(self, name, error=None):
        self.name, self.error, self.data = name, error, []

    def load(self, program, data, unsafe, report):
        """Load like a backend."""
        self.data.append(data)
        if self.error:
            raise self.error
        model, _ = backends.stanli.construct(program, data)
        return Loaded(model, f"{self.name} 1.0")


@pytest.fixture
def use_backends(monkeypatch):
    """Replace the backends by fakes, all usable; the last one reads finite data only."""

    def use(*fakes):
        table = {
            fake.name: Backend(
                fake.name, fake.load, fake is not fakes[-1], lambda: (True, "it is usable")
            )
            for fake in fakes
        }
        monkeypatch.setattr(backends, "BACKENDS", table)

    return use


def too_new(message="line 3"):
    return StanadaptError("syntax_error", "the program is too new.", message)


def test_the_first_backend_that_loads_is_used(use_backends):
    first, second = FakeBackend("first"), FakeBackend("second")
    use_backends(first, second)
    target = sa.Target(NORMAL)
    assert (target.backend, target.backend_reason) == ("first", "it is usable")
    assert target.backend_version == "first 1.0"
    assert second.data == []
    first, second = (
        FakeBackend("first", too_new("Semantic error in line 3\nmore words")),
        FakeBackend("second"),
    )
    use_backends(first, second)
    target = sa.Target(NORMAL)
    assert target.backend == "second"
    assert target.backend_version == "second 1.0"
    assert target.backend_reason.endswith(": Semantic error in line 3")
    assert target.evaluate([0.5])[0] == pytest.approx(-0.125)
    assert len(first.data) == 1


def test_refusals_of_the_first_backend_lead_to_others(use_backends):
    use_backends(FakeBackend("first", too_new("")), FakeBackend("second"))
    assert sa.Target(NORMAL).backend_reason.endswith("program: the program is too new.")
    error = StanadaptError("data_rejected", "these data do not fit.")
    use_backends(
        FakeBackend("first", too_new()), FakeBackend("second", error), FakeBackend("third")
    )
    assert refused("data_rejected", [], sa.Target, NORMAL) is error
    errors = [too_new("of the first"), too_new("of the second"), too_new("of the third")]
    use_backends(*(FakeBackend(error.stan, error) for error in errors))
    names = [f"of the {which}" for which in ("first", "second", "third")]
    error = refused("syntax_error", names, sa.Target, NORMAL)
    assert all(name in error.stan for name in names)


def test_a_named_backend_is_not_replaced(use_backends, monkeypatch):
    second = FakeBackend("second")
    use_backends(FakeBackend("first", too_new()), second)
    assert refused("syntax_error", [], sa.Target, NORMAL, backend="first").stan == "line 3"
    monkeypatch.setenv("STANADAPT_BACKEND", "first")
    assert refused("syntax_error", [], sa.Target, NORMAL).stan == "line 3"
    assert second.data == []


OTHERS = ("data_rejected", "compilation_failed", "builds_not_writable", "parameter_branches")


@pytest.mark.parametrize("code", OTHERS)
def test_other_failures_do_not_change_the_backend(use_backends, code):
    """Otherwise a broken compiler or wrong data could silently change the density."""
    second = FakeBackend("second")
    error = StanadaptError(code, "it went wrong.")
    use_backends(FakeBackend("first", error), second)
    assert refused(code, [], sa.Target, NORMAL) is error
    assert second.data == []


def test_data_are_checked_by_the_rules_of_the_backend_that_reads_them(use_backends):
    code = "data { int N; array[N] real y; } " + NORMAL
    data = {"N": 2, "y": [1.5, float("nan")]}
    strict = FakeBackend("strict")
    use_backends(FakeBackend("first"), strict)
    assert "NaN" in sa.Target(code, data).data
    use_backends(FakeBackend("first", too_new()), strict)
    refused("data_not_finite", ["y[2]", "NaN"], sa.Target, code, data)
    assert strict.data == []


def test_a_target_reports_its_backend(monkeypatch):
    default = sa.Target(NORMAL).backend_reason
    monkeypatch.setenv("STANADAPT_BACKEND", "stanli")
    target = sa.Target(NORMAL)
    assert "STANADAPT_BACKEND" in target.backend_reason
    assert repr(target) == "Target('program', 1 unconstrained parameters, stanli)"
    requested = sa.Target(NORMAL, backend="stanli").backend_reason
    assert len({default, target.backend_reason, requested}) == 3
