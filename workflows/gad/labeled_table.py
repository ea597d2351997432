"""A user's table of inputs and labels of two classes, for experiments on data of one's own.

Text with a delimiter, with or without a header, or a MATLAB file with a matrix `X`, in which the
last column is the label, as the authors of gradient-based adaptive MCMC distribute their data.
Nothing is repaired in silence: a value that cannot be used is an error with its row and column.
"""

import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": None}
MISSING = {"", "?", "na", "n/a", "nan", "null", "none", ".", "inf", "-inf"}
LAST = "last"
BRIGHTEST = 255.0
LISTED = 6  # of columns or labels that a message names


class TableError(ValueError):
    """A table that cannot be used; the message says why, where, and what to do."""


class LabeledTable(NamedTuple):
    """Inputs of shape (row, column), labels 0 and 1 of shape (row,), and the values that they were.

    Attributes
    ----------
    inputs, labels
        Arrays.
    classes
        The values of the column of labels that became 1 and 0.
    left_out
        Number of rows of other classes.
    """

    inputs: np.ndarray
    labels: np.ndarray
    classes: tuple[str, str]
    left_out: int


def read_labeled_table(
    path: str | Path,
    *,
    label: str = LAST,
    delimiter: str | None = None,
    header: bool | None = None,
    classes: Sequence[str] | None = None,
    allow_constant: bool = False,
) -> LabeledTable:
    r"""Read a table of numbers with a column of labels.

    Parameters
    ----------
    path
        A text file, which may be compressed by gzip, or a MATLAB file with a matrix X.
    label
        Column of the labels: "last", a number from 1, or a name in the header.
    delimiter
        "comma", "semicolon", "tab", "space", or a character; by default it is detected.
    header
        Whether the first row has names; by default, whether it has a word where numbers follow.
    classes
        The two values of the label that become 1 and 0; rows with other values are left out. By
        default the labels must have two values, both numbers, and the larger becomes 1.
    allow_constant
        Whether columns of inputs may have one value, as pixels at the edge of images do.

    Raises
    ------
    TableError
        If the file, or a value in it, cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age;weight;ill\n31;70.5;no\n45;80;yes\n52;64;no\n")
    >>> table = read_labeled_table(path, classes=["yes", "no"])
    >>> table.inputs.shape, table.labels.tolist()
    ((3, 2), [0, 1, 0])
    """
    path = Path(path)
    names, rows = _cells(path, delimiter, header)
    column = _column(path, label, names, len(rows[0]))
    values, kept = _classes(path, [row[column] for row in rows], classes)
    chosen = [row for row, keep in zip(rows, kept, strict=True) if keep]
    places = [i + 1 + (names is not None) for i, keep in enumerate(kept) if keep]
    inputs = _numbers(path, chosen, column, names, places)
    if not allow_constant:
        _require_varied(path, inputs, column, names)
    labels = np.array([_same(row[column], values[0]) for row in chosen]).astype(int)
    return LabeledTable(inputs, labels, values, len(rows) - len(chosen))


def as_pixels(table: LabeledTable, path: Path) -> LabeledTable:
    """Return a table of images with pixels from 0 to 1, divided by 255 unless they are so already.

    Raises
    ------
    TableError
        If inputs are not between 0 and 255.
    """
    least, greatest = table.inputs.min(), table.inputs.max()
    if least < 0 or greatest > BRIGHTEST:
        raise TableError(
            f"{path}: expected pixels from 0 to {BRIGHTEST:.0f} or from 0 to 1, got numbers from "
            f"{least:g} to {greatest:g}.",
        )
    return table._replace(inputs=table.inputs / BRIGHTEST) if greatest > 1 else table


def _cells(
    path: Path, delimiter: str | None, header: bool | None
) -> tuple[list[str] | None, list[list[str]]]:
    """Return the names in the header, if there is one, and the other rows as text."""
    if path.suffix == ".mat":
        return None, [[repr(float(x)) for x in row] for row in _matrix(path)]
    lines = [line for line in _text(path).splitlines() if line.strip()]
    if not lines:
        raise TableError(f"{path} is empty: expected rows of numbers.")
    mark = _delimiter(lines[0], delimiter)
    rows = [[cell.strip().strip("\"'") for cell in line.split(mark)] for line in lines]
    shown = next((name for name, each in DELIMITERS.items() if each == mark), repr(mark))
    width = len(rows[0])
    if width < 2:
        raise TableError(
            f"{path} has one column if split at each {shown}: expected inputs and a label. Its "
            f"first row is {lines[0][:60]!r}; name its delimiter (--delimiter).",
        )
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise TableError(
                f"{path}: row {number} has {len(row)} columns if split at each {shown}, and the "
                f"first row {width}. Is the delimiter another one?",
            )
    if header is None:
        header = _has_header(rows)
    if header and len(rows) == 1:
        raise TableError(f"{path} has a header and no rows below it.")
    return (rows[0], rows[1:]) if header else (None, rows)


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row has a word where a number follows, or is a row of words alone."""
    if len(rows) == 1:
        return all(map(_is_word, rows[0]))
    return any(
        _is_word(first) and not _is_word(below) for first, below in zip(*rows[:2], strict=True)
    )


def _matrix(path: Path) -> np.ndarray:
    from scipy.io import loadmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sparse matrices, which are refused
            content = loadmat(path)
    except Exception as error:  # SciPy has an exception for each kind of broken file
        raise TableError(f"{path} cannot be read as a MATLAB file: {error}") from None
    matrix = content.get("X")
    dense = isinstance(matrix, np.ndarray) and matrix.dtype.kind in "fiu"
    if not dense or matrix.ndim != 2 or min(matrix.shape) < 2:
        raise TableError(
            f"{path} has no matrix X of numbers with inputs and, as its last column, the label.",
        )
    return matrix


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TableError(f"cannot read {path}: {error}.") from None


def _delimiter(line: str, chosen: str | None) -> str | None:
    """Return the delimiter of rows; None means runs of blanks."""
    if chosen is not None:
        mark = DELIMITERS.get(chosen, chosen)
        return None if mark is not None and not mark.strip(" ") else mark
    found = {mark: line.count(mark) for mark in (",", ";", "\t")}
    mark = max(found, key=lambda each: found[each])
    return mark if found[mark] else None


def _is_word(cell: str) -> bool:
    return not _is_missing(cell) and _number(cell) is None


def _is_missing(cell: str) -> bool:
    """Whether a cell is empty, stands for a missing value, or is a number that is not finite."""
    number = _number(cell)
    return cell.lower() in MISSING or (number is not None and not np.isfinite(number))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _column(path: Path, label: str, names: list[str] | None, width: int) -> int:
    if label == LAST:
        return width - 1
    if names is not None and label in names:
        return names.index(label)
    if label.isdigit() and 1 <= int(label) <= width:
        return int(label) - 1
    known = f"its header has {', '.join(names[:LISTED])}" if names else "it has no header"
    raise TableError(
        f"{path} has no column {label!r} for the label: expected {LAST!r}, a number from 1 to "
        f"{width}, or a name, and {known}.",
    )


def _same(one: str, other: str) -> bool:
    """Whether two labels are equal, as text or as numbers."""
    if one == other:
        return True
    return not _is_word(one) and not _is_word(other) and float(one) == float(other)


def _classes(
    path: Path, labels: list[str], chosen: Sequence[str] | None
) -> tuple[tuple[str, str], list[bool]]:
    """Return the values that become 1 and 0, and which rows have one of them."""
    missing = next((i for i, value in enumerate(labels) if _is_missing(value)), None)
    if missing is not None:
        raise TableError(
            f"{path} has no label in row {missing + 1} of the data: remove the row.",
        )
    distinct: list[str] = []
    for value in dict.fromkeys(labels):
        if not any(_same(value, other) for other in distinct):
            distinct.append(value)
    shown = ", ".join(distinct[:LISTED]) + (", ..." if len(distinct) > LISTED else "")
    if chosen is not None:
        one, zero = chosen
        absent = [v for v in (one, zero) if not any(_same(v, other) for other in distinct)]
        if absent or _same(one, zero):
            raise TableError(
                f"{path} needs rows of two classes, {one!r} and {zero!r}, and its labels are "
                f"{shown}.",
            )
        return (one, zero), [_same(v, one) or _same(v, zero) for v in labels]
    if len(distinct) != 2:
        raise TableError(
            f"{path} has labels of {len(distinct)} class{'es' * (len(distinct) != 1)}, {shown}: "
            "expected two. If the labels are in another column, or two classes of several are "
            "wanted, say which (--label, --classes ONE ZERO).",
        )
    if any(map(_is_word, distinct)):
        raise TableError(
            f"{path} has the labels {shown}, which are text: say which is 1 and which 0 "
            "(--classes ONE ZERO).",
        )
    zero, one = sorted(distinct, key=float)
    return (one, zero), [True] * len(labels)


def _numbers(
    path: Path, rows: list[list[str]], label: int, names: list[str] | None, places: list[int]
) -> np.ndarray:
    """Return the inputs; rows have the numbers `places` in the file."""
    inputs = np.empty((len(rows), len(rows[0]) - 1))
    for i, row in enumerate(rows):
        cells = [*row[:label], *row[label + 1 :]]
        try:
            inputs[i] = cells
        except ValueError:
            inputs[i] = np.nan
        if np.isfinite(inputs[i]).all():
            continue
        for j, cell in enumerate(row):
            if j == label or not (_is_missing(cell) or _is_word(cell)):
                continue
            where = f"{path}: row {places[i]}, column {_name(j, names)}"
            if _is_missing(cell):
                raise TableError(
                    f"{where} has no finite number: {cell!r}. Remove the row or fill the value in.",
                )
            cure = "Code words as numbers, or name the delimiter and the column of labels "
            if _number(cell.replace(",", ".", 1)) is not None:
                cure = "Write decimals with a point, or name the delimiter "
            raise TableError(
                f"{where} is text where a number is expected: {cell[:40]!r}. {cure}"
                "(--delimiter, --label).",
            )
    return inputs


def _require_varied(path: Path, inputs: np.ndarray, label: int, names: list[str] | None) -> None:
    constant = np.flatnonzero(np.ptp(inputs, axis=0) == 0)
    if len(constant):
        shown = ", ".join(_name(j + (j >= label), names) for j in constant[:LISTED])
        raise TableError(
            f"{path}: column {shown} has one value in all rows and cannot be standardized: "
            "remove it.",
        )


def _name(column: int, names: list[str] | None) -> str:
    return str(column + 1) if names is None else repr(names[column])
