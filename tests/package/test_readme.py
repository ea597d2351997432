"""The commands of the README run: those of `stanadapt` and Python here, others in .ci/run."""

import re
import sys

import pytest

import stanadapt as sa
from tests.helpers import page_commands
from tests.helpers.repository import ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = page_commands.commands_of(README)


@pytest.mark.cmdstan
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("stanadapt")])
def test_command(tmp_path, command):
    for each in page_commands.with_earlier(command, COMMANDS):
        page_commands.run_stanadapt(each, tmp_path)
    fits = page_commands.written_fits(command, tmp_path)
    verdicts = {path.stem: sa.load(path).attrs["verdict"] for path in fits}
    assert set(verdicts.values()) <= {"fine"}, verdicts


@pytest.mark.cmdstan
def test_python_example(tmp_path):
    (example,) = page_commands.blocks(README, "python")
    printed = page_commands.run([sys.executable, "-c", example], tmp_path)
    assert "ESS/s" in printed
    assert (tmp_path / "output" / "pima.nc").is_file()


def test_commands_are_run_by_ci_and_write_each_file_once():
    """Commands are tried after the example, in the same folder: a second writer is refused."""
    written = re.findall(r'(?:--(?:out|report) |(?:save|report)\(.*?")(output/[\w./]+)', README)
    assert len(written) == len(set(written)) > 4, written
    others = [c for c in COMMANDS if not c.startswith("stanadapt")]
    assert others
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert set(others) <= set(script)
