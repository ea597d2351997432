"""Names that changed, accepted for one release with a warning."""

from collections.abc import Mapping
from typing import Any

from stanadapt.errors import StanadaptError, warn


def with_new_names(
    what: str, given: Mapping[str, Any], new_names: Mapping[str, str]
) -> dict[str, Any]:
    """Return what was given, old names replaced; warns of each, at the caller's own line.

    Parameters
    ----------
    what
        Whose names they are, for the warning: "sample", "the sampler kameleon".
    given
        Values by name.
    new_names
        The new name of each old one.

    Raises
    ------
    StanadaptError
        Stage "settings", where both the old and the new name are given.

    """
    found = {name: value for name, value in given.items() if name not in new_names}
    for old in given.keys() & new_names.keys():
        new = new_names[old]
        if new in found:
            raise StanadaptError("settings", f"{what}: {old} is the old name of {new}: give one.")
        warn_of_old_name(f"{what}: {old}", new)
        found[new] = given[old]
    return found


def warn_of_old_name(old: str, new: str) -> None:
    """Warn that an old name was used."""
    warn(f"{old} is now called {new}; the old name will go in the next release.", FutureWarning)
