"""The cache of machine code: the edits that it notices; and Numba's configuration."""

import importlib
import os
import subprocess
import sys

import pytest

from stanadapt.engine.compiled import jit
from tests.helpers.repository import PACKAGE


def sources():
    return {str(path.relative_to(PACKAGE)) for path in jit.compiled_sources()}


def test_all_compiled_code_is_noticed_when_edited():
    found = sources()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        decorators = "\n@jit", "\n@inlined", "\n@seldom", "c_function("
        if any(decorator in text for decorator in decorators):
            assert str(path.relative_to(PACKAGE)) in found, path


def test_constants_of_other_files_count():
    """plan.py has no compiled code, but chain.py, which has, imports from it."""
    assert "engine/plan.py" in sources()
    assert "errors/checks.py" in sources()


def test_files_that_no_compiled_code_imports_do_not_count():
    """An edit there would recompile every sampler for nothing."""
    assert not any(
        name.startswith(("cli/", "studies/", "runs/", "diagnostics/", "targets/"))
        for name in sources()
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
