"""Many data sets of one program: a table, files, failures with their reason, resuming."""

import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stanadapt as sa
from tests.helpers.codes import raises

PROGRAM = "data { real y; } parameters { real m; } model { m ~ normal(y, 1); }"
RUN = {
    "seed": 3, "show_progress": False, "chains": 2, "iter_warmup": 60, "iter_sampling": 60,
}  # fmt: skip
DATA = {"low": {"y": -50.0}, "none": {}, "a/b": {"y": 50.0}}


@pytest.fixture(scope="module")
def target():
    return sa.Target(PROGRAM, {"y": 0.0}, backend="stanli", show_progress=False)


@pytest.fixture(scope="module")
def many(target):
    return sa.sample_many(target, "am", data=DATA, **RUN)


def test_each_data_set_has_a_row_and_a_fit_or_a_reason(many):
    assert list(many) == ["low", "a/b"]
    assert list(many.table.index) == list(DATA)
    assert "y" in many.failures["none"]
    assert not many.interrupted
    for name in many:
        assert float(many[name].posterior["m"].mean()) == pytest.approx(DATA[name]["y"], abs=2.0)
        assert many.table.loc[name, "verdict"] == many[name].attrs["verdict"]
    with pytest.raises(KeyError, match="It failed"):
        many["none"]
    assert "1 failed" in repr(many)


def test_draws_depend_on_the_name_and_neither_on_order_nor_on_workers(target, many):
    with ThreadPoolExecutor(2) as executor:
        other = sa.sample_many(
            target, "am", data=dict(reversed(DATA.items())), executor=executor, **RUN
        )
    for name in many:
        assert np.array_equal(many[name].posterior["m"], other[name].posterior["m"])
    assert other.failures.keys() == many.failures.keys()


@pytest.mark.thorough
def test_a_folder_is_continued_and_changed_data_are_sampled_again(target, many, tmp_path):
    few = {name: DATA[name] for name in ("low", "none")}
    sa.sample_many(target, "am", data=few, run=tmp_path, **RUN)
    before = (tmp_path / "low.nc").stat().st_mtime_ns
    rows = len((tmp_path / "fits.jsonl").read_text().splitlines())
    again = sa.sample_many(target, "am", data=DATA, run=tmp_path, **{**RUN, "seed": None})
    assert (tmp_path / "low.nc").stat().st_mtime_ns == before
    assert len((tmp_path / "fits.jsonl").read_text().splitlines()) == rows + 1
    assert np.array_equal(again["a/b"].posterior["m"], many["a/b"].posterior["m"])
    changed = {**DATA, "none": {"y": 0.0}}
    healed = sa.sample_many(target, "am", data=changed, run=tmp_path, **RUN)
    assert not healed.failures
    assert (tmp_path / "low.nc").stat().st_mtime_ns == before
    with raises("other_study", "options"):
        sa.sample_many(target, "am", data=DATA, run=tmp_path, **{**RUN, "chains": 3})


class Interrupting(Mapping):
    """A data set that ends its fit as Ctrl-C does."""

    def __getitem__(self, name):
        raise KeyboardInterrupt

    def __iter__(self):
        return iter(["y"])

    def __len__(self):
        return 1


def test_ctrl_c_keeps_the_fits_that_are_complete(target, tmp_path):
    given = {"low": DATA["low"], "second": Interrupting(), "third": DATA["a/b"]}
    stopped = sa.sample_many(target, "am", data=given, run=tmp_path, **RUN)
    assert stopped.interrupted
    assert list(stopped) == list(stopped.table.index) == ["low"]


def test_wrong_arguments_are_no_failures_of_fits(target):
    with raises("options_conflict"):
        sa.sample_many([target], data=DATA)
    with raises("nothing_to_study"):
        sa.sample_many({})
    with raises("unknown_argument"):
        sa.sample_many(target, "am", iter_samplings=3, show_progress=False)


def test_fits_can_be_sent(many):
    assert list(pickle.loads(pickle.dumps(many)).table.index) == list(DATA)
