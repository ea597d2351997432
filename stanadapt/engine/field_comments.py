"""Comments at the fields of a class, read from its source.

The comment of a field stands beside it, in the lines directly above it, or in both places.

A file of its own, since it reads any class, whether or not its fields are settings.
"""

import ast
import functools
import inspect
import io
import textwrap
import tokenize

DIRECTIVES = ("fmt:", "noqa", "type:")


@functools.cache
def field_comments(kind: type) -> dict[str, str]:
    """Return the comment of each field, by name, "" without one; {} if there is no source."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # at a prompt, or in a program without its files
        return {}
    above: dict[int, str] = {}
    beside: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not text.startswith(DIRECTIVES):
            alone = token.line.lstrip().startswith("#")
            (above if alone else beside)[token.start[0]] = text
    (definition,) = ast.parse(source).body
    found = {}
    for field in getattr(definition, "body", ()):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            first = field.lineno
            while first - 1 in above:
                first -= 1
            lines = [above[row] for row in range(first, field.lineno)]
            rows = range(field.lineno, (field.end_lineno or field.lineno) + 1)
            lines += [beside[row] for row in rows if row in beside]
            found[field.target.id] = " ".join(lines)
    return found
