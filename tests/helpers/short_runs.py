"""Small programs, some of which throw, and short runs of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import stanadapt as sa
from stanadapt import results

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
# the density throws where x < -0.43: a third of the standard normal's mass
WALL = """
parameters { real x; }
model { x ~ normal(0, 1); target += 0 * normal_lpdf(0 | 0, x + 0.43); }
"""
THROWING_QUANTITY = """
parameters { real x; }
model { x ~ normal(0, 1); }
generated quantities { real z = normal_rng(0, x + 0.5); }
"""
# finite on |x| < 1e-6 only
PIN = "parameters { real x; } model { target += normal_lpdf(0 | 0, 1e-12 - square(x)); }"
# gad_mala moves at once with these: short runs have moves and rejections
LIVELY = {"initial_scale": 1.5, "learning_rate": 1e-3}
SHORT = {"chains": 2, "iter_warmup": 30, "iter_sampling": 40, "seed": 11}


def draw(target, sampler="gad_mala", **changes):
    """Run a sampler briefly."""
    chosen = SHORT | (LIVELY if sampler == "gad_mala" else {}) | changes
    return sa.sample(target, sampler, **chosen)


def values(fit, name, group="posterior"):
    """Return a variable of a result as an array."""
    return results.dataset(fit, group)[name].values


def in_other_ways(target, sampler, folder, begun, **chosen):
    """Yield a run in several threads, on workers, and made longer in a folder after some draws."""
    yield sa.sample(target, sampler, parallel_chains=4, **chosen)
    with ThreadPoolExecutor(2) as executor:
        yield sa.sample(target, sampler, executor=executor, **chosen)
    sa.sample(target, sampler, run=folder, **{**chosen, "iter_sampling": begun})
    yield sa.resume(folder, iter_sampling=chosen["iter_sampling"])


DRAWN = ("posterior", "sample_stats")


def assert_same_draws(one, two, groups=DRAWN):
    """Require the same bits of every variable of these groups."""
    for group in groups:
        first, second = results.dataset(one, group), results.dataset(two, group)
        assert set(first) == set(second)
        for name in first:
            np.testing.assert_array_equal(first[name].values, second[name].values, err_msg=name)


def assert_same_fit(one, two):
    """Require the same draws and attributes, except times, the folder and the executor."""
    assert set(results.group_names(one)) == set(results.group_names(two))
    assert_same_draws(one, two, results.group_names(one))
    other = {name for name in one.attrs if name.endswith("seconds")}
    for name in {*one.attrs, *two.attrs} - other - {"created_at", "executor", "run"}:
        np.testing.assert_array_equal(one.attrs[name], two.attrs[name], err_msg=name)
