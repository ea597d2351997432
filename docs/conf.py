"""The documentation site: `make docs` builds it into output/docs/html.

Warnings are errors, and nothing is downloaded. Pages with cells are executed with the embedded
backend, which needs no C++ compiler; their output is reused until the page or the package changes.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the experiments are next to the package

from stanadapt import __name__ as package  # noqa: E402
from stanadapt.engine.compiled.dependencies import PACKAGE_KEY  # noqa: E402
from workflows.reproduction import page  # noqa: E402

# inherited by the kernels that execute pages
os.environ["STANADAPT_BACKEND"] = "stanli"
# pages show warnings about fits, not deprecations among libraries
os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning,ignore::DeprecationWarning"

project, author, copyright = package, "The stanadapt developers", "The stanadapt developers"
extensions = ["myst_nb"]
exclude_patterns = ["_static", "benchmarks/expectations.md"]  # a part of a page
smartquotes_action = "qe"  # two hyphens begin an option, they are not a dash

html_theme = "sphinx_book_theme"
html_title = package
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_theme_options = {
    "navbar_persistent": [],  # the search field is in the sidebar
    # the tables of guides need the width
    "secondary_sidebar_items": {"**": [], "api": ["page-toc"], "samplers": ["page-toc"]},
    "use_download_button": False,
}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
# the output of another version of the package, or of another Python, would be stale
executed_with = f"{PACKAGE_KEY}-{sys.version_info.major}.{sys.version_info.minor}"
nb_execution_cache_path = str(HERE.parent / "output" / "docs" / "executed" / executed_with)
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # a cold cache on a busy machine
nb_merge_streams = True


def setup(app):
    """Draw the figures of the page of reproductions, before pages are read."""
    app.connect("builder-inited", lambda app: page.draw(HERE / page.FIGURES))
