"""Draws begin again with shorter steps if too many diverge, alike in every way to run."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.results import attribute, dataset
from stanadapt.runs.checkpoint import WriteCheckpoints
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
