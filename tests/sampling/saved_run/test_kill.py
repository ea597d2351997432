"""Processes that are killed: what they wrote is enough. `make soak` does a thousand."""

import os
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed after a fork")
def test_killed_runs_are_resumed_draw_for_draw():
    command = [sys.executable, "-m", "tests.soak.kill_runs", "--kills", "4"]
    samplers = ["--samplers", "whitened_hmc,gad_mala,nuts,rwm"]
    done = subprocess.run(
        [*command, *samplers], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("different: 0\n")
    assert "'same'" in done.stdout
