"""Groups of predictions, likelihoods and data, names of dimensions, and random labels."""

import json
import secrets
import time
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.results.datasets import draws_dataset
from stanadapt.results.labels import Labels, arrays, make_labels
from tests.fuzz import random_labels
from tests.helpers.codes import raises

PROGRAM = """
data { int N; int J; array[N] int g; vector[N] y; matrix[2, 3] x; }
parameters { vector[J] theta; real<lower=0> s; }
model { theta ~ normal(0, 5); s ~ normal(0, 2); y ~ normal(theta[g], s); }
generated quantities {
  vector[N] y_rep; vector[J] other_rep; vector[N] log_lik;
  for (i in 1:N) y_rep[i] = normal_rng(theta[g[i]], s);
  for (j in 1:J) other_rep[j] = theta[j];
  for (i in 1:N) log_lik[i] = normal_lpdf(y[i] | theta[g[i]], s);
}
"""
GROUP = np.repeat([1, 2, 3], 4)
DATA = {
    "N": 12, "J": 3, "g": GROUP, "x": np.arange(6.0).reshape(2, 3),
    "y": np.random.default_rng(1).normal(GROUP, 1.0),
}  # fmt: skip
SCHOOLS = {"dims": {"theta": ["school"]}, "coords": {"school": ["A", "B", "C"]}}
RUN = {"chains": 2, "iter_sampling": 60, "iter_warmup": 60, "seed": 1}


def fitted(draw=sa.sample, labels=None, **options):
    target = sa.Target(PROGRAM, DATA, labels=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return draw(target, **RUN, **options)


def dims(fit, group, name):
    return results.dataset(fit, group)[name].dims


@pytest.fixture(scope="module")
def plain():
    return fitted()


def test_replications_and_likelihoods_have_separate_groups(plain):
    assert set(results.dataset(plain, "posterior").data_vars) == {"theta", "s"}
    predicted = results.dataset(plain, "posterior_predictive")
    # other_rep keeps its name, since no data have its shape
    assert set(predicted.data_vars) == {"y", "other_rep"}
    assert predicted["y"].shape == (2, 60, 12)
    np.testing.assert_array_equal(
        predicted["other_rep"].values, results.dataset(plain, "posterior")["theta"].values
    )
    assert set(results.dataset(plain, "log_likelihood").data_vars) == {"log_lik"}


def test_data_are_observed_or_constant_and_of_one_fit(plain):
    observed = results.dataset(plain, "observed_data")
    np.testing.assert_array_equal(observed["y"].values, DATA["y"])
    assert set(observed.data_vars) == {"y"}
    constant = results.dataset(plain, "constant_data")
    assert set(constant.data_vars) == {"N", "J", "g", "x"}
    np.testing.assert_array_equal(constant["x"].values, DATA["x"])
    target = sa.Target(PROGRAM, DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (sa.sample(target, **RUN) for _ in range(2))
    results.dataset(one, "observed_data")["y"].values[0] = 1e9
    assert results.dataset(other, "observed_data")["y"].values[0] == DATA["y"][0]


@pytest.mark.parametrize("draw", [sa.sample, sa.stan_nuts])
def test_names_of_dimensions_reach_every_group_and_the_file(draw, tmp_path):
    labels = {
        **SCHOOLS, "posterior_predictive": {"y": "y_rep"}, "log_likelihood": {"y": "log_lik"},
        "dims": {**SCHOOLS["dims"], "y": ["pupil"], "y_rep": ["pupil"], "log_lik": ["pupil"]},
    }  # fmt: skip
    options = {"backend": "stanli"} if draw is sa.stan_nuts else {}
    fit = sa.load(sa.save(fitted(draw, labels, **options), tmp_path / "fit.nc"))
    assert dims(fit, "posterior", "theta") == ("chain", "draw", "school")
    assert list(results.dataset(fit, "posterior")["school"].values) == ["A", "B", "C"]
    for group in ("posterior_predictive", "log_likelihood"):
        assert dims(fit, group, "y") == ("chain", "draw", "pupil")
    assert dims(fit, "observed_data", "y") == ("pupil",)


def test_arviz_computes_loo():
    fit = fitted(labels={"log_likelihood": {"y": "log_lik"}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pareto k is high: 120 draws are few
        result = results.arviz_module().loo(fit)
    pointwise = results.dataset(fit, "log_likelihood")["y"].values.reshape(120, 12)
    in_sample = np.log(np.exp(pointwise).mean(axis=0)).sum()
    elpd = result.elpd_loo if hasattr(result, "elpd_loo") else result.elpd
    assert in_sample - 10.0 < elpd < in_sample


def test_labels_come_from_files_that_can_be_read(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(SCHOOLS))
    assert dims(fitted(labels=path), "posterior", "theta")[-1] == "school"
    made = make_labels(Labels(posterior_predictive={"z": "y_rep"}), SHAPES, OBSERVED)
    assert made.posterior_predictive == {"z": "y_rep"}
    assert make_labels(None, SHAPES, OBSERVED).posterior_predictive == {"y": "y_rep"}
    assert str(random_labels.case(7)) == str(random_labels.case(7))
    assert random_labels.case(7).shapes != random_labels.case(8).shapes
    with raises("file_missing", "none.json"):
        make_labels("none.json", SHAPES, OBSERVED)
    path = tmp_path / "labels.json"
    path.write_text("{'dims': 1}")
    with raises("not_json", path):
        make_labels(path, SHAPES, OBSERVED)


SHAPES = {"theta": (3,), "y_rep": (12,), "s": (), "phi": (2,), "S": (3, 3)}
OBSERVED = arrays(json.dumps({"y": [0.0] * 12, "J": 3}))
WRONG = {
    "unknown field": ({"dim": {}}, ["dims, coords"]),
    "no mapping": ({"dims": ["school"]}, ["dims", "['school']"]),
    "no labels": (3, ["3"]),
    "unknown variable": ({"dims": {"thet": ["school"]}}, ["'thet'", "y, J, theta"]),
    "too many names": ({"dims": {"theta": ["a", "b"]}}, ["theta", "(3,)", "['a', 'b']"]),
    "text instead of a list": ({"dims": {"theta": "school"}}, ["theta", "'school'"]),
    "too few labels": ({**SCHOOLS, "coords": {"school": ["A"]}}, ["school", "3", "1"]),
    "a name of ArviZ": ({"dims": {"theta": ["draw"]}}, ["theta", "'draw'"]),
    "a variable's name": ({"dims": {"theta": ["y"]}}, ["theta", "'y'"]),
    "no such prediction": ({"posterior_predictive": {"y": "yrep"}}, ["'yrep'", "theta"]),
    "no such likelihood": ({"log_likelihood": {"y": "ll"}}, ["'ll'"]),
    "text instead of labels": ({"coords": {"theta_dim_0": "abc"}}, ["theta_dim_0", "'abc'"]),
    "bytes": ({"coords": {"s": b"abc"}}, ["coords of s"]),
    "a set": ({"coords": {"s": {"a", "b", "c"}}}, ["coords of s"]),
    "a number": ({"coords": {"s": 3}}, ["coords of s", "3"]),
    "nothing": ({"coords": {"s": None}}, ["coords of s", "None"]),
    "a mapping": ({"coords": {"s": {"a": 1}}}, ["coords of s"]),
    "a table": ({"coords": {"s": pd.DataFrame({"a": [1]})}}, ["coords of s"]),
    "a matrix": ({"coords": {"s": np.ones((3, 2))}}, ["coords of s"]),
    "a wrong number for a default name": ({"coords": {"theta_dim_0": [1]}}, ["theta_dim_0", "3"]),
    "a name with two sizes": ({"dims": {"theta": ["k"], "phi": ["k"]}}, ["phi", "'k'", "theta"]),
    "a name used twice": ({"dims": {"S": ["k", "k"]}}, ["S", "'k_2'"]),
    "no name": ({"dims": {"theta": [1]}}, ["theta", "1"]),
    "an empty name": ({"dims": {"theta": [""]}}, ["theta", "''"]),
    "a path": ({"dims": {"theta": ["a/b"]}}, ["theta", "'a/b'"]),
    "a reserved observation": ({"posterior_predictive": {"chain": "y_rep"}}, ["'chain'"]),
    "an observation like a dimension": (
        {"posterior_predictive": {"k": "y_rep"}, "dims": {"y_rep": ["k"]}}, ["'k'"],
    ),
    "an observation that is no name": ({"posterior_predictive": {("a",): "y_rep"}}, ["('a',)"]),
    "a prediction that is no name": ({"posterior_predictive": {"y": ["y_rep"]}}, ["['y_rep']"]),
}  # fmt: skip


@pytest.mark.parametrize(("labels", "facts"), WRONG.values(), ids=list(WRONG))
def test_wrong_labels_are_refused_when_the_target_is_made(labels, facts):
    with raises("wrong_labels", *facts):
        make_labels(labels, SHAPES, OBSERVED)


@pytest.mark.parametrize("name", ["chain", "draw"])
def test_names_of_arviz_are_reserved(name):
    with raises("reserved_name", f"'{name}'"):
        make_labels(None, {name: ()}, OBSERVED)


def test_a_replication_belongs_to_the_observed_part_of_data_with_missing_values():
    data = json.dumps({"y_obs": [0.0] * 12, "y": [0.0] * 15})
    assert make_labels(None, SHAPES, arrays(data)).posterior_predictive == {"y_obs": "y_rep"}
    data = json.dumps({"y_obs": [0.0] * 12, "y": [0.0] * 12})
    assert make_labels(None, SHAPES, arrays(data)).posterior_predictive == {"y": "y_rep"}
    data = json.dumps({"y_obs": [0.0] * 11})
    assert make_labels(None, SHAPES, arrays(data)).posterior_predictive == {"y_rep": "y_rep"}


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "w"], ["a", "b", "c"], ["n", "b"]])
def test_names_of_dimensions_that_a_dataset_could_not_have_are_replaced(names):
    """Too few or many, twice the same, of a variable, or of another size elsewhere."""
    arrays = {"w": np.zeros((2, 5, 3)), "x": np.zeros((2, 5, 4, 4))}
    made = draws_dataset(arrays, {"w": ["n"], "x": names})
    assert made["w"].dims[2:] == ("n",)
    assert made["x"].dims[2:] == ("x_dim_0", "x_dim_1")


def test_dims_and_coords_as_arviz_takes_them(tmp_path):
    path = tmp_path / "dims.json"
    path.write_text(json.dumps({"theta": ["school"]}))
    for dims in (path, str(path), {"theta": ["school"]}):
        target = sa.Target(PROGRAM, DATA, dims=dims, coords=SCHOOLS["coords"])
        assert target.labels.dims == SCHOOLS["dims"]
        assert target.labels.coords == SCHOOLS["coords"]
        assert target.labels.posterior_predictive["y"] == "y_rep"
    path.write_text(json.dumps(SCHOOLS))
    target = sa.Target(PROGRAM, DATA, dims=path)
    assert target.labels.coords == SCHOOLS["coords"]
    both = sa.Target(PROGRAM, DATA, labels={"log_likelihood": {"y": "log_lik"}}, dims={"s": []})
    assert both.labels.log_likelihood == {"y": "log_lik"}
    with raises("wrong_labels", "coords", "['A']"):
        sa.Target(PROGRAM, DATA, coords=["A"])


SOAK_SECONDS = 600.0


def judge(seeds):
    """Return all faults, and the number of cases by the code of their refusal ("" if kept)."""
    judged = [random_labels.faults(seed) for seed in seeds]
    return [fault for faults, _ in judged for fault in faults], Counter(c for _, c in judged)


@pytest.mark.slow
def test_what_is_accepted_is_kept():
    faults, outcomes = judge(range(24))
    assert not faults
    assert outcomes[""] > 8
    assert outcomes["wrong_labels"] > 3


@pytest.mark.soak
def test_fresh_names_for_ten_minutes():
    first, end, seed = secrets.randbelow(2**31), time.monotonic() + SOAK_SECONDS, 0
    while time.monotonic() < end:
        faults, _ = random_labels.faults(first + seed)
        assert not faults
        seed += 1
    assert seed > 100
