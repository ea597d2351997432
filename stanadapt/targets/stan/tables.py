"""Tables as data of a program: groups become numbers, and sizes are counted."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SHOWN = 5  # rows that a message lists


class TableData(dict):
    """Data by name for a `Target`; `coords` has the labels of groups, as `Target(coords=)` does."""

    def __init__(self, values: Mapping[str, Any], coords: Mapping[str, list]) -> None:
        super().__init__(values)
        self.coords = dict(coords)


def is_table_file(path: Path) -> bool:
    """Whether a file is a table by its name."""
    return path.name.lower().endswith(ENDINGS)


def read_table(path: Path) -> Any:
    """Return a file of comma or tab separated values as a pandas.DataFrame."""
    import pandas as pd

    separator = "\t" if ".tsv" in path.name.lower() else ","
    try:
        return pd.read_csv(path, sep=separator)
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
    columns: Mapping[str, str] | None = None,
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
    columns : mapping of str to str, optional
        Names in the program by column, also for columns of groups. Default: all columns, under
        their own names.
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
        Stage "data" if a column is unknown ("unknown_column") or lacks values ("missing_values").

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
    groups = dict(groups or {})
    names = {str(name): str(name) for name in frame.columns} if columns is None else dict(columns)
    names |= {name: name for name in groups if name not in names}
    data: dict[str, Any] = {} if rows is None else {rows: len(frame)}
    coords: dict[str, list] = {}
    for column, name in names.items():
        if column not in frame.columns:
            raise StanadaptError(
                "unknown_column",
                f"the table has no column {column!r}; its columns are "
                f"{', '.join(map(str, frame.columns))}.",
            )
        series = frame[column]
        _require_values(series)
        if column in groups:
            codes, labels = pd.factorize(series, sort=True)
            data[name], data[groups[column]] = codes + 1, len(labels)
            coords[column] = [label.item() if hasattr(label, "item") else label for label in labels]
        else:
            data[name] = series.to_numpy()
    return TableData({**data, **values}, coords)


def _require_values(series: Any) -> None:
    """Raise StanadaptError if values are missing."""
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
