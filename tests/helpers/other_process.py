"""Python code in a process of its own."""

import os
import subprocess
import sys

from tests.helpers.repository import ROOT


def printed(code, *arguments, folder=ROOT, **environment):
    """Run code in a folder, with these environment variables too; return what it prints."""
    variables = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=folder, env=os.environ | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
