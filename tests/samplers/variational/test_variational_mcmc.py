"""variational_mcmc: densities of its proposals, the refitted q, and the published figures."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine.chain import advance_together
from stanadapt.samplers.variational import proposal
from stanadapt.samplers.variational.proposal import Approximation
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.codes import warns
from tests.helpers.targets import Awkward

LOCATION = np.array([0.5, -1.0, 2.0, 0.0])
FACTOR = np.array([[2.0, 0, 0, 0], [0.6, 0.5, 0, 0], [-1.0, 0.3, 1.0, 0], [0.2, -0.4, 0.5, 3.0]])
SCALE = FACTOR @ FACTOR.T


def fitted(diagonal=False):
    factor = np.sqrt(np.diag(SCALE))[None].copy() if diagonal else FACTOR.copy()
    q = Approximation(LOCATION.copy(), factor, np.full((4, 4), np.nan))
    proposal.update_precision(q)
    return q


def positions(count, seed=1):
    return LOCATION + 2.0 * np.random.default_rng(seed).normal(size=(count, 4))


@pytest.mark.parametrize("degrees", [0.0, 5.0])
def test_log_density_of_q(degrees):
    work, q = proposal.workspace(4, 2), fitted()
    exact = (
        multivariate_t(LOCATION, SCALE, df=degrees)
        if degrees
        else multivariate_normal(LOCATION, SCALE)
    )
    left_out = np.log(np.diag(FACTOR)).sum() + 2.0 * np.log(2.0 * np.pi)
    for x in positions(5):
        found = proposal.log_approximation(q, degrees, x, work)
        assert found - left_out == pytest.approx(exact.logpdf(x), rel=1e-10)


def test_log_density_of_local_moves_has_the_same_constant():
    """Otherwise the mixture of both would have the wrong weights."""
    work, q, (x, y) = proposal.workspace(4, 2), fitted(), positions(2)
    left_out = np.log(np.diag(FACTOR)).sum() + 2.0 * np.log(2.0 * np.pi)
    exact = multivariate_normal(x, 0.3**2 * SCALE).logpdf(y)
    assert proposal.log_local(q, x, y, 0.3, work) - left_out == pytest.approx(exact, rel=1e-10)
    assert proposal.log_mixture(-3.0, -700.0, 0.25) == pytest.approx(-3.0 + np.log(0.25))
    mixed = np.log(0.25 * np.exp(-3.0) + 0.75 * np.exp(-2.0))
    assert proposal.log_mixture(-3.0, -2.0, 0.25) == pytest.approx(mixed)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_a_block_is_drawn_from_its_conditional_distribution(block, diagonal):
    """The result is the ratio of joint densities: unchanged coordinates cancel."""
    work, q, rng = proposal.workspace(4, block), fitted(diagonal), np.random.default_rng(3)
    covariance = np.diag(np.diag(SCALE)) if diagonal else SCALE
    joint, out = multivariate_normal(LOCATION, covariance), np.empty(4)
    for x in positions(20):
        ratio = proposal.draw_block(q, 0.0, x, rng, work, out)
        assert np.sum(out != x) == block
        assert ratio == pytest.approx(joint.logpdf(x) - joint.logpdf(out), abs=1e-8)


@pytest.mark.parametrize("kernel", ["independence", "mixture", "mixture_proposal", "block"])
def test_the_current_point_is_weighed_by_the_present_q(kernel):
    """A weight under an earlier q would bias the first moves after each refit."""
    (chain,) = make_chains(("variational_mcmc", {"kernel": kernel}), Awkward(), warmup=400)
    seen = []
    while not chain.finished:
        advance_together([chain], 5)
        state = chain.state
        found = proposal.log_approximation(state.q, 0.0, state.current.position, state.work)
        assert state.current.log_approximation == pytest.approx(found, rel=1e-12)
        seen.append(state.q.location.copy())
    assert len(np.unique(seen, axis=0)) > 3


def test_q_is_found_and_that_of_an_earlier_fit_stays():
    """For x[1], x[2], which are Gaussian: standard deviations 0.3 and 4, correlation 0.7."""
    (chain,) = finish(make_chains(("variational_mcmc", {}), Awkward(), warmup=3000, draws=10))
    factor = np.tril(chain.state.q.factor)
    covariance = factor @ factor.T
    np.testing.assert_allclose(chain.state.q.location[1:], [1.0, -2.0], atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance))[1:], [0.3, 4.0], rtol=0.05)
    assert covariance[1, 2] / 1.2 == pytest.approx(0.7, abs=0.05)
    assert column(chain, "n_evaluations").max() == 1
    target = sa.Target("parameters { vector[2] x; } model { x ~ normal([3, -1]', [2, 0.1]'); }")
    fit = from_approximation(target, 2000, chains=2, iter_sampling=4000)
    assert fit.attrs["n_gradients_warmup"] == 2 * 21  # nothing is fitted
    assert fit["sample_stats"]["acceptance_rate"].values.mean() > 0.9
    x = fit["posterior"]["x"].values
    # some 7000 effective draws: errors of 1.2 % of an sd; five
    np.testing.assert_allclose((x.mean((0, 1)) - [3, -1]) / [2, 0.1], 0.0, atol=0.06)
    np.testing.assert_allclose(x.std((0, 1)) / [2, 0.1], 1.0, atol=0.05)


def from_approximation(target, draws, **lengths):
    """Independent proposals from Pathfinder's Gaussian."""
    rough = sa.approximate(target, draws=draws, seed=1)
    options = {"kernel": "independence", "iter_warmup": 20, "seed": 1}
    return sa.sample(target, "variational_mcmc", warm_start=rough, **options, **lengths)


@pytest.mark.filterwarnings(r"ignore:.*\[(poor_proposals|long_stay)\]")
def test_chains_begin_at_draws_of_the_earlier_fit():
    """From 300 scales out in the tails, with a weight beyond all others, none would move."""
    target = sa.Target("parameters { vector[2] x; } model { x ~ student_t(4, 300, 1); }")
    fit = from_approximation(target, 500, chains=4, iter_sampling=500)
    assert np.all(fit["sample_stats"]["acceptance_rate"].values.mean(axis=1) > 0.3)


LOGISTIC = "stan_models/logistic/logistic.stan"


def run(data, **settings):
    target = sa.Target(LOGISTIC, data=f"stan_models/logistic/{data}.json")
    return sa.sample(target, "variational_mcmc", seed=1, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["pima", "german"])
def test_full_rank_moves_are_nearly_independent(data):
    fit = run(data, kernel="independence")
    assert fit["sample_stats"]["acceptance_rate"].values.mean() >= 0.75
    assert efficiency(results.columns(fit)).ess_bulk.min() / 40_000 >= 0.4
    assert fit.attrs["verdict"] == "fine"
    assert results.from_json(fit, "notes", []) == []


@pytest.mark.slow
def test_mean_field_moves_stick_and_notes_report_it():
    """On German, the acceptance rate is 0.125 and one chain of four stays for 2825 iterations."""
    with warns("poor_proposals"), warns("long_stay"):
        fit = run("german", kernel="independence", approximation="mean_field")
    assert fit["sample_stats"]["acceptance_rate"].values.mean() == pytest.approx(0.125, abs=0.03)
    assert np.median(results.attribute(fit, "proposal_pareto_k")) > 0.7
    assert efficiency(results.columns(fit)).ess_bulk.min() / 40_000 < 0.005
    assert fit.attrs["verdict"] != "fine"


def test_a_q_without_the_tails_of_the_posterior_is_reported():
    target = sa.Target("parameters { vector[3] x; } model { x ~ student_t(1.5, 0, 1); }")
    options = {"chains": 2, "iter_sampling": 3000, "seed": 2}
    with warns("poor_proposals"), warns("long_stay"):
        fit = sa.sample(target, "variational_mcmc", kernel="independence", **options)
    assert np.median(results.attribute(fit, "proposal_pareto_k")) > 0.7
    assert np.all(results.attribute(fit, "longest_stay") > 20)
