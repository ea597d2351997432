"""Many data sets of one program: a table, files, failures with their reason, resuming."""

import _thread
import pickle
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.engine.chain import Chain
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

PROGRAM = "data { real y; } parameters { real m; } model { m ~ normal(y, 1); }"
RUN = {"seed": 3, "chains": 2, "iter_warmup": 60, "iter_sampling": 60}
DATA = {"low": {"y": -50.0}, "none": {}, "a/b": {"y": 50.0}}
target = shared_target(PROGRAM, {"y": 0.0})


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
    assert many.failures["none"] in " ".join(repr(many).split())
    assert max(map(len, repr(many).splitlines())) <= 80


def test_fits_come_from_generators_and_can_be_sent(target, many):
    numbered = sa.sample_many(target, "am", data=({"y": y} for y in (-50.0, 50.0)), **RUN)
    assert list(numbered) == ["1", "2"]
    assert list(sa.sample_many({"a": target, "b": target}.values(), "am", **RUN)) == ["1", "2"]
    assert list(pickle.loads(pickle.dumps(many)).table.index) == list(DATA)


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
    (low,) = tmp_path.glob("low_*.nc")
    before = low.stat().st_mtime_ns
    rows = len((tmp_path / "fits.jsonl").read_text().splitlines())
    again = sa.sample_many(target, "am", data=DATA, run=tmp_path, **{**RUN, "seed": None})
    assert low.stat().st_mtime_ns == before
    assert len((tmp_path / "fits.jsonl").read_text().splitlines()) == rows + 2  # a/b, none again
    assert np.array_equal(again["a/b"].posterior["m"], many["a/b"].posterior["m"])
    changed = {**DATA, "none": {"y": 0.0}}
    healed = sa.sample_many(target, "am", data=changed, run=tmp_path, **RUN)
    assert not healed.failures
    assert low.stat().st_mtime_ns == before
    with raises("other_study", "options"):
        sa.sample_many(target, "am", data=DATA, run=tmp_path, **{**RUN, "chains": 3})


VECTOR = """
data { int N; vector[N] y; }
parameters { real m; }
model { m ~ normal(mean(y), 0.1); }
generated quantities { real z = m; }
"""


@pytest.fixture
def kept(target, tmp_path):
    """Return a function that keeps one fit of the given data in a folder, and returns its mean."""

    def mean(y, target=target):
        fits = sa.sample_many(target, "am", data={"a": y}, run=tmp_path, **RUN)
        assert len(fits.table) == 1
        return float(fits["a"].posterior["m"].mean())

    return mean


def test_a_fit_in_a_folder_is_that_of_the_data_given_last(kept, tmp_path):
    first = kept({"y": 0.0})
    assert kept({"y": 100.0}) > 90.0
    assert kept({"y": 0.0}) == first
    for file in tmp_path.glob("*.nc"):
        file.unlink()
    assert kept({"y": 0.0}) == first


def test_a_failure_in_a_folder_is_tried_again(kept, tmp_path):
    first, rows = kept({"y": 0.0}), tmp_path / "fits.jsonl"
    rows.write_text(rows.read_text().replace('"failure": ""', '"failure": "no memory"'))
    assert kept({"y": 0.0}) == first  # which a failure has not
    assert "no memory" in rows.read_text()
    assert kept({"y": 0.0}) == first
    assert "no memory" not in rows.read_text()


def test_large_tables_and_settings_of_the_target_are_told_apart(kept, tmp_path):
    whole, less = (sa.Target(VECTOR, {"N": 1, "y": [0.0]}, exclude=out) for out in ((), "z"))
    table = pd.DataFrame({"y": np.zeros(100)})
    assert abs(kept(table, whole)) < 1.0
    table.loc[50, "y"] = 1000.0  # a row that the text of the table leaves out
    assert kept(table, whole) > 9.0
    kept(table, less)
    stored = [sa.load(file) for file in tmp_path.glob("*.nc")]
    assert sorted("z" in fit.posterior for fit in stored) == [False, True, True]


class Interrupting(Mapping):
    """A data set that ends its fit as Ctrl-C does, but can be read once before."""

    reads = 0

    def __getitem__(self, name):
        self.reads += 1
        if self.reads > 1:
            raise KeyboardInterrupt
        return 0.0

    def __iter__(self):
        return iter(["y"])

    def __len__(self):
        return 1


def test_ctrl_c_keeps_the_fits_that_are_complete(target, tmp_path):
    given = {"low": DATA["low"], "second": Interrupting(), "third": DATA["a/b"]}
    stopped = sa.sample_many(target, "am", data=given, run=tmp_path, **RUN)
    assert stopped.interrupted
    assert list(stopped) == list(stopped.table.index) == ["low"]


@pytest.mark.thorough
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)])
def test_ctrl_c_amid_the_draws_of_a_fit(target, many, tmp_path, monkeypatch, executor):
    """The fit is made again, by the same call, with the draws that it would have had."""
    rows, seeds, pressed, advance = tmp_path / "fits.jsonl", set(), [], Chain.advance

    def pressing(chain, chunk=None):
        seeds.add(chain.plan.seed)
        if len(seeds) == 2 and not chain.warming_up and not pressed:
            pressed.append(chain.n_done)
            while "low" not in rows.read_text():  # a worker is ahead of the table
                time.sleep(0.01)
            _thread.interrupt_main()
            time.sleep(0.2)  # so that the chain is not at its end before
        advance(chain, 1)

    options = {"data": DATA, "run": tmp_path, "executor": executor, **RUN}
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "advance", pressing)
        stopped = sa.sample_many(target, "am", **options)
    assert pressed
    assert stopped.interrupted
    assert list(stopped) == ["low"]
    assert "a/b" not in stopped.table.index
    (file,) = tmp_path.glob("*.nc")
    before, row = file.stat().st_mtime_ns, stopped.table.loc["low"]
    again = sa.sample_many(target, "am", **options)
    assert not again.interrupted
    assert file.stat().st_mtime_ns == before
    assert again.table.loc["low"].equals(row)
    assert list(again) == list(many)
    for name in many:
        assert np.array_equal(again[name].posterior["m"], many[name].posterior["m"])


def test_wrong_arguments_are_no_failures_of_fits(target):
    with raises("options_conflict"):
        sa.sample_many([target], data=DATA)
    with raises("nothing_to_study"):
        sa.sample_many({})
    with raises("one_data_set", "data=[...]"):
        sa.sample_many(target, data={"N": 2, "y": [1.0, 2.0]})
    with raises("options_conflict"):
        sa.sample_many(iter([target]), data=DATA)
    with raises("unknown_argument"):
        sa.sample_many(target, "am", iter_samplings=3)


class LosesWorkers(ThreadPoolExecutor):
    """An executor on which the worker of one fit dies, and which then takes no more work."""

    def submit(self, function, name, *arguments):
        if name == "late":
            raise BrokenProcessPool("a worker died")
        if name != "low":
            return super().submit(function, name, *arguments)
        future = Future()
        future.set_exception(BrokenProcessPool("a worker died"))
        return future


def test_fits_whose_worker_died_are_failures_and_the_others_stay(target, tmp_path):
    data = {**DATA, "late": {"y": 0.0}}
    with LosesWorkers(1) as executor:
        many = sa.sample_many(
            target, "am", data=data, executor=executor, run=tmp_path / "many", **RUN
        )
    assert list(many) == ["a/b"]
    assert {name for name, why in many.failures.items() if "a worker died" in why} == {
        "low",
        "late",
    }
    again = sa.sample_many(target, "am", data=data, run=tmp_path / "many", **RUN)
    assert list(again) == ["low", "a/b", "late"]
