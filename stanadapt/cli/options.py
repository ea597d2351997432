"""Options that several commands share, and functions that convert their values.

The commands that families of samplers add, too, are made of such options.
"""

import contextlib
import sys
from collections.abc import Callable, Collection
from importlib.util import module_from_spec, spec_from_file_location
from operator import not_
from pathlib import Path
from typing import Annotated, Any

import typer

from stanadapt.cli import signature
from stanadapt.cli.interruption import CODE
from stanadapt.cli.signature import TEXTS, Given, Option, Options, command, read_names
from stanadapt.cli.terminal import require_writable
from stanadapt.engine.commands import FileCommand
from stanadapt.engine.registry import registered
from stanadapt.errors import StanadaptError
from stanadapt.runs.choose_sampler import names_of_settings
from stanadapt.samplers.initial_values import PATHFINDER
from stanadapt.targets.posteriordb import PosteriorDatabase
from stanadapt.targets.stan import bundled
from stanadapt.targets.target import Target


def load_sampler(path: Path | None) -> Path | None:
    """Import a file that registers samplers, under the name of the file."""
    if path is None:
        return None
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}.")
    spec, before = spec_from_file_location(path.stem, path), {*map(id, registered().values())}
    if spec is None or spec.loader is None:
        raise typer.BadParameter(f"{path} is not a Python file: its name must end in .py.")
    module = sys.modules[path.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        text = f"{path} cannot be imported: {type(error).__name__}: {error}"
        raise typer.BadParameter(text) from None
    if {*map(id, registered().values())} <= before:
        raise typer.BadParameter(f"{path} registers no sampler: call stanadapt.register there.")
    return path


SamplerFile = Annotated[
    Path | None,
    typer.Option(
        "--sampler-file", callback=load_sampler, is_eager=True,
        help="A Python file that registers a sampler of your own.",
    ),
]  # fmt: skip
# --- options made from arguments -----------------------------------------------------------------


def read_inits(text: str) -> Any:
    """Return starting values as `sample` takes them: a radius, a method's name or a path."""
    if text == PATHFINDER:
        return text
    try:
        return float(text)
    except ValueError:
        return Path(text)


def read_numbers(text: str) -> list[Any]:
    """Return numbers that are separated by commas; what is none stays text, and is refused."""
    found: list[Any] = read_names(text)
    for i, word in enumerate(found):
        with contextlib.suppress(ValueError):
            found[i] = float(word)
    return found


# what differs on the command line, by argument: types, and help
KINDS = {
    "exclude": Option(kind=str | None, read=read_names),
    "include_paths": Option(kind=list[Path] | None),
    "inits": Option(kind=str | None, read=read_inits),
    "labels": Option(kind=Path | None),
    "noise": Option(kind=list[str] | None),
    "probabilities": Option(kind=str | None, read=read_numbers),
    "sampler": Option(kind=str),
    "save": Option(kind=str | None, read=read_names),
    "show_progress": Option(kind=bool, read=not_),
    "standardize": Option(kind=bool | None),
    "var_names": Option(kind=str | None, read=read_names),
    "warm_start": Option(kind=Path | None),
}
EXCEPTIONS = {
    name: KINDS.get(name, Option())._replace(help=TEXTS["arguments"].get(name, ""))
    for name in {**KINDS, **TEXTS["arguments"]}
}


def options_of(
    function: Any, *take: str, leave_out: Collection[str] = (), **differ: Option
) -> Options:
    """Return options for arguments of a function: see `signature.declare`."""
    return signature.declare(function, take, leave_out, {**EXCEPTIONS, **differ})


PLAIN_TARGET = options_of(Target, "include_paths", "backend", "unsafe", "show_progress")
NOISY_TARGET = options_of(
    Target, "include_paths", "backend", "unsafe", "noise", "rho", "show_progress"
)
WHOLE_TARGET = options_of(Target, "labels", "exclude") | NOISY_TARGET


# --- targets and settings ------------------------------------------------------------------------


def make_target(
    model: str, data: str | None, posteriordb: Path | None = None, **options: Any
) -> Any:
    """Make a target from files if they exist, otherwise from the bundled program of that name.

    If posteriordb is a folder, the model is the name of a posterior in it.
    """
    if posteriordb is not None:
        if data is not None:
            raise StanadaptError(
                "options_conflict",
                "--data cannot be combined with --posteriordb, which has data of its posteriors: "
                "leave out one of the two.",
            )
        return PosteriorDatabase(posteriordb).target(model, **options)
    program: Any = Path(model)
    source: Any = Path(data) if data else None
    if program.is_file() or program.suffix == ".stan" or (source and source.is_file()):
        program = program_path(model)
    else:
        program, source = bundled.find(model, data)
    return Target(program, source, **options)


def program_path(model: str) -> Path:
    """Return the path of a program, the user's or a bundled one."""
    path = Path(model)
    return path if path.is_file() or path.suffix == ".stan" else bundled.require(model).path


def read_settings(pairs: list[str] | None) -> dict[str, Any]:
    """Return the settings in texts of the form NAME=VALUE."""
    for pair in pairs or []:
        if "=" not in pair:
            raise StanadaptError("setting_syntax", f"--set expects NAME=VALUE, got {pair!r}.")
    return dict(pair.split("=", 1) for pair in pairs or [])


def settings_by_sampler(pairs: list[str] | None, samplers: list[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of each sampler: those for all samplers that have them, and its own.

    StanadaptError if a setting names another sampler, or if none of these has it.
    """
    settings: dict[str, dict[str, Any]] = {name: {} for name in samplers}
    listed = ", ".join(samplers)
    for text, value in read_settings(pairs).items():
        owner, _, name = text.rpartition(".")
        if owner and owner not in settings:
            raise StanadaptError(
                "setting_unused",
                f"--set {text}: {owner} is not among the samplers to compare ({listed}).",
            )
        takers = [owner] if owner else [s for s in samplers if name in names_of_settings(s)]
        if not takers:
            raise StanadaptError(
                "setting_unused", f"--set {text}: none of the samplers ({listed}) has this setting."
            )
        for sampler in takers:
            settings[sampler][name] = value
    return settings


# --- commands of families of samplers -------------------------------------------------------------


def as_function(declared: FileCommand) -> Callable[..., None]:
    """Return the function of a command that a family of samplers adds, for typer."""
    warm_start = Option(kind=Path | None)
    plan = options_of(declared.function, *declared.options, warm_start=warm_start)

    @command(plan=plan, target=PLAIN_TARGET)
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
        written = declared.write(make_target(model, data, **target), path, **plan)
        for line in written.lines:
            print(line)
        if written.interrupted:
            raise typer.Exit(CODE)

    return run
