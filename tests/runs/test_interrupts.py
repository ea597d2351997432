"""Ctrl-C at every phase of a run in Python: what is drawn is kept, and phases end soon."""

import _thread
import contextlib
import copy
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import console, interrupts
from stanadapt.runs import prior, run
from stanadapt.runs.progress import Watch
from stanadapt.runs.stan_nuts import stan_nuts
from stanadapt.samplers.variational import methods
from tests.helpers.codes import raises, warns
from tests.helpers.driven_runs import sample_with, setup_of
from tests.helpers.stan_target import shared_target

pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
PROGRAM = """
data { int N; vector[N] y; }
parameters { real m; real<lower=0> s; }
model { m ~ normal(3, 1); s ~ lognormal(0, 0.5); y ~ normal(m, s); }
generated quantities { vector[2] z; for (i in 1:2) z[i] = normal_rng(m, s); }
"""
DATA, NOTHING = {"N": 3, "y": [2.0, 3.5, 4.0]}, {"N": 0, "y": []}
SHORT = {"chains": 2, "seed": 3, "iter_warmup": 60, "iter_sampling": 50, "standardize": False}
target = shared_target(PROGRAM, DATA)


def press(*arguments, **options):
    signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def pressing(monkeypatch, place, name, before=True, times=1):
    """Press Ctrl-C as a function begins, or as it ends, at its first call."""
    function, calls = getattr(place, name), []

    def pressed(*arguments, **options):
        calls.append(1)
        if before and len(calls) == times:
            press()
        value = function(*arguments, **options)
        if not before and len(calls) == times:
            press()
        return value

    monkeypatch.setattr(place, name, pressed)
    yield calls
    assert len(calls) >= times
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


AFTER_THE_DRAWS = {
    "the display ends": (console.Silent, "__exit__", False),
    "convergence is checked": (run, "shortfall", True),
    "convergence has been checked": (run, "shortfall", False),
    "the end is recorded": (run.Run, "_record_end", True),
    "the result is begun": (run.Run, "result", True),
    "the result is built": (run, "pack_result", True),
    "the result has been built": (run, "pack_result", False),
    "judging begins": (run, "judge", True),
    "judging has ended": (run, "judge", False),
}


@pytest.mark.parametrize(
    ("place", "name", "before"), AFTER_THE_DRAWS.values(), ids=list(AFTER_THE_DRAWS)
)
def test_nothing_after_the_draws_can_lose_them(target, monkeypatch, place, name, before):
    whole = sa.sample(target, "rwm", **SHORT)
    with pressing(monkeypatch, place, name, before):
        fit = sa.sample(target, "rwm", **SHORT)
    np.testing.assert_array_equal(fit["posterior"]["z"].values, whole["posterior"]["z"].values)
    if fit.attrs["verdict"] == "not judged":
        assert results.from_json(fit, "verdict_codes", []) == ["not_judged"]
        assert sa.diagnose(fit) is not None


@pytest.mark.parametrize("before", [True, False], ids=["begins", "has ended"])
@pytest.mark.parametrize(
    ("place", "name"),
    [(stan_nuts, "_attributes"), (stan_nuts, "_verification"), (stan_nuts, "_groups"),
     (run, "judge")],
)  # fmt: skip
def test_nothing_after_the_draws_of_stans_nuts_can_lose_them(
    target, monkeypatch, place, name, before
):
    options = {key: value for key, value in SHORT.items() if key != "standardize"}
    whole = sa.stan_nuts(target, backend="stanli", **options)
    with pressing(monkeypatch, place, name, before):
        fit = sa.stan_nuts(target, backend="stanli", **options)
    np.testing.assert_array_equal(fit["posterior"]["z"].values, whole["posterior"]["z"].values)
    waited = name in ("_attributes", "_groups")
    if waited or name == "judge":
        assert fit.attrs["verdict"] == "not judged"


def test_a_signal_that_waited_ends_the_run_before_it_is_longer(target):
    """Ctrl-C as the run is made longer: the draws so far are the result."""
    made, lengths = run.Run.begin(setup_of(target, "rwm", **SHORT, until_ess=1e6)), []
    extend = made.extend

    def pressed(missing, reasons):
        press()
        extend(missing, reasons)
        lengths.append(made.plan.iter_sampling)

    made.extend = pressed
    fit = made.finish()
    assert len(lengths) == 1
    assert lengths[0] > 50
    assert results.dataset(fit, "posterior").sizes["draw"] == 50
    assert fit.attrs["interrupted"] == 1


def test_signals_wait_and_then_end_the_next_part_that_may_be_ended():
    for part in (interrupts.interruptible, interrupts.released):
        with interrupts.uninterrupted() as pressed:
            press()
            with pytest.raises(KeyboardInterrupt), part():
                pytest.fail("it began")
        assert pressed == [signal.SIGINT]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_signals_are_held_and_released(number):
    before = signal.getsignal(number)
    with interrupts.uninterrupted() as pressed:
        with pytest.raises(KeyboardInterrupt), interrupts.released():
            signal.raise_signal(number)
        assert not pressed
        signal.raise_signal(number)
        assert pressed == [number]
    assert signal.getsignal(number) is before


def test_handlers_of_the_user_are_in_charge_while_chains_run():
    seen = []
    saved = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interrupts.uninterrupted() as pressed, interrupts.released():
            press()
    finally:
        signal.signal(signal.SIGINT, saved)
    assert (seen, pressed) == ([signal.SIGINT], [])
    # programs with windows set it, so that Ctrl-C ends them
    saved = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with interrupts.uninterrupted():
            assert signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
            with interrupts.released():
                assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, saved)


def test_handlers_that_are_not_of_python_stay(monkeypatch):
    monkeypatch.setattr(interrupts.signal, "getsignal", lambda number: None)
    monkeypatch.setattr(interrupts.signal, "signal", lambda *a: pytest.fail("a handler is set"))
    with interrupts.uninterrupted(), interrupts.released(), interrupts.interruptible():
        pass


def test_other_threads_and_their_errors_are_not_waited_for():
    def work():
        with interrupts.uninterrupted() as pressed, interrupts.released():
            outcome.append(pressed)

    outcome = []
    with interrupts.uninterrupted():
        press()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert outcome == [[]]
    slept, finished = threading.Event(), []

    def work(i):
        if i == 1:
            raise ZeroDivisionError
        finished.append(slept.wait(120.0))

    with pytest.raises(ZeroDivisionError):
        interrupts.in_threads(work, 2)
    assert not finished
    slept.set()
    assert interrupts.in_threads(lambda i: i**2, 4) == [0, 1, 4, 9]


@pytest.fixture
def slow_climbs(monkeypatch):
    """Climbs that end when the test does: `finished` is empty until then; `begins` is called."""
    ended, find = threading.Event(), methods.pathfinder.find
    climbs = SimpleNamespace(begins=lambda: None, finished=[])

    def slow(*arguments, max_iterations, **options):
        if max_iterations > 1:
            climbs.begins()
            climbs.finished.append(ended.wait(120.0))
        return find(*arguments, max_iterations=max_iterations, **options)

    monkeypatch.setattr(methods.pathfinder, "find", slow)
    yield climbs
    ended.set()


def test_time_limits_end_climbs_and_predictions(target, slow_climbs, predicted):
    with raises("no_draws", "0.001 minutes", "starting points"):
        sa.sample(target, "rwm", **SHORT, inits="pathfinder", max_minutes=0.001)
    assert not slow_climbs.finished
    whole, notes, _ = predicted()
    assert not notes
    groups, (note,), _ = predicted(now=lambda calls: 3600.0 * (len(calls) > 3), limit=50.0)
    assert "50 minutes" in note
    rows = groups["prior"]["m"].shape[1]
    assert 0 < rows < 50
    assert groups["sample_stats_prior"]["lp"].shape[1] == rows
    np.testing.assert_array_equal(groups["prior"]["m"], whole["prior"]["m"][:, :rows])


@pytest.mark.thorough
@pytest.mark.parametrize(("function", "options"), [
    (sa.sample, {"sampler": "rwm", **SHORT, "inits": "pathfinder"}),
    (sa.approximate, {"seed": 1}),
], ids=["sample", "approximate"])  # fmt: skip
def test_ctrl_c_ends_climbs(target, slow_climbs, function, options):
    once = iter([_thread.interrupt_main])
    slow_climbs.begins = lambda: next(once, lambda: None)()
    with pytest.raises(KeyboardInterrupt):
        function(target, **options)
    assert next(once, None) is None
    assert not slow_climbs.finished


class SlowConstrain:
    """Constrains a row in the time that it is given."""

    def __init__(self, constrain, seconds):
        self.constrain, self.seconds, self.rows = constrain, seconds, []

    def __call__(self, positions, out):
        self.rows.append(len(positions))
        time.sleep(self.seconds * len(positions))
        return self.constrain(positions, out)


@pytest.mark.thorough
def test_the_first_draws_come_in_small_chunks(target, monkeypatch):
    """Moves are much faster than generated quantities, for many of which no limit must wait."""
    slow, hours, constrainer = [], [], type(target).constrainer

    def made(program, seed, chain=0):
        slow.append(SlowConstrain(constrainer(program, seed, chain), 0.02))
        return slow[-1]

    def now():
        """Let an hour pass between two looks once both chains have had two chunks."""
        if sum(sum(map(bool, one.rows)) > 1 for one in slow) > 1:
            hours.append(1)
        return time.monotonic() + 3600.0 * len(hours)

    monkeypatch.setattr(type(target), "constrainer", made)
    options = {**SHORT, "iter_warmup": 3000, "iter_sampling": 3000}
    with warns("stopped_on_request"):
        fit = sample_with({"watch": Watch(target, None, 50.0, now)}, target, "rwm", **options)
    # 3000 rows take a minute
    assert 0 < results.dataset(fit, "posterior").sizes["draw"] < 1500
    first = [next(filter(None, one.rows)) for one in slow if any(one.rows)]
    assert len(first) == 2
    assert max(first) <= 4


class Predicting(SlowConstrain):
    """Presses Ctrl-C at a call, counted over all chains."""

    calls, at = (), None

    def __call__(self, positions, out):
        self.calls.append(len(positions))
        if len(self.calls) == self.at:
            press()
        return self.constrain(positions, out)


@pytest.fixture
def predicted(target):
    """Returns a function: groups and notes of draws of the prior, and the sizes of the calls."""
    drawn = sa.sample(target, "rwm", **SHORT, save="unconstrained")

    def groups(at=None, now=lambda calls: 0.0, limit=None):
        calls, program = [], copy.copy(target)

        def made(seed, chain=0):
            constrain = Predicting(target.constrainer(seed, chain), 0.0)
            constrain.calls, constrain.at = calls, at
            return constrain

        program.constrainer = made
        return *prior._groups(program, drawn, 1, limit, lambda: now(calls)), calls

    return groups


@pytest.mark.parametrize(("at", "rows"), [(1, None), (6, 5)])
def test_ctrl_c_ends_the_predictions_of_the_prior(predicted, at, rows):
    """Calls come in turns of two chains, with 1 and then 4 rows each."""
    if rows is None:
        with pytest.raises(KeyboardInterrupt):
            predicted(at)
    else:
        groups, (note,), calls = predicted(at)
        assert note.code == "prior_not_drawn"
        assert calls[:4] == [1, 1, 4, 4]
        assert groups["prior"]["m"].shape[1] == rows


def test_ctrl_c_while_the_prior_is_bound_keeps_the_fit(target, monkeypatch):
    fit = sa.sample(target, "rwm", **SHORT)
    with pressing(monkeypatch, type(target), "with_prior_data"):
        kept = sa.add_prior(fit, target, NOTHING)
    assert kept is fit
    assert "prior" not in results.group_names(fit)
    assert "prior_not_drawn" in results.from_json(fit, "note_codes", [])
