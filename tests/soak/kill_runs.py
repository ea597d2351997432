"""Runs that are killed at random moments, and what becomes of them; by itself, without pytest.

    python -m tests.soak.kill_runs --kills 3

For each sampler: one run that is left alone, then some in processes of their own that are ended by
SIGKILL, resumed and compared with it. Prints one line per sampler and, at last, how many differed.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.samplers.registry import registered
from stanadapt.sampling.saved_run import write_checkpoints
from tests.helpers.sampler_settings import FASTER

PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1); }
generated quantities { real y = normal_rng(x[1], s); }
"""
LENGTH = {"chains": 2, "iter_warmup": 300, "iter_sampling": 2000, "seed": 9}
# beside each registered sampler as it is by default
OTHERS = {"energy_rings": ("parallel_tempering", {"swaps": "energy_rings", "rings": 2})}
NOT_BEGUN = "holds no run that can be resumed"


def killed(draw, folder, seconds):
    """Draw in another process, which is killed after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            draw(run=folder)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def same(one, two):
    """Whether all draws and statistics of two results are the same bits."""
    groups = ("posterior", "sample_stats")
    pairs = [(results.dataset(one, group), results.dataset(two, group)) for group in groups]
    return all(
        np.array_equal(first[name].values, second[name].values, equal_nan=True)
        for first, second in pairs
        for name in first
    )


def tried(draw, seconds, folder):
    """What became of a run that was killed: "same", "different" or "not begun"."""
    shutil.rmtree(folder, ignore_errors=True)
    killed(draw, folder, seconds)
    try:
        fit = sa.resume(folder, show_progress=False)
    except StanadaptError as error:
        if NOT_BEGUN not in error.message:
            raise
        return "not begun"
    return "same" if same(fit, draw.whole) else "different"


class Draw:
    """Draws of one sampler, and the run that was left alone."""

    def __init__(self, target, name):
        self.target, self.name = target, name
        self()
        began = time.monotonic()
        self.whole = self()
        self.seconds = time.monotonic() - began

    def __call__(self, **changes):
        name, chosen = OTHERS.get(self.name, (self.name, FASTER.get(self.name, {})))
        settings = {**LENGTH, **chosen, **changes}
        return sa.sample(self.target, name, show_progress=False, **settings)


def main():
    """Kill runs of every sampler; the exit code is the number of those that came out different."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--samplers", default=",".join([*registered(), *OTHERS]))
    chosen, different = parser.parse_args(), 0
    warnings.simplefilter("ignore")
    write_checkpoints.SECONDS = write_checkpoints.SHARE = 0.02
    random.seed(7)
    target = sa.Target(PROGRAM, show_progress=False)
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen.samplers.split(","):
            draw, folder = Draw(target, name), Path(scratch) / "run"
            moments = [random.uniform(0.0, 1.2 * draw.seconds) for _ in range(chosen.kills)]
            found = [tried(draw, seconds, folder) for seconds in moments]
            different += found.count("different")
            print(name, {what: found.count(what) for what in sorted(set(found))}, flush=True)
    print(f"different: {different}")
    return different


if __name__ == "__main__":
    sys.exit(main())
