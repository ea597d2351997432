"""What several workflows share of the terminal: whole numbers as options, and a bar of jobs."""

import argparse

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def positive(text: str) -> int:
    """Read an option that is a whole number, at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def bar() -> Progress:
    """Make a bar on standard error that counts jobs and is gone at the end."""
    return Progress(
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
