"""Checkpoints are written next to the chains, which do not wait; nor does Ctrl-C."""

import os
import signal
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs import checkpoint
from tests.helpers.driven_runs import EAGER, SMALL_CHUNKS, sample_with
from tests.helpers.short_runs import SHORT, WALL, assert_same_draws
from tests.helpers.stan_target import shared_target

PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1); }
generated quantities { real y = normal_rng(x[1], s); }
"""
LENGTH = {"chains": 3, "iter_warmup": 150, "iter_sampling": 60, "seed": 5}
target = shared_target(PROGRAM)


def draw(target, name, parts=(), **changes):
    return sample_with(dict(parts), target, name, **{**LENGTH, **changes})


resume = sa.resume


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_ctrl_c_does_not_wait_for_an_iteration_that_takes_minutes(target, kept, tmp_path):
    """The draws before it are returned, and a run that is kept continues from a checkpoint."""
    run = tmp_path / "run" if kept else None
    whole = draw(target, "nuts")
    pressed, minutes, waited = threading.Event(), threading.Event(), []

    def slow(chain, quick, *arguments):
        found = quick(*arguments)
        if chain.sampling.rows > 20 and not minutes.is_set():
            if not pressed.is_set():
                pressed.set()
                os.kill(os.getpid(), signal.SIGINT)
            waited.append(minutes.wait(300.0))
        return found

    def run_slowly(chains, *arguments, **options):
        for chain in chains:
            chain._run = partial(slow, chain, chain._run)
        return SMALL_CHUNKS["run_chains"](chains, *arguments, **options)

    fit = draw(target, "nuts", {"run_chains": run_slowly}, run=run)
    assert pressed.is_set()
    assert not waited
    minutes.set()
    assert fit.attrs["interrupted"] == 1
    posterior = results.dataset(fit, "posterior")
    assert 0 < posterior.sizes["draw"] < 60
    kept_chains = np.atleast_1d(results.attribute(fit, "chains_kept")) - 1  # two at a time
    expected = results.dataset(whole, "posterior")["x"].values[kept_chains]
    expected = expected[:, : posterior.sizes["draw"]]
    np.testing.assert_array_equal(posterior["x"], expected)
    if kept:
        assert_same_draws(resume(run), whole)


@pytest.mark.filterwarnings("ignore")
def test_chains_do_not_wait_for_the_disk(target, tmp_path):
    sampled, waited = threading.Event(), []

    def keeper_on_a_slow_disk(folder, *chains):
        flush = folder.flush

        def slow():
            if all(waited):
                waited.append(sampled.wait(300.0))
            flush()

        folder.flush = slow
        return EAGER["make_keeper"](folder, *chains)

    draw(
        target, "whitened_hmc", {"make_keeper": keeper_on_a_slow_disk}, run=tmp_path / "run",
        show_progress=lambda progress: sampled.set() if progress.draws == 60 else None,
    )  # fmt: skip
    assert waited
    assert all(waited)
    assert_same_draws(resume(tmp_path / "run"), draw(target, "whitened_hmc"))


@pytest.mark.filterwarnings("ignore")
def test_chains_that_are_pooled_again_and_again_are_written_every_few_seconds(target, tmp_path):
    names = []

    def counting_keeper(folder, *chains):
        write = folder.write_arrays
        folder.write_arrays = lambda name, arrays: (names.append(name), write(name, arrays))
        return checkpoint.WriteCheckpoints(folder, *chains, seconds=1000.0)

    draw(target, "whitened_hmc", {"make_keeper": counting_keeper}, run=tmp_path / "run")
    # as they were made, and as they were pooled last, for their own files to count
    assert names.count(checkpoint.TOGETHER) == 2


class FolderThatFailsOnce:
    """Keeps the arrays that are written; the first file cannot be written."""

    def __init__(self):
        self.files, self.failed = {}, False

    def flush(self):
        pass

    def write_arrays(self, name, arrays):
        if not self.failed:
            self.failed = True
            raise OSError(28, "No space left on device")
        self.files[name] = arrays


class Generations(checkpoint.WriteCheckpoints):
    """Of a chain, writes the generation alone."""

    def state_of(self, chain):
        return {"g": self.generation}


def keeper_that_writes_seldom():
    """Return a keeper for which a chain that it has written is not due for long, and its parts."""
    folder, chains = FolderThatFailsOnce(), [SimpleNamespace(warming_up=False) for _ in range(2)]
    folder.failed = True  # no file will
    return Generations(folder, chains, seconds=0.0, share=1e-12), folder, chains


def test_chains_are_written_once_they_or_their_pool_are_due():
    keeper, folder, (chain, _) = keeper_that_writes_seldom()
    keeper.chunk_done(chain)
    keeper.generation = 7
    keeper.chunk_done(chain)
    keeper.finish()
    assert folder.files == {"chain_1.npz": {"g": 0}}
    keeper, folder, (chain, other) = keeper_that_writes_seldom()
    keeper.chunk_done(chain)
    keeper.pooled([chain, other])
    keeper.finish()
    assert folder.files["chains.npz"] == {"0.g": 1, "1.g": 1}


@pytest.mark.filterwarnings("ignore")
def test_a_resumed_run_names_the_position_at_which_the_density_failed(tmp_path):
    fit = sa.sample(sa.Target(WALL), "rwm", run=tmp_path / "run", **SHORT)
    notes, again = (
        results.from_json(each, "notes", []) for each in (fit, resume(tmp_path / "run"))
    )
    assert any("x = " in note for note in notes)
    assert again == notes


@pytest.mark.parametrize("retried", [True, False])
def test_a_file_that_could_not_be_written_is_written_later(retried):
    """Later files of single chains do not count without that of all chains."""
    folder, chains = FolderThatFailsOnce(), [SimpleNamespace(warming_up=False) for _ in range(2)]
    keeper = Generations(folder, chains, seconds=0.0, share=np.inf)
    keeper.pooled(chains)
    if retried:
        keeper.write(chains[0])
    keeper.finish()
    assert folder.failed
    if retried:
        assert folder.files == {"chains.npz": {"0.g": 1, "1.g": 1}, "chain_1.npz": {"g": 1}}
    assert [message.code for message in keeper.trouble] == ["checkpoint_failed"] * (not retried)
