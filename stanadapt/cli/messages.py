"""What a command prints on standard error: errors and warnings in a line each, no tracebacks."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import typer
from rich.console import Console

from stanadapt.cli import interruption
from stanadapt.errors import ConvergenceWarning, StanadaptError


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Print errors and warnings on standard error; exit with 1, or with 130 after Ctrl-C."""
    console = Console(stderr=True, soft_wrap=True)
    interruption.written.clear()
    interruption.runs.clear()

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        console.print(f"[yellow]note:[/yellow] {plain(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # stands below the table
        warnings.filterwarnings("default", ".* is now called ", FutureWarning)
        warnings.showwarning = show
        try:
            yield
        except StanadaptError as error:
            console.print(f"[red]error in {plain(str(error))}[/red]", highlight=False)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            console.print(interruption.sentence(), highlight=False, markup=False)
            raise typer.Exit(interruption.CODE) from None


def plain(text: str) -> str:
    return text.replace("[", r"\[")
