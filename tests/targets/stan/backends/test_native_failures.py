"""Failures of native models, in each of Stan's blocks, and of builds: reported, and recovered."""

import ctypes
import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.density import FAILED_CALLS, value, value_and_gradient
from stanadapt.errors import StanadaptWarning
from stanadapt.targets.stan import build_cache, bundled
from stanadapt.targets.stan.backends import cmdstan
from tests.helpers.codes import raises
from tests.helpers.compile_cache import own_cache
from tests.helpers.stan_target import shared_target

__all__ = ["own_cache"]  # a fixture

pytestmark = pytest.mark.cmdstan

MOODY = """
data {
  int mode;
  int N;
  vector[N] x;
  array[N] int k;
  array[N, 2] real pairs;
  matrix[N, 3] M;
}
transformed data {
  if (mode == 1) reject("the data are of mode ", mode);
}
parameters {
  vector[mode != 5] a;
}
transformed parameters {
  vector[mode != 5] b = 2 * a;
  if (mode == 2 && a[1] > 0) reject("transformed at ", a[1]);
}
model {
  a ~ normal(0, 1);
  if (mode == 3) {
    print("a is ", a[1]);
    if (a[1] > 0) reject("model at ", a[1]);
  }
  if (mode == 4) reject("never");
  if (mode == 7 && a[1] > 0) reject("silent");
  if (mode == 8) target += log(-a[1]);
}
generated quantities {
  vector[N] copy = x;
  real drawn = normal_rng(0, 1);
  if (mode == 6 && a[1] > 0) reject("quantities at ", a[1]);
}
"""
NOTHING = {"N": 0, "x": [], "k": [], "pairs": np.zeros((0, 2)), "M": np.zeros((0, 3))}
RUN = {"chains": 2, "iter_warmup": 100, "iter_sampling": 100, "seed": 1}
NORMAL = "parameters { real x; }\nmodel { x ~ normal(0, 1); }\n"
HERE, THERE = np.array([-0.5]), np.array([0.5])


@pytest.fixture(scope="module")
def moody(tmp_path_factory):
    """Return a function that makes the target of a mode."""
    path = tmp_path_factory.mktemp("program") / "moody.stan"
    path.write_text(MOODY)

    def make(mode, data=NOTHING):
        data = data if isinstance(data, str) else {"mode": mode, **data}
        return sa.Target(path, data, backend="cmdstan", show_progress=False)

    return make


good = shared_target(*bundled.find("eight_schools_noncentered"), backend="cmdstan")


@pytest.fixture(autouse=True)
def usable_afterwards(good):
    """Require the same bits of a model, loaded before the failure, after it."""
    position = np.linspace(-1, 1, good.dim)
    before = good.evaluate(position)
    yield
    after = good.evaluate(position)
    assert np.isfinite(before[0])
    assert after[0] == before[0]
    np.testing.assert_array_equal(after[1], before[1])


def located(message, block):
    """Return Stan's message about the statement in `MOODY` that contains `block`."""
    line = 1 + next(i for i, text in enumerate(MOODY.split("\n")) if block in text)
    return f"Exception: {message} (in 'moody.stan', line {line}, column "


def refused(code, facts, program, data=None):
    with raises(code, *facts) as caught:
        sa.Target(program, data, backend="cmdstan")
    return caught.value


def test_nan_and_infinity_reach_the_program(moody):
    x = [np.nan, np.inf, -np.inf]
    data = {"N": 3, "x": x, "k": [1, 2, 3], "pairs": np.full((3, 2), np.nan), "M": np.ones((3, 3))}
    target = moody(0, data)
    names = target.column_names
    row = target.model.param_constrain(
        HERE, include_tp=True, include_gq=True, rng=target.model.new_rng(1)
    )
    copied = row[[names.index(f"copy.{n}") for n in (1, 2, 3)]]
    np.testing.assert_array_equal(copied, x)
    assert target.evaluate(HERE)[0] == pytest.approx(-0.125)


TEXT = '{"mode": 0, "N": 0, "x": [], "k": [], "pairs": [], "M": []}'


@pytest.mark.parametrize("data", [NOTHING, TEXT], ids=["numpy", "text"])
def test_empty_arrays_of_any_shape_are_accepted(moody, data):
    target = moody(0, data)
    assert target.evaluate(HERE)[0] == pytest.approx(-0.125)
    assert target.column_names == ["a.1", "b.1", "drawn"]


def construct(target, text):
    """Call the C function directly, because BridgeStan's Python reads files itself."""
    message = ctypes.c_char_p()
    handle = target.model._construct(text, 1234, ctypes.byref(message))
    if not handle:
        text = message.value.decode()
        target.model._free_error(message)
        return text
    dim = target.model._param_unc_num(handle)
    target.model._destruct(handle)
    return dim


def test_the_c_interface_accepts_a_path(moody, good, tmp_path):
    path = tmp_path / "data é.json"
    path.write_text(good.data)
    assert construct(good, str(path).encode()) == good.dim == 10
    path.write_text("{")
    assert "JSON" in construct(good, str(path).encode())
    path.unlink()
    assert "cannot read the file" in construct(good, str(path).encode())


@pytest.mark.parametrize("text", [None, b"", b"{}"])
def test_without_data_only_a_program_that_needs_none_is_constructed(good, text):
    assert "J" in construct(good, text)
    target = sa.Target(NORMAL, backend="cmdstan")
    assert construct(target, text) == target.dim == 1


def test_data_that_the_program_rejects(moody):
    with raises("data_rejected", "moody") as caught:
        moody(1)
    assert caught.value.stan.startswith(located("the data are of mode 1", "(mode == 1)"))


@pytest.mark.parametrize(("mode", "message", "block"), [
    (2, "transformed at 0.5", "(mode == 2"), (3, "model at 0.5", 'reject("model'),
    (7, "silent", "(mode == 7"),
])  # fmt: skip
def test_a_rejection_is_reported_with_stan_s_message(moody, mode, message, block):
    target = moody(mode)
    value, gradient, stan = target.evaluate(THERE)
    assert value == -np.inf
    assert np.isnan(gradient).all()
    assert stan.startswith(located(message, block))
    assert target.evaluate(HERE)[0] == pytest.approx(-0.125)
    assert target.evaluate(HERE)[2] == ""


def test_a_density_that_is_nan_is_rejected(moody):
    target = moody(8)
    density, gradient = target.density(), np.full(1, 7.0)
    assert np.isnan(target.evaluate(THERE)[0])
    assert value_and_gradient(density, THERE, gradient) == -np.inf
    assert gradient == 0
    assert value(density, THERE) == -np.inf
    assert density.calls[FAILED_CALLS] == 2
    np.testing.assert_array_equal(density.failed_position, THERE)
    assert value_and_gradient(density, HERE, gradient) == pytest.approx(-0.125 + np.log(0.5))
    assert gradient == pytest.approx(0.5 - 2.0)


def test_quantities_that_throw_do_not_affect_other_columns(moody):
    with pytest.warns(StanadaptWarning) as caught:
        fit = sa.sample(moody(6), "gad_mala", **RUN)
    posterior = results.dataset(fit, "posterior")
    a, drawn = posterior["a"].values[..., 0], posterior["drawn"].values
    np.testing.assert_array_equal(np.isnan(drawn), a > 0)
    assert 0 < (a > 0).sum() < a.size
    np.testing.assert_array_equal(posterior["b"].values[..., 0], 2 * a)
    (message,) = [str(w.message) for w in caught if "(in 'moody.stan', line " in str(w.message)]
    assert f" {(a > 0).sum()} " in message


def test_output_of_the_program_is_printed_by_python(moody, capsys):
    target = moody(3)
    target.evaluate(HERE)
    assert capsys.readouterr() == ("a is -0.5\n", "")
    target.model.log_density(HERE, propto=False)
    assert capsys.readouterr().out == "a is -0.5\n"
    # what comes before a rejection is printed once
    assert "model at 0.5" in target.evaluate(THERE)[2]
    assert capsys.readouterr().out == "a is 0.5\n"
    target.evaluate(HERE)
    assert capsys.readouterr().out == "a is -0.5\n"


@pytest.mark.parametrize(("wrong", "where"), [
    ("x ~ normal(0, 1)", "line 2, column 25"), ("x ~ nomal(0, 1);", "line 2, column 8"),
    ("x ~ normal(y, 1);", "line 2, column 19"),
])  # fmt: skip
def test_language_errors_name_the_user_s_file_and_line(tmp_path, wrong, where):
    path = tmp_path / "my schools.stan"
    path.write_text(NORMAL.replace("x ~ normal(0, 1);", wrong))
    error = refused("syntax_error", ["CmdStan 2."], path)
    assert f"error in '{path}', {where}" in error.stan.splitlines()[0]
    assert "builds" not in error.stan


@pytest.fixture
def library(good, request, monkeypatch):
    """Make a library in a separate cache that has not been loaded; return it and its marker."""
    original = cmdstan.compilation(good.program, print).library(good.program)
    content = original.file.read_bytes()
    request.getfixturevalue("own_cache")
    again = build_cache.find_or_build(
        good.name, original.key, lambda folder: (folder / original.file.name).write_bytes(content)
    )
    marker = build_cache._marker(again.folder.parent, good.name, original.key)
    return again.folder / original.file.name, marker


def assert_rebuilt_and_equal(good, old):
    again = sa.Target(*bundled.find(good.name), backend="cmdstan")
    assert again.compile_seconds > 0
    assert again.model.lib_path != str(old)
    position = np.linspace(-1, 1, good.dim)
    assert again.evaluate(position)[0] == good.evaluate(position)[0]
    assert sa.Target(*bundled.find(good.name), backend="cmdstan").compile_seconds == 0


@pytest.mark.soak  # the next one is loaded too before it is rebuilt
def test_a_truncated_library_is_rebuilt(good, library):
    file, _ = library
    file.write_bytes(file.read_bytes()[:-1000])
    assert_rebuilt_and_equal(good, file)


def test_a_library_of_another_machine_is_rebuilt(good, library):
    """It matches its marker, but only loading shows that it is for another processor."""
    file, marker = library
    content = bytearray(file.read_bytes())
    content[:20] = bytes(20)
    file.write_bytes(content)
    recorded = json.loads(marker.read_text())
    files = {file.name: build_cache._fingerprint(file)}
    marker.write_text(json.dumps(recorded | {"files": files}))
    assert build_cache.find(good.name, marker.stem.rsplit("-", 1)[1]) == file.parent
    assert_rebuilt_and_equal(good, file)
