"""Linear algebra by one thread."""

import contextlib
import functools
import threading
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


_here = threading.local()  # whether the body of this thread is within another one


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Restrict BLAS to one thread while the body runs.

    With several threads, sums may differ in their last bits from run to run. On a busy machine,
    threads that waited for each other also made a climb with L-BFGS-B, which factors tiny matrices,
    twenty times slower.
    """
    if getattr(_here, "limited", False):  # to ask each library takes as long as a small matrix
        yield
        return
    with _blas().limit(limits=1, user_api="blas"):
        _here.limited = True
        try:
            yield
        finally:
            _here.limited = False
