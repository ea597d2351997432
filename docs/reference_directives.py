"""Sphinx directives that insert generated text: the reference, and the page of reproductions."""

import sys
from collections.abc import Callable
from pathlib import Path

import reference_text
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# the experiments are next to the package, which may be installed elsewhere
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflows.reproduction import page

TEXTS: dict[str, Callable[[], str]] = {
    "public-names": reference_text.public_names,
    "sampler-reference": reference_text.samplers,
    "message-reference": reference_text.messages,
    "authors-page": reference_text.authors_page,
    "table-of-constructs": reference_text.constructs,
    "reproduction": page.text,
}
# where the page of reproductions looks for its figures, from the folder of the pages
FIGURES = Path("..", "output", "docs", "reproduction")


class FromThePackage(SphinxDirective):
    """Parse a text as reStructuredText with headings."""

    def run(self) -> list:
        """Return the nodes of the text."""
        if self.name == "reproduction":
            for path in page.sources():
                self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(TEXTS[self.name](), allow_section_headings=True)


def _draw_figures(app: Sphinx) -> None:
    """Draw the figures of the page of reproductions, before pages are read."""
    page.draw(Path(app.srcdir) / FIGURES)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    for name in TEXTS:
        app.add_directive(name, FromThePackage)
    app.connect("builder-inited", _draw_figures)
    return {"parallel_read_safe": True}
