"""Pseudo-extended targets: exact distributions, Stan's shapes, the group `pseudo` and its means."""

import copy
import pickle

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.results import arviz_module
from stanadapt.samplers import registered
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.samplers.tempering import Extended, ReferenceDistribution, weighted_summary
from stanadapt.samplers.tempering.extended import log_mass
from stanadapt.targets.pseudo_samples import pseudo_group
from tests.helpers import pseudo_extension_formula
from tests.helpers.codes import raises, warns
from tests.helpers.driven_runs import SMALL_CHUNKS, sample_with
from tests.helpers.extended_program import CODE, DIM, extend
from tests.helpers.sampler_settings import FASTER
from tests.helpers.seldom_parameters import slow_except, soak_except
from tests.helpers.short_runs import assert_same_draws
from tests.helpers.stan_target import shared_target

target = shared_target(CODE, {"n": 3, "y": [0.5, 1.0, 2.0]})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
@pytest.mark.parametrize(
    "name", soak_except({"whitened_hmc", "pseudo_extended", "kameleon"}, registered())
)
def test_draws_of_every_sampler_have_stan_shapes_and_counts_are_of_the_program(target, name):
    fit = sa.sample(extend(target, 3), name, chains=2, iter_warmup=100, iter_sampling=80, seed=3,
                    save_warmup=True, save="unconstrained", **FASTER.get(name, {}))  # fmt: skip
    posterior = results.dataset(fit, "posterior")
    assert {n: v.shape[2:] for n, v in posterior.data_vars.items()} == {
        "s": (), "m": (2, 2), "p": (3,), "doubled": (2, 2), "z": (),
    }  # fmt: skip
    assert results.dataset(fit, "log_likelihood")["log_lik"].shape == (2, 80, 3)
    np.testing.assert_allclose(posterior["doubled"], 2 * posterior["m"])
    np.testing.assert_allclose(posterior["p"].sum(axis=-1), 1.0)
    raw = results.dataset(fit, "unconstrained_posterior")["position"]
    assert raw.shape == (2, 80, 3 * (DIM + 1))
    kind = "n_gradients" if registered()[name].uses_gradient else "n_density"
    column = results.dataset(fit, "sample_stats")[kind].values
    assert column.sum() == fit.attrs[kind] - fit.attrs[f"{kind}_warmup"] > 0
    assert not np.any(column % 3)
    assert fit.attrs["pseudo_samples"] == 3
    assert fit.attrs["temperature"] == "free"


@pytest.mark.filterwarnings(r"ignore:.*\[failed_evaluations\]")
@pytest.mark.parametrize("name", ["rwm", "mala", "nuts"])
@pytest.mark.parametrize(
    "reference", [None, ReferenceDistribution(np.zeros(DIM), 3.0, degrees=4.0)]
)
def test_one_pseudo_sample_gives_the_draws_of_the_target(target, name, reference):
    plan = {"chains": 2, "iter_warmup": 150, "iter_sampling": 150, "seed": 5}
    one = Extended(target, 1, temperature="fixed", fixed_at=0.3, reference_distribution=reference)
    base, extended = (
        results.columns(sa.sample(t, name, standardize=False, **plan)) for t in (target, one)
    )
    assert base.keys() == extended.keys()
    for column, draws in base.items():
        np.testing.assert_array_equal(extended[column], draws)


@pytest.mark.parametrize("temperature", ["free", "fixed"])
def test_draws_do_not_depend_on_chunks_or_threads(target, temperature):
    extended = extend(target, temperature=temperature)
    run = {"chains": 3, "iter_warmup": 100, "iter_sampling": 200, "seed": 9}
    usual = sa.sample(extended, "rwm", **run)
    assert_same_draws(usual, sa.sample(extended, "rwm", parallel_chains=1, **run))
    assert_same_draws(usual, sample_with(SMALL_CHUNKS, extended, "rwm", **run))


GAUSSIAN = """
data { int n; vector[n] y; }
parameters { vector[2] x; }
model { x[1] ~ normal(1, 2); x[2] ~ normal(-3, 0.2); y ~ normal(x[1], 0.5); }
"""
SHIFT = np.linspace(0.0, 1.0, 4)
# y = 2, 3: precision 1/4 + 8, mean (1/4 + 20) / 8.25
MEAN_AND_SD = {"x[1]": (20.25 / 8.25, 8.25**-0.5), "x[2]": (-3.0, 0.2)}
gaussian = shared_target(GAUSSIAN, {"n": 2, "y": [2.0, 3.0]})


WIDE = ReferenceDistribution([1.5, -3.2], [1.0, 0.5])
EXACT = {
    "free": {"reference_distribution": WIDE},
    "free, ladder": {"reference_distribution": WIDE, "ladder": (SHIFT, -3.0 * SHIFT)},
    "fixed": {"temperature": "fixed", "fixed_at": 0.2, "reference_distribution": WIDE},
    "collapsed": {
        "temperature": "collapsed",
        "reference_distribution": WIDE,
        "ladder": (SHIFT, -SHIFT),
    },
    "prior data": {"between": (0.1, 0.9), "prior_data": {"n": 0, "y": []}},
}


@pytest.mark.thorough
@pytest.mark.parametrize("n", slow_except([2], [2, 4]))
@pytest.mark.parametrize("case", EXACT)
def test_draws_follow_the_target(gaussian, case, n):
    """Eight statistics within 5 errors: the chance of a false alarm is 5e-6 per case."""
    extended = Extended(gaussian, n, **EXACT[case])
    fit = sa.sample(extended, "nuts", iter_sampling=4000, seed=4, save="pseudo", target_accept=0.9)
    squares = {
        f"{name} squared": lambda v, i=i, mean=mean, sd=sd: ((v["x"][..., i] - mean) / sd) ** 2
        for i, (name, (mean, sd)) in enumerate(MEAN_AND_SD.items())
    }
    table = weighted_summary(fit, squares)
    for name, (mean, sd) in MEAN_AND_SD.items():
        for row, truth, unit in ((name, mean, sd), (f"{name} squared", 1.0, 2.0**0.5)):
            estimate = table.loc[row]
            assert abs(estimate["mean"] - truth) < 5 * estimate["mcse"]
            assert abs(estimate["draws_mean"] - truth) < 5 * estimate["draws_mcse"]
            assert estimate["mcse"] < 0.1 * unit  # so that the checks above have power


def test_prior_data_define_the_reference_density(gaussian):
    prior = sa.Target(GAUSSIAN, {"n": 0, "y": []})
    extended = Extended(gaussian, 2, prior_data={"n": 0, "y": []}, between=(0.2, 0.7))
    x, u = np.array([[0.3, -2.5], [3.0, -3.1]]), np.array([0.4, -1.0])
    # both of mass 1, up to the error of an estimate
    masses = log_mass(gaussian), log_mass(prior)
    expected = pseudo_extension_formula.log_extended(
        x, u, lambda r: gaussian.evaluate(r)[0] - masses[0],
        lambda r: prior.evaluate(r)[0] - masses[1], "free", 0.2, 0.7,
    )  # fmt: skip
    position = np.concatenate([x.ravel(), u])
    assert extended.value(position) == pytest.approx(expected, rel=1e-12)
    assert extended.evaluate(position)[0] == pytest.approx(expected, rel=1e-12)
    assert extended.description["prior_data_hash"]


@pytest.mark.parametrize("name", ["rwm", "nuts"])
def test_positions_outside_the_support_are_rejected_and_stan_is_quoted(name):
    code = "parameters { vector[2] x; } model { x ~ uniform(-1, 1); x ~ normal(0.5, 1); }"
    with warns("improper_extension", 0.4):
        extended = Extended(sa.Target(code), 2, temperature="fixed", fixed_at=0.4)
    with warns("failed_evaluations", "pseudo-sample"):
        fit = sa.sample(extended, name, inits=0.5, iter_warmup=500, iter_sampling=2000, seed=2,
                        save="pseudo")  # fmt: skip
    assert fit.attrs["n_failed"] > 0
    x = results.dataset(fit, "pseudo")["x"].values
    assert np.abs(x).max() <= 1.0
    assert np.ptp(x, axis=(0, 1)).min() > 1.5


def test_initial_positions_are_those_of_the_program_for_each_pseudo_sample(target):
    extended, rngs = extend(target, 3), [np.random.default_rng(i) for i in range(2)]
    for position in initial_positions(extended, None, rngs):
        assert position.shape == (3 * (DIM + 1),)
        assert len(np.unique(position)) == position.size
        assert np.abs(position).max() < 2.0
    given = np.arange(2.0 * DIM).reshape(2, DIM) / 20
    for start, position in zip(given, initial_positions(extended, given, rngs), strict=True):
        np.testing.assert_array_equal(position[: 3 * DIM], np.tile(start, 3))
        assert len(np.unique(position[3 * DIM :])) == 3
    values = {"s": 2.0, "m": [[1.0, 2.0], [3.0, 4.0]], "p": [0.2, 0.3, 0.5]}
    position = initial_positions(extended, values, rngs)[0]
    np.testing.assert_allclose(position[: 3 * DIM], np.tile(target.unconstrain(values), 3))
    earlier = sa.sample(target, "rwm", chains=2, iter_warmup=10, iter_sampling=10, seed=1)
    copies = initial_positions(extended, earlier, rngs)[1][: 3 * DIM].reshape(3, DIM)
    assert np.all(copies == copies[0])
    fixed = extend(target, 2, temperature="fixed")
    assert initial_positions(fixed, 0, rngs)[0].shape == (2 * DIM,)


@pytest.mark.parametrize("options", [
    {"between": (0.2, 0.9)}, {"temperature": "fixed", "fixed_at": 0.3},
    {"ladder": ([0.1, 1.0], [0.0, -2.0]), "between": (0.1, 1.0)},
    {"reference_distribution": None, "prior_data": {"n": 1, "y": [4.0]}},
    {"reference_distribution": None, "between": (0.5, 1.0)},
])  # fmt: skip
@pytest.mark.parametrize("again", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy])
def test_a_copy_is_an_equal_target(target, options, again):
    if "reference_distribution" in options and "prior_data" not in options:
        with warns("improper_extension"):
            extended = extend(target, 3, **options)
    else:
        extended = extend(target, 3, **options)
    other = again(extended)  # without the warning
    assert repr(other) == repr(extended)
    position = np.linspace(-1, 1.5, extended.dim)
    assert other.value(position) == extended.value(position)
    np.testing.assert_array_equal(other.evaluate(position)[1], extended.evaluate(position)[1])
    drawn = [np.empty((1, len(target.column_names))) for _ in range(2)]
    for one, out in zip((extended, other), drawn, strict=True):
        one.constrainer(7)(position[np.newaxis], out)
    np.testing.assert_array_equal(*drawn)


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(extend(target, between=(0.2, 0.8)), "rwm", chains=3, iter_warmup=500, seed=3,
                     iter_sampling=400, save=("pseudo", "unconstrained"))  # fmt: skip


def test_the_group_holds_constrained_positions_and_what_they_transform_to(fit, target):
    group = results.dataset(fit, "pseudo")
    assert set(group.data_vars) == {"s", "m", "p", "doubled", "temperature", "weight"}
    for name, shape in (("s", ()), ("m", (2, 2)), ("p", (3,)), ("weight", ())):
        assert group[name].shape == (3, 400, 2, *shape)
        assert group[name].dims[:3] == ("chain", "draw", "pseudo")
    np.testing.assert_allclose(group["weight"].sum(axis=-1), 1.0)
    assert group["temperature"].min() > 0.2
    assert group["temperature"].max() < 0.8
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


def test_constant_functions_and_fits_without_pseudo_samples(fit, target):
    table = weighted_summary(fit, {"one": lambda v: np.ones(v["s"].shape)})
    assert table.loc["one", "mean"] == pytest.approx(1.0)
    assert np.isnan(table.loc["one", "draws_mcse"])
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
