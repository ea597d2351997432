"""The wheel and the source distribution, each installed into an empty environment, run the demo."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

from tests.helpers.repository import ROOT
from tests.helpers.seldom_parameters import soak_except

FORMATS = {"wheel": "*.whl", "sdist": "*.tar.gz"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with both files. Built by the backend itself: a build front end downloads it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return folder


def environment_without_the_package(folder):
    """Make an environment with the dependencies of this one; return its interpreter.

    A line in a .pth file adds their folder, but not what that folder's own .pth files add, which
    is the package if it is installed from a clone. So nothing is downloaded.
    """
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    with open(os.path.join(paths["purelib"], "dependencies.pth"), "w") as file:
        file.write(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.thorough
def test_the_wheel_contains_programs_and_workflows(dist):
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {p.relative_to(ROOT).as_posix() for p in (ROOT / "stan_models").rglob("*.stan")}
    assert data
    assert {f"stanadapt/{name}" for name in data} <= names
    assert {"stanadapt/py.typed", "stanadapt/_workflows/workflows/quickstart.py"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"stanadapt"}


@pytest.mark.slow  # compiles the default sampler
@pytest.mark.parametrize("kind", soak_except(["wheel"], FORMATS))
def test_it_runs_the_demo_outside_the_clone(dist, tmp_path, kind):
    (file,) = dist.glob(FORMATS[kind])
    python = environment_without_the_package(tmp_path / "environment")
    # a home without CmdStan; the cache of compiled code is found by content, and shared
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "STANADAPT_BACKEND": "stanli"}
    home["STANADAPT_CACHE"] = str(dist / "cache")
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CMDSTAN")} | home

    def run(*arguments):
        done = subprocess.run(
            [str(python), *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # no index and no build isolation: the backend is a dependency of the tests
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    run("-m", "pip", "install", "--quiet", *options, str(file))
    package = run("-c", "import stanadapt; print(stanadapt.__path__[0])").strip()
    assert package.startswith(str(tmp_path))
    variables["PYTHONPATH"] = os.path.join(package, "_workflows")
    printed = run("-m", "workflows.quickstart")
    rows = {line.split()[0]: line.split()[1] for line in printed.splitlines() if " x 1,000" in line}
    assert rows == {"stanadapt": "fine", "nuts": "fine"}
    assert (tmp_path / "output" / "quickstart" / "report.html").is_file()
