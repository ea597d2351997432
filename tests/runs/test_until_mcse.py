"""`until_mcse`: runs that end when means with control variates are precise."""

import warnings

import stanadapt as sa
from stanadapt import results
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

PROGRAM = """
parameters { real x; real<lower=0> s; }
model { x ~ student_t(9, 3, 2); s ~ gamma(9, 3); }
"""
target = shared_target(PROGRAM)


def precision(fit, target):
    table = sa.expectations(fit, target, ["x", "s"])
    return (table["mcse_mean"] / table["sd"]).max()


def test_a_run_ends_when_means_are_precise_or_never_will_be(target):
    fit = sa.sample(target, until_mcse=0.002, seed=1)
    assert "gradient" in results.dataset(fit, "unconstrained_posterior")
    assert precision(fit, target) <= 0.002
    assert fit.posterior.sizes["draw"] < 1000  # crude errors would need 60,000 draws per chain
    note, fit = out_of_reach(target, 1e-6)
    assert "more than the 100,000" in note
    assert fit.posterior.sizes["draw"] < 10_000
    # the sd of a Cauchy distribution is unknown, and so is the error of its mean
    cauchy = sa.Target("parameters { real x; } model { x ~ cauchy(0, 1); }")
    note, _ = out_of_reach(cauchy, 0.01)
    assert "no closer" not in note
    assert "no mean" in note or "it would take about" in note


def test_resume_goes_on_to_the_same_draws(target, tmp_path):
    whole = sa.sample(target, until_mcse=0.0002, seed=2)
    sa.sample(target, until_mcse=0.5, seed=2, run=tmp_path / "run")
    resumed = sa.resume(tmp_path / "run", until_mcse=0.0002)
    assert resumed.posterior.equals(whole.posterior)
    assert whole.posterior.sizes["draw"] > 100
    assert "standard error of the mean of" in resumed.attrs["iter_sampling_reason"]


def out_of_reach(target, error):
    """Return the note, and the fit, of a run that ends before means are precise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sa.sample(target, until_mcse=error, seed=1)
    (note,) = (note for note in results.notes(fit) if note.code == "out_of_reach")
    return note, fit


def test_wrong_requests(target, tmp_path):
    for wrong in (0.0, -1, 1.0, "a", float("nan")):
        with raises("out_of_range", "until_mcse"):
            sa.sample(target, until_mcse=wrong)
    with raises("option_not_used", "until_mcse"):
        sa.sample(target, "am", until_mcse=0.01)
    sa.sample(target, "am", iter_sampling=50, iter_warmup=50, run=tmp_path / "run", seed=1)
    with raises("option_not_used", "gradients at all draws"):
        sa.resume(tmp_path / "run", until_mcse=0.01)
