"""Names and labels that collide, or that no file holds: resolved or refused before sampling."""

import datetime
import json
from collections import namedtuple

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.chain import ChainDesign
from stanadapt.engine.plan import make_plan
from stanadapt.engine.registry import find
from stanadapt.results.labels import (
    Labels,
    arrays,
    data_groups,
    make_labels,
    phase_groups,
    plain_labels,
    read_labels,
)  # fmt: skip
from stanadapt.results.rehearsal import rehearse
from stanadapt.results.storable import coordinate
from stanadapt.runs.result import SavedGroups, rehearse_result
from tests.helpers.codes import raises

RUN = {"seed": 1, "chains": 2, "iter_warmup": 60, "iter_sampling": 60}
VECTOR = "data{int J;} parameters{vector[J] theta;} model{theta~normal(0,1);}"


def draws_of(shapes):
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(2, 5, *shape)) for name, shape in shapes.items()}


def built(shapes, labels=None, data="{}", stats=("lp",)):
    observed = arrays(data)
    labels = make_labels(labels, shapes, observed)
    stats = {name: np.zeros((2, 5)) for name in stats}
    groups = phase_groups(labels, "", draws_of(shapes), stats) | data_groups(labels, observed)
    return results.build(groups, {})


COLLIDING = {
    "a variable and a dimension": ({"theta": (2,), "theta_dim_0": ()}, None),
    "a matrix": ({"theta_dim_1": (2, 3), "theta": (4, 5), "theta_dim_0": (3,)}, None),
    "a name with an underscore": ({"t": (2,), "t_dim_0": (), "t_dim_0_": ()}, None),
    "a name given to another": ({"a": (2,), "b": (3,)}, {"dims": {"a": ["b_dim_0_"]}}),
    "a dimension of another": ({"a": (2,), "b": (2,)}, {"dims": {"a": ["b_dim_0"]}}),
    "a statistic": ({"lp": (3,), "energy": (2,)}, {"dims": {"lp": ["s"], "energy": ["e"]}}),
    "positions": ({"position": (3,)}, {"dims": {"position": ["axis"]}}),
}


@pytest.mark.parametrize(("shapes", "labels"), COLLIDING.values(), ids=list(COLLIDING))
def test_every_variable_is_in_the_file(shapes, labels, tmp_path):
    fit = sa.load(sa.save(built(shapes, labels, stats=("lp", "energy")), tmp_path / "a.nc"))
    posterior = results.dataset(fit, "posterior")
    assert set(posterior.data_vars) == set(shapes)
    for name, x in draws_of(shapes).items():
        np.testing.assert_array_equal(posterior[name].values, x)
    for name, dims in (labels or {}).get("dims", {}).items():
        assert list(posterior[name].dims[2:]) == dims
    assert results.dataset(fit, "sample_stats")["lp"].dims == ("chain", "draw")


def test_data_and_replications_have_dimensions_of_their_own():
    data = json.dumps({"x": [1.0, 2.0], "x_dim_0": 3.0, "y": [1.0] * 4})
    held = results.dataset(built({"theta": ()}, None, data), "constant_data")
    assert set(held.data_vars) == {"x", "x_dim_0", "y"}
    labels = {
        "posterior_predictive": {"y": "y_rep"}, "log_likelihood": {"y": "log_lik"},
        "dims": {"y_rep": ["pupil"], "log_lik": ["school"]},
    }  # fmt: skip
    fit = built({"y_rep": (4,), "log_lik": (2,)}, labels, json.dumps({"y": [0.0] * 4}))
    assert results.dataset(fit, "posterior_predictive")["y"].dims[2:] == ("pupil",)
    assert results.dataset(fit, "log_likelihood")["y"].dims[2:] == ("school",)


DAYS = pd.date_range("2020-01-01", periods=2)
KINDS = {
    "text": (["A", "B"], ["A", "B"]),
    "numbers": ([1, 2], [1, 2]),
    "floats": (np.array([0.5, np.nan]), [0.5, np.nan]),
    "short floats": (np.array([0.5, 2.0], np.float16), [0.5, 2.0]),
    "truth values": ([True, False], [True, False]),
    "large numbers": ([2**70, 1], [str(2**70), "1"]),
    "unsigned numbers": ([2**63 + 1, 1], [str(2**63 + 1), "1"]),
    "complex numbers": ([1j, 2j], ["1j", "2j"]),
    "dates": ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], DAYS),
    "times": (DAYS, DAYS),
    "times of the past": ([datetime.datetime(1000, 1, 1), DAYS[0]], None),
    "zones": (
        DAYS.tz_localize("Europe/Berlin"),
        ["2020-01-01 00:00:00+01:00", "2020-01-02 00:00:00+01:00"],
    ),
    "periods": (pd.period_range("2020-01", periods=2, freq="M"), ["2020-01", "2020-02"]),
    "durations": ([datetime.timedelta(1), datetime.timedelta(2)], pd.to_timedelta([1, 2], "D")),
    "categories": (pd.Categorical(["u", "v"]), ["u", "v"]),
    "intervals": (pd.interval_range(0, 2), ["(0, 1]", "(1, 2]"]),
    "tuples": ([("a", 1), ("b", 2)], ["(a, 1)", "(b, 2)"]),
    "several levels": (pd.MultiIndex.from_product([["a"], [1, 2]]), ["(a, 1)", "(a, 2)"]),
    "None": (["A", None], ["A", "None"]),
    "mixed": ([1, "a"], ["1", "a"]),
    "bytes": ([b"a", b"b"], ["a", "b"]),
    "a range": (range(2), [0, 1]),
    "a generator": ((letter for letter in "ab"), ["a", "b"]),
    "keys": ({"a": 1, "b": 2}.keys(), ["a", "b"]),
    "a column": (pd.Series(["a", "b"]), ["a", "b"]),
    "bad characters": (["a\0b", "\udce9"], ["a\ufffdb", "\ufffd"]),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("labels", "expected"), KINDS.values(), ids=list(KINDS))
def test_every_kind_of_label_survives_the_file_and_the_run_folder(labels, expected, tmp_path):
    resolved = coordinate("school", labels)
    again = read_labels(json.loads(json.dumps(plain_labels(Labels(coords={"school": resolved})))))
    np.testing.assert_array_equal(again.coords["school"], resolved)
    np.testing.assert_array_equal(coordinate("school", resolved), resolved)
    made = {"dims": {"theta": ["school"]}, "coords": {"school": resolved}}
    fit = sa.load(sa.save(built({"theta": (2,)}, made), tmp_path / "a.nc"))
    held = results.dataset(fit, "posterior")["school"].values
    if expected is None:
        assert list(held) == ["1000-01-01 00:00:00", "2020-01-01 00:00:00"]
    else:
        np.testing.assert_array_equal(held, np.asarray(expected))


def target(coords, **options):
    return sa.Target(VECTOR, {"J": 3}, dims={"theta": ["day"]}, coords={"day": coords}, **options)


@pytest.mark.filterwarnings("ignore")
def test_a_run_folder_keeps_dates(tmp_path):
    days = pd.date_range("2020-01-01", periods=3)
    fit = sa.sample(target(days), "rwm", **RUN, run=tmp_path / "run")
    for again in (fit, sa.load(tmp_path / "run"), sa.resume(tmp_path / "run")):
        held = results.dataset(again, "posterior")["day"].values
        np.testing.assert_array_equal(held, days.values)


@pytest.fixture
def broken():
    made = target(["a", "b", "c"])
    made.labels = made.labels._replace(coords={"day": [object()] * 3})
    return made


@pytest.mark.parametrize("draw", [
    lambda broken: sa.sample(broken, "rwm", inits={"unknown": 1.0}, **RUN),
    lambda broken: sa.stan_nuts(broken, backend="stanli", inits={"unknown": 1.0}, **RUN),
    lambda broken: sa.approximate(broken, seed=1, inits={"unknown": 1.0}),
])  # fmt: skip
def test_nothing_is_drawn_for_a_result_that_cannot_be_saved(draw, broken):
    """Not even the initial values are read."""
    with raises("result_refused", "day"):
        draw(broken)


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_drawn_if_a_folder_has_such_a_result(tmp_path, broken):
    sa.sample(target(["a", "b", "c"]), "rwm", **RUN, run=tmp_path / "run")
    (tmp_path / "run" / "chains.npz").unlink()  # it would be missed
    with raises("result_refused", "day"):
        sa.resume(tmp_path / "run", broken)


def test_two_statistics_of_one_name_are_refused():
    twice = find("rwm")[0]
    twice = twice._replace(info=namedtuple("Info", ["accepted", "n_density"]))
    plan = make_plan(
        chains=1, parallel_chains=None, iter_warmup=1, iter_sampling=1, thin=1, seed=1,
        save_warmup=False, show_progress=False,
    )  # fmt: skip
    design = ChainDesign(twice, find("rwm")[1], plan, 3)
    with raises("result_refused", "'n_density'"):
        rehearse_result(target(["a", "b", "c"]), design, SavedGroups())


@pytest.mark.parametrize("name", ["CLASS", "NAME", "_NCProperties"])
def test_attributes_that_netcdf_writes_by_itself_are_refused(name):
    with raises("result_refused", name):
        rehearse({"posterior": {"x": np.zeros((1, 1))}}, {name: 1})


def test_attributes_of_every_type_are_stored(tmp_path):
    values = {
        "tuple keys": {(1, 2): 3}, "large": 2**80, "complex": 1j, "none": None, "nul": "a\0b",
        "empty": np.empty(0), "truth": np.True_, "list": [1, "a"], "nan": float("nan"),
        "array": np.arange(3), "surrogate": "\udce9", "nul\0name": 1, "\udce9": 1, 7: 1,
    }  # fmt: skip
    groups = {"posterior": {"x": np.zeros((1, 1))}}
    rehearse(groups, values)
    held = sa.load(sa.save(results.build(groups, values), tmp_path / "a.nc")).attrs
    names = {"nul\0name": "nul\ufffdname", "\udce9": "\ufffd", 7: "7"}
    assert held.keys() >= {names.get(name, name) for name in values}
    assert held["large"] == str(2**80)
