"""How chains begin, through `sample`: what is refused in words, what is exact, what is kept."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results, weighted_summary
from stanadapt.protocol import registered

CODE = """
data { int n; int k; vector[n] y; }
parameters { vector[k] x; real<lower=0> s; }
model { x ~ normal(0, 3); s ~ exponential(1); y ~ normal(x[1], s); }
"""
DATA = {"n": 3, "k": 2, "y": [0.5, 1.0, 2.5]}
QUIET = {"show_progress": False}
SHORT = {"chains": 2, "iter_warmup": 100, "iter_sampling": 50, "seed": 1, **QUIET}
LAW = sa.ReferenceLaw([0.0, 0.0, 0.0], 3.0)
# short runs are told of
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{words}")
    for words in ("round trips", "visited", "no finite density", "trajectories that", "R-hat")
]
TEMPERING = [name for name, s in registered().items() if s.init_on is not None]


@pytest.fixture(scope="module")
def target():
    return sa.Target(CODE, DATA, **QUIET)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("rwm", {"reference_law": LAW}, "rwm has no use for reference_law, as .*pseudo_extended"),
        ("nuts", {"prior_data": DATA}, "nuts has no use for prior_data, as parallel_tempering"),
        ("pseudo_extended", {"reference_law": 3.0}, "must be a ReferenceLaw.*got 3.0"),
        (
            "pseudo_extended",
            {"reference_law": sa.ReferenceLaw([0.0], 1.0)},
            "the target has 3 unconstrained parameters, but mean 1",
        ),
        ("parallel_tempering", {"prior_data": {**DATA, "k": 3}}, r"change the sizes .*\(x\)"),
        (
            "parallel_tempering",
            {"prior_data": DATA, "reference_law": LAW},
            "give only one of reference_law and prior_data",
        ),
        ("kameleon", {"past": 1, "reference_law": LAW}, "give only one of past and reference_law"),
        ("pseudo_extended", {"past": 1}, "pseudo_extended does not learn from a past"),
    ],
)
def test_what_does_not_fit_is_told(target, name, options, words):
    with pytest.raises(sa.StanadaptError, match=words) as caught:
        sa.sample(target, name, **SHORT, **options)
    assert caught.value.stage == "settings"


def test_prior_data_that_are_no_data_are_told(target):
    with pytest.raises(sa.StanadaptError, match="y"):
        sa.sample(target, "pseudo_extended", **SHORT, prior_data={"n": 2, "k": 2, "y": [1.0]})


def test_an_extension_has_prior_data_of_its_own(target):
    extended = sa.Extended(target, 2, reference_law=LAW)
    with pytest.raises(sa.StanadaptError, match="are an option of"):
        sa.sample(extended, "parallel_tempering", **SHORT, prior_data={"n": 0, "k": 2, "y": []})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"levels": 1}, "levels must be 0 .learned. or at least 2, got 1"),
        ({"max_treedepth": 26}, "max_treedepth must be at most 25, got 26"),
        ({"law": "power"}, "lowest must be above 0 with law=power, got 0.0"),
        ({"lowest": 1.0}, "lowest must be at least 0 and below 1, got 1.0"),
        ({"target_accept": 1.0}, "target_accept must be at least 0 and below 1"),
        ({"law": "cauchy"}, "law must be one of gaussian, student_t, power, got 'cauchy'"),
        ({"moves": 1}, "moves must be one of hmc, nuts, random_walk, got 1"),
    ],
)
@pytest.mark.parametrize("name", TEMPERING)
def test_settings_that_do_not_go_together_are_told(target, name, settings, words):
    with pytest.raises(sa.StanadaptError, match=f"{name}: {words}"):
        sa.sample(target, name, **SHORT, **settings)


@pytest.mark.parametrize("name", TEMPERING)
def test_how_it_began_stands_in_the_attributes(target, name):
    fit = sa.sample(target, name, **SHORT, reference_law=LAW)
    assert fit.attrs["reference_law"] == "ReferenceLaw(Gaussian, 3 parameters)"
    found = results.dataset(fit, "tempering")
    np.testing.assert_array_equal(found["reference_mean"], 0.0)
    np.testing.assert_array_equal(found["reference_sd"], 3.0)
    fit = sa.sample(target, name, **SHORT, prior_data={**DATA, "n": 0, "y": []})
    assert len(fit.attrs["prior_data_hash"]) > 5
    assert "reference_mean" not in results.dataset(fit, "tempering")
    fit = sa.sample(target, name, **SHORT)
    assert fit.attrs["past_draws"] == 0
    assert not {"reference_law", "prior_data_hash"} & set(fit.attrs)


@pytest.mark.parametrize("name", TEMPERING)
def test_walks_take_values_and_trajectories_gradients(target, name):
    walk, glide = (sa.sample(target, name, **SHORT, moves=m) for m in ("random_walk", "hmc"))
    assert (walk.attrs["n_gradients"], glide.attrs["n_density"]) == (0, 0)
    assert "n_density" in results.dataset(walk, "sample_stats")
    assert "n_gradients" in results.dataset(glide, "sample_stats")


def test_save_pseudo_keeps_all_pseudo_samples(target):
    """The draw is one of them; weights sum to one; the constrained are Stan's."""
    options = {**SHORT, "iter_sampling": 400, "pseudo_samples": 3}
    fit = sa.sample(target, "pseudo_extended", save_pseudo=True, **options)
    group, draws = results.dataset(fit, "pseudo"), results.dataset(fit, "posterior")
    assert group["x"].shape == (2, 400, 3, 2)
    assert group["s"].shape == group["weight"].shape == group["temperature"].shape == (2, 400, 3)
    np.testing.assert_allclose(group["weight"].sum("pseudo"), 1.0)
    same = np.all(group["x"].values == draws["x"].values[:, :, None], axis=-1)
    same &= np.isclose(group["s"].values, draws["s"].values[..., None], rtol=1e-12)
    assert np.all(same.sum(axis=-1) >= 1)
    # where the draw is, the temperature is 1
    assert np.all(group["temperature"].values[same] == 1.0)
    assert set(np.unique(group["temperature"])) <= set(
        results.dataset(fit, "tempering")["temperature"].values.ravel()
    )
    plain = sa.sample(target, "pseudo_extended", **options)
    np.testing.assert_array_equal(results.dataset(plain, "posterior")["x"], draws["x"])
    table = weighted_summary(fit)
    assert np.all(np.abs(table["mean"] - table["draws_mean"]) < 6 * table["draws_mcse"])


def test_nothing_is_kept_of_a_sampler_without_pseudo_samples(target):
    with pytest.raises(sa.StanadaptError, match="parallel_tempering has none on"):
        sa.sample(target, "parallel_tempering", save_pseudo=True, **SHORT)


@pytest.mark.parametrize("name", TEMPERING)
def test_the_same_draws_whatever_runs_beside(target, name):
    """Chains at once, groups kept, warm-up saved: none of them moves a random number."""
    one = sa.sample(target, name, **SHORT)
    other = sa.sample(
        target, name, **SHORT, parallel_chains=1, save_warmup=True, save_unconstrained=True
    )
    for group in ("posterior", "tempering"):
        a, b = results.dataset(one, group), results.dataset(other, group)
        for variable in a.data_vars:
            np.testing.assert_array_equal(a[variable], b[variable])


@pytest.mark.parametrize("name", TEMPERING)
def test_a_result_is_saved_and_loaded_with_what_was_learned(target, name, tmp_path):
    fit = sa.sample(target, name, **SHORT)
    again = results.load(results.save(fit, tmp_path / "fit.nc"))
    for variable, values in results.dataset(fit, "tempering").data_vars.items():
        np.testing.assert_array_equal(results.dataset(again, "tempering")[variable], values)
