"""A family of samplers is a folder: without it the package works, and the family is gone."""

import json
import os
import subprocess
import sys

import pytest

from stanadapt.samplers import registered
from tests.helpers.families import DELETABLE, FAMILIES, NEEDED, copy_without

# what families add besides samplers: commands, and keywords of `sample`
COMMANDS = {"nice": {"train-nice"}}
KEYWORDS = {"nice": {"network"}, "tempering": {"prior_data", "reference_distribution"}}

# Imports each copy of the package in its own process. They are forked from one that has imported
# what all need, which takes half of the time.
IMPORT_COPIES = """
import json, os, sys
import numba, rich, scipy.optimize, typer.testing, xarray

def report(folder):
    sys.path.insert(0, folder)
    from stanadapt.cli.commands import app
    from stanadapt.engine.starts import START_OPTIONS
    from stanadapt.samplers import registered
    import stanadapt
    def call(argument):
        done = typer.testing.CliRunner().invoke(app, [argument], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output
    assert stanadapt.__file__.startswith(folder), stanadapt.__file__
    found = {"samplers": list(registered()), "keywords": list(START_OPTIONS)}
    return {**found, "help": call("--help"), "listed": call("samplers")}

for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        with open(f"{folder}/report.json", "w") as file:
            json.dump(report(folder), file)
        os._exit(0)
    os.waitpid(child, 0)
"""

DRAW = """
import stanadapt as sa
target = sa.Target("parameters { real x; } model { x ~ normal(3, 1); }", show_progress=False)
fit = sa.sample(target, "rwm", seed=1, standardize=False, show_progress=False)
print(sa.__file__, float(fit["posterior"]["x"].mean()))
"""


def run(code, *arguments, folder):
    """Run code in another process, with the package of a folder and a cache there."""
    environment = os.environ | {"PYTHONPATH": str(folder), "STANADAPT_CACHE": f"{folder}/cache"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=environment, text=True,
        capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What a copy of the package has without each family, by family; or why it has nothing."""
    folder = tmp_path_factory.mktemp("copies")
    for family in DELETABLE:
        copy_without([family], folder / family)
    done = run(IMPORT_COPIES, *(str(folder / family) for family in DELETABLE), folder=folder)
    written = {family: (folder / family / "report.json").read_text() for family in DELETABLE}
    return {family: json.loads(text or json.dumps(done.stderr)) for family, text in written.items()}


def samplers_of(family):
    module = f"stanadapt.samplers.{family}."
    return [s.name for s in registered().values() if s.settings.__module__.startswith(module)]


def test_the_families_that_stay_exist():
    assert set(FAMILIES) >= NEEDED


@pytest.mark.slow
@pytest.mark.parametrize("family", DELETABLE)
def test_the_package_works_without_the_folder_and_its_words_are_gone(reports, family):
    report, gone = reports[family], samplers_of(family)
    assert gone
    assert isinstance(report, dict), report  # it could not be imported
    assert report["samplers"] == [name for name in registered() if name not in gone]
    listed = {line.split(" ")[0] for line in report["listed"].splitlines()}
    assert listed & {*registered()} == {*report["samplers"]}
    assert "approximate" in report["help"]
    report = reports[family]
    assert isinstance(report, dict), report
    words, keywords = {*report["help"].split()}, {*report["keywords"]}
    for other in COMMANDS:
        assert COMMANDS[other] & words == (set() if other == family else COMMANDS[other])
    for other in KEYWORDS:
        assert KEYWORDS[other] & keywords == (set() if other == family else KEYWORDS[other])


@pytest.mark.slow  # compiles a sampler
def test_another_sampler_draws_without_any_of_them(tmp_path):
    folder = copy_without(DELETABLE, tmp_path / "copy")
    done = run(DRAW, folder=folder)
    assert done.returncode == 0, done.stderr
    file, mean = done.stdout.split()
    assert file.startswith(str(folder))
    assert float(mean) == pytest.approx(3.0, abs=0.3)
