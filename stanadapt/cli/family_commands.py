"""Commands that families of samplers add: each makes a file from a target.

A file of its own, since the list of commands imports no options.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from stanadapt.cli import options
from stanadapt.cli.interruption import CODE
from stanadapt.cli.signature import Given, Option, command
from stanadapt.cli.terminal import require_writable
from stanadapt.engine.commands import FileCommand


def as_function(declared: FileCommand) -> Callable[..., None]:
    """Return the function of a command, for typer."""
    plan = options.options_of(
        declared.function, *declared.options, warm_start=Option(kind=Path | None)
    )

    @command(plan=plan, target=options.PLAIN_TARGET)
    def run(
        model: str,
        *,
        data: str | None = None,
        out: Annotated[Path, typer.Option("--out", "-o", help=declared.about_file)] = Path(
            declared.file
        ),
        plan: Given,
        target: Given,
        force: bool = False,
    ) -> None:
        (path,) = require_writable([out], force)
        written = declared.write(options.make_target(model, data, **target), path, **plan)
        for line in written.lines:
            print(line)
        if written.interrupted:
            raise typer.Exit(CODE)

    return run
