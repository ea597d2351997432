"""Write the parts of pages that are generated: the reference, and the page of reproductions.

    python docs/reference_text.py

`tests/package/test_docs.py` checks that the pages are up to date.
"""

import csv
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import stanadapt as sa
from stanadapt.engine import authoring
from stanadapt.engine.registry import shown_preset
from stanadapt.engine.settings import as_chosen, declared
from stanadapt.errors import NOTE, STAGES, VERDICT, all_codes
from stanadapt.errors.other_words import PACKAGES, option
from stanadapt.errors.other_words import table as words
from stanadapt.runs.choose_sampler import ABOUT_AUTO
from stanadapt.samplers import registered

HERE = Path(__file__).resolve().parent
# the experiments are next to the package, which may be installed elsewhere
sys.path.insert(0, str(HERE.parent))

from workflows.reproduction import page  # noqa: E402
from workflows.reproduction.markdown import heading, table  # noqa: E402

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
    "stanadapt.targets.stan.bundled": ["find"],
    "stanadapt.runs.progress": ["RunProgress"],
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
CONSTRUCTS = HERE / "constructs.csv"
RELEASES = ("2.27", "2.35")
WIDTH = 80  # of a call on one line
LISTED = ("Parameters", "Other Parameters", "Returns", "Raises", "Attributes", "Yields")
SOME, MANY = 10, 100  # numbers of parameters at which a default that depends on them is shown


def words_of_others() -> str:
    """Return the table of docs/coming_from.md: arguments of other packages, and ours."""
    titles = ["", *PACKAGES.values(), "stanadapt", "in a shell"]
    lines = [f"| {' | '.join(titles)} |".replace("|  |", "| |"), "|---" * len(titles) + "|"]
    for row in words():
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
            title = ROOMS.get(room, room)
            parts += [heading(title), *(_described("stanadapt", n) for n in names)]
    parts.append(heading("Names imported from their modules"))
    parts += [_described(module, name) for module, names in BY_MODULE.items() for name in names]
    parts.append(heading("Modules"))
    parts += [_module(name) for name in modules]
    return "\n\n".join(parts)


def _described(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    try:
        given = inspect.signature(value).parameters.values()
    except ValueError:  # a class of exceptions that Python makes
        given = []
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given]
    arguments = ",\n    ".join(_with_stars(bare))
    call = f"{module}.{name}({arguments})"
    if len(call) <= WIDTH:
        call = call.replace("\n    ", " ")
    elif bare:
        call = f"{module}.{name}(\n    {arguments},\n)"
    docstring = inspect.getdoc(value) or ""
    return f"{heading(name, 3)}\n\n```python\n{call}\n```\n\n{as_markdown(docstring)}"


def _with_stars(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the parameters as they are written, with a star before those that are named."""
    shown = [re.sub(r"<(\S+ )*?(\w+)( object| at).*>", r"\2", str(each)) for each in parameters]
    kinds = [each.kind for each in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return shown


def _module(name: str) -> str:
    module = getattr(sa, name)
    lines = [f"`stanadapt.{name}`: {(inspect.getdoc(module) or '').splitlines()[0]}", ""]
    for function in module.__all__:
        about = (inspect.getdoc(getattr(module, function)) or "").splitlines()[0]
        lines.append(f"- `{function}`: {about}")
    return "\n".join(lines)


def samplers() -> str:
    """Return every registered sampler with its purpose, sources and settings."""
    return "\n\n".join([f"`auto`: {ABOUT_AUTO}", *map(_sampler, registered().values())])


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
    presets = "; ".join(f"`{title}` ({shown_preset(sampler, title)})" for title in sampler.presets)
    if presets:
        facts.append(f"Presets: {presets}.")
    names = ", ".join(f"`{a}` for `{setting}`" for a, setting in sampler.setting_aliases.items())
    if names:
        facts.append(f"Accepted aliases of settings: {names}.")
    return "\n\n".join(
        [
            heading(sampler.name),
            as_markdown(sampler.documentation, "text"),
            "\n".join(f"- {fact}" for fact in facts),
            _settings_table(sampler),
        ]
    )


def _settings_table(sampler) -> str:
    defaults = as_chosen(sampler.settings())
    if not defaults:
        return "It has no settings."
    rows = []
    for name, setting in declared(sampler.settings).items():
        default = f"`{defaults[name]}`{_when_standardized(sampler, name)}"
        rows.append([f"`{name}`", default, setting.values, escaped(setting.text)])
    return table(["setting", "default", "values", "meaning"], rows)


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
            rows = [[f"`{code}`", escaped(code.meaning), escaped(code.cure)] for code in codes]
            parts += [heading(title), table(["code", "meaning", "cure"], rows)]
    return "\n\n".join(parts)


def constructs() -> str:
    """Return a table for each chapter of Stan's language: which backend takes which construct."""
    with CONSTRUCTS.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    parts = []
    titles = ["construct", "releases of Stan", "embedded", *(f"Stan {name}" for name in RELEASES)]
    for chapter in dict.fromkeys(row["chapter"] for row in rows):
        cells = [
            [escaped(row["construct"]), _releases(row["since"], row["until"]),
             *map(_cell, _answers(row))]
            for row in rows if row["chapter"] == chapter
        ]  # fmt: skip
        parts += [heading(chapter.capitalize(), 3), table(titles, cells)]
    return "\n\n".join(parts)


def _answers(row: dict[str, str]) -> list[str]:
    return [row["embedded"], *(row[release] for release in RELEASES)]


def _cell(answer: str) -> str:
    return answer if answer == "yes" else f"`{answer}`"


def _releases(since: str, until: str) -> str:
    return " ".join([f"since {since}"] * bool(since) + [f"up to {until}"] * bool(until))


def authors_page() -> str:
    """Return the page of `stanadapt.engine.authoring`: a complete sampler, and all names."""
    lines = ["| name | meaning |", "|---|---|"]
    for name in authoring.__all__:
        value = getattr(authoring, name)
        if not hasattr(value, "__metadata__"):  # ranges are in the text
            about = (inspect.getdoc(getattr(value, "py_func", value)) or "").split("\n\n")[0]
            lines.append(f"| `{name}` | {' '.join(about.split())} |")
    page = as_markdown(inspect.getdoc(authoring) or "")
    return "\n".join([page, "", "All names of the module:", "", *lines])


def as_markdown(docstring: str, language: str = "python") -> str:
    """Return a docstring as Markdown: headings in bold, entries as items, indented text as code."""
    parts, listed = [], False
    for block in re.split(r"\n(?=\S.*\n-{3,}(?:\n|$))", docstring):
        lines = block.splitlines()
        if len(lines) > 1 and re.fullmatch("-{3,}", lines[1]):
            listed = lines[0] in LISTED
            parts.append(f"**{lines[0]}**")
            lines = lines[2:]
        text = "\n".join(lines).strip("\n")
        if listed:
            parts.append(_items(text))
        elif text.startswith(">>>"):
            parts.append(f"```python\n{text}\n```")
        elif text:
            parts.append(_with_code(text, language))
    return "\n\n".join(parts)


def _items(text: str) -> str:
    """Return entries of a section, each with indented text below, as items of a list."""
    shown = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            shown.append(f"- **{escaped(name)}**{f' ({escaped(kind)})' if kind else ''}<br>")
        else:
            shown.append(f"  {escaped(line[4:])}".rstrip())
    return "\n".join(shown)


def _with_code(text: str, language: str) -> str:
    """Return text with its indented parts as blocks of code."""
    block = r"\n\n((?: {4}.*\n|\n)* {4}.*)(?=\n\n|\Z)"
    parts = re.split(block, text)  # text, block, text, ...
    for i, part in enumerate(parts):
        own = textwrap.dedent(part)
        code = f"\n\n{own}" if own.startswith("- ") else f"\n\n```{language}\n{own}\n```"
        parts[i] = code if i % 2 else escaped(part)
    return "".join(parts)


def escaped(text: str) -> str:
    """Return text of the package without what would be markup, apart from code in backticks."""
    parts = re.split(r"(`+[^`]*`+)", text)
    parts[::2] = [re.sub(r"([*<>])|(?<!\w)_|_(?!\w)", r"\\\g<0>", each) for each in parts[::2]]
    return "".join(parts)


# --- the pages -----------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {
    "api": public_names,
    "samplers": samplers,
    "messages": messages,
    "writing_a_sampler": authors_page,
    "densities": constructs,
    "reproduction": page.text,
}
BEGIN = "<!-- generated by `python docs/reference_text.py`; do not edit -->\n"
END = "\n<!-- end of the generated text -->"


def rendered(name: str) -> str:
    """Return a page with its generated part as it should be."""
    text = (HERE / f"{name}.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{PAGES[name]()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    for name in PAGES:
        (HERE / f"{name}.md").write_text(rendered(name), encoding="utf-8")
