"""Figures as SVG that takes its colors from the page: one picture for light, dark and print.

Matplotlib is given colors that stand for others; in the SVG they become variables of the page's
style sheet. Its own settings, whatever the user's are, hold while a report is drawn; pyplot is not
touched.
"""

import contextlib
import io
import re
import threading
import warnings
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

HUES = 7  # colors of the style sheet, --fit-0 and so on
DASHES = ("solid", (0, (4, 2)), (0, (1, 1.5)))  # a second and third round of colors
INK, MUTED = "#fa5780", "#fa5781"
VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)"} | {
    f"#fa57{i:02x}": f"var(--fit-{i})" for i in range(HUES)
}
WIDTH = 7.5  # inches
LONGEST = 28  # characters of a name
GROUPS = (
    "axes", "errorbar", "figure", "font", "grid", "legend", "lines", "markers", "mathtext", "patch",
    "path", "savefig", "svg", "text", "xtick", "ytick",
)  # fmt: skip
OWN = {
    "svg.fonttype": "none",  # words stay words: they can be found, copied and read aloud
    "svg.hashsalt": "stanadapt",  # the same fits give the same bytes
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "text.parse_math": False,  # a name may hold a dollar
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}
ONE_AT_A_TIME = threading.Lock()


class Picture(NamedTuple):
    """An SVG with a heading, and a caption that says what to look for."""

    title: str
    caption: str
    svg: str


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and ours; put back what was set before."""
    import matplotlib

    settings: Any = {
        name: value
        for name, value in matplotlib.rcParamsDefault.items()
        if name.split(".")[0] in GROUPS
    }
    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has its fonts
        with matplotlib.rc_context(settings | OWN):
            yield


def new_figure(height: float) -> Any:
    """Return an empty figure of a page's width; height in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name as a picture has room for it; the table has it in full."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def hue(index: int) -> str:
    """Color of a fit, by its place among the names."""
    return f"#fa57{index % HUES:02x}"


def dash(index: int) -> Any:
    """Return the line style of a fit: tells it from the one that has the same color."""
    return DASHES[index // HUES % len(DASHES)]


def log_labels(axis: Any) -> None:
    """Give a logarithmic axis plain numbers at powers of ten, and between if there are few.

    Matplotlib's own labels are formulas, which `text.parse_math` switches off.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    between = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def iteration_labels(axis: Any) -> None:
    """Give an axis of iterations a few whole numbers, thousands separated as in the table."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def as_svg(figure: Any, name: str, title: str) -> str:
    """Return the figure as an element of a page.

    Parameters
    ----------
    name
        Makes the identifiers of its parts unlike those of other pictures.
    title
        What a screen reader says.

    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # not savefig, which draws everything twice
    FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    body = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.S)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", body)
    body = re.sub(
        r"\b(fill|stroke): ?(#fa57[0-9a-f]{2})", lambda m: f"{m[1]}: {VARIABLES[m[2]]}", body
    )
    box = re.search(r'viewBox="([^"]+)"', body)
    inner = body[body.index(">", body.index("<svg")) + 1 :]
    return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(title)}">{inner}'
