"""Processes that compile the same functions for different types at the same time."""

import os
import subprocess
import sys

from tests.helpers.other_process import printed
from tests.helpers.repository import ROOT

TYPES = ["int64", "float64", "complex128", "float32", "int32", "complex64", "int16", "uint8"]
# the function of a round; all processes start it together
FUNCTION = "@jit\ndef odd_{number}(x):\n    return 2 * x + {number}\n"
MODULE = "from stanadapt.engine.compiled.jit import jit\n"
COMPILE = """
import sys, time
from pathlib import Path
import numpy as np
import many
kind, processes, rounds, here = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
for number in range(rounds):
    (here / f"{number}-{kind}").touch()
    while len(list(here.glob(f"{number}-*"))) < processes:
        time.sleep(0.0005)
    function = getattr(many, f"odd_{number}")
    assert function(np.dtype(kind).type(3)) == 6 + number
"""
LOOK = """
import sys
import numpy as np
import many
for number in range(int(sys.argv[1])):
    function = getattr(many, f"odd_{number}")
    for kind in sys.argv[2:]:
        assert function(np.dtype(kind).type(3)) == 6 + number, (number, kind)
    missing = list(function.stats.cache_misses)
    assert not missing, (number, missing)
"""


def compile_at_once(folder, processes, rounds):
    """Compile `rounds` functions for a type per process, in step; assert that all were kept."""
    kinds = TYPES[:processes]
    (folder / "steps").mkdir()
    text = MODULE + "".join(FUNCTION.format(number=number) for number in range(rounds))
    (folder / "many.py").write_text(text)
    path = os.pathsep.join([str(folder), str(ROOT)])
    own = {"STANADAPT_CACHE": str(folder / "cache"), "PYTHONPATH": path}
    command = [sys.executable, "-c", COMPILE]
    arguments = [str(processes), str(rounds), str(folder / "steps")]
    running = [
        subprocess.Popen([*command, kind, *arguments], env=os.environ | own, stderr=subprocess.PIPE)
        for kind in kinds
    ]
    for process in running:
        _, error = process.communicate()
        assert process.returncode == 0, error.decode()
    printed(LOOK, rounds, *kinds, **own)
