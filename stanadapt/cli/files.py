"""Files that a command writes: none is overwritten unasked."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from stanadapt import results
from stanadapt.cli import interruption
from stanadapt.diagnostics.verdict import NOT_JUDGED
from stanadapt.errors import StanadaptError
from stanadapt.sampling.drive import uninterrupted


def save(fit: Any, path: Path, float32: bool = False) -> Path:
    """Write a result, and remember to say so if the command is interrupted.

    Ctrl-C ends the command when the file is complete, else the draws would be lost.
    """
    with uninterrupted() as pressed:
        saved = results.save(fit, path, float32=float32)
    interruption.written.append(saved)
    if pressed or results.attribute(fit, "verdict") == NOT_JUDGED:
        raise KeyboardInterrupt
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
