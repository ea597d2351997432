"""The faster backend is taken where both agree, and what was measured once decides for ever."""

import ctypes
import json
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.compiled import cache_folder
from stanadapt.errors import Message, StanadaptError
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import Backend, Loaded, faster, stanli
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import read

CODE = "parameters { real x; } model { x ~ normal(0, 2); }"
BLOCK = "generated quantities { real y = normal_rng(x, 1); }"
FAST, SLOW = {"gradient": 0.5, "value": 1.0}, {"gradient": 0.5, "value": 1.5}
CHOICES = [(backends.BACKENDS["stanli"], "asked for")]
AGREES = f"agrees with stanli {stanli.installed()} at 3 points"


def test_the_first_measurement_is_kept_and_another_version_is_measured_again(tmp_path):
    library = str(tmp_path / "program.so")
    assert faster.kept(library, "1.0") is None
    faster.keep(library, "1.0", FAST)
    faster.keep(library, "1.0", SLOW)
    assert faster.kept(library, "1.0") == FAST
    assert faster.kept(library, "2.0") is None
    faster.keep(library, "2.0", SLOW)
    assert faster.kept(library, "2.0") == SLOW
    files = [faster.file_of(library, version) for version in ("1.0", "2.0")]
    assert sorted(tmp_path.iterdir()) == files


def test_of_two_processes_at_once_the_first_decides(tmp_path, monkeypatch):
    library, dump = str(tmp_path / "program.so"), json.dump

    def dump_later(ratios, draft):  # than another process that also found no file
        monkeypatch.undo()
        faster.keep(library, "1.0", SLOW)
        dump(ratios, draft)

    monkeypatch.setattr(json, "dump", dump_later)
    faster.keep(library, "1.0", FAST)
    assert faster.kept(library, "1.0") == SLOW
    assert list(tmp_path.iterdir()) == [faster.file_of(library, "1.0")]


def test_in_a_folder_that_ends_with_the_process_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(cache_folder._stand_ins, tmp_path / "cache", tmp_path)
    faster.keep(str(tmp_path / "program.so"), "1.0", FAST)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "[]", "3", '{"gradient": "x"}'])
def test_a_damaged_file_counts_as_none(tmp_path, text):
    library = str(tmp_path / "program.so")
    faster.file_of(library, "1.0").write_text(text)
    assert faster.kept(library, "1.0") is None


@pytest.mark.parametrize(("ratios", "expected"), [
    (FAST, True), (SLOW, False), ({"gradient": 0.9, "value": 0.1}, False), (None, False),
    ({"gradient": np.nan, "value": 0.5}, False),
])  # fmt: skip
def test_both_ratios_decide(ratios, expected):
    assert faster.is_faster(ratios) is expected


def model_of(values):
    """Stand for a model with these transformed parameters."""
    return SimpleNamespace(param_constrain=lambda point, include_tp: np.array(values))


def test_the_smallest_times_are_compared():
    ours, theirs, asked = model_of([1.0, np.nan]), model_of([1.0, np.nan]), []
    times = {id(ours): iter([5.0, 2.0, 9.0] * 9), id(theirs): iter([8.0, 7.0, 4.0] * 9)}

    def clock(model, name, propto, rows):
        asked.append((model is ours, name, propto, rows.shape))
        return lambda: next(times[id(model)])

    found = faster.measure(theirs, ours, [np.zeros(2)] * 3, clock)
    assert found == {"gradient": 0.5, "value": 0.5}
    assert set(asked) == {
        (True, "gradient", 1, (3, 2)), (False, "gradient", 0, (3, 2)),
        (True, "value", 1, (3, 2)), (False, "value", 0, (3, 2)),
    }  # fmt: skip


def test_slow_densities_other_columns_and_missing_folders(tmp_path):
    calls = []
    model, clock = model_of([1.0]), lambda *_: lambda: calls.append(1) or 1.0
    found = faster.measure(model, model, [np.zeros(1)], clock, most_seconds=0.0)
    assert found == {"gradient": 1.0, "value": 1.0}
    assert len(calls) == 4
    found = faster.measure(model_of([1.0, 2.0]), model_of([1.0, 2.1]), [np.zeros(2)])
    assert "differ" in faster.why_not(found)
    library = str(tmp_path / "program.so")
    faster.keep(library, "1.0", found)
    assert not faster.is_faster(faster.kept(library, "1.0"))
    library = str(tmp_path / "missing" / "program.so")
    faster.keep(library, "1.0", FAST)
    assert faster.kept(library, "1.0") is None


@pytest.mark.parametrize(("name", "kind", "function", "propto"), [
    ("gradient", faster.GRADIENT, "bs_log_density_gradient", 1),
    ("value", faster.VALUE, "bs_log_density", 0),
])  # fmt: skip
def test_a_clock_calls_the_density_at_each_row(name, kind, function, propto):
    seen = set()

    @kind
    def density(model, propto, jacobian, position, value, *others):
        seen.add((propto, jacobian, *(ctypes.c_double * 2).from_address(position)))
        ctypes.c_double.from_address(value).value = 1.0
        for gradient in others[:-1]:
            (ctypes.c_double * 2).from_address(gradient)[:] = [1.0, 1.0]
        return 0

    model = SimpleNamespace(model=None, stanlib=SimpleNamespace(**{function: density}))
    assert faster.clock_of(model, name, 0, np.arange(6.0).reshape(3, 2))() > 0
    assert seen == {(propto, 1, 0.0, 1.0), (propto, 1, 2.0, 3.0), (propto, 1, 4.0, 5.0)}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load with "auto", a compiled density whose comparison had an outcome, and ratios of times."""

    def load(
        ratios, outcome=AGREES, code=CODE, unsafe=False, embedded=backends.BACKENDS["stanli"],
        folder=tmp_path,
    ):  # fmt: skip
        model = SimpleNamespace(lib_path=str(folder / "program.so"))
        compiled = Loaded(model, "Compiled 1.0", 3.0, density_check=outcome)

        def measured(*_):
            assert ratios is not None, "it is measured"
            return ratios

        monkeypatch.setattr(faster, "measure", measured)
        first = Backend("first", lambda *_: compiled, True, lambda: (True, "it is usable"))
        choices = [(first, "it is usable"), (embedded, "needs no compiler")]
        chosen = choices[:1] if unsafe is None else choices
        return backends.load_first(chosen, read(code), None, bool(unsafe), lambda _: None)

    return load


def test_the_embedded_backend_is_taken_if_it_is_faster_and_it_says_so(load):
    first = load(FAST)
    assert first.backend.name == "stanli"
    assert "0.50 of the time of Compiled 1.0" in first.reason
    assert first.loaded.density_check == "agrees with Compiled 1.0 at 3 points"
    assert first.loaded.seconds == 3.0  # the compilation was not free
    assert first.loaded.model.param_unc_num() == 1
    assert first.loaded.inverse.lib_path.endswith("program.so")  # unconstrains faster
    assert load(None)[:2] == first[:2]  # without another measurement


def test_the_compiled_code_unconstrains_the_draws(monkeypatch):
    code = "parameters { real<lower=0> x; } model { x ~ normal(0, 2); }"
    first = backends.load_first(CHOICES, read(code), None, False, lambda _: None)
    loaded = first.loaded._replace(
        inverse=stanli.bound(read(code.replace("0>", "1>")), CheckedData({}))
    )
    monkeypatch.setattr(backends, "load_first", lambda *_: first._replace(loaded=loaded))
    assert sa.Target(code).unconstrain_rows(np.array([[3.0]])) == pytest.approx(np.log(2.0))


def test_compiled_code_is_kept_if_it_is_faster_or_there_is_no_file(load, tmp_path):
    first = load(SLOW)
    assert first.backend.name == "first"
    assert first.reason == (
        "it is usable; stanli takes 0.50 of its time for a gradient (limit 0.7) and 1.50 of its "
        "time for a value (limit 1.2)"
    )
    assert load(None)[1] == first.reason
    assert load(FAST, folder=tmp_path / "missing").backend.name == "first"


def with_remark(*given):
    return backends.BACKENDS["stanli"].load(*given)._replace(remarks=(Message("x", "but"),))


def refused(*given):
    raise StanadaptError("unsupported_construct", "it cannot run.")


@pytest.mark.parametrize("own", [with_remark, refused])
def test_an_embedded_backend_with_a_reservation_is_not_used(load, own):
    embedded = backends.BACKENDS["stanli"]._replace(load=own)
    assert load(FAST, embedded=embedded).backend.name == "first"


@pytest.mark.parametrize(("code", "outcome", "unsafe"), [
    (CODE, "not compared: the program is large", False),
    (CODE, AGREES, None),  # a backend that was asked for
    (CODE + BLOCK, AGREES, False),  # which the comparison omits
    (CODE.replace("x ~", 'print("x"); x ~'), AGREES, False),
])  # fmt: skip
def test_without_a_comparison_or_a_choice_compiled_code_is_used(load, code, outcome, unsafe):
    assert load(FAST, outcome, code, unsafe).backend.name == "first"


def test_other_data_are_bound_by_the_choice_and_not_by_its_outcome(monkeypatch):
    """The embedded backend, taken as the faster one, refuses data that compiled code reads."""
    code = "data { array[2] real y; } parameters { real x; } model { x ~ normal(y[1], 2); }"
    target = sa.Target(code, {"y": [1, 2]}, backend="stanli")
    chosen = []
    monkeypatch.setattr(backends, "choose", lambda name: chosen.append(name) or CHOICES)
    target.with_data({"y": [3, 4]})
    target.backend_reason = f"{faster.REASON} 0.50 of the time"
    target.with_data({"y": [3, 4]})
    assert chosen == ["stanli", "auto"]
