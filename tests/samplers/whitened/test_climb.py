"""Climbs end at the height of the typical set, and differences there give the curvature."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.chain import run
from stanadapt.engine.density import FAILED_CALLS, FAILED_IN_A_ROW
from stanadapt.engine.points import gradient_at, start_at
from stanadapt.results import attribute
from stanadapt.samplers.whitened.arrival import mean_metric
from stanadapt.samplers.whitened.climb import LEAST_STEPS, _gained, climb, climb_if_due, no_climb
from stanadapt.samplers.whitened.fisher_metric import FisherMetric
from stanadapt.samplers.whitened.travel_stages import rough_metric
from stanadapt.samplers.whitened.window import NUMBERS, Window
from tests.helpers.gaussian_target import Gaussian, make_chains_at

SD = 10.0 ** np.linspace(-2, 2, 8)
MEAN = 30.0 * SD


def plan(gradients=150, newton=False, sides=2):
    return no_climb()._replace(gradients=gradients, enough=len(SD) / 2, newton=newton, sides=sides)


def climbed(factor, chosen, begin=None):
    """The end of a climb, the Climb, and the gradients that it took."""
    density = Gaussian(MEAN, SD).density()
    start = gradient_at(density, np.zeros(len(SD)) if begin is None else begin)
    before = int(density.calls.sum())
    end, found = climb(density, start, factor, chosen)
    return end, found, int(density.calls.sum()) - before


def test_a_climb_ends_between_the_typical_set_and_the_mode():
    end, found, _ = climbed(np.ones((1, len(SD))), plan())
    # the mode is at 0, and the start at -n 30^2 / 2
    assert -3.0 * len(SD) < end.log_density <= 0.0
    assert found.gradients == 0


def test_a_chain_climbs_if_its_climb_is_due():
    (chain,) = make_chains_at(Gaussian(MEAN, SD), np.zeros((1, len(SD))))
    state, before = chain.state, chain.density.calls.copy()
    assert climb_if_due(chain.density, state) is state
    np.testing.assert_array_equal(chain.density.calls, before)
    due = state._replace(climb=plan())
    ended = climb_if_due(chain.density, due)
    assert ended.current.log_density > due.current.log_density
    assert ended.climb.gradients == 0


def test_a_chain_at_the_typical_set_stays_there():
    begin = MEAN + 0.9 * SD
    end, _, used = climbed(SD[None], plan(newton=True, sides=0), begin)
    np.testing.assert_array_equal(end.position, begin)
    assert used == 0


def test_a_climb_keeps_to_its_gradients():
    _, _, used = climbed(1e-6 * np.ones((1, len(SD))), plan(gradients=3, sides=0))
    assert used == 3


def test_a_pursuit_ends_between_the_level_and_the_highest_that_is_allowed():
    """The mode is at 0, and a step to it from the start is shorter than the first one."""
    chosen = plan()._replace(enough=0.0, level=-40.0, highest=-20.0)
    end, found, _ = climbed(np.ones((1, len(SD))), chosen)
    assert -40.0 <= end.log_density <= -20.0
    assert found.curvature.shape == (len(SD), len(SD))


def test_a_pursuit_that_does_not_reach_the_level_makes_no_differences():
    chosen = plan(gradients=3)._replace(enough=0.0, level=-1.0)
    end, found, used = climbed(1e-6 * np.ones((1, len(SD))), chosen)
    assert end.log_density < -1.0
    assert used == 3
    assert len(found.curvature) == 0


def test_a_chain_returns_before_it_climbs():
    begin = MEAN + 2.0 * SD
    chosen = plan(gradients=0, sides=0)._replace(begin=begin)
    end, found, used = climbed(SD[None], chosen)
    np.testing.assert_array_equal(end.position, begin)
    np.testing.assert_allclose(end.log_density, -2.0 * len(SD))
    assert used == 1
    assert len(found.begin) == 0


def test_the_logarithm_is_climbed_where_gradients_grow_with_the_density():
    """At the start the log density is -1e64 and its slope 1e66; at the maximum it is about -1."""
    model = "target += -exp(exp(x[1])) - x[1]^2 - 1e4 * x[2]^2;"
    code = f"parameters {{ vector[2] x; }} model {{ {model} }}"
    target = sa.Target(code)
    density = target.density()
    start = start_at(density, np.array([5.0, 0.1]))
    chosen = no_climb()._replace(gradients=450, enough=2.0)
    end, _ = climb(density, start, np.array([[5.0, 1.0]]), chosen)
    assert start.log_density < -1e60
    assert end.log_density > -10.0
    assert int(density.calls.sum()) < 200


@pytest.mark.parametrize("sides", [1, 2])
def test_differences_give_the_curvature_in_the_coordinates_of_the_metric(sides):
    rng = np.random.default_rng(1)
    factor = np.tril(rng.standard_normal((8, 8))) + 3.0 * np.eye(8)
    factor *= SD[:, None]
    _, found, _ = climbed(np.ascontiguousarray(factor), plan(sides=sides))
    exact = factor.T @ np.diag(SD**-2.0) @ factor
    np.testing.assert_allclose(found.curvature, exact, rtol=1e-5, atol=1e-5 * exact.max())


@pytest.mark.parametrize("wrong", [1e12, 1e-12])
def test_differences_recover_from_scales_that_are_wrong(wrong):
    _, found, _ = climbed(wrong * SD[None], plan(gradients=1))
    np.testing.assert_allclose(found.curvature / wrong**2, np.eye(8), atol=1e-2)


@pytest.mark.filterwarnings("ignore:.*checks of this program were omitted")
def test_steps_that_go_too_far_are_no_failures_of_the_chain():
    """Else chains with many parameters would be stopped: differences are made five times each."""
    code = 'parameters { real x; real y; } model { if (x != 0 || y != 0) reject(""); target += x; }'
    target = sa.Target(code, unsafe=True)
    density = target.density()
    start = start_at(density, np.zeros(2))
    chosen = no_climb()._replace(gradients=20, enough=0.0, sides=2)
    end, found = climb(density, start, np.ones((1, 2)), chosen)
    np.testing.assert_array_equal(end.position, 0.0)
    assert np.isnan(found.curvature).all()
    assert density.calls[[FAILED_CALLS, FAILED_IN_A_ROW]].tolist() == [0, 0]


def test_the_metric_is_the_inverse_of_the_mean_precision():
    rng = np.random.default_rng(2)
    roots = [np.tril(rng.standard_normal((5, 5))) + 3.0 * np.eye(5) for _ in range(3)]
    precision = np.mean([np.linalg.inv(root @ root.T) for root in roots], axis=0)
    metric = mean_metric(roots)
    np.testing.assert_allclose(metric.factor @ metric.factor.T, np.linalg.inv(precision))
    assert np.array_equal(metric.factor, np.tril(metric.factor))
    assert mean_metric([np.zeros((5, 5))]) is None


def test_scales_of_a_region_without_curvature_are_bounded():
    x = np.random.default_rng(3).standard_normal((4, 5, 2))
    made = Window(x, x * 1e-300, np.zeros((4, 5, NUMBERS)), np.ones(4, bool))
    former = FisherMetric(np.ones((1, 2)), "diagonal", 0, np.empty(0, int))
    assert rough_metric(former, made).scales.max() <= 1e3


@pytest.mark.parametrize("threads", [1, 4])
def test_a_far_start_is_cheap_and_the_same_for_any_number_of_threads(threads):
    """METRIC, TUNE_STEP and PILOT take 1,600 gradients."""
    begin = np.random.default_rng(4).uniform(-2, 2, (4, len(SD)))
    chains = make_chains_at(Gaussian(MEAN, SD), begin, draws=50)
    assert run(chains, threads, chunk=None) is False
    assert chains[0].progress.learned.travel.rounds > 0
    assert sum(int(chain.warmup_calls[1]) for chain in chains) < 3000
    draws = np.stack([chain.sampling.constrained for chain in chains])
    again = make_chains_at(Gaussian(MEAN, SD), begin, draws=50)
    assert run(again, 5 - threads, chunk=None) is False
    np.testing.assert_array_equal(draws, [chain.sampling.constrained for chain in again])


NEGATIVE_BINOMIAL = """
data { int N; matrix[N, 3] x; array[N] int y; }
parameters { real a; vector[3] b; real<lower=0> phi; }
model { phi ~ gamma(2, 0.5); y ~ neg_binomial_2_log(a + x * b, phi); }
"""


@pytest.mark.filterwarnings("ignore:.*had no finite density")
def test_chains_that_collapsed_a_scale_are_brought_back():
    """Far away, a smaller phi raises the density most, and the way back is a curved canyon.

    Without pursuit these chains needed more than 100,000 gradients, or never returned.
    """
    rng = np.random.default_rng(6)
    x = np.c_[rng.normal(2e5, 6e4, 200), rng.normal(200, 40, 200), rng.normal(50, 12, 200)]
    rate = np.exp(2.0 + 0.3 * (x - x.mean(axis=0)) / x.std(axis=0) @ np.ones(3))
    y = rng.negative_binomial(3, 3 / (3 + rate))
    data = {"N": len(y), "x": x.tolist(), "y": y.tolist()}
    target = sa.Target(NEGATIVE_BINOMIAL, data)
    fit = sa.sample(target, "whitened_hmc", seed=1, iter_sampling=600)
    assert int(attribute(fit, "n_gradients_warmup")) < 10_000
    assert int(attribute(fit, "warmup_climbs")) > 1
    assert attribute(fit, "trajectory").startswith("2 gradients")


MANY_PREDICTORS = """
data { int n; matrix[2 * n, n] x; vector[2 * n] y; }
parameters { vector[n] b; real<lower=0> sigma; }
model { b ~ normal(0, 1); sigma ~ normal(0, 2); y ~ normal(x * b, sigma); }
"""
HIERARCHY = """
data { int n; }
parameters { vector[n] x; real mu; real<lower=0> tau; }
model { x ~ normal(mu, tau); mu ~ normal(0, 1); tau ~ normal(0, 1); }
"""


def collinear(n=310):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2 * n, n)) + 4.0 * rng.normal(size=(2 * n, 1))
    y = x @ rng.normal(size=n) / np.sqrt(n) + rng.normal(size=2 * n)
    return {"n": n, "x": x, "y": y}


@pytest.mark.parametrize(
    ("code", "data", "lowest", "highest"),
    [(MANY_PREDICTORS, collinear(), -800.0, np.inf), (HIERARCHY, {"n": 350}, -np.inf, 500.0)],
    ids=["far away", "into a neck"],
)
def test_with_many_parameters_a_climb_follows_the_mass(code, data, lowest, highest):
    """Far away, the quadratic alone ends it at -2355; into a neck, the density alone at 4304."""
    target = sa.Target(code, data)
    density, rng = target.density(), np.random.default_rng(2)
    start = start_at(density, rng.uniform(-2.0, 2.0, density.dim))
    chosen = no_climb()._replace(gradients=450, enough=density.dim / 2)
    end, _ = climb(density, start, np.ones((1, density.dim)), chosen)
    assert lowest < end.log_density < highest


def test_a_few_steps_do_not_show_that_the_mass_has_stopped_growing():
    assert [_gained([1.0] * n) for n in (LEAST_STEPS - 1, LEAST_STEPS)] == [np.inf, 0.0]


YEARS = """
data { int N; vector[N] year; vector[N] y; }
parameters { real a; real b; real c; real<lower=0> sigma; }
model { y ~ normal(a + b * year + c * (year .* year), sigma); }
"""


def test_a_regression_on_years_and_their_squares_takes_few_gradients():
    """1,600 of these are METRIC, TUNE_STEP and PILOT; the bound leaves a quarter."""
    rng = np.random.default_rng(5)
    year = np.arange(1950.0, 2020.0)
    y = 3.0 + 0.2 * year + rng.standard_normal(len(year))
    data = {"N": len(year), "year": year.tolist(), "y": y.tolist()}
    target = sa.Target(YEARS, data)
    fit = sa.sample(target, "whitened_hmc", seed=1, iter_sampling=600)
    assert int(attribute(fit, "n_gradients_warmup")) < 3000
    assert attribute(fit, "trajectory").startswith("2 gradients")
