"""Options made from signatures and docstrings: types, defaults, helps and what is read."""

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from stanadapt.cli.commands import LazyCommand, app, entries
from stanadapt.cli.options import EXCEPTIONS, PLAIN_TARGET, options_of
from stanadapt.cli.signature import TEXTS, Given, Option, command, documented, in_shell
from stanadapt.diagnostics.summary import summary
from stanadapt.runs.sample import sample
from stanadapt.studies.calibration.sbc import sbc
from stanadapt.studies.repeats.compare_repeats import compare_repeats
from stanadapt.targets.target import Target


@pytest.mark.parametrize("name", [n for n, entry in entries().items() if not entry.forwards])
def test_usage_and_help_of_every_command(name):
    """As the help of options and the documentation name them."""
    usage = CliRunner().invoke(app, [name, "--help"]).output.split("[OPTIONS]")[-1].splitlines()[0]
    assert usage == usage.upper()
    for option in LazyCommand(name).load().params:
        assert option.help.strip(), option.name


def draw(
    number: int,
    *,
    length: float | None = None,
    flag: bool = False,
    names: Collection[str] | None = None,
    folder: str | PathLike | None = None,
    limit: int = 3,
    form: Any = (),
    **settings: Any,
) -> None:
    """Draw something.

    Parameters
    ----------
    number, limit : int
        Two numbers,
        with [brackets].

        A second paragraph.
    length : float, optional
        A length.

    Further
    -------
    flag
        Whether.
    names
        Names.
    folder : path, optional
        As for `other`.
    form
        A form.
    """


def other(folder):
    """Do something else.

    Parameters
    ----------
    folder
        Where it is.
    """


def test_entries_of_a_docstring_are_found_in_any_section():
    entries = documented(draw)
    assert entries["number"] == entries["limit"] == "Two numbers, with [brackets]."
    assert entries["flag"] == "Whether."
    assert entries["folder"] == "Where it is."  # as for the other function


def test_texts_belong_to_options_and_those_of_a_command_count_first():
    commands = {entry.place.partition(":")[2]: name for name, entry in entries().items()}
    for function, texts in TEXTS.items():
        if function not in ("flags", "shared", "arguments"):
            options = {option.name for option in LazyCommand(commands[function]).load().params}
            assert set(texts) <= options
    for name, entry in entries().items():
        own = TEXTS.get(entry.place.partition(":")[2], {})
        shown = {option.name: option.help for option in LazyCommand(name).load().params}
        assert {option: shown[option] for option in own} == own
    functions = (sample, compare_repeats, sbc, summary, Target)
    arguments = {name for function in functions for name in options_of(function)}
    assert set(EXCEPTIONS) <= arguments | {"budget"}


@pytest.mark.parametrize(("advice", "here"), [
    ("unsafe=True", "--unsafe"), ("unsafe=False", "--no-unsafe"),
    ("backend='stanli'", "--backend stanli"),
    ("show_progress=False", "show_progress=False"),  # --quiet is its contrary
    ("unknown=True", "unknown=True"), ("backend=True", "--backend"),
])  # fmt: skip
def test_advice_for_python_is_translated_where_an_option_means_the_same(advice, here):
    parameters = {n: option.parameter for n, option in PLAIN_TARGET.items()}
    assert in_shell(parameters, f"Use {advice}.") == f"Use {here}."


@pytest.fixture
def parsed():
    """Parse words as a command does; return what its function was given."""
    found = {}

    @command(plan=options_of(draw, leave_out=["number"], form=Option("", str, list)))
    def run(name: str, *, plan: Given, quiet: bool = False) -> None:
        found.update(plan, name=name, quiet=quiet)

    app = typer.Typer()
    app.command()(run)

    def parse(*words):
        found.clear()
        done = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return dict(found)

    return parse


def test_values_are_converted_and_options_not_given_are_defaults(parsed):
    assert parsed("me") == {
        "name": "me", "quiet": False, "length": None, "flag": False, "names": None,
        "folder": None, "limit": 3, "form": (),
    }  # fmt: skip
    words = "me --length 2 --flag --names a,,b --folder there --limit 5 --form xy --quiet"
    assert parsed(*words.split()) == {
        "name": "me", "quiet": True, "length": 2.0, "flag": True, "names": ["a", "b"],
        "folder": Path("there"), "limit": 5, "form": ["x", "y"],
    }  # fmt: skip
