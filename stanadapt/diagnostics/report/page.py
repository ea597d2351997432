"""The page: a template, a style sheet, and what goes into them."""

from importlib.resources import files
from typing import Any

HERE = "stanadapt.diagnostics.report"
# by place among the names: light and dark; told apart by the colour blind (after Okabe and Ito)
HUES = [
    ("#0072b2", "#5db4ea"),
    ("#c44e00", "#ff9a57"),
    ("#00795a", "#2fc79c"),
    ("#a04878", "#ea9fc8"),
    ("#8a6d00", "#e8c547"),
    ("#4b4b9b", "#a9a9f5"),
    ("#555555", "#c4c4c4"),
]


def page(**content: Any) -> str:
    """Return the page as HTML; all text in `content` is escaped, but for pictures and styles."""
    from jinja2 import Environment, StrictUndefined

    maker = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = maker.from_string(_text("page.html"))
    return template.render(style=_text("style.css"), hues=HUES, **content)


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")
