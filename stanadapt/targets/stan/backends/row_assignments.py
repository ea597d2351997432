"""Row assignments to integer arrays, in a form that the embedded backend reads correctly.

stanli 0.24.0 evaluates transformed data before it builds the density. If these, or a function that
they call, assign a row of a two-dimensional array of integers by one index,

    array[2, 3] int z = rep_array(0, 2, 3);
    z[2] = y;

then distributions, sums and other integers still read the values before the assignment, without an
error. `z[2, :] = y`, which means the same in Stan, is read correctly, as are arrays of other ranks
and types.
"""

from collections.abc import Sequence

from stanadapt.targets.stan import syntax
from stanadapt.targets.stan.declarations import typed_names
from stanadapt.targets.stan.syntax import Token, at, closing


def complete_rows(code: str) -> str:
    """Return a program in which such assignments have both indices; lines keep their numbers.

    Examples
    --------
    >>> code = "transformed data { array[2, 2] int z; z[1] = {1, 2}; }"
    >>> complete_rows(code)
    'transformed data { array[2, 2] int z; z[1, :] = {1, 2}; }'
    """
    stripped = syntax.strip(code)
    places: list[int] = []
    for name, span in syntax.spans(stripped).items():
        if name == "transformed data":
            places += _ends_of_indices(syntax.tokens(stripped, *span))
        elif name == "functions":
            # one by one: names may have other types in another
            for body in syntax.definitions(syntax.tokens(stripped, *span)):
                places += _ends_of_indices(body)
    for place in sorted(places, reverse=True):
        code = f"{code[:place]}, :{code[place:]}"
    return code


def _ends_of_indices(part: Sequence[Token]) -> list[int]:
    """Return the places of the closing brackets of single indices that are assigned to."""
    names = {name for name, kind, rank in typed_names(part) if (kind, rank) == ("int", 2)}
    places = []
    for i in range(len(part) - 1):
        if part[i] in names and part[i + 1] == "[":
            last = closing(part, i + 1)
            index = part[i + 2 : last]
            if index and len(syntax.split(index, ",")) == 1 and at(part, last + 1) == "=":
                places.append(part[last].start)
    return places
