"""Rows of a study of several runs, stored in a file as soon as each is complete.

The same study continues from the file. Here, the first line is the origin, all that rows have in
common, and each row is appended as a line of JSON; other studies may write their file differently.
"""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from stanadapt import results
from stanadapt.engine.plan import choose_seed
from stanadapt.errors import StanadaptError


class StoredRows:
    """The rows of a study, and their file; without a folder, they are in memory only."""

    study = "study"  # what messages call it
    file = "rows.jsonl"
    remedy = "Name another folder."

    def __init__(self, run: str | PathLike | None) -> None:
        self.path = None if run is None else results.as_path(run) / self.file
        self.origin: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []

    def earlier(self) -> dict[str, Any] | None:
        """Return the origin in the file; None without a file."""
        if self.path is None or not self.path.exists():
            return None
        return self._read(self.path)[0]

    def seed(self, given: int | None) -> int:
        """Return the seed of the study: as given, or that in the file, or a random one."""
        earlier = self.earlier() if given is None else None
        return choose_seed(given if earlier is None else int(earlier["seed"]))

    def open(self, origin: dict[str, Any], force: bool = False) -> None:
        """Take over the rows of an earlier call, or begin the file.

        StanadaptError, stage "files", if the file belongs to another study or cannot be used;
        with `force`, the rows begin again.
        """
        self.origin = json.loads(json.dumps(origin))  # as it will be read back
        if self.path is None:
            return
        if self.path.exists() and not force:
            stored, rows = self._read(self.path)
            if differences := self.differences(stored):
                raise StanadaptError(
                    "other_study",
                    f"{self.path.parent} contains another {self.study}, which differs in "
                    f"{', '.join(differences)}. {self.remedy}",
                )
            self.origin, self.rows = self.merged(stored), rows
        self.write()

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """Name what differs from the origin in the file."""
        return [name for name, value in self.origin.items() if stored.get(name) != value]

    def merged(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Return the origin of both the rows in the file and new ones."""
        return self.origin

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, and append it to the file."""
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def write(self) -> None:
        """Write the file, without a last line that was cut off."""
        assert self.path is not None
        lines = (json.dumps(line) + "\n" for line in [self.origin, *self.rows])
        self.write_file(self.path.name, "".join(lines))

    def write_file(self, name: str, content: str | bytes) -> None:
        """Write a file into the folder of the study, as a whole, if there is a folder."""
        if self.path is None:
            return
        path = self.path.with_name(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with results.replace_file(path) as partial:
                partial.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise StanadaptError(
                "unwritable_study", f"{path} could not be written: {error}."
            ) from None

    def decoded(self, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return origin and rows; any exception means that the file is something else."""
        origin, *rows = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        int(origin["seed"])
        return dict(origin), rows

    def _read(self, path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        try:
            found = self.decoded(path.read_text(encoding="utf-8"))
            if not found[0]:
                raise ValueError("it is empty")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise StanadaptError(
                "unreadable_study",
                f"{path} is no {self.study} that can be continued: {error}. {self.remedy}",
            ) from None
        return found
