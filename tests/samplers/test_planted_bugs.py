"""The tests catch faults planted in a copy of the package.

The first are those that a Metropolis correction, a lucky start or a loose tolerance can hide.
Slow: every copy is compiled again.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from stanadapt.engine.checks import CHECKS
from stanadapt.samplers import registered
from tests.helpers.repository import ROOT


class Bug(NamedTuple):
    """A fault, and the test that detects it: see planted_bugs.toml."""

    file: str
    right: str
    wrong: str
    test: str
    chosen: str = ""


WRITTEN = Path(__file__).with_name("planted_bugs.toml").read_text()
# of tests, and words that may be parts of the names of their cases
NAMES = re.compile(r"(?<=def )\w+|(?<=class )\w+|(?<=\")[\w.-]+(?=\")|\binf\b")
CASES = (ROOT / "tests" / "helpers" / "sampler_settings.py").read_text()
BUGS = {name: Bug(**fault) for name, fault in tomllib.loads(WRITTEN).items()}


@pytest.mark.parametrize("name", BUGS)
def test_bugs_can_still_be_planted(name):
    bug = BUGS[name]
    assert (ROOT / "stanadapt" / bug.file).read_text().count(bug.right) == 1
    file, *names = bug.test.split("::")
    text = (ROOT / "tests" / file).read_text()
    assert {*names} <= {*re.findall(r"^ *(?:def|class) (\w+)", text, re.M)}
    words = {*re.findall(r"[\w.]+", bug.chosen)} - {"and", "or", "not"}
    known = " ".join([file, *NAMES.findall(text + CASES), *registered(), *CHECKS]).casefold()
    assert [word for word in words if word.casefold() not in known] == []


# each compiles a copy of the package: the quick ones for every change, all of them in the soak
OFTEN = ["gradient_sign", None]
RARELY = [pytest.param(n, marks=pytest.mark.soak) for n in BUGS if n not in OFTEN]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OFTEN, *RARELY])
def test_planted_bug_is_caught(tmp_path, name):
    """Status 1 means that tests ran and failed; without a bug they pass."""
    for folder in ("stanadapt", "tests", "stan_models"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__p*__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    bug = BUGS.get(name, Bug("", "", "", "samplers/test_every_sampler.py", "rwm and not gad"))
    if name:
        path = tmp_path / "stanadapt" / bug.file
        text = path.read_text()
        path.write_text(text.replace(bug.right, bug.wrong))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STANADAPT_CACHE": str(tmp_path)}

    def python(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    # it is the copy that is tested, not the package that is installed
    assert str(tmp_path) in python("-c", "import stanadapt; print(stanadapt.__file__)").stdout
    for marks in ("not cmdstan and not soak", "not cmdstan and soak"):  # they may take long
        done = python("-m", "pytest", "-qx", "-m", marks, f"tests/{bug.test}", "-k", bug.chosen)
        if done.returncode != pytest.ExitCode.NO_TESTS_COLLECTED:
            break
    assert done.returncode == (1 if name else 0), done.stdout[-3000:]
