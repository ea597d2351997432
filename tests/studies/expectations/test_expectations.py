"""Expectations with control variates: exact cases, honest errors, gains, guards, the table."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, expon, norm
from threadpoolctl import threadpool_limits

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.control_variates.control import asymptotic_variance
from stanadapt.diagnostics.control_variates.estimates import Draws, expectations_of
from stanadapt.diagnostics.control_variates.weights import stein_weights
from stanadapt.runs.controlled import controlled_draws
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

# correlated, unequal scales, one scale parameter with a bound
PROGRAM = """
data { int n; vector[n] y; }
parameters { real mu; real<lower=0> s; vector[2] w; }
transformed parameters { real ratio = mu / s; }
model {
  mu ~ normal(0, 1e3);
  s ~ gamma(2, 0.01);
  y ~ normal(mu, s);
  w ~ multi_normal([1e-3, 5]', [[1e-6, 2e-4], [2e-4, 0.25]]);
}
generated quantities {
  real twice = 2 * w[1];
  int sign = mu > 100;
  real fixed = 3;
  real noise = normal_rng(mu, 1);
}
"""
DATA = {"n": 12, "y": (100 + 30 * np.random.default_rng(1).normal(size=12)).tolist()}
PROBABILITIES = (0.05, 0.5, 0.95)
target = shared_target(PROGRAM, DATA)


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(target, seed=1)


@pytest.fixture(scope="module")
def found(fit, target):
    return sa.expectations(fit, target)


def gaussian(dim, chains=4, draws=200, seed=1):
    """Draws of a Gaussian, their gradients, and its mean and covariance."""
    rng = np.random.default_rng(seed)
    factor = np.tril(0.5 * rng.normal(size=(dim, dim))) + np.eye(dim)
    factor *= 10.0 ** rng.uniform(-3, 3, (dim, 1))
    mean, z = 5.0 * np.diag(factor), rng.normal(size=(chains, draws, dim))
    return mean + z @ factor.T, -z @ np.linalg.inv(factor), mean, factor @ factor.T


@pytest.mark.parametrize("chains", [1, 2, 4, 9])
def test_means_and_sds_of_a_gaussian_are_exact(chains):
    u, g, mean, covariance = gaussian(5, chains, 800 // chains)
    draws = Draws(u, g)
    ((_, batch),) = draws.batches({str(j): u[..., j] for j in range(5)})
    means, sds = batch.means_and_sds()
    sd = np.sqrt(np.diag(covariance))
    # the ridge of 1e-6 leaves about as much
    assert np.abs((means.value - mean) / sd).max() < 1e-5
    assert np.abs(sds.value / sd - 1).max() < 1e-5
    assert means.gain.min() > 1000
    median = batch.quantiles(0.5)
    assert np.abs((median.value - mean) / sd).max() < 5 * (median.error / sd).max()
    assert median.gain.min() > 100


@pytest.mark.slow
def test_errors_over_seeds_are_those_that_are_claimed(target):
    """Known expectations of w, over 10 fits: 95 % within 2 errors, for quantiles too."""
    exact = {"mean": (1e-3, 5.0), "sd": (1e-3, 0.5)}
    for p, name in zip(PROBABILITIES, ("q5", "median", "q95"), strict=True):
        exact[name] = (1e-3 + 1e-3 * norm.ppf(p), 5.0 + 0.5 * norm.ppf(p))
    z, gains = [], []
    for seed in range(10):
        fit = sa.sample(target, "nuts", iter_warmup=300, seed=seed)
        table = sa.expectations(fit, target, "w")
        for name, values in exact.items():
            z += list((table[name] - np.array(values)) / table[f"mcse_{name}"])
            gains += [] if name in ("mean", "sd") else list(table[f"gain_{name}"])
    # 60 values of quantiles, which share draws: fewer than half as many are independent
    assert np.mean(np.abs(z) < 2) > 0.88
    assert np.median(gains) > 100


def test_estimates_agree_with_a_long_run(found, target):
    long = sa.sample(target, "nuts", iter_sampling=20_000, seed=2)
    other = sa.summary(long, ["mu", "s", "w", "ratio"])
    table = found.loc[other.index]
    for name in ("mean", "sd"):
        error = np.hypot(table[f"mcse_{name}"], other[f"mcse_{name}"])
        assert (np.abs(table[name] - other[name]) < 4 * error).all()
    assert (table["gain_mean"] > 10).all()
    # the other has 20 times as many draws
    assert (table["mcse_mean"] < 1.5 * other["mcse_mean"]).all()


def test_constants_discrete_quantities_and_random_ones(found, fit):
    assert list(found.loc["fixed", ["mean", "sd"]]) == [3.0, 0.0]
    assert found.loc["fixed"].drop(["mean", "sd"]).isna().all()
    assert found.loc["sign", "q5"] in (0.0, 1.0)  # a quantile of integers is not moved
    assert np.isnan(found.loc["sign", ["mcse_q5", "gain_q5"]].astype(float)).all()
    # its own random numbers have a standard deviation of 1, that of mu is about 9
    assert 10 < found.loc["noise", "gain_mean"] < 300
    crude = sa.summary(fit)
    difference = found.loc["noise", "mean"] - crude.loc["noise", "mean"]
    assert abs(difference) < 4 * crude.loc["noise", "mcse_mean"]


def test_functions_probabilities_and_covariances(fit, target, found):
    of = {"square": lambda draws: draws["w"] ** 2, "difference": lambda draws: draws["mu"] - 100}
    table = sa.expectations(fit, target, of)
    assert list(table.index) == ["square[1]", "square[2]", "difference"]
    error = table.loc["square[2]", "mcse_mean"]
    assert table.loc["square[2]", "mean"] == pytest.approx(25.25, abs=5 * error)
    value, error = found.probability("w[2]", 5.0)
    assert abs(value - 0.5) < 5 * error
    assert error < 0.002
    covariance, errors = found.covariance(["w[1]", "w[2]"])
    assert covariance.loc["w[1]", "w[2]"] == pytest.approx(2e-4, abs=5 * errors.loc["w[1]", "w[2]"])
    assert (errors.to_numpy() < 1e-2 * np.abs(covariance.to_numpy())).all()


def test_random_walks_and_single_chains_are_enough(target, found, fit):
    fit = sa.sample(target, "am", iter_sampling=4000, seed=3)
    table = sa.expectations(fit, target).loc[["mu", "s", "w[1]", "w[2]"]]
    other = found.loc[table.index]
    error = np.hypot(table["mcse_mean"], other["mcse_mean"])
    assert (np.abs(table["mean"] - other["mean"]) < 4.5 * error).all()
    assert list(sa.expectations(fit, target, "w[2]").index) == ["w[2]"]
    one = sa.sample(target, chains=1, seed=1, iter_sampling=300)
    assert "one_chain" in [m.code for m in sa.expectations(one, target, "mu").attrs["messages"]]


def test_a_quantity_with_heavy_tails_stays_as_it_is():
    """The square of a t_3 variable has no variance: no error of its mean can be known."""
    z, orders = [], []
    for seed in range(12):
        x = np.random.default_rng(seed).standard_t(3, (4, 1000, 1))
        draws = Draws(x, -4.0 * x / (3.0 + x**2))
        ((_, batch),) = draws.batches({"x": x[..., 0]})
        mean, sd = batch.means_and_sds()
        orders.append(mean.order[0])
        assert sd.order[0] == 0
        assert sd.value[0] == pytest.approx(x.std(ddof=1))
        z.append((sd.value[0] - np.sqrt(3.0)) / sd.error[0])
    assert np.mean(np.array(orders) > 0) > 0.5
    assert 0 < np.isnan(z).sum() < 12
    assert np.nanmax(np.abs(z)) < 3.5  # 7 with the error that independent draws would have


def test_noise_is_not_learned_and_funnels_straightened():
    """Functions without any relation to the position: what explains them explains nothing."""
    u, s, *_ = gaussian(3, draws=100)
    ((_, batch),) = Draws(u, s).batches({str(i): u[..., i % 3] for i in range(60)})
    found = batch.expectations(np.random.default_rng(2).normal(size=(400, 60)))
    assert (found.order == 0).mean() > 0.9
    u, s, columns = funnel(np.random.default_rng(7))
    draws, remarks = controlled_draws(u, s)
    assert "straightened_expectations" in [remark.code for remark in remarks]
    v = expectations_of(draws, {"v": columns["0"]})
    assert v.gain[0] > 100
    assert abs(v.value[0]) < 5 * v.error[0]


def test_noise_that_chains_have_from_each_other_counts_twice():
    """With 60 parameters there is no room for the pairs that would explain it."""
    step = np.eye(60) - 0.7 * np.eye(60, k=-1)  # each depends on the one before
    turn, z = np.linalg.inv(step), []
    sd = np.sqrt((turn**2).sum(axis=1))
    for seed in range(4):
        noise = np.random.default_rng(seed).normal(size=(4, 500, 60))
        x = noise @ turn.T
        ((_, batch),) = Draws(x, -noise @ step).batches({str(j): x[..., j] for j in range(60)})
        sds = batch.means_and_sds()[1]
        z.append((sds.value - sd) / sds.error)
    assert 0.5 < np.mean(np.square(z)) < 1.35


def funnel(rng):
    """Draws of a funnel: four variables with the standard deviation exp(v); and gradients."""
    v, x = rng.normal(0, 1.5, (4, 250, 1)), rng.normal(size=(4, 250, 4))
    u, s = np.concatenate([v, x * np.exp(v)], axis=2), np.empty((4, 250, 5))
    s[..., :1] = -v / 1.5**2 - 4.0 + (x**2).sum(axis=2, keepdims=True)
    s[..., 1:] = -x * np.exp(-v)
    return u, s, {str(j): u[..., j] for j in range(5)}


def test_bits_do_not_depend_on_threads_of_linear_algebra():
    u, s, *_ = gaussian(90, draws=1000)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            draws, _ = controlled_draws(u, s)
            found.append(draws.controls.values.copy())
    assert np.array_equal(*found)


@pytest.mark.parametrize(("draws", "chains"), [(20, 1), (12, 4), (3, 2)])
def test_few_draws_are_not_made_worse(draws, chains):
    u, g, *_ = gaussian(3, chains, draws)
    (found,) = Draws(u, g).batches({"a": u[..., 0]})
    mean, sd = found[1].means_and_sds()
    assert (mean.order[0], sd.order[0]) == (0, 0)
    assert mean.value[0] == pytest.approx(u[..., 0].mean())


def test_failed_gradients_repeated_values_and_few_weights(target, fit):
    u, g, *_ = gaussian(3)
    g[0, 5] = np.nan
    assert not Draws(u, g).usable
    u, g, *_ = gaussian(2, draws=500)
    u[0, 100:350] = u[0, 100]
    ((_, batch),) = Draws(u, g).batches({"a": u[..., 0]})
    below = np.mean(u[..., 0] < u[0, 100, 0])
    assert np.isnan(batch.quantiles(below + 0.06).error[0])  # of 12.5 % of the draws
    assert batch.quantiles((below + 0.56) % 1.0).error[0] > 0.0
    shifted = np.random.default_rng(1).normal(size=(4000, 2)) + 5.0
    assert stein_weights(-shifted, (2,)) == (None, 0.0)
    uneven = np.random.default_rng(1).normal(size=(4000, 1)) + 1.0
    weights, share = stein_weights(uneven, (1,))
    assert (weights * uneven[:, 0]).sum() == pytest.approx(0.0, abs=1e-7)
    assert share < 0.5


def test_refusals(target, fit):
    other = sa.Target("parameters { real z; } model { z ~ normal(0, 1); }")
    with raises("fit_of_another_target"):
        sa.expectations(fit, other)
    with raises("out_of_range", "0 and 1"):
        sa.expectations(fit, target, probabilities=[0.0])
    with raises("unknown_variable", "muu"):
        sa.expectations(fit, target, "muu")
    with raises("not_a_name", "of must"):
        sa.expectations(fit, target, 3)
    for wrong in (0.0, None, [0.5, 1.0], [0.5, 0.5], "a"):
        with raises("out_of_range", "probabilities"):
            sa.expectations(fit, target, probabilities=wrong)
    for function in (lambda draws: draws, lambda draws: draws["none"], 3, lambda draws: [1, [2]]):
        with raises("wrong_quantity", "'f'"):
            sa.expectations(fit, target, {"f": function})
    with raises("wrong_quantity"):
        sa.expectations(fit, target, {})
    with raises("wrong_quantity", "(4, 1000)"):
        sa.expectations(fit, target, {"f": lambda draws: draws["mu"].mean()})
    stuck = sa.sample(target, "rwm", iter_warmup=0, iter_sampling=50, seed=1)
    with raises("unusable_fit"):
        sa.expectations(stuck, target)


def test_tables_and_foreign_fits_belong_to_one_target(target, fit, found, tmp_path):
    """Without the hashes of our fits, recorded log densities tell the programs apart."""
    groups = {
        "posterior": results.dataset(fit, "posterior"),
        "sample_stats": results.dataset(fit, "sample_stats")[["lp"]],
    }
    foreign = results.build({name: data.copy(deep=True) for name, data in groups.items()}, {})
    assert sa.expectations(foreign, target, "mu").loc["mu", "order"] > 0
    foreign["sample_stats"]["lp"].values[1, 7:] += 3.0
    with raises("fit_of_another_target", "constant"):
        sa.expectations(foreign, target, "mu")
    found.add_to(sa.load(sa.save(fit, tmp_path / "small.nc", float32=True)))
    with raises("not_a_fit"):
        found.add_to(None)
    for several in ([fit, fit], {"one": fit}):
        with raises("not_a_fit", "for each fit"):
            sa.expectations(several, target)
    with raises("fit_of_another_target", "other draws"):
        found.add_to(sa.sample(target, seed=2, iter_sampling=1000))


def test_the_table_prints_digits_that_are_known_and_files_keep_it(found, fit, tmp_path):
    lines = repr(found).splitlines()
    assert lines[0].split()[:3] == ["mean", "MCSE", "mean"]
    assert any("gradients for 4,000 draws" in line for line in lines)
    assert "<table>" in found._repr_html_()
    found.add_to(fit)
    again = sa.load(sa.save(fit, tmp_path / "fit.nc"))
    kept = results.dataset(again, "expectations")
    assert kept["mean"].sel(quantity="mu").item() == found.loc["mu", "mean"]
    assert found.loc["twice", "mean"] == pytest.approx(2 * found.loc["w[1]", "mean"], rel=1e-9)
    assert found.loc["twice", "q5"] == pytest.approx(2 * found.loc["w[1]", "q5"], rel=1e-9)


def test_the_table_is_a_data_frame_and_its_parts_are_ordinary_ones(found, fit, target):
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == repr(found)
    assert again.probability("mu", 100.0) == found.probability("mu", 100.0)
    pd.testing.assert_frame_equal(found.copy(), pd.DataFrame(found))
    assert repr(copy.deepcopy(found)) == repr(found)
    assert found.copy().probability("mu", 100.0) == found.probability("mu", 100.0)
    for part in (found.loc[["mu", "s"]], found[["mean", "sd"]], found.sort_values("gain_mean")):
        assert type(part) is pd.DataFrame
        assert "gradients" not in repr(part)
    both = pd.concat({"a": found, "b": sa.expectations(fit, target, "mu", weights=True)})
    assert both.loc[("a", "mu"), "mean"] == found.loc["mu", "mean"]
    del again["gain_sd"]  # which the printed form needs
    assert repr(again) == repr(pd.DataFrame(again))
    without_attributes = pickle.loads(pickle.dumps(found))
    without_attributes.attrs.clear()
    for bare in (without_attributes, type(found)(found)):
        assert repr(bare) == repr(pd.DataFrame(bare))
        assert bare._repr_html_() == pd.DataFrame(bare)._repr_html_()


def test_names_of_functions_edges_and_samplers_that_are_refused(fit, target):
    for name, draw in {
        "mu": lambda d: d["mu"],
        "w": lambda d: d["w"],
        "w[1]": lambda d: d["mu"],
    }.items():
        with raises("wrong_quantity", "another name"):
            sa.expectations(fit, target, {name: draw})
    for sampler, words in (("am", "has none"), ("mala", "standardize")):
        with raises("option_not_used", words):
            sa.sample(target, sampler, save="gradient")
    program = "parameters { real x; } model { x ~ uniform(0, 1); }"
    target = sa.Target(program)
    fit = sa.sample(target, "whitened_hmc", seed=1)
    with raises("unusable_fit", "edges"):
        sa.expectations(fit, target)


def test_the_asymptotic_variance_of_an_autoregression():
    rho, rng = 0.8, np.random.default_rng(8)
    x = np.empty((4, 20_000, 1))
    x[:, 0] = rng.normal(size=(4, 1))
    noise = rng.normal(size=x.shape) * np.sqrt(1 - rho**2)
    for t in range(1, x.shape[1]):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    exact = (1 + rho) / (1 - rho) / (4 * 20_000)
    assert asymptotic_variance(x)[0] == pytest.approx(exact, rel=0.15)
    apart = x + np.array([0.0, 0, 0, 5])[:, None, None]
    assert asymptotic_variance(apart)[0] > 100 * exact
    # of a single draw per chain, only that between chains is known
    assert asymptotic_variance(x[:, :1])[0] > 0.0


@pytest.mark.parametrize(
    "model", ["x ~ normal(0, 1); x ~ uniform(-1, 50);", "x ~ normal(0, 1); target += step(x);"]
)
def test_edges_and_jumps_are_no_place_for_control_variates(model):
    """Stein's identity lacks a term there: the mean would be 0 with a tiny error."""
    target = sa.Target(f"parameters {{ real x; }} model {{ {model} }}")
    fit = sa.sample(target, "nuts", seed=1)
    fit.attrs.pop("hard_edges", None)
    found = sa.expectations(fit, target)
    assert found.loc["x", "order"] == 0
    assert "no_control" in [remark.code for remark in found.attrs["messages"]]
    assert found.loc["x", "mean"] == pytest.approx(fit.posterior["x"].mean().item())


def test_approximations_are_corrected():
    """The exact mean and sd of a gamma and a normal variable, from a Gaussian at the mode."""
    program = (
        "parameters { real<lower=0> e; real x; } model { e ~ gamma(20, 2); x ~ normal(3, 2); }"
    )
    target = sa.Target(program)
    z, before = [], []
    for seed in range(10):
        fit = sa.approximate(target, "laplace", seed=seed)
        if fit.attrs["pareto_k"] > 0.5:
            continue
        table = sa.expectations(fit, target)
        assert "q5" not in table
        exact = {"mean": [10.0, 3.0], "sd": np.sqrt([5.0, 4.0])}
        for kind, values in exact.items():
            z.append((table[kind] - values) / table[f"mcse_{kind}"])
        before.append(fit.posterior["e"].mean().item() - 10.0)
    assert len(z) > 8
    assert np.mean(np.abs(z) < 2) > 0.85  # of 24; binomial, at 95 %
    assert abs(np.mean(before)) > 10 * np.abs(table["mcse_mean"]).max()
    assert fit.attrs["verdict"] != "do not use"
    unusable = sa.approximate(target, "laplace", seed=1)
    unusable.attrs["pareto_k"] = 1.1
    with raises("unusable_fit", "Pareto"):
        sa.expectations(unusable, target)


@pytest.mark.parametrize(("sampler", "thin"), [
    ("ula", 1), pytest.param("sgld", 20, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_bias_of_moves_without_a_test_is_removed(sampler, thin, target):
    fit = sa.sample(target, sampler, iter_sampling=3000 * thin, thin=thin, seed=1)
    found = sa.expectations(fit, target, "w")
    assert "corrected_approximation" in [remark.code for remark in found.attrs["messages"]]
    assert (np.abs(found["mean"] - [1e-3, 5.0]) / [1e-3, 0.5]).max() < 1e-3
    assert (np.abs(found["sd"] / [1e-3, 0.5] - 1)).max() < 5e-3  # of a bias of 0.01


@pytest.mark.parametrize("method", ["laplace", "pathfinder"])
def test_approximations_with_lighter_tails_are_refused(method):
    """Errors claimed for their sds were too small by up to 26 times."""
    program = "parameters { vector[3] x; } model { x ~ student_t(5, 0, 1); }"
    target = sa.Target(program)
    for seed in range(3):
        fit = sa.approximate(target, method, seed=seed)
        fit.attrs["pareto_k"] = 0.4  # as it is by chance: the effective draws tell
        with raises("unusable_fit", "close to the posterior"):
            sa.expectations(fit, target)


@pytest.mark.slow
def test_errors_of_quantiles_of_skewed_quantities():
    """Exponential and beta variables, with secants that may be noise: against exact values."""
    program = """
    parameters { real<lower=0> e; real<lower=0, upper=1> b; real x; }
    model { e ~ exponential(2); b ~ beta(2, 5); x ~ normal(3, 2); }
    """
    target = sa.Target(program)
    exact, z = {"e": expon(scale=0.5), "b": beta(2, 5), "x": norm(3, 2)}, []
    for seed in range(8):
        fit = sa.sample(target, seed=100 + seed)
        table = sa.expectations(fit, target)
        for name, true in exact.items():
            for p, kind in zip(PROBABILITIES, ("q5", "median", "q95"), strict=True):
                z.append((table.loc[name, kind] - true.ppf(p)) / table.loc[name, f"mcse_{kind}"])
    # 72 values, in groups that share draws
    assert np.max(np.abs(z)) < 4.5
    assert np.mean(np.square(z)) < 1.6


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the logarithm
def test_a_function_gets_a_copy_and_what_it_lacks_is_named(fit, target):
    before = fit.posterior["mu"].values.copy()

    def spoil(draws):
        draws["mu"][:] = 0.0
        return draws["mu"]

    lost = {"f": spoil, "lost": lambda draws: np.log(draws["mu"] - 100.0)}
    found = sa.expectations(fit, target, lost)
    assert np.array_equal(fit.posterior["mu"].values, before)
    assert found.loc["lost"].isna().all()
    (named,) = [m for m in found.attrs["messages"] if m.code == "missing_quantities"]
    assert "lost (" in named


def test_probabilities_and_covariances_that_are_unknown(found):
    value, error = found.probability("w[2]", 1e9)
    assert (value, np.isnan(error)) == (1.0, True)
    with raises("out_of_range"):
        found.probability("w[2]", np.nan)
    for names in ([], ["mu", "mu"]):
        with raises("wrong_quantity"):
            found.covariance(names)
    values, errors = found.covariance(["mu", "fixed"])
    assert np.isnan(values.loc["fixed", "mu"])
    # two estimates of one number
    sd, error = found.loc["mu", ["sd", "mcse_sd"]]
    allowed = 3.0 * np.hypot(errors.loc["mu", "mu"], 2.0 * sd * error)
    assert values.loc["mu", "mu"] == pytest.approx(sd**2, abs=allowed)


@pytest.mark.parametrize("sampler", ["auto", "nuts"])
def test_gradients_that_the_fit_keeps_are_used(sampler, target, tmp_path):
    run = {"iter_warmup": 200, "iter_sampling": 250, "chains": 2, "seed": 1}
    kept = sa.sample(target, sampler, save="gradient", run=tmp_path / "run", **run)
    plain = sa.sample(target, sampler, **run)
    assert np.array_equal(kept.posterior["mu"], plain.posterior["mu"])
    evaluated = sa.expectations(plain, target, "mu")
    for fit in (sa.load(sa.save(kept, tmp_path / "fit.nc")), sa.resume(tmp_path / "run")):
        found = sa.expectations(fit, target, "mu")
        assert (found.attrs["gradients"], evaluated.attrs["gradients"]) == (50, 500)
        assert found.loc["mu"].to_numpy(float) == pytest.approx(
            evaluated.loc["mu"].to_numpy(float), rel=1e-6
        )
    results.dataset(kept, "unconstrained_posterior")["gradient"][0, :100] += 1.0
    with raises("fit_of_another_target", "gradients"):
        sa.expectations(kept, target)


def test_weights_balance_all_draws(fit, target):
    """Means of functions that are in no table gain, and constants stay."""
    found = sa.expectations(fit, target, "mu", weights=True)
    w = found.weights
    assert w.shape == (4, 1000)
    assert (w > 0).all()
    assert w.sum() == pytest.approx(1.0)
    assert 1.0 / (w.size * (w**2).sum()) > 0.9
    x = fit.posterior["w"].values
    assert (w * x[..., 0]).sum() == pytest.approx(1e-3, abs=1e-7)
    assert (w * x[..., 0] * x[..., 1]).sum() == pytest.approx(2e-4 + 5e-3, rel=1e-3)
    found.add_to(fit)
    assert np.array_equal(fit.sample_stats["stein_weight"], w)
