"""Posteriors at the limits of the map: each is drawn rightly, or said to be no posterior."""

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

import stanadapt as sa
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.engine.triangular_map import MappedDensity, with_memory
from stanadapt.samplers.whitened.straighten import straighten
from stanadapt.samplers.whitened.straightened import UNCHANGED, apply_map
from tests.helpers.hierarchy import FUNNEL, SCALE, Hierarchy
from tests.helpers.known_moments import surprise_of_share
from tests.helpers.short_runs import values

FUNNEL_OF = """
data {{ real center; }}
parameters {{ real v; vector[5] x; }}
model {{ {} x ~ normal(center, exp((v - 20) / 2)); }}
"""
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


def target(lines, center=-5.0):
    return sa.Target(FUNNEL_OF.format(lines), {"center": center})


def learned(positions, gradients):
    return straighten(positions, gradients, UNCHANGED, 0.0)


# --- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", [0.0, 3.0])
def test_a_coordinate_that_does_not_vary_changes_nothing(gradient):
    """A parameter may be stuck, or its density flat: neither is a scale of the others."""
    x = FUNNEL.draws(450, np.random.default_rng(1))
    g = FUNNEL.gradients(x)
    stuck, slope = np.full(len(x), 7.0), np.full(len(x), gradient)
    found = learned(np.column_stack([x, stuck]), np.column_stack([g, slope]))
    assert found.map_is_used
    assert set(found.straightening.coordinate) == set(FUNNEL.members)
    assert FUNNEL.dim not in found.straightening.scale_driver


@pytest.mark.soak
def test_thousands_of_members_are_one_group():
    large = Hierarchy(np.zeros(2000), np.zeros(2000))
    x = large.draws(300, np.random.default_rng(2))
    (group,) = learned(x, large.gradients(x)).groups
    assert group.members == tuple(large.members)
    assert group.prior[0] == SCALE


def test_maps_that_overflow_and_rows_that_are_not_finite():
    x = FUNNEL.draws(450, np.random.default_rng(1))
    found = learned(x, FUNNEL.gradients(x))
    straightening = with_memory(found.straightening, FUNNEL.dim)
    density = MappedDensity(FUNNEL.density(), straightening, FUNNEL.dim)
    gradient = np.empty(FUNNEL.dim)
    for size in (1e2, 1e4, 1e155, 1e300):
        for sign in np.random.default_rng(4).choice([-1.0, 1.0], (20, FUNNEL.dim)):
            found_value = value_and_gradient(density, sign * size, gradient)
            assert found_value == value(density, sign * size)
            assert found_value < 0.0  # -inf at times, but never nan
            assert np.isfinite(gradient).all()
    x = FUNNEL.draws(450, np.random.default_rng(1))
    g = FUNNEL.gradients(x)
    found = learned(x, g)
    bad_x, bad_g = np.vstack([x, x[:9]]), np.vstack([g, np.full_like(g[:9], np.nan)])
    again = learned(bad_x, bad_g)
    assert found.map_is_used
    np.testing.assert_array_equal(again.straightening.rows, found.straightening.rows)
    assert np.isfinite(apply_map(again.straightening, x, g)[0]).all()


# --- sampling ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_improper_scale_is_never_fine():
    """Without its prior, v has no bounds: x vanishes at one end, and the likelihood is flat."""
    for seed in (1, 2, 3):
        fit = sa.sample(target(""), seed=seed, iter_sampling=500)
        assert fit.attrs["verdict"] != "fine"


def test_a_program_that_fails_in_the_neck():
    """The scale has its prior, but for its lower twelfth, where the density is not a number."""
    rejecting = target("target += 0 * log(v - 16); v ~ normal(20, 3);")
    fit = sa.sample(rejecting, seed=1, iter_sampling=3000, inits={"v": 20.0})
    v = values(fit, "v")
    assert v.min() >= 16.0
    known = truncnorm((16 - 20) / 3, np.inf, 20, 3)
    for share in (0.1, 0.5, 0.9):
        assert abs(surprise_of_share(v, known.ppf(share), share)) < 5.0


def test_a_warm_start_from_a_fit_with_another_map():
    """Members are elsewhere, with another location: the map of the earlier fit does not hold."""
    prior = "v ~ normal(20, 3);"
    earlier = sa.sample(target(prior, center=400.0), seed=1)
    assert "straightening" in earlier.attrs
    fit = sa.sample(target(prior), seed=2, iter_sampling=3000, warm_start=earlier)
    assert fit.attrs["verdict"] == "fine"
    for share in (0.05, 0.5, 0.95):
        assert abs(surprise_of_share(values(fit, "v"), norm(20, 3).ppf(share), share)) < 5.0
