"""Another number of cores than this process may use."""

import os


def use_cores(monkeypatch, number):
    """Let the system tell this process that it may use so many cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(number)), raising=False)
