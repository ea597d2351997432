"""Where a workflow's results lie, and the file beside them that tells how they were made."""

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


def folder(script: str, chosen: Path | None = None) -> Path:
    """Make output/SCRIPT in the current folder, or the one that was chosen."""
    path = chosen or Path("output") / script
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_settings(path: Path, settings: dict[str, Any]) -> Path:
    """Write settings, versions and machine as JSON.

    The load average belongs to the timings: they are those of a machine that did that much else.
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
