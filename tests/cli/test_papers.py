"""`stanadapt paper`: every experiment runs from an installed package."""

import re
import subprocess
import sys
import zipfile

import pytest

from stanadapt.cli import papers
from tests.helpers.codes import raises
from tests.helpers.command_line import call, refused
from tests.helpers.repository import ROOT
from workflows import every_experiment
from workflows.catalogue import EXPERIMENTS, Experiment


def test_experiments_are_listed_and_agree_with_the_readme():
    shown = call("paper")
    for experiment in EXPERIMENTS:
        assert experiment.name in shown
        assert (experiment.duration or "not measured") in shown
    rows = re.findall(
        r"^\| `python -m workflows\.([\w.]+)[^`]*` \| (.*?) \| (.*?) \|$",
        (ROOT / "workflows" / "README.md").read_text(), re.M,
    )  # fmt: skip
    rooms = {experiment.module.split(".")[0] for experiment in EXPERIMENTS}
    listed = [row for row in rows if row[0].split(".")[0] in rooms]
    assert listed == [(e.module, e.reproduces, e.duration or "–") for e in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        assert (ROOT / "workflows" / f"{experiment.module.replace('.', '/')}.py").is_file()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the wheel that `pip install .` builds, opened."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_a_wheel_holds_every_file(wheel):
    """All code, types, templates of reports, programs, data and experiments, and nothing more."""
    inside = {
        "stanadapt": "stanadapt", "stan_models": "stanadapt/stan_models",
        "workflows": "stanadapt/_workflows/workflows",
    }  # fmt: skip
    expected = {
        f"{folder}/{path.relative_to(ROOT / source).as_posix()}"
        for source, folder in inside.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for some in ("py.typed", "studies/report/style.css", "stan_models/logistic/pima.json"):
        assert f"stanadapt/{some}" in expected
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected


@pytest.mark.slow
def test_experiments_run_from_a_wheel(wheel, tmp_path):
    """In a process that cannot see the repository."""
    wheel.extractall(tmp_path)
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
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "integrators.csv").is_file()


@pytest.mark.slow
def test_options_go_to_the_experiment():
    done = subprocess.run(
        [sys.executable, "-m", "stanadapt", "paper", "gad_neal", "--help"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("usage: stanadapt paper gad-neal")
    assert "--methods" in done.stdout


def test_an_unknown_name_and_a_package_without_experiments(tmp_path):
    facts = ["'gad-logistics'", "'gad-logistic'", "gad-neal"]
    refused("unknown_experiment", "paper", "gad-logistics", facts=facts)
    with raises("experiments_missing", tmp_path.name):
        papers._catalogue(tmp_path / "stanadapt")


# the second of three experiments fails
MADE_UP = """
import sys
if sys.argv[1] == "made-silent":
    sys.exit(3)
print("working", sys.argv[1:])
if sys.argv[1] == "made-two":
    sys.exit("no such data")
"""


def run_all(folder, *names):
    catalogue = [Experiment(f"made.{name}", "nothing", None, None) for name in names]
    words = ["--quick", f"--out={folder}"]
    return every_experiment.run_all(catalogue, words, [sys.executable, "-u", "-c", MADE_UP])


@pytest.mark.slow
def test_all_continues_after_a_failure_and_ends_with_a_summary(tmp_path, capsys):
    outcomes = run_all(tmp_path, "one", "two", "three")
    assert [outcome.name for outcome in outcomes] == ["made-one", "made-two", "made-three"]
    shown = " ".join(capsys.readouterr().out.split())
    assert "exit code 1: no such data" in shown
    assert "2 of 3 experiments done" in shown
    assert shown.endswith("failed: made-two.")
    for name in ("one", "two", "three"):
        folder = tmp_path / "made" / name
        expected = f"working {[f'made-{name}', '--out', str(folder), '--quick']}"
        assert (folder / every_experiment.LOG).read_text().startswith(expected)


def test_all_succeeds_if_none_fails(tmp_path, capsys):
    assert not any(outcome.failure for outcome in run_all(tmp_path, "one", "three"))
    assert "2 of 2 experiments done" in " ".join(capsys.readouterr().out.split())


def test_a_failure_without_a_word_has_its_exit_code(tmp_path):
    (outcome,) = run_all(tmp_path, "silent")
    assert outcome.failure.startswith("exit code 3: it printed nothing")


def test_an_interruption_leaves_the_summary_of_those_that_ended(tmp_path, capsys, monkeypatch):
    def run(command, **options):
        if "made-two" in command:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path, "one", "two", "three")
    assert "1 of 1 experiments done in 0 s." in capsys.readouterr().out


@pytest.mark.parametrize("words", [["gad-neal"], ["--seed", "3"], ["--out"]])
def test_all_takes_no_option_of_one_experiment(words):
    refused("options_conflict", "paper", "--all", *words, facts=[repr(words[0])])
