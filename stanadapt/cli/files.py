"""Files that a command writes: none is overwritten unasked."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.errors import StanadaptError


def save(fit: Any, path: Path) -> Path:
    """Write a result, and remember to say so if the command is interrupted afterwards."""
    saved = results.save(fit, path)
    interruption.written.append(saved)
    return saved


def require_writable(paths: Iterable[Path], force: bool) -> list[Path]:
    """Check before anything is computed that files can be written; ask before one is replaced.

    Raises
    ------
    StanadaptError
        Stage "files", where one exists and there is nobody to ask, or the answer is no.

    """
    checked = [results.check_writable(path) for path in paths]
    existing = [str(path) for path in checked if path.exists()]
    if not existing or force:
        return checked
    listed = ", ".join(existing)
    if sys.stdin.isatty() and typer.confirm(f"Overwrite {listed}?", err=True):
        return checked
    raise StanadaptError(
        "files", f"{listed} would be overwritten: choose another --out, or add --force."
    )
