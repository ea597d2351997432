"""Commands around a fit: lists and explanations, and installation."""

import inspect
import json
import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from stanadapt.cli.options import SamplerFile, read_settings
from stanadapt.cli.signature import command
from stanadapt.cli.terminal import plain
from stanadapt.diagnostics.printed_tables import show_columns
from stanadapt.engine.checks import check_sampler as check
from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.engine.console import status
from stanadapt.engine.registry import ABOUT_PRESETS, find, registered, shown_preset
from stanadapt.engine.settings import as_chosen, declared
from stanadapt.errors import NOTE, STAGES, VERDICT, StanadaptError, all_codes, did_you_mean
from stanadapt.runs.choose_sampler import ABOUT_AUTO, AUTO
from stanadapt.studies.compile_ahead import compile_ahead
from stanadapt.targets.doctor import lines as doctor_lines
from stanadapt.targets.posteriordb import PosteriorDatabase, list_posteriors
from stanadapt.targets.stan import bundled
from stanadapt.targets.stan.backends import cmdstan
from stanadapt.targets.stan.install_cmdstan import install_cmdstan as install

TEXT_WIDTH = 92


@command()
def samplers(
    name: str | None = None,
    *,
    sampler_file: SamplerFile = None,
    as_json: bool = False,
) -> None:
    console = Console(soft_wrap=True)
    if as_json:
        wanted = registered().values() if name is None else [find(name)[0]]
        print(json.dumps({sampler.name: _as_plain(sampler) for sampler in wanted}, indent=2))
        return
    if name is None:
        console.print(f"[bold]{AUTO}[/bold]  {ABOUT_AUTO}", highlight=False)
        for sampler in registered().values():
            _show_sampler(console, sampler)
        console.print("`stanadapt samplers NAME` explains its settings and cites its sources.")
        return
    sampler, settings = find(name)
    defaults = as_chosen(settings)
    _show_sampler(console, sampler)
    console.print(f"\n{plain(sampler.documentation)}\n", highlight=False)
    about = inspect.getdoc(sampler.settings) or ""
    made = about.startswith(f"{sampler.settings.__name__}(")  # by NamedTuple, without a docstring
    console.print("Settings of the sampler." if made else plain(about), highlight=False)
    for setting in declared(sampler.settings).values():
        line = f" = {defaults[setting.name]}, {setting.values}"
        console.print(f"\n[bold]{setting.name}[/bold]{plain(line)}", highlight=False)
        text = textwrap.fill(setting.text, TEXT_WIDTH, break_on_hyphens=False)
        console.print(plain(textwrap.indent(text, "    ")), highlight=False)
    if sampler.presets:
        console.print(f"\n{plain(ABOUT_PRESETS)}", highlight=False)
    for title in sampler.presets:
        console.print(f"\n[bold]{title}[/bold]", highlight=False)
        console.print(f"    {plain(shown_preset(sampler, title))}", highlight=False)


def _as_plain(sampler: Any) -> dict[str, Any]:
    """Return the entries of a sampler in the list, as plain values."""
    chosen = as_chosen(sampler.settings())
    return {
        "about": " ".join(sampler.documentation.split("\n\n")[0].split()),
        "exact": find(sampler.name)[0].exact,
        "iter_warmup": sampler.iter_warmup, "iter_sampling": sampler.iter_sampling,
        "settings": {k: v if isinstance(v, int | float) else str(v) for k, v in chosen.items()},
    }  # fmt: skip


@command()
def check_sampler(
    name: str,
    *,
    sampler_file: SamplerFile = None,
    settings: list[str] | None = None,
) -> None:
    report = check(name, **read_settings(settings))
    print(report)
    if not report.passed:
        raise typer.Exit(1)


def _show_sampler(console: Console, sampler: Any) -> None:
    settings = as_chosen(sampler.settings())
    defaults = ", ".join(f"{k}={v}" for k, v in settings.items())
    summary = " ".join(sampler.documentation.split("\n\n")[0].split())
    sampler, _ = find(sampler.name)  # `exact` holds under the default settings
    mark = "" if sampler.exact else "  (not exact)"
    console.print(f"[bold]{sampler.name}[/bold]{mark}  {plain(summary)}", highlight=False)
    lengths = f"iter_warmup={sampler.iter_warmup}, iter_sampling={sampler.iter_sampling}"
    console.print(f"    {defaults}; {lengths}", highlight=False)


@command()
def explain(
    code: str | None = None,
) -> None:
    console, codes = Console(soft_wrap=True), all_codes()
    if code is None:
        for kind in (*STAGES, VERDICT, NOTE):
            alike = [each for each in codes.values() if each.kind == kind]
            if alike:
                console.print(f"[bold]{kind}[/bold]", highlight=False)
            for each in alike:
                console.print(f"    {each}: {plain(each.meaning)}", highlight=False)
        console.print("`stanadapt explain CODE` prints the cure, if the message does not.")
        return
    name = code.strip("[]").lower()
    if name not in codes:
        raise StanadaptError(
            "unknown_code",
            f"no message has the code {name!r}.{did_you_mean(name, codes)} "
            "`stanadapt explain` lists all codes.",
        )
    one = codes[name]
    console.print(f"[bold]{one}[/bold]", highlight=False)
    for title, text in (("kind", one.kind), ("meaning", one.meaning), ("cure", one.cure)):
        if text:
            console.print(f"    {title}: {plain(text)}", highlight=False)


@command()
def models(
    *,
    posteriordb: Path | None = None,
    as_json: bool = False,
) -> None:
    if posteriordb is not None:
        titles = ("posterior", "components", "reference")
        rows = list_posteriors(PosteriorDatabase(posteriordb))
        if as_json:
            print(json.dumps([dict(zip(titles, row, strict=True)) for row in rows], indent=2))
            return
        names = [row[0] for row in rows]
        shown = {titles[i]: [row[i] for row in rows] for i in (1, 2)}
        show_columns("posterior", names, shown, {}, Console(), justify="left")
        return
    if as_json:
        found = bundled.available().values()
        print(json.dumps({p.name: {"data": [*p.data], "about": p.description} for p in found}))
        return
    console = Console()
    for program in bundled.available().values():
        data = f"; data: {', '.join(program.data)}" if program.data else ""
        console.print(f"[bold]{program.name}[/bold]{data}", highlight=False)
        # below the name: next to it, 80 columns leave room for three words per line
        console.print(Padding(plain(program.description), (0, 0, 0, 4)), highlight=False)


@command()
def doctor() -> None:
    for line in doctor_lines():
        Console(soft_wrap=True).print(plain(line), highlight=False)


@command()
def compile_samplers(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SAMPLER", help="Samplers to compile; if omitted, all."),
    ] = None,
    *,
    quiet: bool = False,
) -> None:
    table = Table(box=None, header_style="bold")
    table.add_column("sampler")
    for column in ("functions", "seconds"):
        table.add_column(column, justify="right")
    table.add_column("")
    try:
        for done in compile_ahead(names or (), show_progress=not quiet):
            state = "compiled" if done.functions else "was in the cache"
            table.add_row(done.sampler, str(done.functions), f"{done.seconds:.1f}", state)
    finally:
        if table.row_count:
            Console().print(table)
            print(f"in {cache_root()}")


@command()
def install_cmdstan(
    *,
    directory: Path | None = None,
) -> None:
    installed = install(directory=directory)
    print(f"CmdStan: {installed}")
    if directory is not None:
        os.environ["CMDSTAN"] = str(installed)  # for the parts that are compiled next
    with status(True) as report:
        cmdstan.prepare(report)
