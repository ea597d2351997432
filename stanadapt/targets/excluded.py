"""Variables of a program that no draw keeps: they would fill memory and files."""

import re
from collections.abc import Collection, Sequence

from stanadapt.errors import StanadaptError, require_names


def variable_name(column: str) -> str:
    """Name of the variable that a column belongs to: "theta" for "theta.1.2"."""
    return re.split(r"[.:]", column, maxsplit=1)[0]


def excluded(
    given: str | Sequence[str], columns: Sequence[str], parameters: Collection[str]
) -> tuple[str, ...]:
    """Return the names of computed quantities that are to be left out, checked.

    Parameters are kept: warm starts, verdicts and comparisons need them.

    Raises
    ------
    StanadaptError
        Stage "settings", for a name that is none of a computed quantity.

    """
    names = require_names("exclude", given)
    computed = [n for n in dict.fromkeys(map(variable_name, columns)) if n not in parameters]
    for name in names:
        if name not in computed:
            what = "a parameter, and kept" if name in parameters else "not in the program"
            listed = ", ".join(computed) or "none"
            raise StanadaptError(
                "settings",
                f"exclude names {name!r}, which is {what}: it takes computed quantities, here "
                f"{listed}.",
            )
    return tuple(dict.fromkeys(names))
