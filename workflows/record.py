"""The folder of a workflow's results, and the file in it that records how they were made."""

import json
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt import results

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


def command(argv: list[str]) -> str:
    """Return the command that runs now, without the folder of its output."""
    spec, words = sys.modules["__main__"].__spec__, argv[1:]
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    words = [word for word in words if not word.startswith("--out=")]
    program = argv[0] if argv[0].startswith("stanadapt ") else None
    if program is None:
        program = f"python -m {spec.name}" if spec else Path(argv[0]).name
    return f"{program} {shlex.join(words)}".strip()


def commit() -> str | None:
    """Return the commit of the clone that this file is in, with "+" if it was edited since."""
    try:
        found = [
            subprocess.run(
                ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True,
                check=True,
            ).stdout.strip()
            for words in (
                ["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "-uno", "--", ".."]
            )
        ]  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return found[0] + "+" * bool(found[1])


def seconds_of(fit: Any) -> float:
    """Return the seconds of warm-up and sampling, summed over chains."""
    phases = ("warmup_seconds", "sampling_seconds")
    return sum(float(np.sum(results.attribute(fit, phase))) for phase in phases)


def finish(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings of a benchmark beside its tables, and say where these are."""
    write_settings(folder / "settings.json", settings)
    print(f"tables: {folder}")


def write_settings(path: Path, settings: dict[str, Any]) -> Path:
    """Write settings, versions and machine as JSON.

    The load average is recorded because timings depend on the load of the machine.
    """
    content = {
        "command": command(sys.argv),
        "commit": commit(),
        "settings": {name: value for name, value in settings.items() if name != "out"},
        "versions": {name: version(name) for name in RECORDED},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_average_at_end": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    return path
