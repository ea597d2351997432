"""Processes that are killed: what they wrote is enough. `make soak` does more than a thousand."""

import ast
import os
import subprocess
import sys

import pytest

from stanadapt.samplers import registered
from tests.helpers.repository import ROOT

KILLS = 6


@pytest.mark.soak
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed after a fork")
def test_killed_runs_of_every_sampler_are_resumed_draw_for_draw():
    command = [sys.executable, "-m", "tests.soak.kill_runs", "--kills", str(KILLS)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=7200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, sums, different = done.stdout.splitlines()
    assert different == "different: 0"
    assert {line.split()[0] for line in lines} >= set(registered())
    met = ast.literal_eval(sums.partition("{")[1] + sums.partition("{")[2])
    assert sum(met.values()) == KILLS * len(lines) >= 100
    # chains that were under way: neither all before the first checkpoint nor after the end
    assert min(met["warm-up"], met["sampling"]) > 0.15 * sum(met.values()), sums
    assert met["warm-up"] + met["sampling"] > 0.5 * sum(met.values()), sums
