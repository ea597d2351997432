"""A function as show_progress: what it sees, and how it stops a run without losing a draw."""

import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import chain
from stanadapt.engine.chain import LARGEST_CHUNK, Chain
from stanadapt.runs.progress import Watch
from tests.helpers.codes import raises, warns
from tests.helpers.driven_runs import sample_with
from tests.helpers.stan_target import shared_target

ENDLESS = 1_000_000
PROGRAM = """
parameters { vector[2] x; real<lower=0> s; }
model { x ~ normal([3, -1000], [0.01, 200]); s ~ lognormal(0, 1); }
generated quantities { real twice = 2 * s; }
"""
target = shared_target(PROGRAM, backend="stanli")


def draw(target, on_progress, parts=(), **options):
    common = {"chains": 2, "parallel_chains": 2, "seed": 3, "iter_warmup": 300}
    options = {**common, "show_progress": on_progress, **options}
    return sample_with(dict(parts), target, "nuts", **options)


def test_it_stops_a_run_and_keeps_the_draws(target):
    seen = []

    def watch(progress):
        seen.append(progress.smallest_ess())
        return seen[-1] > 500

    with warns("stopped_on_request"):
        fit = draw(target, watch, iter_sampling=ENDLESS)
    assert seen[-1] > 500
    assert all(ess <= 500 for ess in seen[:-1])
    draws = results.dataset(fit, "posterior").sizes["draw"]
    assert results.dataset(fit, "posterior").sizes["chain"] == 2
    assert 100 < draws < ENDLESS
    assert fit.attrs["interrupted"] == 0
    assert "stopped_on_request" in fit.attrs["note_codes"]
    # the draws are those of a run of that length
    whole = draw(target, False, iter_sampling=draws)
    np.testing.assert_array_equal(fit["posterior"]["x"].values, whole["posterior"]["x"].values)


def test_it_sees_the_state_of_the_run(target):
    seen = []
    fit = draw(target, seen.append, iter_sampling=400)
    last = seen[-1]
    assert last.seconds >= seen[0].seconds >= 0.0
    assert [chain.n_done for chain in last.chains] == [700, 700]
    assert [chain.n_total for chain in last.chains] == [700, 700]
    assert not any(chain.warming_up for chain in last.chains)
    assert last.draws == 400
    calls = [each.calls for each in seen]  # one of them, if the run ends before the first look
    assert calls == sorted(calls)
    assert calls[-1] == fit.attrs["n_gradients"]
    stats = results.dataset(fit, "sample_stats")
    assert [chain.divergences for chain in last.chains] == stats["diverging"].sum(
        "draw"
    ).values.tolist()
    assert 0.0 < last.chains[0].acceptance_rate <= 1.0
    # parameters count, generated quantities do not
    arviz = results.arviz_module()
    columns = results.columns(fit, wanted=["x", "s"])
    bulk = min(float(arviz.ess(x, method="bulk")) for x in columns.values())
    assert last.smallest_ess() <= bulk * (1 + 1e-12)
    assert last.largest_r_hat() == pytest.approx(
        max(float(arviz.rhat(x)) for x in columns.values())
    )


def test_diagnostics_are_undefined_before_four_draws(target):
    seen = []

    def watch(progress):
        seen.append((progress.draws, progress.smallest_ess(), progress.largest_r_hat()))

    draw(target, watch, iter_sampling=50)
    early = [one for one in seen if one[0] < 4]
    assert all(ess == 0.0 and np.isnan(r_hat) for _, ess, r_hat in early)


def run_slowly(chains, *arguments, **options):
    """Let the second chain take single iterations, with pauses."""
    slow, advance = chains[1], chains[1].advance

    def paused(chunk=None):
        if not slow.warming_up:
            time.sleep(0.01)
            chunk = 1
        advance(chunk)

    slow.advance = paused
    return chain.run(chains, *arguments, **options)


@pytest.mark.thorough
def test_chains_that_share_a_core_have_about_as_many_draws_each(target):
    """So that none is lost to Ctrl-C, a time limit or a progress function."""
    seen = []

    def watch(progress):
        seen.append([chain.draws for chain in progress.chains])
        return max(seen[-1]) > 20 * LARGEST_CHUNK

    with warns("stopped_on_request"):
        fit = draw(target, watch, chains=3, parallel_chains=1, iter_sampling=400_000)
    draws = seen[-1]
    # a chunk is the most that one chain is ahead, one more is done after it is stopped
    assert max(draws) - min(draws) <= 2 * LARGEST_CHUNK
    assert dict(fit["posterior"].sizes)["chain"] == 3
    # in turns or at once, the draws are the same
    draws = dict(fit["posterior"].sizes)["draw"]
    whole = draw(target, False, chains=3, parallel_chains=3, iter_sampling=draws)
    np.testing.assert_array_equal(fit["posterior"]["x"].values, whole["posterior"]["x"].values)


@pytest.mark.parametrize("error", [None, KeyError("no such thing")], ids=["True", "an error"])
def test_the_result_has_the_draws_that_it_saw(target, error):
    """All chains are kept, though one of them has far more draws than the others together."""
    seen = []

    def watch(progress):
        seen.append([chain.draws for chain in progress.chains])
        ends = min(seen[-1]) > 0 and seen[-1][0] > 4 * seen[-1][1]
        if ends and error is not None:
            raise error
        return ends

    facts = [] if error is None else ["KeyError", "no such thing"]
    with warns("stopped_on_request", *facts):
        fit = draw(target, watch, {"run_chains": run_slowly}, iter_sampling=400_000)
    assert seen[-1][0] > 4 * seen[-1][1]
    assert dict(fit["posterior"].sizes)["chain"] == 2
    assert dict(fit["posterior"].sizes)["draw"] >= seen[-1][1]


def test_a_stop_before_the_draws_is_an_error_and_one_after_them_nothing(target):
    with raises("no_draws", "stopped by the progress function", "warm-up"):
        draw(target, lambda progress: True, iter_warmup=ENDLESS)
    with raises("no_draws", "the time limit", "learning the scales"):
        in_learned_scales(target, max_minutes=1e-9)
    fit = draw(target, lambda progress: progress.draws == 30, iter_sampling=30)
    assert results.dataset(fit, "posterior").sizes["draw"] == 30
    assert not results.from_json(fit, "notes", [])


@pytest.mark.parametrize(
    ("answer", "stops"), [(True, True), (np.True_, True), (np.False_, False), (1, False)]
)
def test_true_of_numpy_stops_too(answer, stops):
    watch = Watch(None, lambda progress: answer)
    assert bool(watch._ask(SimpleNamespace(seconds=1.0))) is stops
    assert watch.stopped_by_user is stops


@pytest.mark.thorough
def test_a_kept_run_resumes_where_it_was_stopped(target, tmp_path):
    with warns("stopped_on_request"):
        draw(target, lambda p: p.draws > 30, iter_sampling=20_000, run=tmp_path / "run")
    fit = sa.resume(tmp_path / "run", iter_sampling=20_000, show_progress=False)
    whole = draw(target, False, iter_sampling=20_000)
    np.testing.assert_array_equal(fit["posterior"]["x"].values, whole["posterior"]["x"].values)


def in_learned_scales(target, on_progress=False, parts=(), **options):
    return draw(target, on_progress, parts, standardize=True, iter_sampling=50, **options)


def test_it_sees_the_pre_run_and_then_the_run(target):
    seen = []

    def watch(state):
        seen.append((state.task, state.draws, state.seconds))

    fit = in_learned_scales(target, watch)
    tasks = [task for task, _, _ in seen]
    learning = tasks.count("learning the scales")
    assert 0 < learning < len(tasks)
    assert tasks == ["learning the scales"] * learning + [""] * (len(tasks) - learning)
    assert not any(draws for task, draws, _ in seen if task)
    assert all(after >= before for (_, _, before), (_, _, after) in pairwise(seen))
    plain = in_learned_scales(target)
    np.testing.assert_array_equal(fit["posterior"]["x"].values, plain["posterior"]["x"].values)


@pytest.mark.parametrize("parallel_chains", [1, 2])
def test_it_stops_the_pre_run(target, parallel_chains):
    seen = []

    def watch(progress):
        seen.append(progress.task)
        return True

    with raises("no_draws", "stopped by the progress function", "learning the scales"):
        in_learned_scales(target, watch, parallel_chains=parallel_chains)
    assert seen == ["learning the scales"]


def test_it_stops_a_pre_run_that_has_just_ended(target):
    """Time is up when no chain is left to be stopped: the run does not begin, without a limit."""

    def asked_at_the_end(chains, parallel_chains, update, keeper):
        assert chain.run(chains, parallel_chains, keeper=keeper) is False
        update(chains)
        return False

    with raises("no_draws", "learning the scales"):
        in_learned_scales(target, lambda progress: True, {"run_chains": asked_at_the_end})


def test_compiling_between_pre_run_and_run_does_not_count(target, monkeypatch):
    compiled, hours, seen = Chain.compile, [], []

    def slow(chain):
        hours.append(1)
        return compiled(chain)

    monkeypatch.setattr(Chain, "compile", slow)
    watch = Watch(target, seen.append, clock=lambda: time.monotonic() + 3600.0 * len(hours))
    in_learned_scales(target, parts={"watch": watch})
    assert len(hours) == 2
    assert not seen[-1].task
    assert all(state.seconds < 3600.0 for state in seen)
