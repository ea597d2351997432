"""Linear algebra by one thread."""

import contextlib
import functools
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let one thread do what is in the body.

    Sums of several may differ in their last bits from run to run. And where the machine is busy,
    threads that wait for each other made a climb with L-BFGS-B, which factors tiny matrices, twenty
    times slower.
    """
    with _blas().limit(limits=1, user_api="blas"):
        yield
