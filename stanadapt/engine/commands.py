"""A command that a family of samplers adds to `stanadapt`: it makes a file from a target.

The family's folder has a file `command.toml` with the command's name, place and help, since the
command line lists commands without importing samplers. It adds the options that all such commands
have: the program and its data, the backend, and whether to overwrite the file.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Written(NamedTuple):
    """What a command prints after it has written its file."""

    lines: list[str]
    interrupted: bool = False  # whether Ctrl-C ended it early


class FileCommand(NamedTuple):
    """A command that makes a file from a target."""

    write: Callable[..., Written]  # (target, path, **arguments)
    function: Callable[..., Any]  # its signature and docstring declare the options
    options: tuple[str, ...]  # its arguments that are options
    file: str  # default name of the file
    about_file: str  # help of --out
