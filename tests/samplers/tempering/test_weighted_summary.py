"""The group `pseudo`, and means from all pseudo-samples."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.results import arviz_module
from stanadapt.samplers.tempering import Extended, ReferenceDistribution, weighted_summary
from stanadapt.targets.pseudo_samples import pseudo_group
from tests.helpers.codes import raises
from tests.helpers.extended_program import CODE, DIM, extend
from tests.helpers.stan_target import shared_target

target = shared_target(CODE, {"n": 3, "y": [0.5, 1.0, 2.0]})


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(extend(target, between=(0.2, 0.8)), "rwm", chains=3, iter_warmup=500, seed=3,
                     iter_sampling=400, save=("pseudo", "unconstrained"))  # fmt: skip


def test_the_group_holds_parameters_and_transformed_parameters(fit):
    group = results.dataset(fit, "pseudo")
    assert set(group.data_vars) == {"s", "m", "p", "doubled", "temperature", "weight"}
    for name, shape in (("s", ()), ("m", (2, 2)), ("p", (3,)), ("weight", ())):
        assert group[name].shape == (3, 400, 2, *shape)
        assert group[name].dims[:3] == ("chain", "draw", "pseudo")
    np.testing.assert_allclose(group["weight"].sum(axis=-1), 1.0)
    assert group["temperature"].min() > 0.2
    assert group["temperature"].max() < 0.8


def test_the_group_holds_the_constrained_positions(fit, target):
    group = results.dataset(fit, "pseudo")
    raw = results.dataset(fit, "unconstrained_posterior")["position"].values
    for chain, draw, i in ((0, 0, 0), (1, 77, 1), (2, 399, 0)):
        expected = target.constrain(raw[chain, draw, i * DIM : (i + 1) * DIM])
        for name, value in expected.items():
            np.testing.assert_allclose(group[name].values[chain, draw, i], value, rtol=1e-13)
        u = raw[chain, draw, 2 * DIM + i]
        b = 0.2 + 0.6 / (1 + np.exp(-u))
        assert group["temperature"].values[chain, draw, i] == pytest.approx(b, rel=1e-14)


def test_every_draw_is_one_of_its_pseudo_samples_by_weight(fit):
    group, m = results.dataset(fit, "pseudo"), results.dataset(fit, "posterior")["m"].values
    chosen = np.all(group["m"].values == m[:, :, None], axis=(3, 4))
    assert np.all(chosen.sum(axis=-1) == 1)
    weight = group["weight"].values
    # the first of two, by weight: independent Bernoulli given the states; beyond 5 sd: 6e-7
    difference = np.sum(chosen[..., 0] - weight[..., 0])
    assert abs(difference) < 5 * np.sqrt(np.sum(weight[..., 0] * weight[..., 1]))
    assert 0.1 < chosen[..., 0].mean() < 0.9


def error_of(draws):
    arviz = arviz_module()
    return float(arviz.mcse(arviz.dict_to_dataset({"h": draws}), method="mean")["h"])


def test_summary_averages_weighted_means_of_iterations(fit):
    table = weighted_summary(fit, {"mixed": lambda v: v["m"][..., 0, 1] * v["s"]})
    assert list(table.index[:3]) == ["s", "m[1,1]", "m[1,2]"]
    assert "z" not in table.index
    group, draws = results.dataset(fit, "pseudo"), results.dataset(fit, "posterior")
    w, f = group["weight"].values, group["m"].values[..., 0, 1]
    h = np.sum(w * f, axis=-1)
    row = table.loc["m[1,2]"]
    assert row["mean"] == pytest.approx(h.mean(), rel=1e-13)
    sd = np.sqrt(np.mean(np.sum(w * f**2, axis=-1)) - h.mean() ** 2)
    assert row["sd"] == pytest.approx(sd, rel=1e-10)
    mcse = error_of(h)
    assert row["mcse"] == pytest.approx(mcse, rel=1e-10)
    assert row["ess"] == pytest.approx((sd / mcse) ** 2, rel=1e-9)
    kept = draws["m"].values[..., 0, 1]
    assert row["draws_mean"] == pytest.approx(kept.mean(), rel=1e-13)
    assert row["draws_mcse"] == pytest.approx(error_of(kept), rel=1e-10)
    mixed = np.sum(w * f * group["s"].values, axis=-1)
    assert table.loc["mixed", "mean"] == pytest.approx(mixed.mean(), rel=1e-13)
    resampled = (kept * draws["s"].values).mean()
    assert table.loc["mixed", "draws_mean"] == pytest.approx(resampled, rel=1e-13)


def test_a_constant_function_has_no_error(fit):
    table = weighted_summary(fit, {"one": lambda v: np.ones(v["s"].shape)})
    assert table.loc["one", "mean"] == pytest.approx(1.0)
    assert np.isnan(table.loc["one", "draws_mcse"])


def test_a_fit_without_pseudo_samples_is_refused(target):
    for fit in (sa.sample(target, "rwm", chains=1, iter_warmup=5, iter_sampling=9), None):
        with raises("no_pseudo_samples"):
            weighted_summary(fit)


@pytest.mark.parametrize(("function", "fact"), [
    (lambda v: v["m"], "(3, 400, 2, 2, 2)"), (lambda v: v["color"], "KeyError"),
    (lambda v: "red", "ValueError"),
])  # fmt: skip
def test_bad_functions_are_reported(fit, function, fact):
    with raises("wrong_function", "'f'", fact):
        weighted_summary(fit, {"f": function})


def test_reserved_names_are_reported_before_sampling():
    code = """
    parameters { real x; }
    transformed parameters { real weight = x; }
    model { x ~ normal(0, 1); }
    """
    target = sa.Target(code)
    extended = Extended(target, reference_distribution=ReferenceDistribution([0.0], 2.0))
    with raises("reserved_variable", "weight"):
        sa.sample(extended, "rwm", save="pseudo")
    with raises("reserved_variable", "weight"):
        pseudo_group(target, np.zeros((1, 1, 2, 1)), np.ones((1, 1, 2)), np.ones((1, 1, 2)))


def test_transformed_parameters_that_throw_are_nan():
    code = """
    parameters { real x; }
    transformed parameters { real<lower=0> y = x; }
    model { x ~ normal(0, 1); }
    """
    b = np.ones((1, 2, 2))
    target = sa.Target(code)
    group = pseudo_group(target, np.array([1.0, 2.0, -1.0, 3.0]).reshape(1, 2, 2, 1), b, b / 2)
    np.testing.assert_array_equal(group["y"][0], [[1.0, 2.0], [np.nan, 3.0]])
