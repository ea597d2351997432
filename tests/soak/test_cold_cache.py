"""Many processes on a cold cache, for many rounds: of small functions, and of whole samplers."""

import os
import subprocess
import sys

import pytest

from tests.helpers.cold_cache import compile_at_once
from tests.helpers.repository import ROOT

# a vector and a scalar, so that what both samplers call is compiled for two signatures
SAMPLE = """
import sys
import stanadapt as sa
target = sa.Target("parameters { vector[2] x; } model { x ~ normal([3, -1], [2, 9]); }")
lengths = {"chains": 1, "iter_warmup": 50, "iter_sampling": 20, "show_progress": False, "seed": 5}
for sampler in sys.argv[1:]:
    print(sampler, sa.sample(target, sampler, **lengths).posterior["x"].values.tobytes().hex())
"""
ORDERS = (["rwm", "am", "gad_rwm"], ["gad_rwm", "am", "rwm"], ["am", "rwm", "gad_rwm"])


@pytest.mark.soak
def test_eight_processes_compile_fifty_functions_at_once(tmp_path):
    compile_at_once(tmp_path, processes=8, rounds=50)


@pytest.mark.soak
@pytest.mark.parametrize("again", range(2))
def test_processes_that_sample_on_one_cold_cache(tmp_path, again):
    """All have the same draws, and a later process has them too."""
    environment = {**os.environ, "STANADAPT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", SAMPLE]
    running = [
        subprocess.Popen([*command, *order], env=environment, stdout=subprocess.PIPE, text=True)
        for order in ORDERS
    ]
    printed = [sorted(process.communicate()[0].splitlines()) for process in running]
    later = subprocess.run(
        [*command, *ORDERS[0]], env=environment, stdout=subprocess.PIPE, text=True
    )
    printed.append(sorted(later.stdout.splitlines()))
    assert [process.returncode for process in [*running, later]] == [0, 0, 0, 0]
    assert len(printed[0]) == len(ORDERS[0])
    assert printed[1:] == printed[:1] * 3
    assert len(list((tmp_path / "compiled").iterdir())) > 30
