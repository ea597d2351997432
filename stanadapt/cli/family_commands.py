"""Commands that families of samplers add: typer reads the options of each from its signature.

A file of its own, since the other files have one function for each command.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt.cli.options import (
    Backend,
    Data,
    Force,
    Include,
    Inits,
    Model,
    Quiet,
    Seed,
    Unsafe,
    make_target,
    read_inits,
)
from stanadapt.cli.terminal import report_errors, require_writable
from stanadapt.engine.commands import FileCommand


def as_function(command: FileCommand) -> Callable[..., None]:
    """Return the function of a command, for typer."""

    def run(
        *, model: str, data: str | None, out: Path, inits: str | None, seed: int | None,
        include: list[Path] | None, backend: str, unsafe: bool, quiet: bool, force: bool,
        **options: Any,
    ) -> None:  # fmt: skip
        with report_errors():
            (path,) = require_writable([out], force)
            target = make_target(
                model, data, include_paths=include or (), backend=backend, unsafe=unsafe,
                show_progress=not quiet,
            )  # fmt: skip
            written = command.write(
                target, path, inits=read_inits(inits), seed=seed, show_progress=not quiet, **options
            )
            for line in written.lines:
                print(line)
            if written.interrupted:
                raise typer.Exit(130)

    parameters = _parameters(command)
    run.__name__, run.__doc__ = command.name, command.help
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(command: FileCommand) -> list[inspect.Parameter]:
    """Return the arguments of a command in the order of its help."""
    out = Annotated[Path, typer.Option("--out", "-o", help=command.file_help)]
    declared: dict[str, tuple[Any, Any]] = {
        "model": (Model, inspect.Parameter.empty),
        "data": (Data, None),
        "out": (out, Path(command.file)),
        **{
            name: (Annotated[option.kind, typer.Option(help=option.help)], option.default)
            for name, option in command.options.items()
        },
        "inits": (Inits, None),
        "seed": (Seed, None),
        "include": (Include, None),
        "backend": (Backend, "auto"),
        "unsafe": (Unsafe, False),
        "quiet": (Quiet, False),
        "force": (Force, False),
    }
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in declared.items()
    ]
