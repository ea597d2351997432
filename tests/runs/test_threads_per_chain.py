"""Threads of a chain change nothing but the time, and runs that memory has no room for."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import stanadapt as sa
from stanadapt.engine import plan
from stanadapt.engine import threads as engine_threads
from stanadapt.engine.chain import Chain, ChainDesign, run
from stanadapt.engine.checks import copy_draws
from stanadapt.engine.plan import make_plan
from stanadapt.runs.chains import COPIES, MUCH, require_memory
from stanadapt.samplers import find, registered
from stanadapt.samplers.tempering.path import DISTRIBUTION, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from stanadapt.targets.stan import bundled
from tests.helpers.chains import make_chains
from tests.helpers.codes import raises, warns
from tests.helpers.cores import use_cores
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.short_runs import assert_same_draws
from tests.helpers.stan_target import shared_target
from tests.helpers.targets import MEAN, Awkward

SHARING = [name for name, sampler in registered().items() if sampler.threading]
MOVES = ["hmc", "nuts", "random_walk"]
COVARIANCE = np.array([[4.0, 0.5, 0.0], [0.5, 1.0, -1.0], [0.0, -1.0, 30.0]])
LAWS = {"dense": {"covariance": COVARIANCE}, "student": {"sd": [2.0, 0.7, 6.0], "degrees": 4.0}}


def settings(name, **chosen):
    many = {
        "pseudo_extended": {"pseudo_samples": 5},
        # neighbors swap in warm-up
        "parallel_tempering": {"levels": 5, "swaps": "energy_rings", "rings": 2},
        "smc": {"particles": 100},
    }
    return find(name, **many[name], **chosen)


def init_on_path(reference, sampler):
    """Return an init on a path with that reference, or None where it is learned."""
    if reference == "learned":
        return None
    reference = ReferenceDistribution(MEAN, **LAWS.get(reference, {"sd": 1.0})).compiled(3)

    def init(density, chosen, position, rng):
        prior = Awkward(2.0).density().handle
        path = TemperingPath(
            density, reference, PRIOR if reference == "prior" else DISTRIBUTION, prior
        )
        return sampler.tempering.init_from_path(density, chosen, position, rng, path, False)

    return init


def make(found, threads, reference="learned", wall=1.0, draws=300):
    """Return a chain, the densities of its workers, and the target."""
    (sampler, chosen), target = found, Awkward(wall)
    schedule = plan.make_plan(
        chains=1, parallel_chains=1, iter_warmup=200, iter_sampling=draws, thin=1, seed=1,
        save_warmup=True, show_progress=False,
    )  # fmt: skip
    workers = [target.density() for _ in range(threads - 1)]

    start, rng = MEAN + np.array([-1.0, 0.2, 3.0]), np.random.default_rng(2)
    design = ChainDesign(sampler, chosen, schedule, 3, init=init_on_path(reference, sampler))
    chain = Chain(design, target.density(), start, rng, lambda _: copy_draws, workers)
    return chain, workers, target


def recorded(chain):
    """All that a chain leaves behind."""
    return [
        chain.sampling.constrained, chain.warmup.constrained, chain.sampling.stats,
        chain.warmup.stats, chain.density.calls[:5], chain.density.failed_position,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["learned", "dense", "student", "prior"])
@pytest.mark.parametrize("kernel", MOVES)
@pytest.mark.parametrize("name", SHARING)
def test_draws_and_counts_do_not_depend_on_threads(name, kernel, reference):
    """The density fails behind a wall now and then; what is told of that is the same too."""
    if reference == "prior" and registered()[name].tempering.draws_reference:
        return
    found, wanted = settings(name, kernel=kernel), None
    for threads, chunk in ((1, None), (2, None), (5, 7)):
        chain, *_ = make(found, threads, reference)
        run([chain], 1, chunk=chunk)
        if wanted is None:
            wanted = recorded(chain)
        for one, other in zip(recorded(chain), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert chain.calls["failed"] > 0
    assert np.isfinite(chain.density.failed_position).all()
    assert np.ptp(chain.sampling.constrained, axis=0).min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARING)
def test_a_hopeless_chain_stops_at_the_same_iteration(name):
    stops = []
    for threads in (1, 3):
        chain, _, target = make(settings(name), threads, draws=3000)
        while chain.n_done < 150:  # blocks of warm-up end before
            chain.advance(150 - chain.n_done)
        target.wall[0] = -1e9
        run([chain], 1)
        assert chain.stopped
        stops.append((chain.n_done, *chain.density.calls[:4]))
    assert stops[0] == stops[1]
    assert stops[0][0] > 150


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARING)
def test_helpers_help_and_go(name):
    """They leave no thread behind, between chunks or at the end."""
    # a thread that another test has left may end meanwhile: no number of threads is compared
    before = set(threading.enumerate())
    # a sweep must outlast the time slices of a busy machine
    chain, workers, _ = make(settings(name, leapfrogs=5000), 3, draws=10_000)
    while not all(helper.calls[:2].any() for helper in workers) and not chain.finished:
        chain.advance()
        assert set(threading.enumerate()) <= before
    assert all(helper.calls[:2].any() for helper in workers)


@pytest.mark.slow
def test_the_processor_time_of_helpers_counts(monkeypatch):
    seconds = 0.1

    def worked(*arguments):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return work(*arguments)

    chain, *_ = make(settings("parallel_tempering"), 3)
    chain.compile()
    work = engine_threads._work
    monkeypatch.setattr(engine_threads, "_work", worked)
    chain.advance(5)
    assert chain.warmup_processor_seconds >= 2 * seconds  # of two helpers


twenty = shared_target(*bundled.find("mixture", "twenty"))


def draw(target, name, **chosen):
    return sa.sample(target, name, chains=2, iter_warmup=100, iter_sampling=50, seed=3, **chosen)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::UserWarning")  # of a run as short as this
@pytest.mark.parametrize("name", slow_except(SHARING[:1], SHARING))
def test_of_a_stan_program(twenty, name):
    """A seed gives the same fit, whatever shares the work."""
    fits = [
        draw(twenty, name, threads_per_chain=threads, parallel_chains=parallel)
        for threads, parallel in ((1, 1), (2, 1), (2, 2))
    ]
    for fit in fits[1:]:
        assert_same_draws(fit, fits[0])
        for count in ("n_gradients", "n_density", "n_failed"):
            assert fit.attrs[count] == fits[0].attrs[count]


@pytest.mark.parametrize("name", [name for name in registered() if name not in SHARING])
def test_a_sampler_of_one_move_says_which_have_more(twenty, name):
    with raises("too_many_threads", "threads_per_chain", name, *SHARING):
        draw(twenty, name, threads_per_chain=2)


@pytest.mark.parametrize(("name", "chosen", "most"), [
    ("pseudo_extended", {}, 2), ("pseudo_extended", {"pseudo_samples": 6}, 6),
    ("parallel_tempering", {"levels": 4}, 4), ("parallel_tempering", {}, 64),
    ("smc", {"particles": 120}, 120),
])  # fmt: skip
def test_no_more_threads_than_moves(twenty, name, chosen, most):
    with raises("too_many_threads", name, most):
        draw(twenty, name, threads_per_chain=most + 1, **chosen)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True])
def test_a_number_of_threads_is_whole_and_positive(twenty, bad):
    with raises("out_of_range", "threads_per_chain", repr(bad)):
        draw(twenty, "pseudo_extended", threads_per_chain=bad)


@pytest.mark.parametrize(("cores", "threads", "at_once"), [(8, 3, 2), (2, 3, 1), (8, 1, 4)])
def test_chains_at_once_leave_cores_for_threads(monkeypatch, cores, threads, at_once):
    use_cores(monkeypatch, cores)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # of the machine, of which the run has a part
    made = plan.make_plan(
        chains=4, parallel_chains=None, iter_warmup=1, iter_sampling=1, thin=1, seed=1,
        save_warmup=False, show_progress=False, threads_per_chain=threads,
    )  # fmt: skip
    assert made.parallel_chains == at_once


def test_without_affinity_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert plan.usable_cores() == 3


SIX = "parameters { vector[6] x; } model { x ~ std_normal(); }"
RUN = {"chains": 2, "iter_warmup": 20, "iter_sampling": 50, "seed": 1}
target = shared_target(SIX)


@pytest.fixture
def free(monkeypatch):
    """Sets the bytes that seem to be free."""

    def set_free(number):
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=number))

    return set_free


def bytes_of_draws(fit):
    """Of what a fit holds per draw, not of the log density, which is there once."""
    groups = ("posterior", "sample_stats")
    return sum(fit[group][name].size * 8 for group in groups for name in fit[group].data_vars)


def test_what_does_not_fit_is_refused(target, free):
    with raises("out_of_memory", "iter_sampling"):
        sa.sample(target, "rwm", **{**RUN, "iter_sampling": 10**14})
    free(2 * 8 * 2 * 6**2)
    few = {**RUN, "iter_sampling": 1}
    with raises("out_of_memory", "gad_mala", "diagonal=True"):
        sa.sample(target, "gad_mala", **few)
    # two chains; their draws take next to nothing
    free(2 * STORING["smc"].storage(find("smc", particles=10_000)[1], 6))
    with raises("out_of_memory", "smc", "particles, chains"):
        sa.sample(target, "smc", particles=10_000, **RUN)


def test_runs_that_just_fit_and_what_warm_up_pools(target, free):
    needed = bytes_of_draws(sa.sample(target, "rwm", **RUN))
    free(needed)
    with warns("much_memory"):
        sa.sample(target, "rwm", **RUN)
    free(needed - 1)
    with raises("out_of_memory"):
        sa.sample(target, "rwm", **RUN)
    free(int((1.0 + COPIES) * needed / MUCH) + 2)
    sa.sample(target, "rwm", **RUN)
    sampler, settings = find("whitened_hmc")
    assert sampler.memory.pooled(settings, 10_000, 4) >= 16 * 8 * 10_000 * 4 * 240


def test_a_large_run_says_so_and_an_estimate_refuses_none(target, free):
    """The default's factors, blocks and trees are estimated from above."""
    plan = make_plan(
        chains=4, parallel_chains=1, iter_warmup=100, iter_sampling=1000, thin=1, seed=1,
        save_warmup=False, show_progress=False,
    )  # fmt: skip
    design = ChainDesign(*find("whitened_hmc"), plan, 10_000, False, False, None)
    free(10**12)
    with warns("much_memory", "4,000 draws", "factors"):
        require_memory(design, 10_000)
    free(2 * 10**8)
    with warns("much_memory", "on disk", "more than half"):
        require_memory(design, 10_000, on_disk=True)


STORING = {n: s.memory for n, s in registered().items() if s.memory.settings}


def size_of(state):
    """Bytes of all arrays of a State."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    return sum(map(size_of, state)) if isinstance(state, tuple) else 0


@pytest.mark.parametrize("name", STORING)
def test_what_is_asked_for_is_what_a_chain_stores(name):
    """By how much it grows with the first of the settings that its size depends on."""
    stored, asked = [], []
    for value in (500, 1700):
        chosen = {STORING[name].settings[0]: value}
        (chain,) = make_chains((name, chosen), Awkward())
        stored.append(size_of(chain.state))
        asked.append(STORING[name].storage(find(name, **chosen)[1], 3))
    assert stored[1] - stored[0] == asked[1] - asked[0]
    assert asked[0] > 0


# one run of a posterior in which all parameters are correlated, in a process that has no more
# memory than was said, and 0.8 GB for what is not the run's
DENSE = """
import resource, warnings
import stanadapt as sa

program = "data { int n; } parameters { vector[n] x; }"
program += "model { x ~ std_normal(); sum(x) ~ normal(0, 1); }"
target = sa.Target(program, {"n": 50_000}, show_progress=False, backend="stanli")

def stop(message, *others):
    if getattr(message, "code", "") == "much_memory":
        size = float(str(message).partition("about ")[2].split()[0])
        print("said", size, flush=True)
        resource.setrlimit(resource.RLIMIT_DATA, (int((size + 0.8) * 1e9),) * 2)

warnings.showwarning = stop
warnings.simplefilter("always")
fit = sa.sample(
    target, chains=2, iter_warmup=500, iter_sampling=10, max_treedepth=2, seed=1,
    show_progress=False,
)
print("done", fit.posterior["x"].shape)
"""


@pytest.mark.slow
def test_fifty_thousand_correlated_parameters_take_the_memory_that_is_said():
    """A matrix of all pairs of them would take 20 GB."""
    done = subprocess.run(
        [sys.executable, "-c", DENSE], capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, drawn = done.stdout.splitlines()
    assert float(said.split()[1]) < 10.0
    assert drawn == "done (2, 10, 50000)"
