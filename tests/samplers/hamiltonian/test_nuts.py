"""NUTS as a sampler: its warm-up, and its report. Its trajectories: engine/test_nuts_tree.py."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.results.cmdstan_header import STATISTICS
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.codes import warns
from tests.helpers.targets import SD, Awkward

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


def test_divergences_of_a_funnel_are_reported_once():
    with warns("divergences", "target_accept") as caught:
        fit = sa.sample(sa.Target(FUNNEL), "nuts", target_accept=0.5, **RUN)
    count = stats(fit, "diverging").sum()
    assert 0 < count < 1000  # among ten seeds, between 2 and 209
    (warning,) = [w for w in caught if w.message.code == "divergences"]
    assert f"{count} of 2000" in str(warning.message)


def test_trees_at_the_maximum_depth_are_reported_once():
    code = "parameters { vector[2] x; } model { x ~ normal(0, [1, 1e-3]'); }"
    with warns("max_treedepth", "max_treedepth") as caught:
        fit = sa.sample(sa.Target(code), "nuts", iter_warmup=15, max_treedepth=3, **RUN)
    (warning,) = [w for w in caught if w.message.code == "max_treedepth"]
    cut = stats(fit, "reached_max_treedepth")
    np.testing.assert_array_equal(cut, stats(fit, "tree_depth") == 3)
    assert f"{cut.sum()} of 2000" in str(warning.message)
    assert stats(fit, "n_steps").max() == 7
    assert cut.mean() > 0.5
