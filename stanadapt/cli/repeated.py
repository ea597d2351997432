"""What `compare --repeats` does."""

from pathlib import Path
from typing import Any

import typer

from stanadapt.errors import StanadaptError, require_whole
from stanadapt.sampling.repeats.compare_repeats import MOST_REPEATS, compare_repeats
from stanadapt.targets.target import Target


def require_repeatable(repeats: int, **options: Any) -> None:
    """Raise StanadaptError for too few repeats, and for options that are about single fits."""
    require_whole("repeats", repeats, 1, MOST_REPEATS)
    for name, value in options.items():
        if value is not None:
            raise StanadaptError(
                "settings",
                f"--{name} is about fits that are kept, and --repeats keeps measures only: leave "
                "out one of the two.",
            )


def show_repeats(
    target: Target, samplers: dict[str, dict[str, str]], *, out: Path | None, **options: Any
) -> None:
    """Make the repeats, print their summary, and exit with 130 after Ctrl-C."""
    found = compare_repeats(target, samplers, out=out, **options)
    found.show()
    if out is not None:
        print(f"tables: {out}")
    if found.interrupted:
        raise typer.Exit(130)
