"""A user without a home, as in a container: files that belong there are not found."""

import os
import pwd
import subprocess
import sys

import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import backends, install_cmdstan, toolchain
from tests.helpers.codes import raises
from tests.helpers.fake_cmdstan import working_tree
from tests.helpers.repository import ROOT

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
PROGRAM = f"""
import os, pwd
os.environ.pop("HOME", None)
def getpwuid(number):
    raise KeyError(number)
pwd.getpwuid = getpwuid
import stanadapt as sa
from stanadapt.results import arviz_module
print(sa.Target("{NORMAL}", backend="stanli").dim, arviz_module().__name__)
"""


@pytest.fixture
def no_home(monkeypatch):
    """Remove the home from the environment and from the list of users."""
    assert sa.Target  # imported with a home, because compiled code needs a cache at import

    def getpwuid(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    for name in ("HOME", "CMDSTAN", "BRIDGESTAN", "STANADAPT_BACKEND"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_found_there(no_home, tmp_path, monkeypatch):
    assert toolchain.bridgestan_tree() is None
    assert toolchain.cmdstan() is None
    assert [backend.name for backend, _ in backends.choose("auto")] == ["stanli"]
    tree = working_tree(tmp_path / "cmdstan")
    monkeypatch.setenv("CMDSTAN", str(tree))
    assert toolchain.cmdstan() == (tree, "2.27.0")


def test_cmdstan_is_not_installed_there(no_home):
    with raises("unsuitable_system", "HOME"):
        install_cmdstan.install_cmdstan(lambda text: None)


@pytest.mark.parametrize("name", ["~/schools.stan", "~nobody_of_that_name/schools.stan"])
def test_a_path_that_begins_there_names_no_file(no_home, name):
    for arguments in ((name,), (NORMAL, name)):
        with pytest.raises(StanadaptError) as caught:
            sa.Target(*arguments)
        assert caught.value.stage == "files"
        assert name in caught.value.message


@pytest.mark.slow
def test_libraries_that_look_for_a_home_are_imported(tmp_path):
    """BridgeStan's package and ArviZ look for one, and raise at import without it."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environment = {**others, "PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "1 arviz\n", done.stderr
