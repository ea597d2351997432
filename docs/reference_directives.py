"""Sphinx directives that insert the text of `reference_text` into a page."""

from collections.abc import Callable

import reference_text
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TEXTS: dict[str, Callable[[], str]] = {
    "public-names": reference_text.public_names,
    "sampler-reference": reference_text.samplers,
    "message-reference": reference_text.messages,
    "authors-page": reference_text.authors_page,
    "table-of-constructs": reference_text.constructs,
}


class FromThePackage(SphinxDirective):
    """Parse a text as reStructuredText with headings."""

    def run(self) -> list:
        """Return the nodes of the text."""
        return self.parse_text_to_nodes(TEXTS[self.name](), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    for name in TEXTS:
        app.add_directive(name, FromThePackage)
    return {"parallel_read_safe": True}
