"""Files of a collection that may be compressed, or missing: each failure is one sentence."""

import json
import zipfile
from pathlib import Path
from typing import Any

from stanadapt.errors import StanadaptError


def stored(file: Path, owner: str, hint: str) -> Path:
    """Return the path of a file, or of the same one with .zip added; StanadaptError without either.

    owner is what needs it, hint what to try.
    """
    packed = file.with_name(f"{file.name}.zip")
    for path in (packed, file):
        if path.is_file():
            return path
    raise StanadaptError("files", f"{owner} needs {file}, which is missing. {hint}")


def read_json(file: Path, owner: str, hint: str) -> Any:
    """Read JSON, from the only JSON file of an archive where it is one."""
    try:
        if file.suffix != ".zip":
            return json.loads(file.read_text(encoding="utf-8"))
        with zipfile.ZipFile(file) as archive:
            # archives made on a Mac hold files of their own beside it
            names = [n for n in archive.namelist() if n.endswith(".json") and "__MACOSX" not in n]
            if len(names) != 1:
                raise ValueError(f"an archive of {len(names)} JSON files")
            return json.loads(archive.read(names[0]))
    except (OSError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        what = getattr(error, "strerror", None) or error
        raise StanadaptError(
            "files", f"{owner} needs {file}, which cannot be read: {what}. {hint}"
        ) from None
