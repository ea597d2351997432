"""What users may give as `executor`: one of Python's, or a client of Dask."""

from concurrent.futures import Executor
from typing import Any

from stanadapt.errors import StanadaptError


def require_executor(given: Any) -> None:
    """Raise StanadaptError unless it is None, an executor, or a client of Dask."""
    if given is not None and not callable(getattr(given, "submit", None)):
        raise StanadaptError(
            "settings",
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(), or a "
            f"client of Dask; got {given!r}.",
        )


def as_executor(given: Any) -> Executor:
    """Return an executor whose futures are Python's: those of a client of Dask are its own."""
    require_executor(given)
    # "pure": a slice that is sent again is to be computed again
    return given.get_executor(pure=False) if hasattr(given, "get_executor") else given
