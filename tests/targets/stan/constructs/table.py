"""The table of constructs and backends, which the page about densities shows.

python -m tests.targets.stan.constructs.table      # writes the columns of the backends at hand

The column of the embedded backend has "yes" if all values are right, otherwise the code of its
refusal. The column of a release of Stan has "yes" if its compiler accepts the program, and the
code of an error or warning otherwise. `make soak` compiles what is accepted and compares values.
"""

import csv
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import stanadapt as sa
from stanadapt.errors import StanadaptError, StanadaptWarning
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import known_faults, refusals
from stanadapt.targets.stan.program import read
from tests.helpers.repository import ROOT
from tests.targets.stan.constructs import ALL, CHAPTERS
from tests.targets.stan.constructs.check import Part, fault
from tests.targets.stan.constructs.construct import INCLUDED, Construct

FILE = ROOT / "docs" / "constructs.csv"
EMBEDDED, YES = "embedded", "yes"
FIELDS = ["chapter", "construct", "since", "until", EMBEDDED, "2.27", "2.35"]
# programs that a release's compiler accepts and its functions then refuse or compute wrongly,
# found by the comparison with the embedded backend
FAULTS = {
    ("the empty range x[1:0]", "2.27"): "densities_disagree",
    ("ranges that are empty or descend", "2.27"): "densities_disagree",
}
Rows = dict[str, dict[str, str]]


def embedded(construct: Construct) -> str:
    """Return the cell of the embedded backend; the construct's fault if its values are wrong."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".* are left out, since the embedded backend")
            target = sa.Target(
                construct.code, construct.data, include_paths=INCLUDED, backend="stanli"
            )
    except (StanadaptError, StanadaptWarning) as error:
        return error.code
    return fault(construct, Part(target, 0, target.dim)) or YES


def installed_release() -> str:
    """Return the release of the installed CmdStan, such as "2.27"; "" if it is missing."""
    installed = toolchain.cmdstan()
    return ".".join(installed.version.split(".")[:2]) if installed else ""


def compiled(construct: Construct) -> str:
    """Return the cell of the installed CmdStan, by its compiler and the faults we know."""
    installed = toolchain.require_cmdstan()
    program = read(construct.code, [INCLUDED])
    if refusals.refused_by(installed, program):
        return "syntax_error"
    if known_faults.find(program.code, installed.version):
        return "known_fault"
    return FAULTS.get((construct.name, installed_release()), YES)


def read_table(file: Path = FILE) -> Rows:
    """Return the committed rows by construct."""
    with file.open(newline="", encoding="utf-8") as lines:
        return {row["construct"]: row for row in csv.DictReader(lines)}


def write(columns: Mapping[str, Mapping[str, str]], file: Path = FILE) -> None:
    """Write the table with these columns; others stay as they are in the file."""
    old = read_table(file) if file.exists() else {}
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, FIELDS, lineterminator="\n")
        writer.writeheader()
        for chapter, constructs in CHAPTERS.items():
            for construct in constructs:
                row = dict.fromkeys(FIELDS, "") | old.get(construct.name, {})
                row |= {"chapter": chapter, "construct": construct.name}
                row |= {"since": construct.since, "until": construct.until}
                row |= {name: cells[construct.name] for name, cells in columns.items()}
                writer.writerow(row)


def main() -> int:
    columns = {EMBEDDED: {name: embedded(construct) for name, construct in ALL.items()}}
    wrong = {name: cell for name, cell in columns[EMBEDDED].items() if " " in cell}
    if wrong:
        print("\n".join(f"{name}: {cell}" for name, cell in wrong.items()))
        return 1
    if installed_release() in FIELDS:
        columns[installed_release()] = {name: compiled(each) for name, each in ALL.items()}
    write(columns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
