"""Options of a command from the signature and the docstring of the function that it calls.

Name, type and default are those of the argument, and the help is the first paragraph of its entry
in the docstring. What differs on the command line is an `Option` (`options.KINDS`), or stands in
`options.toml`, as does the help of options that only commands have.
"""

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.models import OptionInfo

from stanadapt.cli.terminal import plain, report_errors

TEXTS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
Given = dict[str, Any]  # arguments of a function, from the options of a command
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \w+)*)(?: : .+)?")
_ARGUMENT = re.compile(r"\b([a-z]\w*)=('[^' ]+'|True|False)")  # in a message
_ELSEWHERE = re.compile(r"As for `(\w+)`")


class Option(NamedTuple):
    """What is to differ from the argument; "" and None: nothing."""

    help: str = ""
    kind: Any = None  # type
    read: Callable[[Any], Any] | None = None  # makes the argument of the value


class Declared(NamedTuple):
    """An option, and the argument that it sets."""

    parameter: inspect.Parameter  # for typer
    read: Callable[[Any], Any] | None
    default: Any  # of the argument, if the option is not given


Options = dict[str, Declared]  # by argument


def documented(function: Any) -> dict[str, str]:
    """Return the first paragraph of each entry of a docstring, by argument.

    An entry is a line without indentation, with an indented text below, in any section. If it
    begins "As for `sample`", the entry of that function is returned, if the module imports it.
    """
    entries: dict[str, str] = {}
    lines = (inspect.getdoc(function) or "").splitlines()
    for number, line in enumerate(lines):
        found = _ENTRY.fullmatch(line)
        text = list(takewhile(lambda below: below.startswith("    "), lines[number + 1 :]))
        if found and text:
            names = found[1].replace("*", "").split(", ")
            entries |= dict.fromkeys(names, " ".join(map(str.strip, text)))
    for name, entry in entries.items():
        elsewhere = _ELSEWHERE.match(entry)
        other = elsewhere and vars(sys.modules[function.__module__]).get(elsewhere[1])
        entries[name] = documented(other).get(name, entry) if other else entry
    return entries


def declare(
    function: Any, take: Collection[str], leave_out: Collection[str], differ: Mapping[str, Option]
) -> Options:
    """Return options for the arguments to take from a function, or for all but those left out."""
    arguments = inspect.signature(function, eval_str=True).parameters
    texts = documented(function)
    named = take or [n for n, a in arguments.items() if a.kind is not a.VAR_KEYWORD]
    return {
        name: _declare(name, arguments[name], texts.get(name, ""), differ.get(name, Option()))
        for name in named
        if name not in leave_out
    }


def _declare(name: str, argument: inspect.Parameter, text: str, option: Option) -> Declared:
    kind, read = _kind(argument.annotation) if option.kind is None else (option.kind, option.read)
    default = None if argument.default is argument.empty else argument.default
    shown = False if kind is bool else default if read is None else None
    ending = " Separated by commas." if read is read_names else ""
    if list in {get_origin(each) for each in get_args(kind)}:
        shown = None
    described = typer.Option(*_flags(name, kind), help=plain(option.help or text + ending))
    parameter = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=Annotated[kind, described]
    )
    return Declared(parameter, read, default)


def _flags(name: str, kind: Any) -> list[str]:
    own = [f"--{name.replace('_', '-')}"] if kind is bool else []  # without --no-NAME
    return TEXTS["flags"].get(name, own)


def _own(command: str, parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter of a command itself with its help: an argument if it precedes the `*`."""
    name, kind = parameter.name, parameter.annotation
    if get_origin(kind) is not Annotated and kind is not typer.Context:
        text = {**TEXTS["shared"], **TEXTS.get(command, {})}.get(name, "")
        if parameter.kind is parameter.KEYWORD_ONLY:
            described = typer.Option(*_flags(name, kind), help=text)
        else:
            described = typer.Argument(help=text, metavar=name.upper())
        parameter = parameter.replace(annotation=Annotated[kind, described])
    return parameter.replace(kind=parameter.KEYWORD_ONLY)


def _kind(annotation: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the type of an option for the type of an argument, and what reads it."""
    kinds = get_args(annotation) or (annotation,)
    if Literal in {get_origin(kind) for kind in (annotation, *kinds)}:
        return (str | None if type(None) in kinds else str), None  # our own message for others
    if PathLike in kinds:
        return Path | None, None
    if Collection in {get_origin(each) for each in kinds}:
        return str | None, read_names
    return annotation, None


def read_names(text: str) -> list[str]:
    """Return names that are separated by commas, or by blanks."""
    return re.sub(r",(?![^\[]*\])", " ", text).split()  # not at the commas of b[1,2]


def command(**parcels: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command, with options in place of some of its parameters.

    A parameter that `parcels` names becomes these options; the function gets their values in a
    dict, as arguments of the function from which they were made. Errors are printed.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters.values()
        parameters = _merged(function.__name__, own, parcels)

        def run(**values: Any) -> None:
            with report_errors(partial(in_shell, parameters)):
                given = {name: _arguments(parcel, values) for name, parcel in parcels.items()}
                rest = {p.name: values[p.name] for p in own if p.name not in parcels}
                function(**given, **rest)

        return _with_parameters(run, parameters, function)

    return decorate


def in_shell(parameters: Mapping[str, inspect.Parameter], text: str) -> str:
    """Return a message with the options of a command in place of arguments of Python."""

    def as_option(found: re.Match) -> str:
        name, value = found[1], found[2]
        kind = parameters[name].annotation if name in parameters else None
        info = (get_args(kind) or [None])[-1]
        if not isinstance(info, OptionInfo):
            return found[0]
        own = f"--{name.replace('_', '-')}"
        flag = info.default if isinstance(info.default, str) else own  # its first flag
        if value.startswith("'"):
            return f"{flag} {value[1:-1]}"
        switched = {"True": flag, "False": flag.replace("--", "--no-")}[value]
        return switched if flag == own else found[0]

    return _ARGUMENT.sub(as_option, text)


def _arguments(options: Options, values: dict[str, Any]) -> Given:
    """Return the values of options as arguments; an option that was not given: the default."""
    given = {}
    for name, option in options.items():
        value = values[name]
        if value is None:
            given[name] = option.default
        else:
            given[name] = option.read(value) if option.read else value
    return given


def _merged(
    command: str, own: Iterable[inspect.Parameter], parcels: dict[str, Options]
) -> dict[str, inspect.Parameter]:
    """Return all parameters of a command by name; two parcels may share an option."""
    merged: dict[str, inspect.Parameter] = {}
    for parameter in own:
        if parameter.name in parcels:
            options = parcels[parameter.name]
            merged = {name: option.parameter for name, option in options.items()} | merged
        else:
            merged[parameter.name] = _own(command, parameter)
    return merged


def _with_parameters(
    run: Callable[..., None], parameters: dict[str, inspect.Parameter], function: Callable
) -> Callable[..., None]:
    """Give a function the signature that typer reads."""
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, __name__
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return run
