"""Programs for constructs of the Stan reference manual, by chapter."""

from tests.targets.stan.constructs import (
    distributions,
    functions,
    indexing,
    older_syntax,
    solvers,
    statements,
    types,
)

CHAPTERS = {
    "types and transforms": types.CONSTRUCTS, "indexing": indexing.CONSTRUCTS,
    "statements and blocks": statements.CONSTRUCTS, "functions": functions.CONSTRUCTS,
    "solvers": solvers.CONSTRUCTS, "distributions": distributions.CONSTRUCTS,
    "older syntax": older_syntax.CONSTRUCTS,
}  # fmt: skip
ALL = {construct.name: construct for chapter in CHAPTERS.values() for construct in chapter}
