"""What `compare --repeats` does."""

import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from stanadapt.cli.options import make_target
from stanadapt.errors import StanadaptError, require_whole
from stanadapt.studies.repeats.compare_repeats import MOST_REPEATS, compare_repeats
from stanadapt.studies.repeats.page import is_repeats_page
from stanadapt.studies.repeats.rows import JSON
from stanadapt.targets.target import Target


def require_repeatable(repeats: int | None, more: list[str] | None, **options: Any) -> None:
    """Raise StanadaptError for too few repeats, and for options that go with or without them."""
    if repeats is None:
        if more:
            raise StanadaptError("settings", "--target is for several targets with --repeats.")
        return
    require_whole("repeats", repeats, 1, MOST_REPEATS)
    for name, value in options.items():
        if value is not None:
            raise StanadaptError(
                "settings",
                f"--{name} is about fits that are kept, and --repeats keeps measures only: leave "
                "out one of the two.",
            )


def goes_on(out: Path | None, report: Path | None) -> bool:
    """Whether a page of repeats is to be written anew, with those that its folder holds."""
    if out is None or report is None or not (out / JSON).is_file():
        return False
    return report.is_file() and is_repeats_page(report)


def all_targets(
    target: Target, model: str, data: str | None, more: list[str] | None, **options: Any
) -> Target | dict[str, Target]:
    """The target, or all of them by name, where more than one is named."""
    if not more:
        return target
    targets = {_name(model, data): target}
    for text in more:
        other_model, _, other_data = text.partition(":")
        name = _name(other_model, other_data)
        if name in targets:
            raise StanadaptError("settings", f"--target {text}: there is a {name} already.")
        targets[name] = make_target(other_model, other_data or None, **options)
    return targets


def _name(model: str, data: str | None) -> str:
    return " ".join(Path(part).stem for part in (model, data) if part)


def show_repeats(
    target: Target | dict[str, Target],
    samplers: dict[str, dict[str, str]],
    *,
    out: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Make the repeats, print their summary, and exit with 130 after Ctrl-C."""
    found = compare_repeats(target, samplers, run=out, **options)
    print(found)
    if out is not None:
        print(f"tables and picture: {out}")
    if report is not None:
        command = shlex.join(["stanadapt", *sys.argv[1:]])
        print(f"Report: {found.report(report, command=command)}")
    if found.interrupted:
        raise typer.Exit(130)
