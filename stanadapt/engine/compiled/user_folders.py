"""The user's home, if there is one, and what stands in for it while a library is imported."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def home() -> Path | None:
    """Return the user's home; None for a user without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return None


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Give environment variables other values for a while."""
    saved = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def stand_in_home() -> Iterator[None]:
    """Let libraries be imported that look for a home, and raise where there is none.

    The stand-in is no folder, so that nothing can be written to it.
    """
    with environment(**({} if home() else {"HOME": os.devnull})):
        yield
