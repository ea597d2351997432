"""Draws begin again with shorter steps if too many diverge, alike in every way to run."""

import json
import signal

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.chain import Chain
from stanadapt.engine.warmup import next_block
from stanadapt.errors import StanadaptError, codes_of
from stanadapt.results import attribute, dataset, notes
from stanadapt.runs.checkpoint import WriteCheckpoints, chain_file
from stanadapt.samplers.tempering import Extended
from stanadapt.samplers.whitened.nuts_stages import REVIEWED
from tests.helpers.codes import warns
from tests.helpers.driven_runs import SMALL_CHUNKS, Crash, Crashing, crash, sample_with
from tests.helpers.short_runs import assert_same_fit, in_other_ways
from tests.helpers.stan_target import shared_target

# steep walls that few trajectories reach: 1 % of them
WALLS = """
parameters { vector[3] x; }
model {
  x ~ std_normal();
  for (i in 1:3) target += -5e5 * fmax(x[i] - 3.3, 0)^2;
}
generated quantities { real y = normal_rng(x[1], 1); }
"""
NUTS = {"straighten": False, "trajectory": "nuts", "iter_sampling": 260}
AGAIN = "sampling_began_again"
pytestmark = pytest.mark.filterwarnings("ignore")
target = shared_target(WALLS)


def draw(target, seed, **changes):
    return sa.sample(target, "whitened_hmc", seed=seed, **{**NUTS, **changes})


@pytest.fixture(scope="module")
def seed(target):
    # nine in ten; which ones depends on the last bits of a processor
    return next(s for s in range(30) if "of its first" in attribute(draw(target, s), "trajectory"))


def test_steps_are_shorter_and_what_was_thrown_away_is_warm_up(target, seed):
    kept = draw(target, seed, shorten=False)
    with warns(AGAIN, "trajectories diverged"):
        fit = draw(target, seed)
    assert attribute(fit, "acceptance_target") == 0.99
    stats = dataset(fit, "sample_stats")
    assert stats.sizes["draw"] == NUTS["iter_sampling"]
    # what was evaluated is warm-up or a draw
    total = attribute(fit, "n_gradients_warmup") + int(stats["n_gradients"].sum())
    assert attribute(fit, "n_gradients") == total
    assert attribute(fit, "n_gradients_warmup") > attribute(kept, "n_gradients_warmup") + 500
    assert attribute(fit, "warmup_iterations") >= attribute(kept, "warmup_iterations") + 50
    assert np.ptp(stats["step_size"].values, axis=1).max() == 0.0
    assert stats["step_size"].mean() < 0.8 * dataset(kept, "sample_stats")["step_size"].mean()


def test_the_draws_are_the_same_in_every_way_to_run(target, seed, tmp_path):
    options = {**NUTS, "seed": seed, "thin": 2, "save_warmup": True}
    whole = draw(target, seed, thin=2, save_warmup=True)
    every = json.loads(attribute(whole, "every_iteration"))
    assert every["iterations"] == [NUTS["iter_sampling"]] * 4
    small = sample_with(SMALL_CHUNKS, target, "whitened_hmc", **options, parallel_chains=1)
    assert_same_fit(small, whole)
    for fit in in_other_ways(target, "whitened_hmc", tmp_path / "run", 60, **options):
        assert_same_fit(fit, whole)


def test_draws_of_an_extended_target_begin_again_with_theirs(target, tmp_path):
    extended = Extended(target, 2, temperature="fixed", fixed_at=1.0)
    options = {**NUTS, "thin": 2, "save_warmup": True}
    seed = next(
        s for s in range(30) if "of its first" in attribute(draw(extended, s), "trajectory")
    )
    whole = draw(extended, seed, **options)
    assert attribute(whole, "acceptance_target") == 0.99
    every = json.loads(attribute(whole, "every_iteration"))
    assert every["iterations"] == [NUTS["iter_sampling"]] * 4
    # each is a pseudo-sample of its own iteration, as many as these accept
    x = whole["posterior"]["x"].values
    assert np.abs(x.mean(axis=(0, 1))).max() < 0.3
    assert (np.diff(x, axis=1) != 0.0).all(axis=2).mean() > 0.9
    small = sample_with(SMALL_CHUNKS, extended, "whitened_hmc", seed=seed, **options)
    assert_same_fit(small, whole)
    run = tmp_path / "run"
    draw(extended, seed, **{**options, "iter_sampling": 60}, run=run)
    assert_same_fit(sa.resume(run, target=extended, iter_sampling=260), whole)


@pytest.mark.soak
@pytest.mark.parametrize("before_end", [8, 100, 168, 190, 250])
def test_a_crash_before_while_and_after_they_begin_again(target, seed, before_end, tmp_path):
    keepers, chosen = [], {**NUTS, "seed": seed}

    def counting(*given):
        keepers.append(Crashing(10**9, *given))
        return keepers[0]

    parts = {**SMALL_CHUNKS, "make_keeper": counting}
    whole = sample_with(parts, target, "whitened_hmc", **chosen, run=tmp_path / "whole")
    after = next(keepers[0].count) - before_end
    with pytest.raises(Crash):
        sample_with(crash(after), target, "whitened_hmc", **chosen, run=tmp_path / "run")
    assert_same_fit(sa.resume(tmp_path / "run"), whole)


class FullDisk(WriteCheckpoints):
    """Writes after each chunk until draws are to begin again, and nothing from then on."""

    def __init__(self, *given):
        super().__init__(*given, seconds=1e9)

    def chunk_done(self, chain):
        if not chain.thrown_away.iterations:
            number = self._number[id(chain)]
            self.folder.write_arrays(chain_file(number), self.state_of(chain))

    def pooled(self, chains):
        again = chains[0].thrown_away.iterations
        if again:
            self.folder.write_arrays = self.refuse
        super().pooled(chains)
        if not again:
            self.write_together(chains)

    def refuse(self, *given):
        raise StanadaptError("run_not_writable", "no space left on device.")


def test_a_full_disk_in_between_ends_the_run_with_its_draws(target, seed, tmp_path):
    whole, run = draw(target, seed), tmp_path / "run"
    with warns("checkpoint_failed", "no space left"), warns("ended_early", "began again"):
        fit = sample_with(
            {"make_keeper": FullDisk}, target, "whitened_hmc", **NUTS, seed=seed, run=run
        )
    assert not attribute(fit, "interrupted")
    assert AGAIN not in codes_of(notes(fit))
    assert fit["posterior"].sizes["draw"] in REVIEWED
    # the folder has the draws of its last checkpoint still
    for kept in (sa.load(run), fit):
        x, chains = kept["posterior"]["x"].values, attribute(kept, "chains_kept") - 1
        # a run that ends before the review
        first = draw(target, seed, iter_sampling=x.shape[1] - 1)["posterior"]["x"]
        np.testing.assert_array_equal(x[:, :-1], first[chains])
    assert_same_fit(sa.resume(run), whole)


def test_an_interruption_waits_until_all_chains_begin_again(target, seed, tmp_path, monkeypatch):
    throw, whole = Chain.throw_draws_away, draw(target, seed)

    def pressed(chain):
        throw(chain)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Chain, "throw_draws_away", pressed)
    fit = draw(target, seed, run=tmp_path / "run")
    monkeypatch.undo()
    assert attribute(fit, "interrupted")
    assert attribute(fit, "chains_kept").tolist() == [1, 2, 3, 4]
    assert fit["posterior"].sizes["draw"] in REVIEWED
    # as a run that ends before the review: it says how these draws were made
    first = draw(target, seed, iter_sampling=fit["posterior"].sizes["draw"] - 1)
    for name in ("acceptance_target", "trajectory", "acceptance_range"):
        assert np.array_equal(attribute(fit, name), attribute(first, name))
    assert attribute(fit, "acceptance_target") < attribute(whole, "acceptance_target") == 0.99
    assert_same_fit(sa.resume(tmp_path / "run"), whole)


def test_old_draws_stand_beside_no_new_ones(target, seed):
    def one_chain(chains, *given, **more):
        first = chains[0]
        while not first.thrown_away.iterations or first.warming_up:
            for chain in chains:
                while not chain.waiting:
                    chain.advance()
            next_block(chains)
        first.advance(3)
        return True

    parts = {"run_chains": one_chain}
    fit = sample_with(parts, target, "whitened_hmc", **NUTS, seed=seed)
    assert attribute(fit, "chains_kept").tolist() == [1]
    x = fit["posterior"]["x"].values
    np.testing.assert_array_equal(
        x[0], draw(target, seed)["posterior"]["x"].values[0, : x.shape[1]]
    )


class Pressing(WriteCheckpoints):
    """Interrupts the run once draws have been thrown away, before there are others."""

    def pooled(self, chains):
        super().pooled(chains)
        if chains[0].thrown_away.iterations and chains[0].warming_up:
            raise KeyboardInterrupt


def test_an_interruption_in_between_costs_no_draw(target, seed, tmp_path):
    whole, run = draw(target, seed), tmp_path / "run"
    parts = {"make_keeper": Pressing}
    fit = sample_with(parts, target, "whitened_hmc", **NUTS, seed=seed, run=run)
    assert attribute(fit, "interrupted")
    taken = fit["posterior"]["x"].values
    n = taken.shape[1]
    assert n in REVIEWED
    # a run that ends before the review
    first = draw(target, seed, iter_sampling=n - 1)
    np.testing.assert_array_equal(taken[:, :-1], first["posterior"]["x"])
    assert_same_fit(sa.resume(run), whole)
