"""The samplers that the page for authors shows, as files."""

import re
import textwrap

from stanadapt.engine import authoring


def _file(first_words):
    """Return the indented block of the page that begins with these words."""
    found = re.search(rf"\n    '''{first_words}.*?(?=\n\n\S)", authoring.__doc__, re.DOTALL)
    return textwrap.dedent(found.group()).replace("'''", '"""') + "\n"


def changed(*pairs):
    """Return the longer file with each of these texts, which it has once, replaced by another."""
    source = SAMPLER_OF_THE_PAGE
    for old, new in pairs:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


SMALLEST_SAMPLER = _file("Random-walk Metropolis with unit steps")
SAMPLER_OF_THE_PAGE = _file("Barker")
