"""Where the repository stands, for tests that read or copy it."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "stanadapt"


@functools.cache
def parsed(path):
    """Return all nodes of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text())))
