"""The reference as reStructuredText, generated from the package: new names appear by themselves.

This file does not need Sphinx, so that tests can read the text of the pages.
"""

import csv
import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from types import ModuleType

import stanadapt as sa
from stanadapt.engine import authoring
from stanadapt.engine.registry import shown_preset
from stanadapt.engine.settings import as_chosen, declared
from stanadapt.errors import NOTE, STAGES, VERDICT, all_codes
from stanadapt.errors.other_words import PACKAGES, option, table
from stanadapt.runs.choose_sampler import ABOUT_AUTO
from stanadapt.samplers import registered

# rooms of the package in the order of a user's work
ROOMS = {
    "targets": "Programs and data",
    "runs": "Sampling",
    "diagnostics": "Diagnostics and comparison",
    "studies": "Studies of several runs",
    "results": "Files and labels",
    "engine": "Checks of samplers",
    "errors": "Errors and warnings",
}
# names for particular uses, imported from their modules
BY_MODULE = {
    "stanadapt.samplers.tempering": ["Extended", "ReferenceDistribution", "weighted_summary"],
    "stanadapt.runs.reference": ["fit_reference"],
    "stanadapt.samplers.langevin": ["Minibatches"],
    "stanadapt.samplers.nice": ["Network", "train_nice"],
    "stanadapt.targets.posteriordb": ["posteriordb"],
    "stanadapt.results.labels": ["Labels"],
}
# headings of the page of messages, by the kind of a code
KINDS = {
    **{stage: f"Errors in {stage}" for stage in STAGES},
    VERDICT: "Reasons of a verdict",
    NOTE: "Notes and warnings",
}
STANDARDIZE = {
    "full": "standardized by location, scales and correlations that a pre-run learns",
    "diagonal": "standardized by location and scales that a pre-run learns",
    "no": "unconstrained parameters of the program; the sampler learns scales itself",
}
# written by `python -m tests.targets.stan.constructs.table`
CONSTRUCTS = Path(__file__).with_name("constructs.csv")
RELEASES = ("2.27", "2.35")
SOME, MANY = 10, 100  # numbers of parameters at which a default that depends on them is shown


def words_of_others() -> str:
    """Return the table of docs/coming_from.md: arguments of other packages, and ours."""
    titles = ["", *PACKAGES.values(), "stanadapt", "in a shell"]
    lines = [f"| {' | '.join(titles)} |".replace("|  |", "| |"), "|---" * len(titles) + "|"]
    for row in table():
        if "about" not in row:
            continue
        theirs = [f"`{row[key]}`" if key in row else "" for key in PACKAGES]
        of = f" of `sa.{row['of']}`" if "of" in row else ""
        note = f": {row['note']}" if "note" in row else ""
        shell = f"--set {row['here']}=" if row.get("setting") else option(row)
        cells = [row["about"], *theirs, f"`{row['here']}`{of}{note}", f"`{shell}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return re.sub(r"\| +(?=\|)", "| ", "\n".join(lines))


def public_names() -> str:
    """Return every public name of the package, by its room."""
    rooms: dict[str, list[str]] = {room: [] for room in ROOMS}
    modules = []
    for name in sa.__all__:
        value = getattr(sa, name)
        if isinstance(value, ModuleType):
            modules.append(name)
        else:
            rooms.setdefault(value.__module__.split(".")[1], []).append(name)
    parts = []
    for room, names in rooms.items():
        if names:
            parts += [_heading(ROOMS.get(room, room)), *(_described("stanadapt", n) for n in names)]
    parts.append(_heading("Names imported from their modules"))
    parts += [_described(module, name) for module, names in BY_MODULE.items() for name in names]
    parts.append(_heading("Modules"))
    parts += [_module(name) for name in modules]
    return "\n\n".join(parts)


def _heading(title: str, line: str = "-") -> str:
    return f"{title}\n{line * len(title)}"


def _described(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    if not inspect.isclass(value):
        return f".. autofunction:: {module}.{name}"
    kind = "autoexception" if issubclass(value, Exception) else "autoclass"
    return f".. {kind}:: {module}.{name}"


def _module(name: str) -> str:
    summary = (inspect.getdoc(getattr(sa, name)) or "").split("\n\n")[0]
    return f".. py:module:: stanadapt.{name}\n\n`stanadapt.{name}`: {summary}"


def samplers() -> str:
    """Return every registered sampler with its purpose, sources and settings."""
    return "\n\n".join([f"``auto``: {ABOUT_AUTO}", *map(_sampler, registered().values())])


def _sampler(sampler) -> str:
    forever = sampler.settings._field_defaults.get("adapts_forever")
    adapts = "as `adapts_forever` sets" if forever is not None else "during warm-up only"
    gradient = sampler.uses_gradient
    needs = "depends on settings" if callable(gradient) else "needed" if gradient else "not needed"
    facts = [
        f"Default iterations: {sampler.iter_warmup:,} of warm-up, "
        f"{sampler.iter_sampling:,} of sampling.",
        f"Gradient: {needs}.",
        f"Coordinates: {STANDARDIZE[_coordinates(sampler)]}.",
        f"Adapts: {'always' if sampler.adapts_forever else adapts}.",
    ]
    if sampler.exact is not True:
        when = "depends on settings" if callable(sampler.exact) else "no, `compare` shows its bias"
        facts.append(f"Exact: {when}.")
    presets = "; ".join(
        f"``{title}`` ({shown_preset(sampler, title)})" for title in sampler.presets
    )
    if presets:
        facts.append(f"Presets: {presets}.")
    names = ", ".join(
        f"``{a}`` for ``{setting}``" for a, setting in sampler.setting_aliases.items()
    )
    if names:
        facts.append(f"Accepted aliases of settings: {names}.")
    return "\n\n".join(
        [
            _heading(sampler.name),
            with_blocks(sampler.documentation, "text"),
            "\n".join(f"- {fact}" for fact in facts),
            _settings_table(sampler),
        ]
    )


def _settings_table(sampler) -> str:
    defaults = as_chosen(sampler.settings())
    if not defaults:
        return "It has no settings."
    rows = ["* - setting\n  - default\n  - values\n  - meaning"]
    for name, setting in declared(sampler.settings).items():
        default = f"``{defaults[name]}``{_when_standardized(sampler, name)}"
        text = without_substitutions(setting.text)
        rows.append(f"* - ``{name}``\n  - {default}\n  - {setting.values}\n  - {text}")
    return _table(rows, (20, 16, 16, 48))


def _table(rows: list[str], widths: tuple[int, ...]) -> str:
    """Return a table with a header; rows are items of a list."""
    table = textwrap.indent("\n".join(rows), "   ")
    shares = " ".join(map(str, widths))
    return f".. list-table::\n   :header-rows: 1\n   :widths: {shares}\n\n{table}"


def _coordinates(sampler) -> str:
    """Return the coordinates in which a sampler runs with its default settings."""
    kind = sampler.standardize
    return kind(sampler.settings()) if callable(kind) else kind


def _when_standardized(sampler, name: str) -> str:
    if name not in sampler.when_standardized:
        return ""
    some, many = (f"{sampler.when_standardized[name](dim):.3g}" for dim in (SOME, MANY))
    values = some if some == many else f"{some} of {SOME} parameters, {many} of {MANY}"
    return f"; in standardized coordinates {values}"


def messages() -> str:
    """Return every message code with its meaning and cure, by kind."""
    parts = []
    for kind, title in KINDS.items():
        codes = [code for code in all_codes().values() if code.kind == kind]
        if codes:
            rows = ["* - code\n  - meaning\n  - cure"]
            for code in codes:
                meaning, cure = (without_substitutions(text) for text in (code.meaning, code.cure))
                rows.append(f"* - ``{code}``\n  - {meaning}\n  - {cure}")
            parts += [f".. rubric:: {title}", _table(rows, (24, 38, 38))]
    return "\n\n".join(parts)


def constructs() -> str:
    """Return a table for each chapter of Stan's language: which backend takes which construct."""
    with CONSTRUCTS.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    parts = []
    for chapter in dict.fromkeys(row["chapter"] for row in rows):
        shown = ["* - construct\n  - releases of Stan\n  - embedded\n"
                 "  - Stan 2.27\n  - Stan 2.35"]  # fmt: skip
        for row in rows:
            if row["chapter"] == chapter:
                releases = _releases(row["since"], row["until"])
                name = re.sub(r"([`*_|<>\\])", r"\\\1", row["construct"])
                cells = [name, releases, *map(_cell, _answers(row))]
                shown.append("* - " + "\n  - ".join(cells))
        parts += [f".. rubric:: {chapter.capitalize()}", _table(shown, (36, 16, 18, 15, 15))]
    return "\n\n".join(parts)


def _answers(row: dict[str, str]) -> list[str]:
    return [row["embedded"], *(row[release] for release in RELEASES)]


def _cell(answer: str) -> str:
    return answer if answer == "yes" else f"``{answer}``"


def _releases(since: str, until: str) -> str:
    return " ".join([f"since {since}"] * bool(since) + [f"up to {until}"] * bool(until))


def authors_page() -> str:
    """Return the page of `stanadapt.engine.authoring`: a complete sampler."""
    return with_blocks(inspect.getdoc(authoring) or "", "python")


def with_blocks(docstring: str, language: str) -> str:
    """Return the docstring of a module with headings as rubrics, and indented text as code."""
    text = re.sub(r"^(\w.*)\n-{3,}$", r".. rubric:: \1\n", docstring, flags=re.M)
    block = r"\n\n((?: {4}.*\n|\n)* {4}.*)(?=\n\n|\Z)"
    parts = re.split(block, text)  # text, block, text, ...
    for i, part in enumerate(parts):
        code = f"\n\n.. code-block:: {language}\n\n{part}"
        parts[i] = code if i % 2 else without_substitutions(part)
    return "".join(parts)


def without_substitutions(text: str) -> str:
    """Escape vertical bars: an absolute value is not a substitution."""
    return text.replace("|", "\\|")
