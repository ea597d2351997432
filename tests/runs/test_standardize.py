"""Every sampler in the learned scale: `sample(..., standardize=)`."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs import begin
from stanadapt.runs.coordinates import as_given, keep_ratios
from stanadapt.samplers import find, registered
from stanadapt.samplers.tempering import Extended
from tests.helpers.codes import raises
from tests.helpers.driven_runs import SMALL_CHUNKS, sample_with
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.short_runs import values
from tests.helpers.stan_target import shared_target

# scales of 500, 1e-5 and about 1e-3; the last one is skewed, and unconstrained by its logarithm
UNEQUAL = """
parameters { real a; real b; real<lower=0> g; }
model { a ~ normal(2000, 500); b ~ normal(-3e-4 + 1.6e-8 * a, 6e-6); g ~ gamma(2, 1000); }
"""
MEANS = {"a": 2000.0, "b": -2.68e-4, "g": 2e-3}
SECONDS = {"a": 500.0**2, "b": 1e-10, "g": 2e-6}
# without those that other tests register
# those of other coordinates by other settings have tests of their own
BY_SETTINGS = {"hvi", "variational_mcmc"}
OURS = {name: find(name)[0] for name in registered() if name not in BY_SETTINGS}
ALL_FULL = [name for name, sampler in OURS.items() if sampler.standardize == "full"]
FULL = [name for name in ALL_FULL if OURS[name].exact is True]
DIAGONAL = [name for name, sampler in OURS.items() if sampler.standardize == "diagonal"]
PLAN = {"chains": 4, "seed": 3, "show_progress": False}
FAST = {"kameleon": {"subsample": 50}}
target = shared_target(UNEQUAL)


def error_of(fit, name, power, truth):
    """Error of the mean of powers of deviations from the truth, in Monte Carlo errors."""
    deviation = (values(fit, name) - MEANS[name]) ** power
    effective = float(results.arviz_module().ess(deviation))
    return (deviation.mean() - truth) / (deviation.std() / np.sqrt(effective)), effective


def test_why_not_is_recorded_and_which_are_standardized(target):
    own = {name for name, sampler in OURS.items() if sampler.standardize == "no"}
    assert set(FULL) == {"am", "gad_hmc", "gad_mala", "gad_rwm", "hmc", "mala", "rwm"}
    assert set(ALL_FULL) - set(FULL) == {"sgld", "ula"}
    assert DIAGONAL == ["equi_energy", "kameleon", "nice", "repelling_attracting"]
    assert own == {
        "continuous_tempering", "nuts", "parallel_tempering", "pooled_am", "pseudo_extended",
        "simulated_tempering", "smc", "walnuts", "whitened_hmc",
    }  # fmt: skip
    run = {"iter_warmup": 2000, "iter_sampling": 5, **PLAN}
    for name, changed, reason in (
        ("rwm", {"standardize": False}, "asked for"),
        ("rwm", {"iter_warmup": 49}, "iter_warmup is below 50"),
        ("pooled_am", {}, "pooled_am learns scales on its own"),
    ):
        fit = sa.sample(target, name, **(run | changed))
        assert fit.attrs["standardized"] == f"no: {reason}"


@pytest.mark.thorough
@pytest.mark.parametrize("name", slow_except([FULL[0], "pooled_am"], [*FULL, "pooled_am"]))
def test_scales_that_differ_by_seven_orders_of_magnitude(name, target):
    fit = sa.sample(target, name, iter_warmup=2000, iter_sampling=3000, **PLAN)
    for variable in MEANS:
        for power, truth in ((1, 0.0), (2, SECONDS[variable])):
            error, effective = error_of(fit, variable, power, truth)
            assert abs(error) < 5.0, (variable, power)  # 42 comparisons: 2e-5 by chance
            assert effective > 150, (variable, power)
    assert fit.attrs["standardized"] == ("dense" if name in FULL else "no: pooled_am learns scales "
                                         "on its own")  # fmt: skip


@pytest.mark.parametrize("name", ["gad_mala", "rwm"])
def test_what_is_saved_is_in_the_program_s_own_coordinates(name, target):
    fit = sa.sample(
        target, name, iter_warmup=300, iter_sampling=200, save_warmup=True, save="unconstrained",
        **PLAN,
    )  # fmt: skip
    x = values(fit, "position", "unconstrained_posterior")
    np.testing.assert_array_equal(x[..., :2], np.stack([values(fit, n) for n in "ab"], axis=2))
    np.testing.assert_allclose(np.exp(x[..., 2]), values(fit, "g"), rtol=1e-14)
    lp = values(fit, "lp", "sample_stats")
    evaluate = target.value if name == "rwm" else lambda position: target.evaluate(position)[0]
    for row in ((0, 0), (1, 77), (3, 199)):
        assert lp[row] == pytest.approx(evaluate(x[row]), rel=1e-12)


@pytest.mark.parametrize("name", ["mala", "am", "kameleon"])
def test_draws_depend_neither_on_threads_nor_on_chunks(name, target):
    options = {"iter_warmup": 400, "iter_sampling": 100, **PLAN, **FAST.get(name, {})}
    fits = [
        sample_with(parts, target, name, parallel_chains=parallel, **options)
        for parallel, parts in ((1, {}), (4, SMALL_CHUNKS))
    ]
    assert fits[0].attrs["standardized"] in ("dense", "diagonal")
    for variable in MEANS:
        np.testing.assert_array_equal(values(fits[0], variable), values(fits[1], variable))
    for count in ("n_gradients_warmup", "n_density_warmup", "standardization_iterations"):
        assert fits[0].attrs[count] == fits[1].attrs[count]


@pytest.mark.parametrize(("name", "count", "none"), [
    ("mala", "n_gradients", "n_density"), ("rwm", "n_density", "n_gradients"),
])  # fmt: skip
def test_the_pre_run_counts_as_warm_up(name, count, none, target):
    fit = sa.sample(target, name, iter_warmup=400, iter_sampling=150, **PLAN)
    assert values(fit, count, "sample_stats").sum() == 4 * 150
    # one evaluation where each chain starts
    rest = fit.attrs[f"{count}_warmup"] - 4 * (1 + 400)
    assert rest >= 4 * fit.attrs["standardization_iterations"] > 0
    assert fit.attrs[count] == fit.attrs[f"{count}_warmup"] + 4 * 150
    assert fit.attrs[none] == 0


def test_only_defaults_change_and_modes_keep_their_starts(target):
    def settings(**chosen):
        fit = sa.sample(target, "gad_rwm", iter_warmup=60, iter_sampling=5, **PLAN, **chosen)
        return json.loads(fit.attrs["settings"])

    assert settings()["initial_scale"] == 2.38
    assert settings(initial_scale=0.3)["initial_scale"] == 0.3
    assert settings(initial_scale=0.1)["initial_scale"] == 0.1  # also where it is the default
    assert settings(standardize=False)["initial_scale"] == 0.1
    inits = np.array([2000.0, -3e-4, -6.5]) + np.diag([300.0, 4e-6, 1.0])[[0, 1, 2, 0]]
    fit = sa.sample(target, "kameleon", iter_warmup=200, iter_sampling=5, inits=inits,
                    save_warmup=True, subsample=20, gamma=1e-6, initial_scale=1e-9, **PLAN,
                    tune_early=False)  # fmt: skip
    assert fit.attrs["standardized"] == "diagonal"
    # isotropic moves of 1e-6 standard deviations, at first
    np.testing.assert_allclose(values(fit, "a", "warmup_posterior")[:, 0], inits[:, 0], rtol=1e-5)
    np.testing.assert_allclose(values(fit, "b", "warmup_posterior")[:, 0], inits[:, 1], rtol=1e-5)


@pytest.mark.parametrize(("name", "setting", "default", "chosen"), [
    ("rwm", "initial_scale", 0.1, 0.7), ("mala", "step_size", 0.1, 0.7),
])  # fmt: skip
def test_a_pre_run_without_finite_scales_leaves_defaults_as_they_are(
    name, setting, default, chosen, target, monkeypatch
):
    """Chains then run in the program's coordinates: in those of scale 1, a step is far longer."""

    def no_scales(target, sampler, kind, plan, positions, rngs, advance):
        return as_given(target, positions, "no finite scales were found")

    monkeypatch.setattr(begin, "learn_scales", no_scales)
    for given, used in (({}, default), ({setting: chosen}, chosen)):
        fit = sa.sample(target, name, iter_warmup=60, iter_sampling=5, **PLAN, **given)
        assert fit.attrs["standardized"] == "no: no finite scales were found"
        assert json.loads(fit.attrs["settings"])[setting] == used


def test_scales_within_a_ratio_stay_as_they_are():
    """What is divided by is then one number, in any units; beyond the ratio, only the excess."""
    scales = np.array([[1.0, 7.0, 3.0]])
    kept = keep_ratios(scales, 10.0)
    np.testing.assert_allclose(kept, np.full((1, 3), 21 ** (1 / 3)))
    np.testing.assert_allclose(keep_ratios(2e4 * scales, 10.0), 2e4 * kept)
    np.testing.assert_allclose(keep_ratios(scales, 1.0), scales)
    wide = np.array([[1e-6, 1.0, 1.0, 1e6]])
    np.testing.assert_allclose(wide / keep_ratios(wide, 10.0), [[0.1, 1.0, 1.0, 10.0]])


@pytest.mark.parametrize(("sampler", "changed", "fact"), [
    ("rwm", {"standardize": "yes"}, "'yes'"),
    ("whitened_hmc", {"standardize": True}, "whitened_hmc"),
])  # fmt: skip
def test_what_cannot_be_standardized_is_refused(sampler, changed, fact, target):
    with raises("cannot_standardize", fact):
        sa.sample(target, sampler, **changed, **PLAN)


def test_what_kameleon_begins_with_is_in_the_programs_own_coordinates(target):
    fit = sa.sample(target, iter_sampling=50, **PLAN)
    with raises("cannot_standardize", "warm_start"):
        sa.sample(target, "kameleon", standardize=True, warm_start=fit, **PLAN)


@pytest.mark.slow
def test_an_extended_target_stays_as_it_is(target):
    extended = Extended(target, 1)
    fit = sa.sample(extended, "rwm", iter_warmup=60, iter_sampling=5, **PLAN)
    assert fit.attrs["standardized"].startswith("no: Extended(")
    with raises("cannot_standardize", "Extended("):
        sa.sample(extended, "rwm", standardize=True, **PLAN)


def test_the_task_is_shown_and_may_be_interrupted(target, capsys):
    plan = PLAN | {"show_progress": True}
    sa.sample(target, "rwm", iter_warmup=60, iter_sampling=5, **plan)
    assert "learning the scales, done" in capsys.readouterr().err

    def interrupting(progress):
        raise KeyboardInterrupt

    with raises("interrupted"):
        sa.sample(target, "mala", **PLAN | {"show_progress": interrupting})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parallel_tempering", "pseudo_extended"])
def test_tempering_reports_the_program_s_own_evidence_and_reference(name):
    """The evidence of a product of densities is 1; in z it would be exp(9.2)."""
    target = sa.Target(
        "parameters { vector[2] x; } model { target += normal_lpdf(x | [70, -3], 0.01); }"
    )
    fit = sa.sample(target, name, standardize=True, iter_warmup=1000, iter_sampling=1000,
                    inits={"x": [70.0, -3.0]}, **PLAN)  # fmt: skip
    group = results.dataset(fit, "tempering")
    assert fit.attrs["standardized"] == "diagonal"
    assert np.abs(group["log_evidence"].values).max() < 0.5
    center = group["reference_mean"].values
    np.testing.assert_allclose(center, np.tile([70.0, -3.0], (4, 1)), atol=0.05)
    spread = group["reference_sd"].values
    assert ((spread > 0.01) & (spread < 0.1)).all()
    # log Z at b = 1 is the evidence, and at b = 0 that of the reference, which is 1
    constants = group["log_normalizer"].values
    assert np.abs(constants[:, 0]).max() < 1e-9
