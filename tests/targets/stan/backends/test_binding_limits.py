"""Limits of time and memory for binding in the embedded backend, which unrolls loops."""

import _thread
import contextlib
import gc
import os
import signal
import subprocess
import threading
import time

import numpy as np
import psutil
import pytest

import stanadapt as sa
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import trial
from stanadapt.targets.stan.program import Program
from tests.helpers.codes import raises
from tests.helpers.cores import use_cores

LOOP = """
data { int N; } parameters { real a; real<lower=0> s; }
model { for (i in 1:N) target += normal_lpdf(a | 0.1 * i, s) - a^4; s ~ exponential(1); }
"""
BRANCHES = "parameters { real a; } model { for (i in 1:400) if (a > i) target += -a^2; }"
POINT = np.array([0.3, -0.2])
# `unsafe` is announced
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Remember no trial from one test to the next."""
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    backends.stanli.self_test()
    monkeypatch.delenv(trial.SECONDS_VARIABLE, raising=False)
    monkeypatch.delenv(trial.GIGABYTES_VARIABLE, raising=False)


@pytest.fixture
def small(monkeypatch):
    """Let programs of a hundred words precede by a trial."""
    monkeypatch.setattr(trial, "SMALL", 100)


@pytest.fixture
def no_process(monkeypatch):
    monkeypatch.setattr(trial.subprocess, "Popen", lambda *a, **k: pytest.fail("a process"))


def bound(n=300, code=LOOP, **options):
    return sa.Target(code, {"N": n}, backend="stanli", **options)


def children():
    """Return the processes of trials; other tests of the same worker may have left others."""
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if process.status() != psutil.STATUS_ZOMBIE and trial.CHILD in process.cmdline():
                found.append(process)
    return found


@pytest.mark.parametrize(("variable", "limit", "facts"), [
    ("STANADAPT_BIND_SECONDS", "0.001", ["0.001 s", "9,000 iterations"]),
    ("STANADAPT_BIND_GB", "0.001", ["0.001 GB", "9,000 iterations"]),
])  # fmt: skip
@pytest.mark.usefixtures("small")
def test_a_limit_is_an_error_that_names_it_and_ends_the_process(
    monkeypatch, variable, limit, facts
):
    monkeypatch.setenv(variable, limit)
    with raises("binding_limit", *facts, variable, "CmdStan"):
        bound(9000)
    assert children() == []
    monkeypatch.setenv(variable, "10")
    assert bound(9000).dim == 2


def test_a_large_program_is_stopped_soon(monkeypatch):
    """It would take half a minute and gigabytes; a look at the process is taken every 0.05 s."""
    monkeypatch.setenv("STANADAPT_BIND_SECONDS", "0.3")
    began = time.process_time()
    with raises("binding_limit", "400,000 iterations"):
        bound(400_000)
    assert time.process_time() - began < 15.0
    assert children() == []


@pytest.mark.parametrize("value", ["much", "0", "-1", "nan"])
@pytest.mark.parametrize("variable", ["STANADAPT_BIND_SECONDS", "STANADAPT_BIND_GB"])
def test_a_limit_is_a_positive_number(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with raises("out_of_range", variable, value):
        trial.limits()


def test_no_more_memory_than_is_free(monkeypatch):
    monkeypatch.setenv("STANADAPT_BIND_GB", "1e9")
    assert trial.limits().memory < psutil.virtual_memory().total
    assert trial.limits(2e9).memory == trial.FREE_SHARE * 2e9
    monkeypatch.setenv("STANADAPT_BIND_GB", "0.5")
    assert trial.limits(2e9) == (60.0, 0.5e9)


@pytest.mark.usefixtures("no_process")
def test_a_small_program_starts_no_process():
    assert bound().dim == 2
    assert (
        sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli").dim == 1
    )


@pytest.mark.usefixtures("small")
def test_a_success_is_remembered(monkeypatch, request):
    use_cores(monkeypatch, 2)
    first = bound()
    request.getfixturevalue("no_process")
    second = bound()
    assert second.evaluate(POINT)[0] == first.evaluate(POINT)[0]
    # the models of other chains, and those without the guards, are covered by it
    assert first.model_of(1) is not first.model
    assert bound(unsafe=True).dim == 2
    with pytest.raises(pytest.fail.Exception):
        bound(301)


def test_the_density_is_that_of_a_program_without_a_trial(request):
    plain = bound()
    request.getfixturevalue("small")
    tried = bound()
    for model in (tried.model, tried.model_of(1)):
        value, gradient = model.log_density_gradient(POINT)
        expected = plain.model.log_density_gradient(POINT)
        assert value == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("unsafe", [(False, False, True, False), (True, False)])
def test_guards_hold_in_every_order_of_trials(unsafe):
    """Also if a trial is remembered, or the checks were omitted before."""
    for omitted in unsafe:
        if omitted:
            assert bound(code=BRANCHES, unsafe=True).dim == 1
            continue
        with raises("parameter_branches", "if (a > i)"):
            bound(code=BRANCHES)


@pytest.mark.usefixtures("small")
def test_a_refusal_is_that_of_a_small_program():
    code = LOOP.replace(
        "s ~", "print(1); matrix[2, 2] M = rep_matrix(a, 2, 2); target += trace(M); s ~"
    )
    with raises("unsupported_construct", "unsupported"):
        bound(code=code)


@pytest.mark.usefixtures("small")
def test_a_crash_of_the_library_does_not_end_this_process(monkeypatch):
    monkeypatch.setattr(trial, "CHILD", "import os; os.abort()")
    with raises("unsupported_construct", "crashes"):
        bound()


@pytest.mark.usefixtures("small")
def test_where_no_process_can_be_started_the_program_is_bound(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError

    monkeypatch.setattr(trial.subprocess, "Popen", refuse)
    assert bound().dim == 2


@pytest.mark.usefixtures("small", "computer")
def test_a_compiler_takes_over(monkeypatch):
    """As with a release that has a known fault in the program, which comes second."""
    plain = bound(3, unsafe=True)
    loaded = backends.Loaded(plain.model, "CmdStan")
    native = backends.Backend("cmdstan", lambda *a: loaded, True, lambda: (True, ""))
    monkeypatch.setenv("STANADAPT_BIND_SECONDS", "0.001")
    choices = [(backends.BACKENDS["stanli"], ""), (native, "")]
    first = backends.load_first(
        choices, Program("p", LOOP, None, ()), {"N": 9000}, False, lambda text: None
    )
    assert first.backend is native
    assert "not bound after 0.001 s" in first.reason


@pytest.mark.thorough
# psutil leaves a file open where Ctrl-C falls just after it has opened it
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ctrl_c_ends_the_trial_and_its_process(monkeypatch):
    """It would take half a minute."""
    watch, pressed = trial._watch, []

    def press():
        pressed.append(time.monotonic())
        _thread.interrupt_main()

    def watched(*arguments):
        threading.Timer(0.2, press).start()
        return watch(*arguments)

    monkeypatch.setattr(trial, "_watch", watched)
    with pytest.raises(KeyboardInterrupt):
        bound(400_000)
    assert time.monotonic() - pressed[0] < 15.0
    assert children() == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["starts", "has ended"])
@pytest.mark.usefixtures("small")
def test_a_signal_as_the_trial_starts_or_ends_is_heeded(monkeypatch, moment, sent):
    """The process would continue without limits if nothing knew of it."""
    start = subprocess.Popen

    class Pressed(start):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            if moment == "starts":
                signal.raise_signal(sent)

        def kill(self):
            super().kill()
            if moment == "has ended":
                signal.raise_signal(sent)

    monkeypatch.setattr(trial.subprocess, "Popen", Pressed)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        bound(400_000 if moment == "starts" else 300)
    assert children() == []
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_ctrl_c_does_not_wait_for_native_code():
    slept, finished = threading.Event(), []

    def work():
        _thread.interrupt_main()
        finished.append(slept.wait(60.0))

    with pytest.raises(KeyboardInterrupt):
        trial.in_thread(work)
    assert not finished
    slept.set()


def test_a_thread_lives_as_long_as_what_it_has_made():
    class Made:
        pass

    before = set(threading.enumerate())
    made = trial.in_thread(Made)
    (own,) = set(threading.enumerate()) - before
    with pytest.raises(ZeroDivisionError):
        trial.in_thread(lambda: 1 / 0)
    assert own.is_alive()
    del made
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(60.0)
    assert not own.is_alive()
    assert not set(threading.enumerate()) - before
