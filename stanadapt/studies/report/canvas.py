"""Figures as SVG with the colors of the page: one picture for light, dark and print.

Matplotlib draws with the colors of a light page, for which the SVG has variables of the page's
style sheet. A report is drawn with its own style, not with the user's settings; pyplot is not
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

import numpy as np

# colors of fits on light and on dark pages, distinct for the color blind (after Okabe and Ito);
# --fit-0, --fit-1, ... in the style sheet
LIGHT = ("#0072b2", "#c44e00", "#00795a", "#a04878", "#8a6d00", "#4b4b9b", "#555555")
DARK = ("#5db4ea", "#ff9a57", "#2fc79c", "#ea9fc8", "#e8c547", "#a9a9f5", "#c4c4c4")
HUES = tuple(zip(LIGHT, DARK, strict=True))
DASHES = ("solid", (0, (4, 2)), (0, (1, 1.5)))  # for a second and third round of colors
INK, MUTED = "#1c2128", "#8a929c"
VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)"} | {
    color: f"var(--fit-{i})" for i, color in enumerate(LIGHT)
}
WIDTH = 6.0  # inches: on a phone, text is then just large enough
LONGEST = 28  # characters of a name in a picture
FAINTEST = 0.4  # opacity of the last chain
# groups of matplotlib's settings that a report resets
GROUPS = (
    "axes", "errorbar", "figure", "font", "grid", "legend", "lines", "markers", "mathtext", "patch",
    "path", "savefig", "svg", "text", "xtick", "ytick",
)  # fmt: skip
STYLE = {
    "svg.fonttype": "none",  # text can be found, copied and read aloud
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
    """An SVG with a heading and a caption."""

    title: str
    caption: str
    svg: str


def opacities(chains: int) -> np.ndarray:
    """Return the opacity of the line of each chain."""
    return np.linspace(1.0, FAINTEST, chains)


@contextlib.contextmanager
def report_style() -> Iterator[None]:
    """Draw with matplotlib's defaults and ours; restore the earlier settings afterwards."""
    import matplotlib

    settings: Any = {
        name: value
        for name, value in matplotlib.rcParamsDefault.items()
        if name.split(".")[0] in GROUPS
    }
    with ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has its fonts
        with matplotlib.rc_context(settings | STYLE):
            yield


def new_figure(height: float) -> Any:
    """Return an empty figure of a page's width; height in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def shorten(name: str, longest: int = LONGEST) -> str:
    """Return a name cut to a length; the table has it in full."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def hue(index: int) -> str:
    """Return the color of a fit, by its place among the names."""
    return LIGHT[index % len(LIGHT)]


def dash(index: int) -> Any:
    """Return the line style of a fit, which distinguishes fits of the same color."""
    return DASHES[index // len(LIGHT) % len(DASHES)]


def label_log_axis(axis: Any) -> None:
    """Give a logarithmic axis plain numbers at powers of ten, and between them if there are few.

    Matplotlib's default labels are formulas, which `text.parse_math` switches off.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = 20 * low > high, 100 * low > high
    between = (1.0, 2.0, 5.0) if few[0] else (1.0, 3.0) if few[1] else (1.0,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def label_iterations(axis: Any) -> None:
    """Give an axis of iterations a few whole numbers, with thousands separated."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def as_svg(figure: Any, name: str, title: str) -> str:
    """Return the figure as an element of a page; the title is read aloud by screen readers.

    The name is a prefix that makes the identifiers of its parts unique on the page.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # not savefig, which draws everything twice
    FigureCanvasSVG(figure).print_svg(buffer, metadata=no_metadata)
    body = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.S)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", body)
    body = re.sub(
        r"\b(fill|stroke): ?(#[0-9a-f]{6})", lambda m: f"{m[1]}: {VARIABLES.get(m[2], m[2])}", body
    )
    box = re.search(r'viewBox="([^"]+)"', body)
    inner = body[body.index(">", body.index("<svg")) + 1 :]
    return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(title)}">{inner}'


def picture(figure: Any, name: str, title: str, caption: str, description: str) -> Picture:
    """Return a figure as a picture of a page, with a description for screen readers."""
    return Picture(title, caption, as_svg(figure, name, description))
