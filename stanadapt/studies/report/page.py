"""The page: a template, a style sheet, and what goes into them."""

from importlib.resources import files
from typing import Any

from stanadapt.studies.report.palette import HUES

HERE = "stanadapt.studies.report"


def page(template: str = "page.html", **content: Any) -> str:
    """Return the page as HTML; all text in `content` is escaped, but for pictures and styles."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    maker = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return maker.get_template(template).render(style=_text("style.css"), hues=HUES, **content)


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")
