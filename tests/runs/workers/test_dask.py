"""Dask: a scheduler and two workers in separate processes, started as on two machines."""

import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
from distributed import Client

import stanadapt as sa
from tests.helpers.short_runs import assert_same_draws

PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ lognormal(0, 1); }
generated quantities { real y_rep = normal_rng(x[1], s); }
"""
# warnings on workers of Dask are not tested here
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Address of a scheduler, and its workers."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    options = ["--scheduler-file", str(file)]
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def start(*words):
        return subprocess.Popen([sys.executable, "-m", "distributed.cli." + words[0], *words[1:],
                                 *options], **quiet)  # fmt: skip

    scheduler = start("dask_scheduler", "--port", "0", "--no-dashboard")
    worker = ("dask_worker", "--nthreads", "1", "--nworkers", "1", "--no-dashboard")
    workers = [start(*worker, "--name", name) for name in ("one", "two")]
    yield str(file)
    for process in [*workers, scheduler]:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


@pytest.fixture
def client(cluster):
    with Client(scheduler_file=cluster) as client:
        client.wait_for_workers(2, timeout=600)
        yield client


def draw(**changes):
    target = sa.Target(PROGRAM)
    common = {"chains": 16, "iter_warmup": 300, "iter_sampling": 100, "seed": 2}
    return sa.sample(target, **{**common, **changes})


def test_sixteen_chains_on_two_workers(client):
    there = draw(executor=client)
    assert there.attrs["executor"] == "Client"
    assert_same_draws(draw(), there)


def test_killing_a_worker_loses_no_draw(client):
    pids = client.run(os.getpid)
    killed = []

    def kill(progress):
        """Kill a worker once any chain has draws: others have not begun."""
        if not killed and any(chain.draws for chain in progress.chains):
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    length = {"sampler": "nuts", "chains": 6, "iter_sampling": 30_000}
    there = draw(executor=client, show_progress=kill, **length)
    assert killed
    assert_same_draws(draw(**length), there)


@pytest.mark.soak
def test_calibration_on_two_workers(client):
    program = (
        "data { real y; } parameters { real mu; } model { mu ~ std_normal(); y ~ normal(mu, 1); }"
    )
    generator = "generated quantities { real mu = normal_rng(0, 1); real y = normal_rng(mu, 1); }"
    found = [
        sa.sbc(program, generator, simulations=20, ranks=19, seed=1, executor=executor)
        for executor in (client, None)
    ]
    np.testing.assert_array_equal(found[0].ranks.values, found[1].ranks.values)
