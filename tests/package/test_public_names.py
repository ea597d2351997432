"""Public names: few, typed, each with an example that runs."""

import doctest
import inspect
import subprocess
import sys
from typing import Any

import pytest

import stanadapt as sa
from stanadapt.engine import protocol
from stanadapt.engine.warmup import Warmup

MODULES = {"samplers"}
OBJECTS = [name for name in sa.__all__ if name not in MODULES]


def test_names_parameters_and_parts_are_few():
    assert len(OBJECTS) <= 25
    names = list(inspect.signature(sa.sample).parameters)
    assert names[:6] == ["target", "sampler", "chains", "iter_warmup", "iter_sampling", "seed"]
    assert len([name for name in names if name != "settings"]) <= 19
    # those of its groups included
    groups = (protocol.Memory, protocol.Threading, protocol.Tempering, protocol.ExtraOutput, Warmup)
    assert len(protocol.Sampler._fields) + sum(len(group._fields) for group in groups) <= 55


def test_python_suggests_the_name_that_was_meant():
    with pytest.raises(AttributeError) as caught:
        sa.sampel  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("sampel", sa)


@pytest.mark.thorough
def test_the_first_call_of_a_session_may_check_a_sampler():
    """Samplers are registered when they are imported; every other function imports them."""
    call = "import stanadapt as sa; sa.check_sampler('rwm', unknown=1)"
    failed = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert failed.stderr.rstrip().endswith("[unknown_setting]")


@pytest.mark.parametrize("name", [n for n in OBJECTS if inspect.isfunction(getattr(sa, n))])
def test_a_public_function_returns_what_it_has_found_and_prints_nothing(name, capsys):
    signature = inspect.signature(getattr(sa, name))
    assert "show" not in signature.parameters
    assert signature.return_annotation not in (Any, inspect.Signature.empty), name


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "ConvergenceWarning"])
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_the_example_of_its_docstring_runs(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    value = getattr(sa, name)
    finder = doctest.DocTestFinder(recurse=False)
    tests = [test for test in finder.find(value, name) if test.examples]
    assert tests, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        runner.run(test)
    assert runner.failures == 0
