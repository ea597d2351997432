"""Which way to the density is taken, why, and what a user hears where there is none."""

from pathlib import Path

import pytest

import stanadapt as sa
from stanadapt import backends, toolchain
from stanadapt.backends import Backend, Loaded
from stanadapt.errors import StanadaptError

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
CMDSTAN = toolchain.CmdStan(Path("tree"), "2.30.0")
NO_COMPILER = "g++ could not be found. To get compiler and make: do this."


@pytest.fixture(autouse=True)
def computer(monkeypatch):
    """Say what is on this computer; without saying so: nothing, but a compiler."""
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)

    def has(cmdstan=None, bridgestan=None, problem="", missing=""):
        monkeypatch.setattr(toolchain, "cmdstan", lambda: cmdstan)
        monkeypatch.setattr(toolchain, "cmdstan_problem", lambda: problem)
        monkeypatch.setattr(toolchain, "bridgestan_tree", lambda: bridgestan)
        monkeypatch.setattr(toolchain, "compiler_problem", lambda: missing)

    has()
    return has


def chosen(name="auto"):
    return [(backend.name, why) for backend, why in backends.choose(name)]


def names(name="auto"):
    return [backend for backend, _ in chosen(name)]


def refused(stage, words, function, *arguments, **keywords):
    with pytest.raises(StanadaptError) as caught:
        function(*arguments, **keywords)
    assert caught.value.stage == stage
    for word in words:
        assert word in str(caught.value)
    return caught.value


# --- what is there decides -----------------------------------------------------------------------


def test_with_nothing_installed_the_embedded_backend_is_taken():
    assert chosen() == [("stanli", "the embedded backend: needs no C++ compiler")]


def test_with_cmdstan_it_comes_first(computer):
    computer(cmdstan=CMDSTAN)
    assert chosen()[0] == ("cmdstan", "CmdStan 2.30.0 is installed")
    assert names() == ["cmdstan", "stanli"]


def test_bridgestan_s_sources_come_before_cmdstan(computer):
    computer(cmdstan=CMDSTAN, bridgestan=Path("bs"))
    assert names() == ["bridgestan", "cmdstan", "stanli"]
    assert chosen()[0][1] == "BridgeStan's sources are in bs"
    computer(bridgestan=Path("bs"))
    assert names() == ["bridgestan", "stanli"]


def test_without_a_compiler_only_the_embedded_backend_is_left(computer):
    computer(cmdstan=CMDSTAN, bridgestan=Path("bs"), missing=NO_COMPILER)
    assert names() == ["stanli"]


def test_a_broken_cmdstan_is_passed_over(computer):
    computer(problem="tree cannot be used: it has no makefile.")
    assert names() == ["stanli"]


def test_both_native_backends_take_nan_and_the_embedded_one_does_not():
    assert {b.name: b.reads_nonfinite for b in backends.BACKENDS.values()} == {
        "bridgestan": True, "cmdstan": True, "stanli": False,
    }  # fmt: skip
    assert list(backends.BACKENDS) == [b.name for b in backends.BACKENDS.values()]


# --- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bridgestan", "cmdstan", "stanli"])
def test_a_named_backend_is_the_only_one(computer, name):
    computer(cmdstan=CMDSTAN, bridgestan=Path("bs"))
    assert chosen(name) == [(name, "asked for")]


@pytest.mark.parametrize("name", ["bridgestan", "cmdstan", "stanli"])
def test_the_environment_variable_stands_for_auto(computer, monkeypatch, name):
    computer(cmdstan=CMDSTAN, bridgestan=Path("bs"))
    monkeypatch.setenv("STANADAPT_BACKEND", name)
    assert chosen() == [(name, "STANADAPT_BACKEND asks for it")]


@pytest.mark.parametrize("value", ["cmdstan", "nonsense", "auto"])
def test_the_environment_variable_does_not_touch_a_named_backend(monkeypatch, value):
    monkeypatch.setenv("STANADAPT_BACKEND", value)
    assert chosen("stanli") == [("stanli", "asked for")]


@pytest.mark.parametrize("value", ["", "auto"])
def test_an_environment_variable_that_asks_for_nothing(computer, monkeypatch, value):
    computer(cmdstan=CMDSTAN)
    monkeypatch.setenv("STANADAPT_BACKEND", value)
    assert names() == ["cmdstan", "stanli"]


def test_a_wrong_environment_variable_is_named(monkeypatch):
    monkeypatch.setenv("STANADAPT_BACKEND", "Cmdstan")
    words = ["environment variable STANADAPT_BACKEND must be one of auto, bridgestan, cmdstan, "
             "stanli, got 'Cmdstan'."]  # fmt: skip
    refused("settings", words, backends.choose, "auto")
    refused("settings", words, sa.Target, NORMAL)


@pytest.mark.parametrize("name", ["pymc", "", "CMDSTAN", None, 3])
def test_an_unknown_name_is_told(name):
    error = refused("settings", ["backend must be one of", repr(name)], backends.choose, name)
    assert "STANADAPT_BACKEND" not in str(error)


def test_a_missing_cmdstan_says_how_to_get_it(computer):
    words = ["backend 'cmdstan' cannot be used here: CmdStan is not installed",
             "stanadapt install-cmdstan", "backend='stanli' needs no compiler"]  # fmt: skip
    refused("installation", words, backends.choose, "cmdstan")
    refused("installation", words, sa.Target, NORMAL, backend="cmdstan")
    computer(problem="The tree cannot be used: it has no makefile.")
    refused("installation", ["it has no makefile", "install-cmdstan"], backends.choose, "cmdstan")


def test_a_missing_bridgestan_says_how_to_name_it():
    words = ["BridgeStan's sources are not here (BRIDGESTAN names their folder)"]
    refused("installation", words, backends.choose, "bridgestan")


@pytest.mark.parametrize("name", ["bridgestan", "cmdstan"])
def test_a_missing_compiler_says_how_to_get_it(computer, monkeypatch, name):
    computer(cmdstan=CMDSTAN, bridgestan=Path("bs"), missing=NO_COMPILER)
    words = ["To get compiler and make: do this.", "backend='stanli'"]
    error = refused("installation", words, backends.choose, name)
    assert ".." not in error.message
    monkeypatch.setenv("STANADAPT_BACKEND", name)
    refused("installation", words, backends.choose, "auto")


# --- programs beyond a compiler ------------------------------------------------------------------


class Way:
    """A backend that refuses with an error, or hands on what the embedded one makes."""

    def __init__(self, name, error=None):
        self.name, self.error, self.data = name, error, []

    def load(self, program, data, unsafe, tell):
        """Load as a backend does."""
        self.data.append(data)
        if self.error:
            raise self.error
        model, _ = backends.stanli.construct(program, data)
        return Loaded(model, f"{self.name} 1.0", False)


@pytest.fixture
def ways(monkeypatch):
    """Put these in the place of the backends, all here; the last reads finite data only."""

    def use(*made):
        table = {
            way.name: Backend(way.name, way.load, way is not made[-1], lambda: (True, "it is here"))
            for way in made
        }
        monkeypatch.setattr(backends, "BACKENDS", table)

    return use


def too_new(words="line 3"):
    return StanadaptError("syntax", "the program is too new.", words)


def test_the_first_that_loads_is_taken(ways):
    first, second = Way("first"), Way("second")
    ways(first, second)
    target = sa.Target(NORMAL)
    assert (target.backend, target.backend_reason) == ("first", "it is here")
    assert target.backend_version == "first 1.0"
    assert second.data == []


def test_auto_falls_from_a_compiler_that_is_too_old_to_the_next(ways):
    first, second = Way("first", too_new("Semantic error in line 3\nmore words")), Way("second")
    ways(first, second)
    target = sa.Target(NORMAL)
    assert target.backend == "second"
    assert target.backend_version == "second 1.0"
    assert target.backend_reason == (
        "a preferred one is too old for the program: Semantic error in line 3"
    )
    assert target.evaluate([0.5])[0] == pytest.approx(-0.125)
    assert len(first.data) == 1


def test_without_words_of_stan_the_reason_is_ours(ways):
    ways(Way("first", too_new("")), Way("second"))
    assert sa.Target(NORMAL).backend_reason.endswith("program: the program is too new.")


def test_a_named_backend_is_not_left(ways, monkeypatch):
    second = Way("second")
    ways(Way("first", too_new()), second)
    refused("syntax", ["too new", "line 3"], sa.Target, NORMAL, backend="first")
    monkeypatch.setenv("STANADAPT_BACKEND", "first")
    refused("syntax", ["too new", "line 3"], sa.Target, NORMAL)
    assert second.data == []


@pytest.mark.parametrize("stage", ["data", "installation", "files", "initialisation"])
def test_other_failures_do_not_change_the_backend(ways, stage):
    """A broken compiler or wrong data would else give a silent change of the density."""
    second = Way("second")
    error = StanadaptError(stage, "it went wrong.")
    ways(Way("first", error), second)
    assert refused(stage, [], sa.Target, NORMAL) is error
    assert second.data == []


def test_a_failure_of_the_second_is_told_as_it_is(ways):
    error = StanadaptError("data", "these data do not fit.")
    ways(Way("first", too_new()), Way("second", error), Way("third"))
    assert refused("data", [], sa.Target, NORMAL) is error


def test_where_all_refuse_the_words_of_the_first_are_raised(ways):
    errors = [too_new("of the first"), too_new("of the second"), too_new("of the third")]
    ways(*(Way(error.stan, error) for error in errors))
    assert refused("syntax", ["of the first"], sa.Target, NORMAL) is errors[0]


def test_the_data_are_checked_by_the_rules_of_the_backend_that_gets_them(ways):
    code = "data { int N; array[N] real y; } " + NORMAL
    data = {"N": 2, "y": [1.5, float("nan")]}
    strict = Way("strict")
    ways(Way("first"), strict)
    assert "NaN" in sa.Target(code, data).data
    ways(Way("first", too_new()), strict)
    refused("data", ["y[2] is NaN"], sa.Target, code, data)
    assert strict.data == []


def test_a_real_program_says_which_backend_it_has(monkeypatch):
    assert sa.Target(NORMAL).backend_reason == "the embedded backend: needs no C++ compiler"
    monkeypatch.setenv("STANADAPT_BACKEND", "stanli")
    target = sa.Target(NORMAL)
    assert target.backend_reason == "STANADAPT_BACKEND asks for it"
    assert repr(target) == "Target('program', 1 unconstrained parameters, stanli)"
    assert sa.Target(NORMAL, backend="stanli").backend_reason == "asked for"
