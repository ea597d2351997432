"""The reference as reStructuredText, made from the package: a new name appears without a new page.

Needs no Sphinx, so that tests can read what the pages are made of.
"""

import inspect
import re
import textwrap
from enum import IntEnum
from types import ModuleType

import stanadapt as sa
from stanadapt.engine import authoring
from stanadapt.engine.registry import as_chosen
from stanadapt.runs.choose_sampler import ABOUT_AUTO
from stanadapt.samplers import registered

# rooms of the package in the order of a user's work
ROOMS = {
    "targets": "Programs and data",
    "sampling": "Sampling",
    "diagnostics": "What to make of fits",
    "results": "Files",
    "kernels": "Reference distributions",
    "errors": "Errors and warnings",
}
STANDARDIZE = {
    "full": "standardized by location, scales and correlations that a pre-run learns",
    "diagonal": "standardized by location and scales that a pre-run learns",
    "no": "the program's own: it learns scales itself",
}
SOME, MANY = 10, 100  # numbers of parameters at which a default that depends on them is shown


def public_names() -> str:
    """Every public name of the package, by the room that it comes from."""
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
            parts += [_heading(ROOMS.get(room, room)), *(_described(name) for name in names)]
    parts.append(_heading("Modules"))
    parts += [_module(name) for name in modules]
    return "\n\n".join(parts)


def _heading(title: str, line: str = "-") -> str:
    return f"{title}\n{line * len(title)}"


def _described(name: str) -> str:
    value = getattr(sa, name)
    if value.__name__ != name:
        return f".. py:data:: stanadapt.{name}\n\n   Another name of `stanadapt.{value.__name__}`."
    if not inspect.isclass(value):
        return f".. autofunction:: stanadapt.{name}"
    kind = "autoexception" if issubclass(value, Exception) else "autoclass"
    return f".. {kind}:: stanadapt.{name}"


def _module(name: str) -> str:
    summary = (inspect.getdoc(getattr(sa, name)) or "").split("\n\n")[0]
    return f".. py:module:: stanadapt.{name}\n\n`stanadapt.{name}`: {summary}"


def samplers() -> str:
    """Every registered sampler: what it is for, its sources, its settings."""
    return "\n\n".join([f"``auto``: {ABOUT_AUTO}", *map(_sampler, registered().values())])


def _sampler(sampler) -> str:
    forever = sampler.settings._field_defaults.get("adapts_forever")
    adapts = "as `adapts_forever` says" if forever is not None else "during warm-up only"
    gradient = sampler.uses_gradient
    needs = "as settings say" if callable(gradient) else "needed" if gradient else "not needed"
    facts = [
        f"Iterations unless told otherwise: {sampler.iter_warmup:,} of warm-up, "
        f"{sampler.iter_sampling:,} of sampling.",
        f"Gradient: {needs}.",
        f"Coordinates: {STANDARDIZE[_coordinates(sampler)]}.",
        f"Adapts: {'always' if sampler.adapts_forever else adapts}.",
    ]
    if sampler.exact is not True:
        when = "as settings say" if callable(sampler.exact) else "no, `compare` shows its bias"
        facts.append(f"Exact: {when}.")
    names = ", ".join(f"``{a}`` for ``{own}``" for a, own in sampler.setting_aliases.items())
    if names:
        facts.append(f"Other names of settings that are accepted: {names}.")
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
    meanings = explained_settings(inspect.getdoc(sampler.settings) or "")
    rows = ["* - setting\n  - default\n  - meaning"]
    for name, default in defaults.items():
        kind = sampler.setting_types[name]
        text = meanings.get(name, "")
        if issubclass(kind, IntEnum):
            text += f" One of {', '.join(f'``{member}``' for member in kind.__members__)}."
        text = without_substitutions(text + _when_standardized(sampler, name))
        rows.append(f"* - ``{name}``\n  - ``{default}``\n  - {text.strip()}")
    table = textwrap.indent("\n".join(rows), "   ")
    return f".. list-table::\n   :header-rows: 1\n   :widths: 24 14 62\n\n{table}"


def _coordinates(sampler) -> str:
    """In which coordinates a sampler runs with its default settings."""
    kind = sampler.standardize
    return kind(sampler.settings()) if callable(kind) else kind


def _when_standardized(sampler, name: str) -> str:
    if name not in sampler.when_standardized:
        return ""
    some, many = (f"{sampler.when_standardized[name](dim):.3g}" for dim in (SOME, MANY))
    values = some if some == many else f"{some} of {SOME} parameters, {many} of {MANY}"
    return f" Default in standardized coordinates: {values}."


def explained_settings(docstring: str) -> dict[str, str]:
    """What a docstring says of each setting: names in a line, or before a colon, then the text."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in docstring.splitlines():
        head = re.fullmatch(r"(\w+(?:, \w+)*)(?:: (.*))?", line)
        if head:
            names = head[1].split(", ")
            found |= dict.fromkeys(names, head[2] or "")
        elif line.startswith(" "):
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found


def authors_page() -> str:
    """The page of `stanadapt.engine.authoring`: a sampler, whole."""
    return with_blocks(inspect.getdoc(authoring) or "", "python")


def with_blocks(docstring: str, language: str) -> str:
    """Docstring of a module with its headings as rubrics, and what is indented as code."""
    text = re.sub(r"^(\w.*)\n-{3,}$", r".. rubric:: \1\n", docstring, flags=re.M)
    block = r"\n\n((?: {4}.*\n|\n)* {4}.*)(?=\n\n|\Z)"
    parts = re.split(block, text)  # text, block, text, ...
    for i, part in enumerate(parts):
        code = f"\n\n.. code-block:: {language}\n\n{part}"
        parts[i] = code if i % 2 else without_substitutions(part)
    return "".join(parts)


def without_substitutions(text: str) -> str:
    """Text with its vertical bars as they are: an absolute value is no substitution."""
    return text.replace("|", "\\|")
