"""Parameters of long tests: some for each change, the others for later stages."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(often: Collection[Any], parameters: Iterable[Any]) -> list[Any]:
    """Mark all parameters but those `often` tested as slow; tuples are several arguments each.

    Examples
    --------
    >>> [len(one.marks) for one in slow_except({"nuts"}, ["nuts", "hmc"])]
    [0, 1]
    """
    return _mark_except(pytest.mark.slow, often, parameters)


def soak_except(often: Collection[Any], parameters: Iterable[Any]) -> list[Any]:
    """Mark all parameters but those `often` tested as soak, as `slow_except` marks slow ones."""
    return _mark_except(pytest.mark.soak, often, parameters)


def _mark_except(mark: Any, often: Collection[Any], parameters: Iterable[Any]) -> list[Any]:
    parameters = list(parameters)
    missing = [one for one in often if one not in parameters]
    if missing:  # otherwise a new name would quietly leave nothing that is tested at each change
        raise ValueError(f"not among the parameters: {missing}")
    return [
        pytest.param(
            *(one if isinstance(one, tuple) else (one,)), marks=() if one in often else mark
        )
        for one in parameters
    ]
