"""`stanadapt paper`: every experiment can be reached from an installed package."""

import re
import shutil
import subprocess
import sys
import tomllib

from stanadapt.cli import papers
from tests.helpers.command_line import call
from tests.helpers.repository import ROOT
from workflows.catalogue import EXPERIMENTS


def test_all_experiments_are_listed_with_durations():
    shown = call("paper")
    for experiment in EXPERIMENTS:
        assert experiment.name in shown
        assert (experiment.duration or "not measured") in shown


def test_the_catalogue_is_that_of_the_readme():
    rows = re.findall(
        r"^\| `python -m workflows\.([\w.]+)[^`]*` \| (.*?) \| (.*?) \|$",
        (ROOT / "workflows" / "README.md").read_text(), re.M,
    )  # fmt: skip
    rooms = {experiment.module.split(".")[0] for experiment in EXPERIMENTS}
    of_papers = [row for row in rows if row[0].split(".")[0] in rooms]
    assert of_papers == [(e.module, e.reproduces, e.duration or "–") for e in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        assert (ROOT / "workflows" / f"{experiment.module.replace('.', '/')}.py").is_file()


def test_a_wheel_holds_them(tmp_path):
    """The package as a wheel lays it out, in a process that cannot see the repository."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    added = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "stanadapt", tmp_path / "stanadapt", ignore=ignored)
    for source, inside in added.items():
        shutil.copytree(ROOT / source, tmp_path / inside, ignore=ignored)
    code = """
import sys
folder = sys.argv.pop(1)
sys.path[:] = [folder, *(path for path in sys.path if path not in ("", sys.argv[1]))]
del sys.argv[1]
import stanadapt
from stanadapt.cli.commands import app
assert stanadapt.__file__.startswith(folder)
app()
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path), str(ROOT),
         "paper", "learned-integrators", "--quick", "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "integrators.csv").is_file()


def test_options_go_to_the_experiment():
    done = subprocess.run(
        [sys.executable, "-m", "stanadapt", "paper", "gad_neal", "--help"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("usage: stanadapt paper gad-neal")
    assert "--methods" in done.stdout


def test_an_unknown_name():
    shown = call("paper", "gad-logistics", status=1)
    assert "there is no experiment 'gad-logistics', only gad-gaussians, gad-neal" in shown


def test_a_package_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "PACKAGE", tmp_path / "stanadapt")
    shown = call("paper", status=1)
    assert "was installed without them" in shown
