"""How chains begin, through `sample`: errors, exactness, and what is recorded."""

import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers import find, registered
from stanadapt.samplers.tempering import Extended, ReferenceDistribution, weighted_summary
from tests.helpers.codes import raises, raises_in
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.stan_target import shared_target
from workflows.benchmarks.known_posteriors import KNOWN

CODE = """
data { int n; int k; vector[n] y; }
parameters { vector[k] x; real<lower=0> s; }
model { x ~ normal(0, 3); s ~ exponential(1); y ~ normal(x[1], s); }
"""
DATA = {"n": 3, "k": 2, "y": [0.5, 1.0, 2.5]}
SHORT = {"chains": 2, "iter_warmup": 100, "iter_sampling": 50, "seed": 1}
DISTRIBUTION = ReferenceDistribution([0.0, 0.0, 0.0], 3.0)
# short runs cause warnings
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
TEMPERING = [name for name, s in registered().items() if s.tempering is not None]


def choices_of(name, **chosen):
    """Those of these settings that a sampler has: not all have kernels to choose from."""
    fields = registered()[name].settings._fields
    return {setting: value for setting, value in chosen.items() if setting in fields}


target = shared_target(CODE, DATA)


POWER = {"reference_family": "power", "min_inverse_temperature": 0.05}
PRIOR, LAW = {"prior_data": DATA}, {"reference_distribution": DISTRIBUTION}
UNSUITED = [
    ("rwm", LAW, "option_not_used", ["rwm", "reference_distribution", "pseudo_extended"]),
    ("nuts", PRIOR, "option_not_used", ["prior_data", "nuts"]),
    ("pseudo_extended", {"reference_distribution": 3.0}, "not_a_reference",
     ["ReferenceDistribution", "3.0"]),
    ("pseudo_extended", {"reference_distribution": ReferenceDistribution([0.0], 1.0)},
     "reference_size", ["3", "mean", "1"]),
    *[("parallel_tempering", {"reference_distribution": source}, "not_a_reference", facts)
      for source, facts in [("pathfindr", ["'pathfinder'", "'pathfindr'"]),
                            (7, ["ReferenceDistribution", "7"])]],
    ("parallel_tempering", {**POWER, "reference_distribution": "pathfinder"}, "no_reference",
     ["reference_family=power"]),
    ("parallel_tempering", {"prior_data": {**DATA, "k": 3}}, "parameter_sizes", ["x"]),
    ("parallel_tempering", PRIOR | LAW, "conflicting_starts",
     ["reference_distribution", "prior_data"]),
    ("parallel_tempering", {"save": "pseudo"}, "option_not_used", ["pseudo"]),
    ("kameleon", {"warm_start": 1, **LAW}, "conflicting_starts",
     ["warm_start", "reference_distribution"]),
    ("smc", {"prior_data": {**DATA, "n": 0, "y": []}}, "no_reference",
     ["smc", "parallel_tempering"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "code", "facts"), UNSUITED)
def test_options_that_do_not_suit_a_sampler(target, name, options, code, facts):
    with raises(code, *facts):
        sa.sample(target, name, **SHORT, **options)


def test_prior_data_that_do_not_fit(target):
    with raises_in("data", "y"):
        sa.sample(target, "pseudo_extended", **SHORT, prior_data={"n": 2, "k": 2, "y": [1.0]})
    extended = Extended(target, 2, reference_distribution=DISTRIBUTION)
    with raises("prior_data_misplaced", "prior_data"):
        sa.sample(extended, "parallel_tempering", **SHORT, prior_data={"n": 0, "k": 2, "y": []})


OUT_OF_RANGE = [
    ({"max_treedepth": 26}, ["25", "26"]),
    ({"target_accept": 1.0}, ["1"]),
    ({"reference_family": "cauchy"}, ["gaussian", "student_t", "power", "cauchy"]),
    ({"kernel": 1}, ["hmc", "nuts", "random_walk", "1"]),
]
LADDER = [
    ({"levels": 1}, ["2", "1"]),
    ({"reference_family": "power"}, ["min_inverse_temperature", "0.0"]),
    ({"min_inverse_temperature": 1.0}, ["1.0"]),
]
# what begins with draws of the reference needs one that can be drawn from
DRAWN = ({"reference_family": "power"}, ["gaussian", "student_t", "power"])
PARTICLES = [
    DRAWN, ({"particles": 99}, ["100", "99"]), ({"threshold": 1.0}, ["1.0"]),
    ({"inflation": 0.0}, ["0.0"]), ({"sweeps": 0}, ["0"]),
]  # fmt: skip


@pytest.mark.parametrize("name", TEMPERING)
def test_settings_out_of_range(name):
    own = {"smc": PARTICLES, "continuous_tempering": [LADDER[0], DRAWN]}.get(name, LADDER)
    for settings, facts in [*OUT_OF_RANGE, *own]:
        if choices_of(name, **settings):
            with raises_in("settings", name, *settings, *facts):
                find(name, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPERING)
def test_attributes_record_how_chains_began(target, name):
    fit = sa.sample(target, name, **SHORT, reference_distribution=DISTRIBUTION)
    expected = repr(DISTRIBUTION)
    assert expected.endswith("(Gaussian, 3 parameters)")
    assert fit.attrs["reference_distribution"] == expected
    found = results.dataset(fit, "tempering")
    np.testing.assert_array_equal(found["reference_mean"], 0.0)
    np.testing.assert_array_equal(found["reference_sd"], 3.0)
    if not registered()[name].tempering.draws_reference:
        fit = sa.sample(target, name, **SHORT, prior_data={**DATA, "n": 0, "y": []})
        assert len(fit.attrs["prior_data_hash"]) > 5
        assert "reference_mean" not in results.dataset(fit, "tempering")
    fit = sa.sample(target, name, **SHORT)
    assert fit.attrs["warm_start_draws"] == 0
    assert not {"reference_distribution", "prior_data_hash"} & set(fit.attrs)


@pytest.mark.thorough
@pytest.mark.parametrize("name", slow_except(TEMPERING[:1], TEMPERING))
def test_a_reference_from_pathfinder_is_recorded_resumed_and_kept(target, name, tmp_path):
    """Its cost counts as warm-up; a run that was lengthened has the draws of one that was not."""
    walks = choices_of(name, kernel="random_walk")
    family = {"reference_family": "student_t", "inflation": 2.0, **walks}
    options = {**SHORT, **family, "reference_distribution": "pathfinder"}
    whole = sa.sample(target, name, **options)
    words = "Student t, 5 degrees, 3 parameters), of pathfinder: 16 of 16 paths, inflated by 2"
    assert whole.attrs["reference_distribution"] == f"ReferenceDistribution({words}"
    assert whole.attrs["n_gradients_warmup"] > 50
    assert (whole.attrs["n_gradients"] == whole.attrs["n_gradients_warmup"]) is bool(walks)
    sa.sample(target, name, **{**options, "iter_sampling": 20}, run=tmp_path / "run")
    resumed = sa.resume(tmp_path / "run", iter_sampling=50)
    warm = sa.sample(target, name, **SHORT, **walks, warm_start=whole)
    assert warm.attrs["reference_distribution"] == (
        whole.attrs["reference_distribution"] + ", kept from warm_start"
    )
    assert warm.attrs["warm_start_draws"] == 100
    group = results.dataset(whole, "tempering")
    assert group["reference_covariance"].shape == (2, 3, 3)
    for other in (resumed, warm):
        assert "tempering" in results.group_names(other), results.notes(other)
        for variable in ("reference_mean", "reference_covariance", "reference_degrees"):
            np.testing.assert_allclose(
                results.dataset(other, "tempering")[variable], group[variable], rtol=1e-12
            )
    a, b = (results.dataset(fit, "posterior")["x"].values for fit in (whole, resumed))
    np.testing.assert_array_equal(a, b)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TEMPERING)
def test_random_walks_use_values_and_trajectories_gradients(target, name):
    if not choices_of(name, kernel="hmc"):
        return
    walk, hmc = (sa.sample(target, name, **SHORT, kernel=m) for m in ("random_walk", "hmc"))
    assert (walk.attrs["n_gradients"], hmc.attrs["n_density"]) == (0, 0)
    assert "n_density" in results.dataset(walk, "sample_stats")
    assert "n_gradients" in results.dataset(hmc, "sample_stats")


def test_saving_pseudo_samples_keeps_all_pseudo_samples(target):
    """The draw is one of them; weights sum to one; constrained values are Stan's."""
    options = {**SHORT, "iter_sampling": 400, "pseudo_samples": 3}
    fit = sa.sample(target, "pseudo_extended", save="pseudo", **options)
    group, draws = results.dataset(fit, "pseudo"), results.dataset(fit, "posterior")
    assert group["x"].shape == (2, 400, 3, 2)
    assert group["s"].shape == group["weight"].shape == group["temperature"].shape == (2, 400, 3)
    np.testing.assert_allclose(group["weight"].sum("pseudo"), 1.0)
    same = np.all(group["x"].values == draws["x"].values[:, :, None], axis=-1)
    same &= np.isclose(group["s"].values, draws["s"].values[..., None], rtol=1e-12)
    assert np.all(same.sum(axis=-1) >= 1)
    # the pseudo-sample that is the draw has temperature 1
    assert np.all(group["temperature"].values[same] == 1.0)
    assert set(np.unique(group["temperature"])) <= set(
        results.dataset(fit, "tempering")["temperature"].values.ravel()
    )
    plain = sa.sample(target, "pseudo_extended", **options)
    np.testing.assert_array_equal(results.dataset(plain, "posterior")["x"], draws["x"])
    table = weighted_summary(fit)
    assert np.all(np.abs(table["mean"] - table["draws_mean"]) < 6 * table["draws_mcse"])


def test_a_doubtful_fit_is_noted_and_one_that_is_not_finite_refused(target):
    fit = sa.sample(target, **SHORT)
    fit.attrs["verdict"] = "do not use"
    again = sa.sample(target, warm_start=fit, **SHORT)
    assert "doubtful_warm_start" in [note.code for note in results.notes(again)]
    fit.posterior["s"][1, 3] = np.nan
    with raises("unsuitable_fit", "draws of s"):
        sa.sample(target, warm_start=fit, **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"), [("cauchy", 14), ("rates", 14), ("volatility", 6), ("cut_exponential", 6)]
)
def test_a_warm_up_after_an_earlier_fit_costs_less(name, most):
    """Else heavy tails let every second one begin again, pilots go on, or blocks are not seen.

    And at a hard edge, scales of chains that hardly move would replace those of the earlier draws.
    """
    known = sa.Target(KNOWN[name].program, KNOWN[name].data)
    earlier = sa.sample(known, seed=1)
    if name == "cut_exponential":
        fits = (sa.sample(known, seed=s, warm_start=earlier) for s in (3, 4, 8, 15))
        assert {fit.attrs["verdict"] for fit in fits} == {"fine"}

    def cost(**start):
        fits = (sa.sample(known, iter_sampling=9, seed=s, **start) for s in range(2, most))
        return sum(int(fit.attrs["n_gradients_warmup"]) for fit in fits)

    assert cost(warm_start=earlier) < 0.8 * cost()


def test_chains_start_at_draws_of_the_folder_of_a_run(target, tmp_path):
    quiet = {"show_progress": False}
    first = sa.sample(target, "rwm", run=tmp_path / "run", **SHORT, **quiet)
    still = {"iter_warmup": 0, "iter_sampling": 1, "initial_scale": 1e-12, "standardize": False}
    fit = sa.sample(target, "rwm", inits=str(tmp_path / "run"), chains=2, seed=3, **still, **quiet)
    drawn = first["posterior"]["s"].values
    for start in fit["posterior"]["s"].values[:, 0]:
        assert np.isclose(start, drawn, rtol=1e-6).any()
    elsewhere = {"inits": tmp_path / "run", "seed": 3, **quiet}
    assert len(sa.optimize(target, starts=2, **elsewhere))
    assert sa.approximate(target, "laplace", **elsewhere).attrs["sampler"] == "laplace"
    short = {"iter_warmup": 10, "iter_sampling": 4, "chains": 2, "backend": "stanli"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sa.stan_nuts(target, **elsewhere, **short)
    assert fit["posterior"].sizes["draw"] == 4
