"""Tables as data of a program: groups become numbers, and sizes are counted."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError, require_names

# tables that pandas reads, and how
BINARY = {".xlsx": "excel", ".xls": "excel", ".dta": "stata", ".sav": "spss", ".parquet": "parquet"}
ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SHOWN = 5  # rows that a message lists


class TableData(dict):
    """Data by name for a `Target`; `coords` has the labels of groups, as `Target(coords=)` does."""

    def __init__(self, values: Mapping[str, Any], coords: Mapping[str, list]) -> None:
        super().__init__(values)
        self.coords = dict(coords)


def is_table_file(path: Path) -> bool:
    return path.name.lower().endswith((*ENDINGS, *BINARY))


def read_table(path: Path) -> Any:
    """Return a file of comma or tab separated values as a pandas.DataFrame."""
    import pandas as pd

    if kind := BINARY.get(path.suffix.lower()):
        raise StanadaptError(
            "file_unreadable",
            f"Of tables, only CSV files are read, not {path}. Save it as one, or give the frame "
            f"that pandas.read_{kind} returns.",
        )
    separator = "\t" if ".tsv" in path.name.lower() else ","
    try:
        header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0]
        if len(header) == 1 and any(mark in str(header[0]) for mark in ",;\t"):
            raise ValueError(
                f"its header is {header[0]!r}, in one column; if the separator is another one, "
                "give the frame that pandas.read_csv(path, sep=...) returns"
            )
        # pandas takes a first row that is longer than the header for one that begins with a label
        pd.read_csv(path, sep=separator, header=None, nrows=2, dtype=str)
        frame = pd.read_csv(path, sep=separator, skipinitialspace=True)
        return frame.rename(columns=str.strip)
    except FileNotFoundError:
        raise StanadaptError(
            "file_missing", f"There is no data file at {path.absolute()}. Check the path."
        ) from None
    except (OSError, ValueError) as error:  # pandas' errors of parsing and of no columns are these
        raise StanadaptError(
            "file_unreadable", f"The table {path} cannot be read: {error}. Check its first lines."
        ) from None


def stan_data(
    frame: Any,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    *,
    rows: str | None = "N",
    groups: Mapping[str, str] | None = None,
    **values: Any,
) -> TableData:
    """Make data of a program from a table.

    Parameters
    ----------
    frame : pandas.DataFrame or path
        The table, or a file of comma separated values.
    columns : mapping of str to str or list of str, optional
        Names in the program by column, also for columns of groups; of a list, their own names.
        Default: all columns.
    rows : str, optional
        Name in the program of the number of rows; None to leave it out.
    groups : mapping of str to str, optional
        Columns whose values are groups, each with the name in the program of the number of groups.
        Values become 1, 2, ... in the order of the sorted labels.
    **values
        Further data, by name in the program.

    Returns
    -------
    TableData
        A dict of arrays. Its attribute `coords` has the labels of each column of groups.

    Raises
    ------
    StanadaptError
        Stage "data" if a column is unknown ("unknown_column") or lacks values ("missing_values"),
        or if a name is given twice ("data_repeated").

    Examples
    --------
    >>> import pandas as pd
    >>> import stanadapt as sa
    >>> frame = pd.DataFrame({"score": [1.0, 2.5, 0.5], "school": ["B", "A", "B"]})
    >>> data = sa.stan_data(frame, {"score": "y", "school": "g"}, groups={"school": "J"})
    >>> data["N"], data["J"], data["g"].tolist()
    (3, 2, [2, 1, 2])
    >>> data.coords
    {'school': ['A', 'B']}
    """
    import pandas as pd

    if isinstance(frame, str | PathLike):
        frame = read_table(Path(frame))
    if not isinstance(frame, pd.DataFrame):
        raise StanadaptError(
            "data_wrong_type",
            f"stan_data expects a pandas.DataFrame or the path of a table, got "
            f"{type(frame).__name__}.",
        )
    groups = _mapping("groups", groups or {})
    names = _mapping("columns", map(str, frame.columns) if columns is None else columns)
    names |= {name: name for name in groups if name not in names}
    data: dict[str, Any] = {}
    coords: dict[str, list] = {}

    def add(name: str, value: Any) -> None:
        if name in data:
            raise StanadaptError(
                "data_repeated",
                f"stan_data gives {name!r} twice, counting columns, rows={rows!r}, the sizes in "
                "groups, and further values. Give one of the two another name.",
            )
        data[name] = value

    if rows is not None:
        add(rows, len(frame))
    for column, name in names.items():
        if column not in frame.columns:
            raise StanadaptError(
                "unknown_column",
                f"the table has no column {column!r}; its columns are "
                f"{', '.join(map(str, frame.columns))}.",
            )
        series = frame[column]
        if series.ndim > 1:
            raise StanadaptError(
                "data_repeated", f"the table has two columns {column!r}. Rename or drop one."
            )
        _require_values(series)
        if column in groups:
            codes, labels = pd.factorize(series, sort=True)
            add(name, codes + 1)
            add(groups[column], len(labels))
            coords[column] = [label.item() if hasattr(label, "item") else label for label in labels]
        else:
            add(name, series.to_numpy())
    for name, value in values.items():
        add(name, value)
    return TableData(data, coords)


def _mapping(argument: str, given: Any) -> dict[str, str]:
    """Return names in the program by column; of a list of columns, their own names."""
    if isinstance(given, Mapping):
        return dict(given)
    if argument == "groups":
        raise StanadaptError(
            "data_wrong_type",
            "groups must be a mapping of columns to names of the numbers of groups, such as "
            f'{{"school": "J"}}, got {given!r}.',
        )
    return {name: name for name in require_names(argument, given)}


def _require_values(series: Any) -> None:
    missing = np.flatnonzero(series.isna().to_numpy())
    if not missing.size:
        return
    listed = ", ".join(str(row + 1) for row in missing[:SHOWN])
    more = ", ..." if missing.size > SHOWN else ""
    raise StanadaptError(
        "missing_values",
        f"the column {series.name} lacks {missing.size} of {len(series)} values (rows {listed}"
        f"{more}). Stan has no missing values: leave these rows out, "
        f"frame.dropna(subset=[{series.name!r}]), or declare the missing values as parameters.",
    )
