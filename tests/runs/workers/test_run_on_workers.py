"""Chains on the workers of an executor: the same draws, even if workers are lost."""

import multiprocessing
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.chain import Chain
from stanadapt.runs import workers
from stanadapt.runs.spec import require_sendable
from stanadapt.runs.workers import unguarded_script
from stanadapt.samplers import registered
from stanadapt.samplers.tempering import Extended, ReferenceDistribution
from tests.helpers.codes import raises, warns
from tests.helpers.driven_runs import sample_with
from tests.helpers.repository import ROOT
from tests.helpers.sampler_settings import FASTER, VARIANTS
from tests.helpers.seldom_parameters import slow_except, soak_except
from tests.helpers.short_runs import assert_same_draws, assert_same_fit
from tests.helpers.stan_target import shared_target

# unequal scales, a bounded parameter, and random generated quantities
PROGRAM = """
data { int<lower=0, upper=1> prior; }
parameters { vector[3] x; real<lower=0> s; }
model {
  x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1);
  if (!prior) x[2] ~ normal(3, 20);
}
generated quantities { real y_rep = normal_rng(x[1], s); }
"""
pytestmark = pytest.mark.filterwarnings("ignore")  # runs are too short to converge
LENGTH = {"chains": 3, "iter_warmup": 150, "iter_sampling": 60, "seed": 5}
target = shared_target(PROGRAM, {"prior": 0})


# slices take little more than one chunk
SHORT_SLICES = {"slices": (1e-4, 1e-4)}


class Post:
    """An executor that sends tasks and results as bytes."""

    def __init__(self):
        self.sent = 0

    def submit(self, function, *arguments):
        self.sent += 1
        future = Future()
        try:
            function, arguments = pickle.loads(pickle.dumps((function, arguments)))
            future.set_result(pickle.loads(pickle.dumps(self.call(function, arguments))))
        except BaseException as error:
            future.set_exception(error)
        return future

    def call(self, function, arguments):
        return function(*arguments)


def draw(target, name, settings, parts=(), **changes):
    chosen = {**LENGTH, **FASTER.get(name, {}), **settings, **changes}
    return sample_with({**SHORT_SLICES, **dict(parts)}, target, name, **chosen)


class Moody(Post):
    """An executor with a new worker for every tenth task."""

    def __init__(self):
        super().__init__()
        self.described = []

    def call(self, function, arguments):
        self.described.append(arguments[1] is not None)
        if self.sent % 10 == 0:
            workers._made.clear()
        return function(*arguments)


@pytest.mark.parametrize("large", [False, True])
def test_large_data_are_sent_to_each_worker_once(large):
    size = 500_001 if large else 5
    program = f"data {{ vector[{size}] unused; int prior; }} {PROGRAM[PROGRAM.index('}') + 1 :]}"
    bound, executor = sa.Target(program, {"prior": 0, "unused": np.ones(size)}), Moody()
    there = draw(bound, "nuts", {}, executor=executor)
    assert_same_draws(there, draw(bound, "nuts", {}))
    workers_made = 1 + executor.sent // 10
    assert executor.sent > 20
    described = sum(executor.described)
    # each of the three chains may be the first that a worker sees
    assert described <= 3 * workers_made if large else described == executor.sent


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", soak_except({"whitened_hmc", "parallel_tempering", "nice", "smc"}, registered())
)
def test_every_sampler_draws_the_same(target, name):
    """No chain moves in this process, not even those of a pre-run that learns scales."""
    settings, post = VARIANTS.get(name, [{}])[0], Post()
    here = draw(target, name, settings)
    there = draw(target, name, settings, {"run_chains": None}, executor=post)
    assert post.sent > 6
    assert there.attrs["executor"] == "Post"
    assert_same_fit(here, there)


EXTRA = "whitened_hmc", {"save_warmup": True, "save": "unconstrained", "thin": 2}
OF_PRIOR = "parallel_tempering", {"prior_data": {"prior": 1}, "threads_per_chain": 2}


@pytest.mark.parametrize(("name", "options"), slow_except([EXTRA], [EXTRA, OF_PRIOR]))
def test_extra_groups_and_the_program_under_prior_data_come_from_workers(target, name, options):
    there = draw(target, name, options, executor=Post())
    assert_same_fit(draw(target, name, options), there)


def test_clients_of_dask_and_targets_that_cannot_be_sent(target):
    client = SimpleNamespace(submit=print, get_executor=dict)
    assert workers.as_executor(client) == {"pure": False}
    made = SimpleNamespace(described="a density of my own", remake=None)
    with raises("not_an_executor", "my own"):
        require_sendable("my own", made)
    assert_same_fit(draw(target, "nuts", {}), draw(target, "nuts", {}, executor=Losing()))


@pytest.mark.slow
def test_other_processes(target):
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        there = draw(target, "whitened_hmc", {}, chains=5, executor=executor)
    assert_same_fit(draw(target, "whitened_hmc", {}, chains=5), there)


class Losing(Post):
    """Loses every fifth worker, half of them after they have finished their work."""

    def call(self, function, arguments):
        if self.sent % 5:
            return function(*arguments)
        if self.sent % 10:
            function(*arguments)
        raise ConnectionError("a worker went away")


class Breaking(Post):
    """Fails for good after a number of slices."""

    def __init__(self, after, error):
        super().__init__()
        self.after, self.error = after, error

    def call(self, function, arguments):
        if self.sent > self.after:
            raise self.error
        return function(*arguments)


BREAKS = [BrokenExecutor("all gone"), ConnectionError("all gone")]


@pytest.mark.thorough
@pytest.mark.parametrize("error", BREAKS, ids=lambda error: type(error).__name__)
def test_draws_outlive_the_workers(target, error):
    executor = Breaking(150, error)
    with warns("ended_early", type(error).__name__, "all gone"):
        fit = draw(target, "nuts", {"iter_sampling": 10**6}, executor=executor)
    posterior = results.dataset(fit, "posterior")
    assert posterior.sizes["chain"] == 3
    assert fit.attrs["interrupted"] == 1
    draws = posterior.sizes["draw"]
    whole = results.dataset(draw(target, "nuts", {"iter_sampling": draws}), "posterior")
    np.testing.assert_array_equal(posterior["x"].values, whole["x"].values)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_that_each_worker_would_run_again_is_named(tmp_path, guarded):
    text = "with ProcessPoolExecutor(2) as executor:\n    fit = 1\n"
    if guarded:
        text = f"if __name__ == '__main__':\n    {text}"
    (tmp_path / "mine.py").write_text(text)
    found = unguarded_script(SimpleNamespace(__file__=tmp_path / "mine.py"))
    assert ("mine.py" in found) is not guarded
    assert ("if __name__" in found) is not guarded
    assert unguarded_script(SimpleNamespace()) == ""  # a notebook


@pytest.mark.slow
def test_the_example_of_the_page_is_a_script(tmp_path):
    """As it is on the page; without the guard, the error says just that."""
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    page = (ROOT / "docs" / "runs.md").read_text()
    (example,) = re.findall(r"```python\n(from concurrent.*?)```", page, re.S)
    example = example.replace("ProcessPoolExecutor(8", "ProcessPoolExecutor(1")
    example = example.replace("chains=8", "chains=1, iter_sampling=50, iter_warmup=60")
    (tmp_path / "right.py").write_text(example)
    done = subprocess.run([sys.executable, "right.py"], **options)
    assert done.returncode == 0, done.stderr
    wrong = example.replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "wrong.py").write_text(wrong)
    done = subprocess.run([sys.executable, "wrong.py"], **options)
    assert "each worker imports wrong.py" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("error", BREAKS, ids=lambda error: type(error).__name__)
def test_without_a_draw_it_is_an_error(target, error):
    with raises("workers_failed", "all gone"):
        draw(target, "nuts", {}, executor=Breaking(0, error))


class Changing(Post):
    """Sends workers another description of the run."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes

    def submit(self, function, key, spec, *arguments):
        return super().submit(function, key, spec._replace(**self.changes), *arguments)


@pytest.mark.parametrize(
    ("change", "code", "fact"),
    [
        ({"stanadapt": "9.9"}, "worker_version", "9.9"),
        ({"sampler_hash": "0"}, "run_mismatch", "nuts"),
        ({"sampler": "barker"}, "run_mismatch", "barker"),  # which the worker lacks
    ],
)
def test_a_worker_that_differs_is_refused(target, change, code, fact):
    with raises(code, fact):
        draw(target, "nuts", {}, executor=Changing(**change))


def test_it_can_be_stopped(target):
    with warns("stopped_on_request"):
        fit = draw(
            target, "nuts", {"iter_sampling": 10**6}, executor=Post(),
            show_progress=lambda progress: progress.draws > 100,
        )  # fmt: skip
    assert 100 < results.dataset(fit, "posterior").sizes["draw"] < 10**6
    assert fit.attrs["interrupted"] == 0


class Holding(ThreadPoolExecutor):
    """Holds the third slice of each chain until a test ends."""

    def __init__(self, chains):
        super().__init__(chains)
        self.slices, self.ended, self.finished = Counter(), threading.Event(), []

    def submit(self, function, key, spec, number, *arguments):
        self.slices[number] += 1
        held = self.slices[number] > 2

        def work():
            if held:
                self.finished.append(self.ended.wait(120.0))
            return function(key, spec, number, *arguments)

        return super().submit(work)


@pytest.mark.slow
def test_stopping_does_not_wait_for_workers(target):
    with Holding(3) as executor:
        # the first slice of a chain is its warm-up at least, the second one a draw
        options = {"iter_warmup": 1, "iter_sampling": 10**6}
        with warns("stopped_on_request"):
            draw(
                target, "nuts", options, executor=executor,
                show_progress=lambda progress: progress.draws > 0,
            )  # fmt: skip
        assert not executor.finished
        executor.ended.set()


@pytest.mark.slow
@pytest.mark.parametrize("resuming", [None, Post()], ids=["here", "on workers"])
def test_a_run_folder_is_kept_and_resumed(target, tmp_path, resuming):
    with warns("ended_early"):
        draw(
            target, "whitened_hmc", {"iter_sampling": 4000}, run=tmp_path / "run",
            executor=Breaking(150, BrokenExecutor("all gone")),
        )  # fmt: skip
    resumed = sa.resume(tmp_path / "run", executor=resuming)
    whole = draw(target, "whitened_hmc", {"iter_sampling": 4000})
    assert_same_draws(resumed, whole, ("posterior", "posterior_predictive", "sample_stats"))


@pytest.mark.parametrize("value", [4, "dask", object()])
def test_other_objects_are_not_executors(target, value):
    with raises("not_an_executor", "executor", repr(value)):
        draw(target, "nuts", {}, executor=value)


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {"reference_distribution": ReferenceDistribution(np.zeros(4), [1, 30, 2, 1])},
    {"prior_data": {"prior": 1}, "temperature": "collapsed", "ladder": ([0.2, 1.0], [0, -1])},
], ids=["reference", "prior data"])  # fmt: skip
def test_an_extended_target_is_made_by_workers(target, options):
    extended = Extended(target, 2, **options)
    there = draw(extended, "mala", {"save": "pseudo"}, executor=Post())
    assert_same_fit(draw(extended, "mala", {"save": "pseudo"}), there)


@pytest.mark.slow
def test_a_worker_keeps_few_targets(target):
    before = set(workers._made)
    for seed in range(workers.KEPT + 2):
        draw(target, "nuts", {"seed": seed, "iter_sampling": 5}, executor=Post())
    assert len(workers._made) == workers.KEPT
    assert not before & set(workers._made)


def test_a_worker_compiles_on_a_chain_for_this_alone(target, monkeypatch):
    """What is compiled by a chain that continues would count as its time."""
    compiled, moved, compile_chain, advance = [], [], Chain.compile, Chain.advance

    def compiling(chain):
        compiled.append(chain)
        return compile_chain(chain)

    def advancing(chain, chunk=None):
        moved.append(chain)
        advance(chain, chunk)

    monkeypatch.setattr(Chain, "compile", compiling)
    monkeypatch.setattr(Chain, "advance", advancing)
    draw(target, "rwm", {"standardize": False}, executor=Post())
    assert len(compiled) == 2  # here, and by the worker for all of its chains
    assert not any(chain is other for chain in compiled for other in moved)
