"""Before a run: does it fit into memory?"""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import stanadapt as sa
from stanadapt.engine.chain import ChainDesign
from stanadapt.engine.plan import make_plan
from stanadapt.runs.chains import COPIES, MUCH, require_memory
from stanadapt.samplers import find, registered
from tests.helpers.chains import make_chains
from tests.helpers.codes import raises, warns
from tests.helpers.stan_target import shared_target
from tests.helpers.targets import Awkward

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


def test_draws_that_no_machine_has_room_for(target):
    with raises("out_of_memory", "iter_sampling"):
        sa.sample(target, "rwm", **{**RUN, "iter_sampling": 10**14})


def test_a_run_that_just_fits_is_told_of_and_done(target, free):
    needed = bytes_of_draws(sa.sample(target, "rwm", **RUN))
    free(needed)
    with warns("much_memory"):
        sa.sample(target, "rwm", **RUN)
    free(needed - 1)
    with raises("out_of_memory"):
        sa.sample(target, "rwm", **RUN)
    free(int((1.0 + COPIES) * needed / MUCH) + 2)
    sa.sample(target, "rwm", **RUN)


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


def test_a_warm_up_pools_sixteen_copies_of_the_windows_of_all_chains():
    sampler, settings = find("whitened_hmc")
    assert sampler.memory.pooled(settings, 10_000, 4) >= 16 * 8 * 10_000 * 4 * 240


def test_matrices_that_do_not_fit(target, free):
    free(2 * 8 * 2 * 6**2)
    few = {**RUN, "iter_sampling": 1}
    with raises("out_of_memory", "gad_mala", "diagonal=True"):
        sa.sample(target, "gad_mala", **few)


STORING = {n: s.memory for n, s in registered().items() if s.memory.settings}


def test_particles_that_do_not_fit(target, free):
    """Two chains; their draws take next to nothing."""
    free(2 * STORING["smc"].storage(find("smc", particles=10_000)[1], 6))
    with raises("out_of_memory", "smc", "particles, chains"):
        sa.sample(target, "smc", particles=10_000, **RUN)


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
