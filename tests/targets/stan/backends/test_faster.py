"""The faster backend is taken where both agree, and what was measured once decides for ever."""

from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan import backends
from stanadapt.targets.stan.backends import Backend, Loaded, faster, stanli
from stanadapt.targets.stan.program import read

CODE = "parameters { real x; } model { x ~ normal(0, 2); }"
BLOCK = "generated quantities { real y = normal_rng(x, 1); }"
FAST, SLOW = {"gradient": 0.5, "value": 1.0}, {"gradient": 0.5, "value": 1.5}
AGREES = f"agrees with stanli {stanli.installed()} at 3 points"


def test_the_first_measurement_is_kept_and_another_version_is_measured_again(tmp_path):
    library = str(tmp_path / "program.so")
    assert faster.kept(library, "1.0") is None
    faster.keep(library, "1.0", FAST)
    faster.keep(library, "1.0", SLOW)
    assert faster.kept(library, "1.0") == FAST
    assert faster.kept(library, "2.0") is None
    assert [path.name for path in tmp_path.iterdir()] == [faster.FILE]
    faster.keep(library, "2.0", SLOW)
    assert faster.kept(library, "2.0") == SLOW


@pytest.mark.parametrize("text", ["", "[]", '{"1.0": 3}', '{"1.0": {"gradient": "x"}}'])
def test_a_damaged_file_counts_as_none(tmp_path, text):
    (tmp_path / faster.FILE).write_text(text)
    assert faster.kept(str(tmp_path / "program.so"), "1.0") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    library = str(tmp_path / "missing" / "program.so")
    faster.keep(library, "1.0", FAST)
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
    ours, theirs, asked = model_of([1.0, 2.0]), model_of([1.0, 2.0]), []
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


def test_other_transformed_parameters_rule_the_embedded_backend_out(tmp_path):
    found = faster.measure(model_of([1.0, 2.0]), model_of([1.0, 2.1]), [np.zeros(2)])
    library = str(tmp_path / "program.so")
    faster.keep(library, "1.0", found)
    assert not faster.is_faster(faster.kept(library, "1.0"))


@pytest.mark.parametrize("name", faster.LARGEST)
def test_a_clock_calls_the_density(name):
    model = sa.Target(CODE, backend="stanli").model
    assert faster.clock_of(model, name, 1, np.array([[0.5], [1.5]]))() > 0


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load with "auto", a compiled density whose comparison had an outcome, and ratios of times."""

    def load(ratios, outcome=AGREES, code=CODE, unsafe=False):
        compiled = Loaded(
            SimpleNamespace(lib_path=str(tmp_path / "program.so")), "Compiled 1.0", 3.0,
            density_check=outcome,
        )  # fmt: skip

        def measured(*_):
            assert ratios is not None, "it is measured"
            return ratios

        monkeypatch.setattr(faster, "measure", measured)
        first = Backend("first", lambda *_: compiled, True, lambda: (True, "it is usable"))
        choices = [(first, "it is usable"), (backends.BACKENDS["stanli"], "needs no compiler")]
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
    assert load(None)[:3] == first[:3]  # without another measurement


def test_compiled_code_is_kept_if_it_is_faster(load):
    assert load(SLOW).backend.name == "first"
    assert load(None).backend.name == "first"


@pytest.mark.parametrize(("code", "outcome", "unsafe"), [
    (CODE, "not compared: the program is large", False),
    (CODE, AGREES, None),  # a backend that was asked for
    (CODE + BLOCK, AGREES, False),  # which the comparison omits
])  # fmt: skip
def test_without_a_comparison_or_a_choice_compiled_code_is_used(load, code, outcome, unsafe):
    assert load(FAST, outcome, code, unsafe).backend.name == "first"
