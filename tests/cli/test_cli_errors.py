"""Errors of the command line: messages, and the exit status."""

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from stanadapt.cli import interruption
from stanadapt.cli.commands import app
from stanadapt.cli.options import settings_by_sampler
from stanadapt.cli.terminal import report_errors
from stanadapt.engine.chain import Chain
from stanadapt.errors import StanadaptError
from tests.helpers.command_line import TINY, call

WRONG = {
    "missing program": (["none.stan"], ["files", "none.stan"]),
    "neither file nor bundled": (["nealx"], ["nealx"]),
    "missing data file": (["my.stan", "-d", "none.json"], ["files", "none.json"]),
    "no data": (["my.stan"], ["data", "m"]),
    "data set that is not bundled": (["neal", "-d", "nope"], ["nope", "neal"]),
    "data set not chosen": (["gaussian"], ["two_dim", "fifty_one_dim"]),
    "unknown sampler": (["neal", "-s", "nutz"], ["settings", "'nutz'", "gad_mala"]),
    "unknown setting": (["neal", "--set", "step=1"], ["'step'", "target_accept"]),
    "bad value": (["neal", "-s", "mala", "--set", "step_size=abc"], ["step_size", "'abc'"]),
    "negative value": (["neal", "-s", "mala", "--set", "step_size=-1"], ["step_size", "-1"]),
    "no equals sign": (["neal", "--set", "step_size"], ["[setting_syntax]", "'step_size'"]),
    "no name": (["neal", "--set", "=1"], ["settings"]),
    "an option as a setting": (["neal", "--set", "chains=3"], ["settings", "chains"]),
    "an argument as a setting": (["neal", "--set", "target=3"], ["settings", "target"]),
    "the sampler as a setting": (["neal", "--set", "sampler=rwm"], ["settings", "sampler"]),
    "zero chains": (["neal", "--chains", "0"], ["chains", "0"]),
    "thin too large": (["neal", "--iter-sampling", "10", "--thin", "11"], ["thin", "11"]),
    "no threads": (["neal", "--threads-per-chain", "0"], ["threads_per_chain", "0"]),
    "threads of one move": (["neal", "--threads-per-chain", "2"], ["whitened_hmc", "threads"]),
    "out is a folder": (["neal", "--out", "."], ["files"]),
    "out below a file": (["none.stan", "--out", "my.stan/fit.nc"], ["files", "my.stan"]),
    "unknown backend": (["neal", "--backend", "jax"], ["backend", "'jax'"]),
    "inits that are missing": (["neal", "--inits", "none.json"], ["inits", "none.json"]),
    "negative radius": (["neal", "--inits", "-1"], ["inits", "-1"]),
    "missing include folder": (["neal", "--include", "none"], ["none"]),
}
WRONG_COMPARISONS = {
    "settings of another sampler": (
        ["neal", "--set", "rwm.scale=1"], ["settings: ", "[setting_unused]", "rwm", "auto"],
    ),
    "a setting that none has": (
        ["neal", "--set", "leapfrogs=3"], ["settings: ", "[setting_unused]", "leapfrogs"],
    ),
    "a setting twice": (
        ["neal", "--set", "adapt_delta=0.9", "--set", "nuts_target_accept=0.8"],
        ["settings: ", "adapt_delta"],
    ),
    "thin too large": (
        ["neal", "--thin", "9", "--iter-sampling", "3"], ["settings: ", "thin", "9"],
    ),
    "an unknown sampler": (["neal", "-s", "gad_mala,nope"], ["'nope'"]),
    "an unknown engine": (
        ["neal", "-s", "gad_mala", "--stan-nuts", "pymc"], ["stanli", "'pymc'"],
    ),
    "no sampler": (["neal", "-s", ",", "--stan-nuts", "none"], []),
    "a missing program": (["none.stan"], ["none.stan"]),
    "no iteration": (["none.stan", "--iter-sampling", "0"], ["iter_sampling"]),
    "zero chains": (["neal", "--chains", "0"], ["chains", "0"]),
    "a file in place of a folder": (["none.stan", "--out", "my.stan"], ["my.stan"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "wrong"),
    [("sample", wrong) for wrong in WRONG] + [("compare", wrong) for wrong in WRONG_COMPARISONS],
)
def test_wrong_arguments_are_found_before_sampling(files, monkeypatch, command, wrong):
    def advance(*arguments, **keywords):
        raise AssertionError("sampling began")

    monkeypatch.setattr(Chain, "advance", advance)
    arguments, words = {"sample": WRONG, "compare": WRONG_COMPARISONS}[command][wrong]
    printed = call(command, *arguments, "--quiet", status=1)
    assert printed.startswith("error in ")
    for word in words:
        assert word in printed
    assert not (files / "fit.nc").exists()


@pytest.mark.parametrize("command", [
    "sample none.stan --chains 0", "sample none.stan --thin 0", "sample none.stan --seed -1",
    "sample none.stan --iter-warmup -5", "sample none.stan --parallel-chains 0",
    "sample none.stan --threads-per-chain 0", "sample none.stan --max-minutes 0",
    "sample none.stan --until-ess -1", "sample none.stan --until-mcse 2",
    "sample none.stan --inits -1", "sample none.stan --inits none.json",
    "sample none.stan --save gradients", "sample none.stan --warm-start none.nc",
    "sample none.stan --run my.json", "sample none.stan --labels my.stan",
    "sample-many none.stan my.json -o out --chains 0",
    "sample-many none.stan my.json -o out -s mala --set step=1",
    "approximate none.stan --draws 0", "approximate none.stan --inits -1",
    "optimize none.stan --starts 0", "optimize none.stan --max-iterations 0",
    "advise none.stan --chains 1", "advise none.stan --max-minutes 0",
    "compare none.stan --seed -1", "sbc my.stan --generator my.stan --chains 0",
])  # fmt: skip
def test_what_is_wrong_for_any_target_is_found_before_a_compilation(files, command):
    """The program is missing, so that an error of anything else came before its compilation."""
    printed = call(*command.split(), "--quiet", status=1)
    assert printed.startswith("error in ")
    assert not re.search(r"none\.stan|my\.stan.* Stan program|generator", printed), printed


def test_a_setting_of_one_sampler_is_not_given_to_others():
    given = settings_by_sampler(["step_size=1", "mala.step_size=2"], ["mala", "hmc", "am"])
    assert given == {"mala": {"step_size": "2"}, "hmc": {"step_size": "1"}, "am": {}}


def test_compare_with_a_missing_cmdstan(files, monkeypatch):
    monkeypatch.setenv("CMDSTAN", "")
    monkeypatch.setenv("HOME", str(files))
    printed = call("compare", "neal", "--stan-nuts", "cmdstan", "--quiet", status=1)
    assert "install-cmdstan`, or use --stan-nuts stanli" in printed


def test_messages_of_stan_and_advice_are_on_options(files):
    (files / "bad.stan").write_text("parameters { array[2] real x; }\nmodel { x[1] ~ nomal(0); }\n")
    printed = call("sample", "bad.stan", status=1)
    assert "x[1] ~ nomal(0)" in printed
    assert "array[2] real x" in printed
    assert "\\[" not in printed
    quantity = "generated quantities { matrix[1, 1] M; real t = trace(M); }"
    (files / "my.stan").write_text(
        f"parameters {{ real x; }} model {{ x ~ std_normal(); }} {quantity}"
    )
    printed = call("sample", "my.stan", *TINY, "--backend", "stanli")
    assert "[quantities_left_out]" in printed
    assert "se --backend cmdstan" in printed


@pytest.mark.parametrize(("error", "code", "text"), [
    (KeyboardInterrupt(), 130, interruption.NOTHING_WRITTEN),
    (StanadaptError("cmdstan_missing", "no net [at all]."), 1, "no net [at all]."),
])  # fmt: skip
def test_whatever_ends_a_command_is_a_message(capsys, error, code, text):
    with pytest.raises(typer.Exit) as end, report_errors():
        raise error
    assert end.value.exit_code == code
    assert text in capsys.readouterr().err


def run_process(*arguments, cwd):
    code = "from stanadapt.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a file that is full")
@pytest.mark.parametrize("arguments", [["samplers"], ["sample", "--help"]])
def test_output_that_cannot_be_written_is_one_line(tmp_path, arguments):
    code = "from stanadapt.cli import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, stdout=full, timeout=600,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("[output_not_written]\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["sample", "--help"], ["models"]])
def test_a_terminal_of_few_signs_is_enough(tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("LC_ALL", "C")
    done = run_process(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.thorough
def test_the_installed_command(files):
    done = run_process("sample", "my.stan", "--data", "my.json", "--quiet", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "fit.nc" in done.stdout
    assert done.stderr == ""
    assert (files / "fit.nc").is_file()


def test_errors_go_to_standard_error(files):
    done = CliRunner().invoke(app, ["sample", "none.stan", "--quiet"])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error in files: ")
    assert "none.stan" in done.stderr
    assert "Traceback" not in done.stderr
