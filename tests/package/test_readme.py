"""The README's commands run: here those of `stanadapt` and Python, in .ci/run those of make."""

import os
import re
import shlex
import subprocess
import sys

import pytest

import stanadapt as sa
from tests.helpers.authoring_page import SAMPLER_OF_THE_PAGE
from tests.helpers.repository import ROOT

README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


def stanadapt(command, folder):
    run([sys.executable, "-m", "stanadapt", *shlex.split(command)[1:]], folder)


def earlier_commands_for(command):
    """Those that write the files which this one reads."""
    read = [word for word in shlex.split(command) if word.startswith("output/")]
    earlier = COMMANDS[: COMMANDS.index(command)]
    outputs = {c: written[0] for c in earlier if (written := re.findall(r"--out (\S+)", c))}
    if "--out" in command:
        return []
    return [c for c, out in outputs.items() if any(r == out or f"{out}/" in r for r in read)]


def run(arguments, folder):
    # as a user has it: "auto" is not turned into stanli here
    environment = {k: v for k, v in os.environ.items() if k != "STANADAPT_BACKEND"}
    done = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=500,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stan_models").symlink_to(ROOT / "stan_models")
    return tmp_path


@pytest.mark.cmdstan
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("stanadapt")])
def test_command(folder, command):
    words = shlex.split(command)
    for each in [*earlier_commands_for(command), command]:
        stanadapt(each, folder)
    if "--out" not in words:
        return
    out = folder / words[words.index("--out") + 1]
    fits = [out] if out.is_file() else [p for p in out.glob("*.nc") if p.stem != "nuts"]
    assert fits
    # Glass is said to be too short there: a usable run of it takes half an hour
    verdicts = {path.stem: sa.load(path).attrs["verdict"] for path in fits if "glass" not in words}
    assert set(verdicts.values()) <= {"fine"}, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python -c")])
def test_command_about_a_sampler_of_ones_own(folder, command):
    """It needs the file that the page shows."""
    (folder / "barker.py").write_text(SAMPLER_OF_THE_PAGE)
    printed = run([sys.executable, *shlex.split(command)[1:]], folder)
    assert printed.count("passed") == 7
    assert "FAILED" not in printed


@pytest.mark.cmdstan
def test_python_example(folder):
    (example,) = blocks("python")
    printed = run([sys.executable, "-c", example], folder)
    assert "ESS/s" in printed
    assert (folder / "output" / "pima.nc").is_file()


def test_every_other_command_is_run_by_ci():
    others = [c for c in COMMANDS if not c.startswith(("stanadapt", "python -c"))]
    assert others
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert set(others) <= set(script)
