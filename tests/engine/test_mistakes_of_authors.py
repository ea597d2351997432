"""Mistakes in the file of a sampler, and the report of `check_sampler`."""

import importlib
import sys

import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.engine import checks, protocol
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.registry import find
from stanadapt.errors import Message, StanadaptError, all_codes, codes_of
from stanadapt.samplers import registered
from tests.helpers.authoring_page import changed
from tests.helpers.codes import raises

POINT = "current=sampler_api.gradient_at(density, position)"
ADAPT = "    return replace(state, step_size=state.step_size"
STEP = "    x, y = state.current, state.scratch\n"


MOVED = "return replace(state, current=y, scratch=x), info"
STAYED = "return replace(state, scratch=y), info"
LAST_FIELD = "    step_size: float\n\nclass Info"


def at(position):
    return (POINT, f"current=GradientPoint({position}, 0.0, np.zeros(density.dim))")


# mistake: source, facts in the message
AT_INIT = {
    "a position of single precision": (changed(at("position.astype(np.float32)")),
        ["State.current.position", "float64", "got float32"]),
    "a strided position": (changed(at("np.zeros(2 * density.dim)[::2]")),
        ["State.current.position", "not contiguous", "position.copy()"]),
    "a position of another length": (changed(at("np.zeros(density.dim + 2)")),
        ["State.current.position", "(3,)", "(5,)"]),
    "no state": (changed(("    return State(\n", "    State(\n")),
        ["must return a State", "NoneType"]),
}  # fmt: skip
# mistake: source, text at which its line begins, facts in the message
OF_ADAPT, OF_STEP = "@jit\ndef adapt", "@jit\ndef step"
AS_IT_COMPILES = {
    "adapt returns nothing": (changed((ADAPT, ADAPT.replace("return ", ""))), OF_ADAPT,
        ["`adapt` must return a State", "None"]),
    "step returns the state alone": (
        changed((MOVED, "return replace(state, current=y)"), (STAYED, "return state")), OF_STEP,
        ["`step` must return (state, info)", "got State"]),
    "step returns nothing in one case": (changed((f"    {STAYED}", "    pass")), OF_STEP,
        ["`step` must return (state, info) in every case"]),
    "step returns the state alone in one case": (
        changed((STAYED, "return replace(state, scratch=y)")), OF_STEP,
        ["`step` must return (state, info) in every case"]),
    "step returns its parts in another order": (
        changed((MOVED, "return info, state"), (STAYED, "return info, state")), OF_STEP,
        ["must return a state as `init` does", "Info("]),
    "step returns a number for Info": (
        changed((MOVED, "return state, rate"), (STAYED, "return state, rate")), OF_STEP,
        ["`step` must return Info second", "got float64"]),
    "a field that State does not have": (
        changed(("replace(state, current=y", "replace(state, currant=y")),
        "        return replace(state, currant=y",
        ["State has no field currant", "current, scratch, step_size"]),
    "a number in place of a state": (
        changed((ADAPT, ADAPT.replace("replace(state,", "replace(state.step_size,"))),
        "    return replace(state.step_size,", ["replace takes a named tuple", "got float64"]),
    "an integer for a float in adapt": (
        changed((ADAPT, "    return State(state.current, state.scratch, 2)\n" + ADAPT)), OF_STEP,
        ["must return a state as `init` does", "int64"]),
    "a float for an integer": (
        changed((LAST_FIELD, f"    n: int\n{LAST_FIELD}"),
                ("step_size=settings.step_size", "n=1, step_size=settings.step_size"),
                ("replace(state, step_size=state", "replace(state, n=0.5, step_size=state")),
        "    return replace(state, n=0.5", ["State.n is int64", "float64", "float(n)"]),
    "an array for a number": (
        changed(("replace(state, current=y, sc", "replace(state, step_size=x.position, sc")),
        "        return replace(state, step_size=x",
        ["State.step_size is float64", "array(float64"]),
    "an array as statistic": (
        changed(("step_size=state.step_size)\n", "step_size=x.position)\n")), OF_STEP,
        ["`step` must return Info.step_size as a float, int or bool", "array(float64"]),
}  # fmt: skip


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a file as a user does, and forget its sampler after the test."""
    registered()  # families that are imported later would be forgotten too
    before = dict(protocol.REGISTRY)

    def load(source):
        (tmp_path / "mistaken.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "mistaken", raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("mistaken")

    yield load
    protocol.REGISTRY.clear()
    protocol.REGISTRY.update(before)
    sys.modules.pop("mistaken", None)


def refused():
    """Compile the sampler; return the error."""
    with pytest.raises(StanadaptError) as caught, explained(find("mistaken")[0]):
        checks.make_chains(checks.Case("mistaken", {}), checks.Awkward(), checks.Length())[
            0
        ].compile()
    error = caught.value
    assert error.stage == "sampler"
    assert error.message.startswith("mistaken")
    assert "\n" not in error.message
    return error


@pytest.mark.parametrize("mistake", AT_INIT)
def test_a_state_of_init_that_is_not_as_declared(imported, mistake):
    source, facts = AT_INIT[mistake]
    imported(source.replace("@jit\ndef init", "def init"))
    error = refused()
    assert error.code == "invalid_state"
    assert [fact for fact in facts if fact not in error.message] == []


@pytest.mark.slow
@pytest.mark.parametrize("mistake", AS_IT_COMPILES)
def test_a_mistake_that_shows_as_it_is_compiled(imported, mistake):
    source, place, facts = AS_IT_COMPILES[mistake]
    imported(source)
    error = refused()
    line = source[: source.index(place)].count("\n") + 1
    assert error.code == "sampler_not_compiled"
    assert f"mistaken.py, line {line}: " in error.message
    assert [fact for fact in facts if fact not in error.message] == []


@pytest.mark.slow
def test_an_exception_in_step_fails_each_check_and_ends_a_run(imported):
    raising = "    if state.step_size > 0:\n        raise ValueError('small')\n"
    source = changed((STEP, STEP + raising))
    imported(source)
    line = source[: source.index("        raise ValueError")].count("\n") + 1
    facts = [f"mistaken.py, line {line}, in step: ValueError: small", "must not raise"]
    names = ["takes its randomness from rng", "frozen after warm-up"]
    problems = checks.reported(
        *find("mistaken"), {name: checks.CHECKS[name] for name in names}
    ).problems
    assert list(problems) == names
    target = sa.Target("parameters { real x; } model { x ~ normal(0, 1); }")
    with pytest.raises(StanadaptError) as caught:
        sa.sample(target, "mistaken", chains=1, iter_warmup=9, iter_sampling=9, standardize=False)
    for code, text in [(x.code, x) for x in problems.values()] + [
        (caught.value.code, caught.value.message)
    ]:
        assert code == "sampler_raised"
        assert [fact for fact in facts if fact not in text] == []


def test_an_error_of_a_check_is_its_result():
    def fails(case):
        raise ZeroDivisionError("by zero")

    report = checks.reported(*find("rwm"), {"first": fails, "second": lambda case: ""})
    assert report.table["code"].tolist() == ["sampler_raised", ""]
    assert "ZeroDivisionError: by zero" in report.problems["first"]


FAULT = Message(all_codes()["allocates_memory"], "a step makes 2.0 allocations & more")
FAILED = checks.CheckReport("mine", True, {"first": "", "second": FAULT})


def test_reports_are_tables_and_print_faults():
    assert not FAILED.passed
    title, first, second = repr(FAILED).splitlines()
    assert "mine" in title
    assert "1 of 2" in title
    assert first.split() == ["first", "passed"]
    assert second.split()[:2] == ["second", "FAILED:"]
    assert second.endswith(f"{FAULT} [allocates_memory]")
    assert "2.0 allocations &amp; more" in FAILED._repr_html_()
    expected = pd.DataFrame(
        {"passed": [True, False], "code": ["", "allocates_memory"], "problem": ["", str(FAULT)]},
        index=pd.Index(["first", "second"], name="check"),
    )
    pd.testing.assert_frame_equal(FAILED.table, expected)


def test_what_is_checked_depends_on_the_sampler(capsys):
    assert checks.INVARIANCE in checks.checks_of(registered()["rwm"])
    assert set(checks.CHECKS) - set(checks.checks_of(registered()["ula"])) == {checks.INVARIANCE}
    assert "ula (not exact)" in repr(checks.CheckReport("ula", False, {}))
    first = {"first": lambda case: str(case.name.target_accept)}
    report = checks.reported(*find("rwm", target_accept=0.5), first)
    assert (report.sampler, report.problems) == ("rwm", {"first": "0.5"})
    assert capsys.readouterr().out == ""


def test_what_is_no_sampler_is_refused():
    with raises("unknown_sampler", "'rwn'", "Did you mean 'rwm'?"):
        sa.check_sampler("rwn")
    with raises("unknown_sampler", "an object of type tuple"):
        sa.check_sampler((3,))


@pytest.mark.parametrize(("settings", "code", "facts"), [
    ({"step_length": 1.0}, "unknown_setting", ["'step_length'", "step_size"]),
    ({"max_treedepth": 10**16}, "invalid_setting", ["max_treedepth", "1,000,000,000,000,000"]),
    ({"adapt_delta": 0.9, "target_accept": 0.8}, "invalid_setting", ["adapt_delta"]),
])  # fmt: skip
def test_settings_that_a_sampler_does_not_accept(settings, code, facts):
    with raises(code, "nuts", *facts):
        sa.check_sampler("nuts", **settings)


@pytest.mark.parametrize(("change", "check", "code"), [
    ({"uses_gradient": True}, "evaluates what it declares", "undeclared_evaluations"),
    ({"adapts_forever": True}, "frozen after warm-up", "changes_after_warmup"),
    ({}, "frozen after warm-up", ""),
])  # fmt: skip
def test_a_wrong_declaration_is_found(change, check, code, monkeypatch):
    sampler = registered()["rwm"]
    monkeypatch.setitem(protocol.REGISTRY, sampler.settings, sampler._replace(**change))
    problem = checks.CHECKS[check](checks.Case("rwm", {"tune_scale": False}))
    assert codes_of([problem]) == [code]
