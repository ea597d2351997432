"""Commands that families of samplers add to `stanadapt`: each makes a file from a target.

A family registers one in a file without compiled code, and without the packages of the command
line, which adds the options that all such commands have: the program and its data, initial values,
the seed, and whether to overwrite the file.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a command: its type, its default and its help."""

    kind: Any
    default: Any
    help: str


class Written(NamedTuple):
    """What a command prints after it has written its file, and whether Ctrl-C ended it early."""

    lines: list[str]
    interrupted: bool = False


class FileCommand(NamedTuple):
    """A command that makes a file from a target.

    name, help
        Its name, and the text of its help.
    write
        (target, path, inits=, seed=, show_progress=, **options) -> `Written`.
    file, file_help
        Default name of the file; what is in it.
    options
        Further options by their names in Python.

    """

    name: str
    help: str
    write: Callable[..., Written]
    file: str
    file_help: str
    options: dict[str, Option]


# commands by their names
COMMANDS: dict[str, FileCommand] = {}


def register_command(command: FileCommand) -> None:
    """Add a command to `stanadapt`."""
    COMMANDS[command.name] = command
