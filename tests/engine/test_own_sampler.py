"""A sampler of a user: one file that follows the protocol, with any names of arguments."""

import importlib
import sys
from typing import NamedTuple

import numpy as np
import pytest

from stanadapt.engine import points, protocol
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.registry import find, register
from stanadapt.runs.spec import RunSpec, source_hash
from tests.helpers.chains import finish, make_chains
from tests.helpers.codes import raises
from tests.helpers.other_process import printed
from tests.helpers.targets import Awkward


class Settings(NamedTuple):
    """Settings of the sampler."""

    width: float = 1.0  # of steps


class State(NamedTuple):
    """The point, and one to write the next proposal into: nothing is allocated later."""

    moves: int
    other: points.ValuePoint
    current: points.ValuePoint


class Info(NamedTuple):
    """Statistics of one iteration."""

    acceptance_rate: float
    moves: int


# `init` and `freeze` may be compiled or not: the author of `SAMPLER` below chose to


def init(density, settings, position, rng):
    return State(0, points.unused_value(density.size), points.value_at(density, position))


def freeze(settings, state):
    return state._replace(moves=state.moves + 1000)


@jit
def step(target, mine, now, generator):
    here, there = now.current, now.other
    for i in range(target.dim):
        there.position[i] = here.position[i] + mine.width * generator.standard_normal()
    found = points.proposed(target, here, there, generator)
    rate = points.acceptance_probability(found.log_density - here.log_density)
    info = Info(rate, now.moves)
    if generator.random() < rate:
        return State(now.moves, here, found), info
    return State(now.moves, found, here), info


@jit
def adapt(target, mine, now, what, t, n):
    return State(now.moves + 1, now.other, now.current)


@pytest.fixture
def registered(monkeypatch):
    sampler = protocol.Sampler(Settings, State, Info, init, step, adapt, freeze)
    monkeypatch.setitem(protocol.REGISTRY, Settings, sampler)  # to be removed again
    register(sampler)
    return sampler


def test_it_runs_and_adapts_in_warmup_alone(registered):
    (chain,) = finish(make_chains((registered.name, {"width": 0.7}), Awkward(), 1, 50, 80))
    assert registered.name == "test_own_sampler"
    assert np.all(np.isfinite(chain.sampling.constrained))
    assert np.ptp(chain.sampling.constrained[:, 0]) > 0
    counted = chain.stat_names.index("moves")
    np.testing.assert_array_equal(chain.warmup.stats[:, counted], np.arange(50))
    np.testing.assert_array_equal(chain.sampling.stats[:, counted], 1050)


HELPER = "from stanadapt.engine.compiled.jit import jit\n@jit\ndef version(): return 1\n"
SAMPLER = """
from typing import NamedTuple
import helper
from stanadapt.engine.authoring import register
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.points import ValuePoint, value_at

class Settings(NamedTuple):
    width: float = 1.0  # of steps

class State(NamedTuple):
    current: ValuePoint

class Info(NamedTuple):
    acceptance_rate: float
    version: int

@jit
def init(density, settings, position, rng):
    return State(value_at(density, position))

@jit
def step(density, settings, state, rng):
    return state, Info(1.0, helper.version())

register(__name__)
"""
PROGRAM = """
import changing, stanadapt as sa
target = sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli")
lengths = {"chains": 1, "iter_warmup": 1, "iter_sampling": 4, "show_progress": False}
fit = sa.sample(target, "changing", **lengths)
print(*fit["sample_stats"]["version"].values.ravel())
"""


@pytest.mark.slow
def test_an_edited_sampler_is_recompiled(tmp_path):
    """The loop is compiled around the sampler, but Numba's cache checks the loop's file only."""
    loops, cache = 0, tmp_path / "cache"
    for helper, sampler, versions, recompiled in (
        (HELPER, SAMPLER, "1 1 1 1", True),
        (HELPER.replace("return 1", "return 22"), SAMPLER, "22 22 22 22", True),
        (HELPER, SAMPLER.replace("version()", "version() + 300"), "301 301 301 301", True),
        (HELPER, "# reworded" + SAMPLER.replace("@jit", "# words\n@jit"), "1 1 1 1", False),
    ):
        (tmp_path / "helper.py").write_text(helper)
        (tmp_path / "changing.py").write_text(sampler)
        assert printed(PROGRAM, STANADAPT_CACHE=cache, PYTHONPATH=tmp_path) == f"{versions}\n"
        found = len(list(cache.rglob("*-_advance-*")))
        assert (found > loops) is recompiled
        loops = found


@pytest.fixture
def import_sampler(tmp_path, monkeypatch):
    """Return a function that writes a sampler and its helper to files, and registers it again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = []

    def forget():
        for name in ("changing", "helper"):
            sys.modules.pop(name, None)
        for settings in made:
            protocol.REGISTRY.pop(settings, None)
        importlib.invalidate_caches()

    def written(sampler=SAMPLER, helper=HELPER):
        forget()
        (tmp_path / "helper.py").write_text(helper)
        (tmp_path / "changing.py").write_text(sampler)
        made.append(importlib.import_module("changing").Settings)
        return protocol.REGISTRY[made[-1]]

    yield written
    forget()


def test_a_run_has_the_hash_of_its_code_under_any_python(import_sampler, tmp_path):
    sampler = import_sampler()
    before = source_hash(sampler)
    (tmp_path / "changing.py").write_text(SAMPLER.replace("width", "length"))
    assert source_hash(sampler) == before
    # its bytecode is another one, so that it cannot be compared
    spec_of(sampler, "3.99 0123456789abcdef").find_sampler()


def spec_of(sampler, sampler_hash):
    """Return the description of a run as far as it is about the sampler."""
    others = dict.fromkeys(RunSpec._fields)
    return RunSpec(
        **{**others, "sampler": sampler.name, "sampler_hash": sampler_hash, "settings": {}}
    )


REWORDED = SAMPLER.replace("jit\ndef step", "jit  # compiled\ndef step").replace(
    "    return state, Info", '    """Stay."""\n    return state, Info'
)


@pytest.mark.parametrize(("helper", "sampler", "continued"), [
    (HELPER, REWORDED, True), (HELPER.replace("return 1", "return 2"), SAMPLER, False),
    (HELPER, SAMPLER.replace("1.0, helper", "0.5, helper"), False),
    (HELPER, SAMPLER.replace("return State(", "density.calls[0] += 0; return State("), False),
    (HELPER, SAMPLER.replace("register(", "def check(settings): pass\nregister("), False),
    (HELPER, SAMPLER.replace("width: float = 1.0", "width: float = 2.0"), False),
])  # fmt: skip
def test_a_run_is_continued_by_the_same_code_alone(import_sampler, helper, sampler, continued):
    """`resume` mixed the draws of two samplers in one fit."""
    assert (helper, sampler) != (HELPER, SAMPLER)
    before = import_sampler()
    of_run = source_hash(before)
    spec_of(before, of_run).find_sampler()
    now = import_sampler(sampler, helper)
    if continued:
        spec_of(now, of_run).find_sampler()
    else:
        with raises("run_mismatch", "code of the sampler changing"):
            spec_of(now, of_run).find_sampler()


def test_the_hash_of_a_sampler_of_the_package_is_that_of_its_file(monkeypatch):
    """Not of what it imports: no edit of the engine would leave a run that can be resumed."""
    sampler = find("rwm")[0]
    before = source_hash(sampler)
    for function, counts in ((points.acceptance_probability, False), (sampler.step, True)):
        code = function.py_func.__code__
        monkeypatch.setattr(
            function.py_func,
            "__code__",
            code.replace(co_names=code.co_names[::-1], co_firstlineno=7),
        )
        assert (source_hash(sampler) != before) is counts


def test_a_second_class_or_function_of_one_name_is_refused(import_sampler):
    """It would replace the first by name, and `resume` would continue a run with the other."""
    sampler = import_sampler()
    other = type("Others", sampler.settings.__bases__, dict(vars(sampler.settings)))
    other.__qualname__ = "Others"
    with raises("sampler_name_taken", "Settings in the same file", "that of Others"):
        register(sampler._replace(settings=other))
    assert find("changing")[0].settings is sampler.settings
    # numba would continue with the code that it compiled for this class
    register(sampler._replace(iter_warmup=7))
    assert find("changing")[0].iter_warmup == 7
    with raises("settings_taken", "changing", "define the class Settings again"):
        register(sampler._replace(step=step))


def test_samplers_are_reloaded_and_functions_of_a_prompt_compiled(import_sampler):
    old = import_sampler().settings
    new = importlib.reload(sys.modules["changing"]).Settings
    try:
        assert find("changing")[0].settings is new is not old
    finally:
        protocol.REGISTRY.pop(new)
    typed = {"jit": jit, "__name__": "__main__"}
    exec(compile("@jit\ndef twice(x): return 2 * x", "<string>", "exec"), typed)
    assert typed["twice"](1.5) == 3.0


@pytest.mark.slow
def test_the_code_of_an_edited_sampler_or_a_copy_runs_in_the_same_process(import_sampler, tmp_path):
    """Numba tells named tuples apart by names and fields: the code of the first one ran."""

    def version(name):
        (chain,) = finish(make_chains((name, {}), Awkward(), 1, 1, 4))
        return chain.sampling.stats[-1, chain.stat_names.index("version")]

    import_sampler()
    assert version("changing") == 1
    edited = SAMPLER.replace("version()", "version() + 300")
    (tmp_path / "changing.py").write_text(edited)
    new = importlib.reload(sys.modules["changing"]).Settings
    (tmp_path / "copied.py").write_text(SAMPLER.replace("version()", "version() + 4"))
    copy = importlib.import_module("copied").Settings
    try:
        assert (version("changing"), version("copied")) == (301, 5)
    finally:
        for settings in (new, copy):
            protocol.REGISTRY.pop(settings)
        sys.modules.pop("copied")
