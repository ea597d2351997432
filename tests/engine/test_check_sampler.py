"""The report of `check_sampler`: printed, as a table, and the faults that it finds."""

import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.engine import checks, protocol
from stanadapt.engine.checks import CHECKS, INVARIANCE, CheckReport
from stanadapt.engine.registry import find
from stanadapt.errors import Message, all_codes, codes_of
from stanadapt.samplers import registered
from tests.helpers.codes import raises

FAULT = Message(all_codes()["allocates_memory"], "a step makes 2.0 allocations & more")
FAILED = CheckReport("mine", True, {"first": "", "second": FAULT})


def test_a_report_that_failed_shows_the_fault_and_its_code():
    assert not FAILED.passed
    title, first, second = repr(FAILED).splitlines()
    assert "mine" in title
    assert "1 of 2" in title
    assert first.split() == ["first", "passed"]
    assert second.split()[:2] == ["second", "FAILED:"]
    assert second.endswith(f"{FAULT} [allocates_memory]")
    assert "2.0 allocations &amp; more" in FAILED._repr_html_()


def test_a_report_is_a_table():
    expected = pd.DataFrame(
        {"passed": [True, False], "code": ["", "allocates_memory"], "problem": ["", str(FAULT)]},
        index=pd.Index(["first", "second"], name="check"),
    )
    pd.testing.assert_frame_equal(FAILED.table, expected)


def test_a_sampler_that_is_not_exact_is_not_checked_for_invariance():
    assert INVARIANCE in checks.checks_of(registered()["rwm"])
    assert set(CHECKS) - set(checks.checks_of(registered()["ula"])) == {INVARIANCE}
    assert "ula (not exact)" in repr(CheckReport("ula", False, {}))


def test_a_sampler_with_settings_is_checked_and_nothing_is_printed(capsys):
    first = {"first": lambda case: str(case.name.target_accept)}
    report = checks.reported(*find("rwm", target_accept=0.5), first)
    assert (report.sampler, report.problems) == ("rwm", {"first": "0.5"})
    assert capsys.readouterr().out == ""


def test_a_sampler_that_is_not_registered():
    with raises("unknown_sampler", "'rwn'", "Did you mean 'rwm'?"):
        sa.check_sampler("rwn")


@pytest.mark.parametrize(("settings", "code", "facts"), [
    ({"step_length": 1.0}, "unknown_setting", ["'step_length'", "step_size"]),
    ({"max_treedepth": 10**16}, "invalid_setting", ["max_treedepth", "1,000,000,000,000,000"]),
    ({"adapt_delta": 0.9, "target_accept": 0.8}, "invalid_setting", ["adapt_delta"]),
])  # fmt: skip
def test_settings_that_a_sampler_does_not_accept(settings, code, facts):
    with raises(code, "nuts", *facts):
        sa.check_sampler("nuts", **settings)


def test_a_sampler_that_is_neither_a_name_nor_settings():
    with raises("unknown_sampler", "an object of type tuple"):
        sa.check_sampler((3,))


@pytest.mark.parametrize(("change", "check", "code"), [
    ({"uses_gradient": True}, "evaluates what it declares", "undeclared_evaluations"),
    ({"adapts_forever": True}, "frozen after warm-up", "changes_after_warmup"),
    ({}, "frozen after warm-up", ""),
])  # fmt: skip
def test_a_wrong_declaration_is_found(change, check, code, monkeypatch):
    sampler = registered()["rwm"]
    monkeypatch.setitem(protocol.REGISTRY, sampler.settings, sampler._replace(**change))
    problem = CHECKS[check](checks.Case("rwm", {"tune_scale": False}))
    assert codes_of([problem]) == [code]
