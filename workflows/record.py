"""The folder of a workflow's results, and the file in it that records how they were made."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDED = (
    "stanadapt", "numpy", "numba", "scipy", "arviz", "bridgestan", "stanli", "cmdstanpy",
)  # fmt: skip


def folder(name: str, out: Path | None = None) -> Path:
    """Make output/NAME in the current folder, or the folder `out`.

    The name of `workflows.gad.neal` is "gad/neal".
    """
    path = out or Path("output") / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_settings(path: Path, settings: dict[str, Any]) -> Path:
    """Write settings, versions and machine as JSON.

    The load average is recorded because timings depend on the load of the machine.
    """
    content = {
        "command": sys.argv,
        "settings": settings,
        "versions": {name: version(name) for name in RECORDED},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_average_at_end": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    return path
