"""Times without garbage collection, in which much is made that stays.

A file of its own, without imports that take time, for the first import of a name of the package.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def not_collected() -> Iterator[None]:
    """Collect no garbage in the body, which makes many objects and keeps most of them.

    To look through these, again and again, takes a sixth of the time of a compilation, and a fourth
    of that of imports.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
