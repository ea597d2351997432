"""Committed results: folders below `workflows/results`, one for each run of a workflow.

A folder `workflows/results/PAPER/RUN` has the CSV files of the workflow, and the JSON file with
which `workflows/record.py` says how they were made: command, commit, versions, machine, seconds.
`python -m workflows.reproduction.keep FOLDER PAPER/RUN` copies them from a workflow's output.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

RESULTS = Path(__file__).resolve().parents[1] / "results"


class Run(NamedTuple):
    """One run of a workflow.

    Attributes
    ----------
    name
        PAPER/RUN.
    folder
        Folder of its files.
    made
        What its JSON file says.
    """

    name: str
    folder: Path
    made: dict[str, Any]

    def table(self, suffix: str) -> pd.DataFrame | None:
        """Return the CSV file with a name that ends in `suffix`; None if there is none."""
        found = sorted(self.folder.glob(f"*{suffix}.csv"))
        return pd.read_csv(found[0]) if found else None

    @property
    def seconds(self) -> float:
        """Duration of the run."""
        return float(self.made["settings"].get("seconds_in_all", float("nan")))


def runs(paper: str, results: Path = RESULTS) -> list[Run]:
    """Return the committed runs of a paper, by name."""
    found = []
    for folder in sorted((results / paper).glob("*/")):
        (path,) = folder.glob("*.json")
        made = json.loads(path.read_text(encoding="utf-8"))
        found.append(Run(f"{paper}/{folder.name}", folder, made))
    return found


def joined(found: list[Run], suffix: str) -> pd.DataFrame:
    """Return the tables of all runs that have one with this suffix, and the column `source`."""
    tables = [(run.name, run.table(suffix)) for run in found]
    parts = [table.assign(source=name) for name, table in tables if table is not None]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
