"""A warm start: a block that is nearly Gaussian is found at the draws, and judged on new ones."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.block_map import pack
from stanadapt.engine.triangular_map import no_map
from stanadapt.engine.warmup import END
from stanadapt.results import attribute
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block_structure import find_block
from stanadapt.samplers.whitened.earlier_draws import judge_earlier
from stanadapt.samplers.whitened.straightened import Straightened
from tests.helpers.gaussian_blocks import LEVELS, LocalLevel, anywhere
from tests.helpers.made_up_blocks import at, begun, filled
from tests.helpers.short_runs import assert_same_draws, in_other_ways

STATES = 100
WALK = """
data { int n; array[n] int y; }
parameters { vector[n] u; real<lower=0> s; }
model {
  s ~ normal(0, 1); u[1] ~ normal(0, 2); u[2:n] ~ normal(u[1:(n - 1)], s);
  y ~ poisson_log(u);
}
"""
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


def walk(seed, level=1.0):
    rng = np.random.default_rng(seed)
    y = rng.poisson(np.exp(level + np.cumsum(0.2 * rng.normal(size=STATES))))
    return sa.Target(WALK, {"n": STATES, "y": y.tolist()}, backend="stanli")


@pytest.fixture(scope="module")
def first():
    return sa.sample(walk(1), seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_the_former_block_comes_first(first, seed):
    target = walk(1)
    cold, warm = sa.sample(target, seed=seed), sa.sample(target, seed=seed, warm_start=first)
    assert {attribute(fit, "gaussian_block") for fit in (first, cold, warm)} == {"nearly"}
    used = [int(attribute(fit, "n_gradients_warmup")) for fit in (cold, warm)]
    assert used[1] < 0.5 * used[0]
    assert attribute(warm, "verdict") == "fine"


@pytest.mark.slow
def test_draws_of_other_data_are_forgotten(first):
    """Levels differ, and the block that is nearly Gaussian there is found again here."""
    fit = sa.sample(walk(2, level=3.0), seed=2, warm_start=first)
    assert attribute(fit, "verdict") == "fine"
    assert attribute(fit, "gaussian_block") == "nearly"
    same = sa.sample(walk(1), seed=2, warm_start=first)
    used = [int(attribute(each, "n_gradients_warmup")) for each in (fit, same)]
    assert used[0] > used[1]


def slopes_of(model, x):
    return np.array([model.gradient(row) for row in x])


@pytest.mark.parametrize(
    ("exact", "gradient", "holds"),
    [(False, "own", True), (False, "of another", False), (True, "of another", True)],
)
def test_new_draws_judge_a_block_that_is_nearly_gaussian(exact, gradient, holds):
    model = LocalLevel()
    x = anywhere(np.random.default_rng(1), 400)
    block = find_block(x, slopes_of(model, x), dict.fromkeys([LEVELS, LEVELS + 1])).map
    settings, progress, states = begun(x[:4])
    rows = x[4:64].reshape(4, 15, -1)
    slopes = slopes_of(model, x[4:64]) if gradient == "own" else -x[4:64]
    states = [
        filled(state, 15, 0.0, own, own_slopes)
        for state, own, own_slopes in zip(states, rows, slopes.reshape(rows.shape), strict=True)
    ]
    found = Straightened(no_map(pack(block)), (), 2.0, np.inf, exact=exact)
    earlier = parts.Earlier(0.0, -1e9, 1e9, None)
    progress = at(progress, parts.EARLIER, 15, straightened=found, earlier=earlier)
    window = parts.window_of(progress, states)
    level = float(window.log_density.mean())
    progress = progress.learning(earlier=earlier._replace(mean=level))
    progress, _ = judge_earlier(settings, progress, states)
    assert progress.learned.straightened.block_is_used == holds
    assert progress.learned.settled == holds
    assert (progress.then == parts.TRAVEL) == (not holds)
    assert progress.then != END
    if holds and not exact:  # one window of METRIC judges what is left outside of it
        assert progress.then == parts.FIND_STEP
        assert progress.learned.earlier is None
        assert progress.learned.fixed.done == len(progress.learned.fixed.windows) - 1


@pytest.mark.thorough
def test_draws_are_the_same_in_threads_workers_and_resumed_runs(first, tmp_path):
    """Runs that are resumed stop while the earlier draws are put aside."""
    run = {"seed": 3, "iter_sampling": 60, "warm_start": first}
    fit = sa.sample(walk(1), **run)
    for other in in_other_ways(walk(1), "auto", tmp_path / "run", 5, **run):
        assert_same_draws(fit, other)
