"""The cache of machine code: the edits that it notices; and Numba's configuration."""

import importlib
import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from stanadapt.engine.compiled import jit, sources
from tests.helpers.repository import PACKAGE, ROOT


def compiled_sources():
    return {str(path.relative_to(PACKAGE)) for path in jit.compiled_sources()}


def test_all_compiled_code_is_noticed_when_edited():
    found = compiled_sources()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        decorators = "\n@jit", "\n@inline", "\n@rarely_called", "c_function("
        if any(decorator in text for decorator in decorators):
            assert str(path.relative_to(PACKAGE)) in found, path


def test_constants_of_other_files_count():
    """plan.py has no compiled code, but chain.py, which has, imports from it."""
    assert "engine/plan.py" in compiled_sources()
    assert "errors/checks.py" in compiled_sources()


def test_files_that_no_compiled_code_imports_do_not_count():
    """An edit there would recompile every sampler for nothing."""
    assert not any(
        name.startswith(("cli/", "studies/", "runs/", "diagnostics/", "targets/"))
        for name in compiled_sources()
    )


STEPS = """
from numba import njit
from further_away import START

@njit
def {name}(x):
    return x * START
"""


@pytest.mark.parametrize("edited", ["its_constants.py", "further_away.py", "its_steps.py"])
def test_a_users_functions_are_kept_apart_by_all_files_that_they_depend_on(
    tmp_path, monkeypatch, edited
):
    """Numba compiles the values of globals as constants, from whichever file they come."""
    texts = {
        "its_constants.py": "STEP = 1.0\n",
        "further_away.py": "from its_constants import STEP\nSTART = 2 * STEP\n",
        "its_steps.py": STEPS.format(name="step"),
    }
    monkeypatch.syspath_prepend(tmp_path)

    def folder():
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            sys.modules.pop(name.removesuffix(".py"), None)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        return jit._folder_for([importlib.import_module("its_steps").step.py_func])

    first = folder()
    assert folder() == first
    texts[edited] += "\n# another\n"
    assert folder() != first


@pytest.mark.parametrize("edited", ["its_constants.py", "further_away.py", "its_steps.py"])
@pytest.mark.parametrize("decorator", ["numba.njit", "stanadapt.engine.compiled.jit.jit"])
def test_machine_code_is_kept_under_the_text_that_was_imported(
    tmp_path, monkeypatch, decorator, edited
):
    """Whatever is on disk by then: the next process would run the old code for the new file."""
    module, _, name = decorator.rpartition(".")
    steps = STEPS.format(name="step").replace("numba import njit", f"{module} import {name}")
    texts = {
        "its_constants.py": "STEP = 1.0\n",
        "further_away.py": "from its_constants import STEP\nSTART = 2 * STEP\n",
        "its_steps.py": steps.replace("njit", name),
    }
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported():
        for name in texts:
            sys.modules.pop(name.removesuffix(".py"), None)
        importlib.invalidate_caches()
        function = importlib.import_module("its_steps").step
        jit.remember_sources([function])
        return function.py_func

    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    old = imported()
    folder = jit._folder_for([old])
    (tmp_path / edited).write_text(texts[edited] + "\n# another\n")
    assert jit._folder_for([old]) == folder
    new = imported()
    assert jit._folder_for([new]) != folder
    assert jit._folder_for([old]) == folder


SCALED = """
import its_numbers
from numba import njit

def outer(AROUND):
    @njit
    def callee(x):
        return x * its_numbers.OTHER

    @njit
    def scaled(x):
        if x in {"a", "b", "c"}:
            return x + VALUE
        return callee(x) + AROUND
    return scaled.py_func
"""


def hash_for(value=1.0, around=1.0, other=1.0):
    """Return the hash of a function made anew, with values of a global, and of others around."""
    module = ModuleType("its_numbers")
    module.OTHER = other
    place = {"VALUE": value}
    exec(SCALED.replace("import its_numbers", ""), place)
    place["its_numbers"] = module
    return sources.hash_of_constants([place["outer"](around)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 2.0),
        (1, 1.0),
        (1, True),
        ("one", "other"),
        ((1.0, (2, 3)), (1.0, (2, 4))),
        (np.arange(3.0), np.array([0.0, 1.0, 3.0])),
        (np.arange(6), np.arange(6).reshape(2, 3)),
        (np.float64(1.0), np.float64(2.0)),
    ],
    ids=str,
)
def test_values_of_globals_count_wherever_they_come_from(one, other):
    """Numba compiles them as constants: later processes would run with those of the first."""
    assert hash_for(value=one) == hash_for(value=one) != hash_for(value=other)
    assert hash_for(around=one) == hash_for(around=one) != hash_for(around=other)
    assert hash_for(other=one) == hash_for(other=one) != hash_for(other=other)


def test_values_are_those_with_which_a_function_is_compiled_first():
    """Under later ones, a process would keep machine code that has the first."""
    place = {"VALUE": 1.0, "its_numbers": None}
    exec(SCALED.replace("import its_numbers", ""), place)
    function = place["outer"](1.0)
    before = sources.hash_of_constants([function])
    place["VALUE"] = 2.0
    assert sources.hash_of_constants([function]) == before


def test_hashes_of_values_are_the_same_in_all_processes():
    """A set has another order in each; without equal hashes nothing would be found in the cache."""
    code = "from tests.engine.compiled.test_jit import hash_for; print(hash_for(('a', 1)))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(found) == 1


@pytest.mark.slow
def test_numba_disable_jit_has_no_effect_on_compiled_code():
    code = (
        "import warnings; warnings.simplefilter('ignore'); import stanadapt as sa\n"
        "t = sa.Target('parameters { real x; } model { x ~ normal(3, 2); }', show_progress=False)\n"
        "o = {'chains': 1, 'iter_warmup': 20, 'iter_sampling': 30, 'show_progress': False}\n"
        "fit = sa.sample(t, 'rwm', **o)\n"
        "print(fit['posterior'].sizes['draw'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "30", done.stderr
