"""The page of reproductions as Markdown, from committed results; and its figures.

`docs/reproduction.md` contains the text, and the build of the documentation draws the figures. No
number of ours is typed: all come from `workflows/results`.
"""

from collections import Counter
from importlib import import_module
from pathlib import Path

from workflows.reproduction import markdown
from workflows.reproduction.agreement import CLASSES
from workflows.reproduction.section import STATUSES, Section

# modules that have a function `section`, in the order of the page
PAPERS = (
    "workflows.gad.section", "workflows.kameleon.section", "workflows.learned.lecture_section",
    "workflows.learned.nice_section", "workflows.tempering.section",
)  # fmt: skip
# where figures are drawn, from the folder of the page
FIGURES = "../output/docs/reproduction"


def sections() -> list[Section]:
    """Return the sections of all papers."""
    return [import_module(name).section() for name in PAPERS]


def text() -> str:
    """Return the page below its introduction."""
    found = sections()
    return "\n\n".join([_summary(found), *(_paper(section) for section in found)])


def draw(folder: Path) -> list[Path]:
    """Draw all figures into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for section in sections():
        for figure in section.figures:
            figure.draw(folder)
            paths.append(folder / figure.name)
    return paths


def _summary(found: list[Section]) -> str:
    rows = []
    for section in found:
        classes = Counter(name for table in section.tables for name in table.classes)
        statuses = Counter(item.status for item in section.items)
        rows.append([
            section.title, *(str(classes[name]) for name in CLASSES),
            *(str(statuses[status]) for status in STATUSES),
        ])  # fmt: skip
    totals = [sum(int(row[i]) for row in rows) for i in range(1, len(rows[0]))]
    rows.append(["all sources", *map(str, totals)])
    header = ["source", *(f"rows: {name}" for name in CLASSES), *(f"items: {s}" for s in STATUSES)]
    hours = sum(run.seconds for section in found for run in section.runs) / 3600
    return "\n\n".join([
        markdown.table(header, rows),
        f"All runs together took {hours:.1f} hours, one after the other on a busy machine.",
    ])  # fmt: skip


def _paper(section: Section) -> str:
    parts = [markdown.heading(section.title), section.introduction]
    for table in section.tables:
        counted = Counter(table.classes)
        shown = ", ".join(f"{counted[name]} {name}" for name in CLASSES if counted[name])
        parts += [
            markdown.heading(table.title, 3),
            *([f"Rows: {shown}."] if shown else []),
            table.text,
        ]
    for figure in section.figures:
        parts += [
            markdown.heading(figure.title, 3),
            markdown.image(f"{FIGURES}/{figure.name}", figure.title),
            figure.caption,
        ]
    return "\n\n".join([*parts, "### Items of the source", _items(section),
                        "### How the results were made", _made(section)])  # fmt: skip


def _items(section: Section) -> str:
    rows = [
        [str(item.number), item.item, item.status, item.where or "–", item.reason or "–"]
        for item in section.items
    ]
    header = ["#", "item", "status", "where", "differences"]
    return markdown.table(header, rows)


def _made(section: Section) -> str:
    rows = []
    for run in section.runs:
        made = run.made
        versions = made["versions"]
        load = made.get("load_average_at_end")
        rows.append([
            f"`{run.name}`", f"`{made['command']}`", f"`{made.get('commit') or 'not recorded'}`",
            f"stanadapt {versions['stanadapt']}, numba {versions['numba']}, NumPy "
            f"{versions['numpy']}, stanli {versions['stanli']}, Python {made['python']}",
            f"{made['machine']}, load {load[1]:.1f}" if load else made["machine"],
            f"{run.seconds / 60:.1f}",
        ])  # fmt: skip
    header = ["results", "command", "commit", "versions", "machine", "minutes"]
    return markdown.table(header, rows)
