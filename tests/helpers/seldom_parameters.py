"""Parameters of long tests: some for each change, the others for `make soak`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def soak_except(often: Collection[Any], parameters: Iterable[Any]) -> list[Any]:
    """Mark all parameters but those `often` tested as soak; tuples are several arguments each.

    Examples
    --------
    >>> [len(one.marks) for one in soak_except({"nuts"}, ["nuts", "hmc"])]
    [0, 1]

    """
    parameters = list(parameters)
    missing = set(often) - set(parameters)
    if missing:  # otherwise a new name would quietly leave nothing that is tested at each change
        raise ValueError(f"not among the parameters: {missing}")
    return [
        pytest.param(
            *(one if isinstance(one, tuple) else (one,)),
            marks=() if one in often else pytest.mark.soak,
        )
        for one in parameters
    ]
