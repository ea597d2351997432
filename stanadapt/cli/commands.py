"""The command `stanadapt`: each of its commands is imported when it is called.

The help that lists them imports none: that would take seconds.
"""

import re
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from stanadapt.engine.compiled.garbage import not_collected

HERE = Path(__file__).resolve().parent
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class Entry(NamedTuple):
    """A command in the list: `commands.toml`, and `command.toml` of families of samplers."""

    place: str  # module and name
    help: str  # a paragraph for the list, and perhaps more for its own help
    forwards: bool = False  # whether options that it does not know are handed on


@cache
def entries() -> dict[str, Entry]:
    """Return all commands by name: ours, and those of the families of samplers."""
    files = [HERE / "commands.toml", *sorted((HERE.parent / "samplers").glob("*/command.toml"))]
    declared = [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
    return {
        name: Entry(**{**fields, "help": fields["help"].replace("[", r"\[")})
        for each in declared
        for name, fields in each.items()
    }


class LazyCommand(TyperCommand):
    """A command that is imported when it is called; until then it has a name and a help."""

    def load(self) -> Any:
        """Import the command."""
        entry = entries()[str(self.name)]
        module, _, name = entry.place.partition(":")
        with not_collected():
            run = getattr(import_module(module), name)
        if not callable(run):
            from stanadapt.cli.options import as_function

            run = as_function(run)
        context: dict[str, Any] = dict(HELP_OPTIONS)
        if entry.forwards:
            context |= {"allow_extra_args": True, "ignore_unknown_options": True}
        alone = typer.Typer(add_completion=False)
        alone.command(
            name=self.name, help=entry.help, context_settings=context,
            add_help_option=not entry.forwards,
        )(run)  # fmt: skip
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the command itself; translate words of other packages."""
        try:
            return self.load().make_context(*arguments, **options)
        except Exception as error:
            _add_hint(error)
            raise


def _add_hint(error: Any) -> None:
    """Add a hint to an error of the command line; its classes are inner ones of typer."""
    from stanadapt.errors.other_words import in_our_words

    word = getattr(error, "option_name", None)
    extra = re.search(r"unexpected extra argument.*\((.*)\)", str(getattr(error, "message", "")))
    if word and (hint := in_our_words(word, shell=True)):
        error.message, error.possibilities = f"{error.message.rstrip('.')}.{hint}", []
    elif extra and getattr(getattr(error, "ctx", None), "info_name", None) == "compare":
        error.message += (
            " `compare` draws from one program; `stanadapt table` and `summary` compare saved fits."
            " Names are separated by commas (--sampler auto,nuts), and data follow --data."
        )
    elif extra:
        error.message += (
            " Names are separated by commas (--sampler auto,nuts), and data follow --data."
        )


class LazyGroup(TyperGroup):
    """The commands; only the one that is called is imported."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {name: LazyCommand(name, help=e.help) for name, e in entries().items()}


app = typer.Typer(
    name="stanadapt",
    cls=LazyGroup,
    help="Adaptive MCMC for Stan programs, side by side with Stan's NUTS, read in ArviZ.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)


def print_version(wanted: bool) -> None:
    """Print the version of the package and exit, if the option was given."""
    if wanted:
        print(f"stanadapt {version_of('stanadapt')}")
        raise typer.Exit


@app.callback()
def stanadapt(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Define the options of `stanadapt` itself."""
