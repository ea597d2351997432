"""Ctrl-C on the command line: one line, soon, at any moment; and late imports, which it needs."""

import ast
import subprocess
import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.cli import interruption
from tests.helpers.interrupted_command import READY, SOON, interrupt
from tests.helpers.repository import PACKAGE

NOTHING = f"{interruption.NOTHING_WRITTEN}\n"
WHEN_IMPORTED = f"""
import sys
def report(event, arguments):
    if event == "import" and arguments[0] == {{module!r}}:
        print({READY!r}, flush=True)
        time.sleep({{seconds}})
sys.addaudithook(report)
"""
# typer makes an exit code of the exception, without a word
WHEN_READ = f"""
import typer.core
def read(*arguments, **keywords):
    print({READY!r}, flush=True)
    time.sleep(60)
typer.core.TyperGroup.make_context = read
"""


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["numba.core.typing", "stanadapt.cli.options"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module):
    """Python's own exception would end in a traceback, or a module would swallow it."""
    seconds, code, errors = interrupt(WHEN_IMPORTED.format(module=module, seconds=60), "samplers")
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


@pytest.mark.thorough
def test_ctrl_c_while_the_command_line_is_read_is_one_line():
    seconds, code, errors = interrupt(WHEN_READ, "samplers")
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


@pytest.mark.soak
@pytest.mark.parametrize("after", np.linspace(0.05, 0.6, 12).round(2))
def test_at_a_dozen_moments(after):
    prepare = WHEN_IMPORTED.format(module="stanadapt.cli.commands", seconds=0)
    seconds, code, errors = interrupt(prepare, "samplers", after=after)
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


# seconds of import that the help does without, and half of those of a command
HEAVY = {"numba", "numpy", "pandas", "xarray", "rich.progress"}
LATE = {"arviz", "dask", "matplotlib", "scipy.optimize", "scipy.spatial", "scipy.stats"}


@pytest.mark.thorough
def test_commands_start_without_what_only_results_need():
    """The package alone with names in use: Ctrl-C could not be handled during imports.

    Nor is anything compiled, or imported for few uses, when all samplers are imported.
    """
    code = f"""
import sys, stanadapt.cli
found = [*{{"numba", "numpy", "typer"}} & sys.modules.keys()]
from stanadapt.cli.commands import app
for words, late in (["--help"], {HEAVY | LATE}), (["sample", "--help"], {LATE}):
    app(words, standalone_mode=False)
    found += late & sys.modules.keys()
from numba.core import event
event.register("numba:compile", recorded := event.RecordingListener())
import stanadapt.samplers, stanadapt.targets.stan.install_cmdstan
found += {{"cmdstanpy", "jax", "optax"}} & sys.modules.keys()
found += recorded.buffer
print("found", *found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "found"


def test_public_names_are_in_their_places():
    for name in sa.__all__:
        assert getattr(sa, name) is not None
    for name, place in sa._PLACES.items():
        if name != "check_sampler":  # of the engine, offered where all samplers are known
            assert f"{getattr(sa, name).__module__}.".startswith(f"stanadapt.{place}."), name
    with pytest.raises(AttributeError, match="'smaple'"):
        sa.smaple  # noqa: B018
    assert set(sa.__all__) <= set(dir(sa))


def test_type_checkers_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.asname or alias.name: (node.module.removeprefix("stanadapt."), alias.name)
        for node in block.body
        for alias in node.names
    }
    places = {name: (place, name) for name, place in sa._PLACES.items()}
    assert names == {**places, "samplers": ("stanadapt", "samplers")}
    assert set(names) == set(sa.__all__)
