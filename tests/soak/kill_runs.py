"""Runs that are killed at random moments, and what becomes of them; by itself, without pytest.

    python -m tests.soak.kill_runs --kills 5

For each sampler: one run that is left alone, and the same in processes that are ended by SIGKILL,
one after another, five at most: the first begins it, each other continues from what is on disk, the
last while it samples, and what is left in the end is done here. The draws must be those of the run
that was left alone, to the bit. Prints a line per sampler, with what the last checkpoints knew when
the process was killed:

    no run yet    the folder had not been filled
    not moved     no more than after the kill before
    warm-up, sampling, finished

and, at last, the sums over all samplers and how many runs differed.
"""

import argparse
import contextlib
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import chain
from stanadapt.runs import checkpoint
from stanadapt.runs.checkpoint import summary_of
from stanadapt.runs.folder import MANIFEST, RunFolder
from stanadapt.samplers import registered
from tests.helpers.driven_runs import EAGER, resume_with, sample_with
from tests.helpers.sampler_settings import FASTER

PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1); }
generated quantities { real y = normal_rng(x[1], s); }
"""
# lengths before they are multiplied, so that chains take some tenths of a second
LENGTH = {"chains": 2, "seed": 9, "save_warmup": True}
WARMUP, SAMPLING, SECONDS = 200, 1000, 0.3
MOST = 16
# in addition to each registered sampler as it is by default
OTHERS = {"energy_rings": ("parallel_tempering", {"swaps": "energy_rings", "rings": 2})}
# a ceiling, below which its warm-up ends by itself: it has another length than was asked for
OWN = {"whitened_hmc": {"iter_warmup": 1500}}
IN_A_ROW = 5
SOONER = 0.1  # how often a process is killed without waiting for its first checkpoint
PATIENCE = 600.0  # seconds for a process to begin; one that has not is a failure
COUNTED = ("n_density", "n_gradients", "n_failed", "n_failed_quantities", "iter_warmup")


class Drawing:
    """Draws of one sampler, and the run that was left alone.

    seconds
        From when its chains move, in a folder, to when they have ended.
    """

    def __init__(self, target, name, folder):
        self.target, self.name, self.folder, self.times = target, name, folder, 1
        self()  # what is slow the first time
        _, seconds = self.left_alone()
        self.times = int(np.clip(SECONDS / seconds, 1, MOST))
        self.whole, self.seconds = self.left_alone()

    def __call__(self, **changes):
        name, chosen = OTHERS.get(self.name, (self.name, FASTER.get(self.name, {})))
        length = {"iter_warmup": WARMUP * self.times, "iter_sampling": SAMPLING * self.times}
        settings = {**LENGTH, **length, **OWN.get(self.name, {}), **chosen, **changes}
        return sample_with(EAGER, self.target, name, show_progress=False, **settings)

    def left_alone(self):
        """Return a fit, and the seconds that its chains took."""
        shutil.rmtree(self.folder, ignore_errors=True)
        fit = self(run=self.folder)
        ends = [path.stat().st_mtime for path in self.folder.glob("chain_*.npz")]
        return fit, max(ends) - (self.folder / MANIFEST).stat().st_mtime

    def lived(self, kills):
        """What the kills found, in their order, and whether the run came out the same."""
        shutil.rmtree(self.folder, ignore_errors=True)
        found, share = [], 0.0
        for left in range(kills, 0, -1):
            # on average, the kills that are left divide the share that is left evenly
            seconds = random.uniform(0.0, 2 * (1 - share) * self.seconds / (left + 1))
            if random.random() < SOONER:
                killed(self.go_on, random.uniform(0.0, self.seconds))
            else:
                before = _last_checkpoint(self.folder)
                killed(self.go_on, seconds, partial(self.moves, before, sampling=left == 1))
            what, share = reached(self.folder, share)
            found.append(what)
        return found, same(self.go_on(), self.whole)

    def moves(self, before, sampling):
        """Whether a chain has been written since; and, where it is asked for, one that samples."""
        if _last_checkpoint(self.folder) <= before:
            return False
        return not sampling or not all(chain["warming_up"] for chain in summaries(self.folder))

    def go_on(self):
        """Begin the run, or continue it."""
        if (self.folder / MANIFEST).exists():
            return resume_with(EAGER, self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return self(run=self.folder)


def killed(work, seconds, begins=lambda: True):
    """Do something in another process, which is killed some seconds after it has begun."""
    child = os.fork()
    if child == 0:
        _end_after(work)
    latest, ended = time.monotonic() + PATIENCE, 0
    while not begins() and not ended:
        if time.monotonic() > latest:
            os.kill(child, signal.SIGABRT)  # it says where its threads are
            os.waitpid(child, 0)
            raise AssertionError(f"no chain has moved within {PATIENCE} s")
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"the process failed: wait status {status}"


def _end_after(work):
    """Do something in a forked process, and end it: what the parent holds is the parent's."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _last_checkpoint(folder):
    """When a chain was written last; 0 before any was."""
    times = [0]
    for number in range(LENGTH["chains"]):
        with contextlib.suppress(FileNotFoundError):
            times.append((folder / checkpoint.chain_file(number)).stat().st_mtime_ns)
    return max(times)


def summaries(folder):
    """How far each chain was at its last checkpoint."""
    held = checkpoint.newest(RunFolder.open(folder), LENGTH["chains"])
    return [summary_of(arrays) for arrays in held]


def reached(folder, share_before):
    """What the last checkpoints of a run know, and the share of its iterations; see the module."""
    if not (folder / MANIFEST).exists():
        return "no run yet", share_before
    chains = summaries(folder)
    share = sum(each["done"] for each in chains) / sum(each["total"] for each in chains)
    if share == share_before and share < 1:
        return "not moved", share
    warming_up = any(each["warming_up"] for each in chains)
    return "warm-up" if warming_up else "sampling" if share < 1 else "finished", share


def same(one, two):
    """Whether all draws, statistics and counts of two results are the same bits."""
    kinds = ("posterior", "sample_stats")
    groups = [f"{phase}{kind}" for phase in ("", "warmup_") for kind in kinds]
    pairs = [(results.dataset(one, group), results.dataset(two, group)) for group in groups]
    return all(
        list(first) == list(second)
        and all(first[name].values.tobytes() == second[name].values.tobytes() for name in first)
        for first, second in pairs
    ) and all(results.attribute(one, name) == results.attribute(two, name) for name in COUNTED)


def main():
    """Kill runs of every sampler; the exit code is the number of those that came out different."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=IN_A_ROW, help="of each sampler's runs")
    parser.add_argument("--samplers", default=",".join([*registered(), *OTHERS]))
    parser.add_argument("--seed", type=int, default=7)
    chosen, different, sums = parser.parse_args(), 0, Counter()
    warnings.simplefilter("ignore")
    faulthandler.enable()
    # short chunks, and a checkpoint after each: what a kill meets is a matter of chance
    chain.CHUNK_SECONDS = 0.005
    os.fsync = lambda number: None  # what the system has been given outlives the process
    random.seed(chosen.seed)
    target = sa.Target(PROGRAM, show_progress=False)
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen.samplers.split(","):
            drawing = Drawing(target, name, Path(scratch) / "run")
            found, equal = Counter(), Counter()
            for first in range(0, chosen.kills, IN_A_ROW):
                kills = min(IN_A_ROW, chosen.kills - first)
                what, is_same = drawing.lived(kills)
                found.update(what)
                equal["same" if is_same else "different"] += 1
            sums, different = sums + found, different + equal["different"]
            print(name, dict(equal), dict(found), flush=True)
    print(f"kills: {sums.total()} {dict(sums)}")
    print(f"different: {different}")
    return min(different, 100)


if __name__ == "__main__":
    sys.exit(main())
