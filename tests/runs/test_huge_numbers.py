"""Densities and gradients whose squares are too large for a float: no warning of NumPy's.

The suite turns every warning into an error, so that a run without one is the test.
"""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers.tempering import Extended
from stanadapt.targets.stan.backends import agreement, stanli
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.short_runs import NORMAL, draw
from tests.helpers.stan_target import shared_target

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


def test_steep_rates_are_checked_and_rounding_is_no_fault():
    x = np.linspace(0, 5000, 50)
    sa.Target(COUNTS, {"N": 50, "x": x, "y": [3] * 50})
    # at 1e17, steps of 1e-4 change a log density by less than its last digit
    with warns("nothing_compared"):
        sa.Target(SCALED + "s - 0.5 * dot_self(a); }", {"s": 1e17})


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


@pytest.mark.parametrize(("factor", "where"), [(1.0, None), (1.01, 1)])
def test_agreement_of_huge_gradients(factor, where):
    """The second point differs by 1 %, ten times the tolerance."""
    theirs = [(1e199, np.array([1e200, -3e200])), (2e199, np.array([2e200, 1e190]))]
    ours = [theirs[0], (2e199, theirs[1][1] * factor)]
    with np.errstate(all="raise"):  # `check` ignores them; this part needs no such leave
        assert agreement._disagreement(ours, theirs) == where


target = shared_target(NORMAL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "setting"),
    [
        ("nuts", {"max_treedepth": 1e300}), ("hmc", {"leapfrogs": 10**25}),
        ("parallel_tempering", {"levels": 10**12}), ("pseudo_extended", {"pseudo_samples": 10**12}),
    ],
)  # fmt: skip
def test_settings(target, sampler, setting):
    with raises_in("settings", sampler):
        draw(target, sampler, **setting)


def test_initial_values_nested_too_deep(target):
    nested = 1.0
    for _ in range(1000):
        nested = [nested]
    with raises_in("initialization", "x"):
        draw(target, "nuts", inits={"x": nested})


@pytest.mark.parametrize("temperature", [[], {}])
def test_options_that_cannot_be_looked_up(target, temperature):
    with raises_in("settings", "temperature"):
        Extended(target, temperature=temperature)
