"""Faults and gaps of stanli 0.24.0: how each is recognized and dealt with.

The backend is fast and mostly exact, but silently returns wrong densities for some ordinary
programs. It is therefore used only with these guards:

1. Passes of its optimizer that are wrong for nested loops and invariant stores are off at every
   construction (`SWITCHES`). The version is pinned, and a self-test verifies, once per installed
   version, that the switches still work.
2. Row assignments to tables of integers are rewritten (`complete_rows`); if a name has two types,
   the program is refused ("rows").
3. Branches that may depend on parameters (`branches`, and regions in stanli's report) are refused.
4. A wrong gradient, found by finite differences at several random points, is refused.
5. Data are checked before (`data.py`).

A construct that it cannot run shows in its message ("construct", "elements"); a crash, or a binding
that takes too long, in another process (`trial.py`).
"""

import re
from collections.abc import Sequence
from typing import Any

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import syntax
from stanadapt.targets.stan.backends.index_errors import index_error
from stanadapt.targets.stan.backends.refusals import elsewhere, reason_of_stanli
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.declarations import typed_names
from stanadapt.targets.stan.program import Program

VERSION = "0.24.0"
# passes that are off at every construction
SWITCHES = ("STANLI_NO_REROLL", "STANLI_NO_PARTITION", "STANLI_NO_INTERPRETER")
UNSAFE = "rewrite the program, or pass unsafe=True if you have checked the density yourself."

# code and message by construct
REFUSALS = {
    "construct": (
        "unsupported_construct",
        "the embedded backend cannot run {name}, which uses an unsupported construct. {elsewhere}, "
        "or rewrite the program without it.",
    ),
    "elements": (
        "unsupported_construct",
        "the embedded backend may not be able to run a loop of {name} over the elements of an "
        "array: write `for (i in 1:size(x))` instead of `for (element in x)` in its transformed "
        "data and functions. {elsewhere}.",
    ),
    "rows": (
        "unsupported_construct",
        "the embedded backend may misread {name}, which assigns rows of an array of integers in "
        "its transformed data and has another variable of that name: rename one of them. "
        "{elsewhere}.",
    ),
    "crash": (
        "unsupported_construct",
        "the embedded backend crashes while it binds {name} (exit code {exit_code}). {elsewhere}.",
    ),
    "limit": (
        "binding_limit",
        "{name} {exceeded} in the embedded backend, which unrolls its loops (about {iterations:,} "
        "iterations). {elsewhere}. Otherwise replace loops with vectorized statements. The "
        "environment variable {allows}.",
    ),
    "branches": (
        "parameter_branches",
        "the embedded backend is not trusted with {name}: its control flow may depend on "
        "parameters, and stanli {version} is silently wrong for some such programs.\n"
        "{lines}\n{elsewhere}, or {unsafe}",
    ),
    "gradient": (
        "gradient_mismatch",
        "the gradient of {name} is not the derivative of its density in the embedded backend "
        "(relative difference {error:.1e}). {elsewhere}, or {unsafe}",
    ),
}


def refusal(which: str, program: Program, stan: str = "", **facts: Any) -> StanadaptError:
    """Return the error for a program with such a construct."""
    code, message = REFUSALS[which]
    where = elsewhere(program)
    text = message.format(
        name=program.name, elsewhere=where, unsafe=UNSAFE, version=VERSION, **facts
    )
    return StanadaptError(code, text, stan)


# parts of messages about a construct; one that begins with "mir:" is about a form of statement
_UNSUPPORTED = ("unsupported", "stanli compile", "runtime-control region")
_LACKING = re.compile(r"unsupported function (\w+)|\b(\w+_rng)\b")
_FOREACH = re.compile(r"\bfor\s*\(\s*\w+\s+in\s[^:;{}]*\)")


def refusal_of_binding(program: Program, text: str, data: CheckedData) -> StanadaptError:
    """Return the error for a message of stanli."""
    reason = reason_of_stanli(text)
    # of arrays of arrays or vectors, stanli visits as many elements as these have numbers
    at_binding = (syntax.block(program.code, name) for name in ("functions", "transformed data"))
    if "out of bounds for size" in text and any(map(_FOREACH.search, at_binding)):
        return refusal("elements", program, reason)
    if (wrong := index_error(program, data, reason)) is not None:
        return wrong
    if text.startswith("mir:") or any(part in text for part in _UNSUPPORTED):
        return refusal("construct", program, reason)
    message = f"{program.name} does not accept these data."
    return StanadaptError("data_rejected", message, reason)


def lacking(reason: str) -> str:
    """Return the function that is missing according to a message of stanli; "" if none is."""
    found = _LACKING.search(reason)
    return (found[1] or found[2]) if found else ""


def complete_rows(source: str) -> str:
    """Return a program in which row assignments have both indices; lines keep their numbers.

    stanli evaluates transformed data before it builds the density. If these, or a function that
    they call, assign a row of a two-dimensional array of integers by one index,

        array[2, 3] int z = rep_array(0, 2, 3);
        z[2] = y;

    then distributions, sums and other integers still read the values before the assignment, without
    an error. `z[2, :] = y`, which means the same in Stan, is read correctly, as are arrays of other
    ranks and types.

    Examples
    --------
    >>> code = "transformed data { array[2, 2] int z; z[1] = {1, 2}; }"
    >>> complete_rows(code)
    'transformed data { array[2, 2] int z; z[1, :] = {1, 2}; }'
    """
    stripped = syntax.strip(source)
    places: list[int] = []
    for name, span in syntax.spans(stripped).items():
        if name == "transformed data":
            places += _ends_of_indices(syntax.tokens(stripped, *span))
        elif name == "functions":
            # one by one: names may have other types in another
            for body in syntax.definitions(syntax.tokens(stripped, *span)):
                places += _ends_of_indices(body)
    for place in sorted(places, reverse=True):
        source = f"{source[:place]}, :{source[place:]}"
    return source


def _ends_of_indices(part: Sequence[syntax.Token]) -> list[int]:
    """Return the places of the closing brackets of single indices that are assigned to."""
    names = {name for name, kind, rank in typed_names(part) if (kind, rank) == ("int", 2)}
    places = []
    for i in range(len(part) - 1):
        if part[i] in names and part[i + 1] == "[":
            last = syntax.closing(part, i + 1)
            index = part[i + 2 : last]
            if index and len(syntax.split(index, ",")) == 1 and syntax.at(part, last + 1) == "=":
                places.append(part[last].start)
    return places
