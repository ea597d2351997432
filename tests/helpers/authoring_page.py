"""The sampler that the page for authors shows, as a file."""

import re
import textwrap

from stanadapt.engine import authoring

_FOUND = re.search(r"\n    '''Barker.*?(?=\n`sa\.check_sampler)", authoring.__doc__, re.S)
SAMPLER_OF_THE_PAGE = textwrap.dedent(_FOUND.group()).replace("'''", '"""')
