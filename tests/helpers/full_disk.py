"""A full disk for this process, without root: no file can grow beyond a limit."""

import contextlib

import pytest


@contextlib.contextmanager
def full_disk(size=0):
    """Let no file grow beyond `size` bytes; an empty one can be created, as on a full disk."""
    resource = pytest.importorskip("resource")  # not on Windows
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
