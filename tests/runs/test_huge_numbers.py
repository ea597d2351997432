"""Densities and gradients whose squares are too large for a float: no warning of NumPy's.

The suite turns every warning into an error, so that a run without one is the test.
"""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import agreement, stanli
from tests.helpers.codes import raises, warns
from tests.helpers.short_runs import draw

SCALED = "data { real s; } parameters { vector[3] a; } model { target += "
PROGRAMS = {
    "quadratic": (SCALED + "-0.5 * s * dot_self(a); }", {"s": 1e200}),
    "almost the largest": (SCALED + "-0.5 * s * dot_self(a); }", {"s": 1e308}),
    "exponential": (SCALED + "-sum(exp(s * a)); }", {"s": 700.0}),
    "linear": ("data{real s;} parameters{vector<lower=0>[3] a;} model{target+=-s*sum(a);}",
               {"s": 1e307}),
}  # fmt: skip
COUNTS = """
data { int N; vector[N] x; array[N] int y; }
parameters { real a; real b; }
model { y ~ poisson_log(a + b * x); }
"""


def test_the_check_of_the_gradient_of_counts_with_a_steep_rate():
    x = np.linspace(0, 5000, 50)
    sa.Target(COUNTS, {"N": 50, "x": x, "y": [3] * 50})


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
@pytest.mark.parametrize("sampler", ["whitened_hmc", "am"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run(name, sampler):
    target = sa.Target(*PROGRAMS[name])
    if (name, sampler) == ("almost the largest", "whitened_hmc"):
        with raises("no_draws"):  # the density overflows next to its mode
            draw(target, sampler, iter_warmup=200, iter_sampling=100)
        return
    fit = draw(target, sampler, iter_warmup=200, iter_sampling=100)
    assert str(sa.diagnose(fit))
    assert str(sa.compare({"one": fit, "other": fit}))


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_pathfinder():
    draw(sa.Target(*PROGRAMS["linear"]), "am", inits="pathfinder")


def test_a_wrong_gradient_of_a_huge_density_is_refused(monkeypatch):
    evaluate = stanli.evaluate

    def wrong(model, point):
        value, gradient = evaluate(model, point)
        return value, gradient * 1.02

    monkeypatch.setattr(stanli, "evaluate", wrong)
    with raises("gradient_mismatch"):
        sa.Target(*PROGRAMS["quadratic"])


def test_a_density_whose_rounding_hides_the_gradient_is_not_checked():
    """At 1e17, steps of 1e-4 change a log density by less than its last digit."""
    with warns("nothing_compared"):
        sa.Target(SCALED + "s - 0.5 * dot_self(a); }", {"s": 1e17})


@pytest.mark.parametrize(("factor", "where"), [(1.0, None), (1.01, 1)])
def test_agreement_of_huge_gradients(factor, where):
    """The second point differs by 1 %, ten times the tolerance."""
    theirs = [(1e199, np.array([1e200, -3e200])), (2e199, np.array([2e200, 1e190]))]
    ours = [theirs[0], (2e199, theirs[1][1] * factor)]
    with np.errstate(all="raise"):  # `check` ignores them; this part needs no such leave
        assert agreement._disagreement(ours, theirs) == where
