"""NUTS as a sampler: windows, metric, steps, report. Its trees: engine/test_nuts_tree.py."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine import adaptation
from stanadapt.engine.adaptation import learn_factor, no_draws, window_end, with_draw
from stanadapt.engine.leapfrog import LARGEST, SMALLEST, Leapfrog, Phase, first_step
from stanadapt.engine.points import gradient_at
from stanadapt.results.cmdstan_header import STATISTICS
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.codes import warns
from tests.helpers.targets import MEAN, SD, Awkward

FUNNEL = """
parameters { real v; vector[9] x; }
model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }
"""
RUN = {"chains": 2, "seed": 4}


def stats(fit, name):
    return results.dataset(fit, "sample_stats")[name].values


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("warmup", [0, 1, 2, 19, 20, 21, 149, 150, 151])
def test_warmups_of_every_length(warmup, dense):
    case = ("nuts", {"dense": dense})
    (chain,) = finish(make_chains(case, Awkward(), warmup=warmup, draws=50))
    assert np.isfinite(chain.sampling.stats).all()
    assert len(np.unique(column(chain, "step_size"))) == 1
    if warmup == 0 or warmup > 100:  # otherwise only a few iterations tuned the step size
        assert len(np.unique(chain.sampling.constrained[:, 0])) > 25
    factor = np.tril(chain.state.leapfrog.factor) if dense else chain.state.leapfrog.factor
    unit = np.eye(3) if dense else np.ones((1, 3))
    assert np.array_equal(factor, unit) == (warmup < 20)


def test_the_metric_is_the_inverse_of_the_covariance():
    """Five errors: over 40 seeds, entries in units of SD SD vary by up to 0.15, roots by 0.07."""
    covariance = np.diag(SD**2)
    covariance[1, 2] = covariance[2, 1] = 0.7 * SD[1] * SD[2]
    unit = np.outer(SD, SD)
    (chain,) = finish(make_chains(("nuts", {"dense": True}), Awkward(), warmup=1000))
    root = np.tril(chain.state.leapfrog.factor)
    np.testing.assert_allclose(root @ root.T / unit, covariance / unit, atol=0.75)
    (chain,) = finish(make_chains(("nuts", {}), Awkward(), warmup=1000))
    np.testing.assert_allclose(chain.state.leapfrog.factor[0] / SD, 1.0, atol=0.35)


def test_a_new_metric_comes_with_a_new_step_size():
    (chain,) = make_chains(("nuts", {}), Awkward(), warmup=1000)
    centers, counts = [], []
    for _ in range(1000):
        chain.advance(1)
        centers.append(chain.state.tuning.averaging.center)
        counts.append(chain.state.tuning.averaging.count)
    changes = [t for t in range(1, 1000) if centers[t] != centers[t - 1]]
    # the search runs at the beginning of the iteration that follows
    assert changes == [100, 150, 250, 450, 950]
    assert [counts[t] for t in changes] == [1] * 5
    assert centers[0] == np.log(10.0)
    step_sizes = chain.warmup.stats[:, chain.stat_names.index("step_size")]
    np.testing.assert_allclose([centers[t] for t in changes], np.log(10 * step_sizes[changes]))
    frozen = np.exp(chain.state.tuning.averaging.log_mean)
    finish([chain])
    np.testing.assert_array_equal(column(chain, "step_size"), frozen)
    assert frozen != step_sizes[-1]


def test_statistics_are_those_of_stan():
    fit = sa.sample(sa.Target(FUNNEL.replace("exp(v / 2)", "1")), "nuts", **RUN)
    ours = results.dataset(fit, "sample_stats")
    theirs = dict(STATISTICS.values())
    for name, kind in theirs.items():
        assert ours[name].dtype == kind
    assert set(ours) - set(theirs) == {"n_gradients", "reached_max_treedepth"}
    np.testing.assert_array_equal(ours["n_steps"], ours["n_gradients"])
    depth, steps = ours["tree_depth"].values, ours["n_steps"].values
    assert ((2**depth - 1 <= steps) & (steps < 2 ** (depth + 1))).all()
    # the kinetic energy of 10 dimensions has mean 5, and a standard deviation of sqrt(5)
    kinetic = ours["energy"].values + ours["lp"].values
    assert (kinetic > 0).all()
    assert abs(kinetic.mean() - 5) < 5 * np.sqrt(5 / 500)


def test_divergences_and_deep_trees_are_reported_once():
    with warns("divergences", "target_accept") as caught:
        fit = sa.sample(sa.Target(FUNNEL), "nuts", target_accept=0.5, **RUN)
    count = stats(fit, "diverging").sum()
    assert 0 < count < 1000  # among ten seeds, between 2 and 209
    (warning,) = [w for w in caught if w.message.code == "divergences"]
    assert f"{count} of 2000" in str(warning.message)
    code = "parameters { vector[2] x; } model { x ~ normal(0, [1, 1e-3]'); }"
    with warns("max_treedepth", "max_treedepth") as caught:
        fit = sa.sample(sa.Target(code), "nuts", iter_warmup=15, max_treedepth=3, **RUN)
    (warning,) = [w for w in caught if w.message.code == "max_treedepth"]
    cut = stats(fit, "reached_max_treedepth")
    np.testing.assert_array_equal(cut, stats(fit, "tree_depth") == 3)
    assert f"{cut.sum()} of 2000" in str(warning.message)
    assert stats(fit, "n_steps").max() == 7
    assert cut.mean() > 0.5


def ends(iter_warmup):
    """Return the iterations, counted from 1, that end with a new metric."""
    return [t + 1 for t in range(iter_warmup) if window_end(t, iter_warmup) == t]


# of 150 iterations or more, by a transcription of Stan's windowed_adaptation.hpp
@pytest.mark.parametrize(("iter_warmup", "updates"), [
    (9999, [100, 150, 250, 450, 850, 1650, 3250, 9949]), (2000, [100, 150, 250, 450, 850, 1950]),
    (1234, [100, 150, 250, 450, 1184]), (1000, [100, 150, 250, 450, 950]),
    (701, [100, 150, 250, 651]), (500, [100, 150, 250, 450]), (350, [100, 150, 300]),
    (300, [100, 150, 250]), (299, [100, 249]), (226, [100, 176]), (225, [100, 175]),
    (200, [100, 150]), (175, [100, 125]), (174, [100, 124]), (151, [100, 101]), (150, [100]),
    (149, [135]), (100, [90]), (20, [18]), (19, []), (2, []), (1, []), (0, []),
])  # fmt: skip
def test_schedule_of_windows(iter_warmup, updates):
    assert ends(iter_warmup) == updates


def test_buffers_belong_to_no_window_and_averaging_is_the_published_one():
    inside = [window_end(t, 1000) >= 0 for t in range(1000)]
    assert inside == [75 <= t < 950 for t in range(1000)]
    inside = [window_end(t, 100) >= 0 for t in range(100)]
    assert inside == [15 <= t < 90 for t in range(100)]
    assert {window_end(t, 19) for t in range(19)} == {-1}
    # algorithm 5 of Hoffman and Gelman (2014), with the sums written out
    rates, target, first = np.random.default_rng(1).uniform(0, 1, 60), 0.8, 0.3
    averaging, logs = adaptation.start(first), []
    h, mean = 0.0, 0.0
    for m, rate in enumerate(rates, 1):
        averaging = adaptation.update(averaging, rate, target)
        h = (1 - 1 / (m + 10)) * h + (target - rate) / (m + 10)
        logs.append(np.log(10 * first) - np.sqrt(m) / 0.05 * h)
        mean = m**-0.75 * logs[-1] + (1 - m**-0.75) * mean
        assert averaging.log_step == pytest.approx(logs[-1], rel=1e-12)
        assert averaging.log_mean == pytest.approx(mean, rel=1e-12)
        assert averaging.count == m


def learned_factor(draws, diagonal, before=2.0):
    n = draws.shape[1]
    welford = no_draws(n, diagonal)
    factor = np.full((1 if diagonal else n, n), before)
    for _ in range(2):  # twice: the second window must not remember the first
        for draw in draws:
            welford = with_draw(welford, draw)
        count = welford.count
        welford = learn_factor(welford, factor)
        assert (count, welford.count) == (len(draws), 0)
    return factor


@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("count", [2, 25, 500])
def test_the_factor_is_that_of_stans_shrunk_covariance(dim, count):
    rng = np.random.default_rng(count)
    scales = np.exp(rng.uniform(-4, 4, dim))
    draws = 100 + scales * (rng.standard_normal((count, dim)) @ rng.standard_normal((dim, dim)))
    covariance = np.cov(draws.T).reshape(dim, dim)
    expected = count / (count + 5) * covariance + 1e-3 * 5 / (count + 5) * np.eye(dim)
    lower = np.tril(learned_factor(draws, False))
    np.testing.assert_allclose(lower @ lower.T, expected, rtol=1e-9, atol=1e-9 * expected.max())
    np.testing.assert_allclose(learned_factor(draws, True)[0] ** 2, np.diag(expected), rtol=1e-9)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("draws", [
    np.ones((1, 3)), np.full((4, 3), np.nan), np.array([[0.0] * 3, [1e200] * 3, [-1e300] * 3]),
], ids=["one", "nan", "overflow"])  # fmt: skip
def test_without_a_covariance_the_factor_is_kept(draws, diagonal):
    np.testing.assert_array_equal(learned_factor(draws, diagonal), 2.0)


def search(step_size, scale, wall=np.inf, seed=1):
    target = Awkward()
    density = target.density()
    point = gradient_at(density, MEAN)
    target.wall[0] = wall
    factor = np.full((1, 3), scale)
    phase = Phase(np.empty(3), np.empty(3), np.empty(3))
    work = Leapfrog(factor, np.empty(3), np.empty(3))
    return first_step(density, work, phase, point, step_size, np.random.default_rng(seed))


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
@pytest.mark.parametrize("initial", [1e-5, 1.0, 1e5])
def test_the_search_ends_at_the_scale_of_the_target(initial, scale):
    """The narrowest scale is 0.3 sqrt(1 - 0.7^2) = 0.21, and leapfrogs are stable up to twice it.

    The search stops within a factor of two of where a leapfrog begins to be rejected.
    """
    found = [search(initial, scale, seed=seed) * scale for seed in range(20)]
    assert 0.05 < np.median(found) < 0.84
    exponents = np.log2(np.array(found) / scale / initial)
    np.testing.assert_allclose(exponents, np.round(exponents))


@pytest.mark.parametrize("initial", [1e-310, 1.0, np.inf])
def test_the_search_ends_if_proposals_fail(initial):
    """With a wall at the start half of all momenta fail at any step size; then all do."""
    assert SMALLEST <= search(initial, 1.0, wall=MEAN[0]) <= LARGEST
    assert search(initial, 1.0, wall=-np.inf) == np.clip(initial, SMALLEST, LARGEST)
