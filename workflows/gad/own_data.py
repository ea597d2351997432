"""Options of the logistic regressions for a file of the user's own in place of bundled data."""

import argparse
from pathlib import Path

import numpy as np

from workflows.gad.labeled_table import (
    BRIGHTEST,
    LAST,
    LabeledTable,
    TableError,
    as_pixels,
    read_labeled_table,
)

STANDARDIZED = (
    "{path}: {rows:,} rows, {columns} inputs; label 1 is {one!r}, label 0 {zero!r}{others}. The "
    "program subtracts the mean of each input and divides by its standard deviation (n - 1), and "
    "adds an intercept."
)
PIXELS = (
    "{path}: {rows:,} images of {columns} pixels; label 1 is {one!r}, label 0 {zero!r}{others}. "
    "Pixels are {scaled}, not standardized, and there is an intercept."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    options = parser.add_argument_group("data of your own")
    options.add_argument(
        "--data-file", type=Path, metavar="FILE",
        help="a text file with a row per case, or a MATLAB file with a matrix X",
    )  # fmt: skip
    options.add_argument(
        "--label", default=LAST, help="column of the label: last (default), a number or a name"
    )
    options.add_argument(
        "--delimiter", help="comma, semicolon, tab, space or a character; default: detected"
    )
    options.add_argument(
        "--header", choices=["auto", "yes", "no"], default="auto",
        help="whether the first row has names; default: auto",
    )  # fmt: skip
    options.add_argument(
        "--classes", nargs=2, metavar=("ONE", "ZERO"), help="labels that become 1 and 0"
    )


def read(options: argparse.Namespace, images: bool = False) -> LabeledTable:
    """Read the file; an error ends the workflow with one line."""
    header = {"auto": None, "yes": True, "no": False}[options.header]
    try:
        table = read_labeled_table(
            options.data_file, label=options.label, delimiter=options.delimiter, header=header,
            classes=options.classes, allow_constant=images,
        )  # fmt: skip
        return as_pixels(table, options.data_file) if images else table
    except TableError as error:
        raise SystemExit(str(error)) from None


def data_of(table: LabeledTable) -> dict:
    """Return the data of the programs."""
    rows, columns = table.inputs.shape
    return {"N": rows, "D": columns, "X": table.inputs.tolist(), "y": table.labels.tolist()}


def note(table: LabeledTable, path: Path, images: bool = False) -> str:
    """Say what was read, how inputs are scaled, and which are equal."""
    rows, columns = table.inputs.shape
    one, zero = table.classes
    others = f"; rows of other classes, left out: {table.left_out:,}" if table.left_out else ""
    scaled = f"divided by {BRIGHTEST:.0f}, if they exceeded 1"
    text = (PIXELS if images else STANDARDIZED).format(
        path=path.name, rows=rows, columns=columns, one=one, zero=zero, others=others,
        scaled=scaled,
    )  # fmt: skip
    return text if images else text + _equal_inputs(table.inputs)


def _equal_inputs(inputs: np.ndarray) -> str:
    """Return a sentence on the first two inputs that are equal, empty if none are."""
    first: dict[bytes, int] = {}
    for j, column in enumerate(inputs.T + 0.0):  # -0.0 becomes 0.0
        earlier = first.setdefault(column.tobytes(), j)
        if earlier != j:
            return (
                f" Inputs {earlier + 1} and {j + 1} are equal: the data determine the sum of their "
                "coefficients, and the prior alone their difference."
            )
    return ""
