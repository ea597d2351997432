"""Declarations of a Stan program's data block, and the values of their sizes and bounds."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.targets.stan import expressions
from stanadapt.targets.stan.expressions import NotSupported
from stanadapt.targets.stan.syntax import NAME, Token, at, closing, split, tokens

# The number of sizes that belong to a type itself. For all other types (tuples, complex numbers,
# types of later releases) only the names are read, and Stan checks the rest.
_VECTORS = ["vector", "row_vector", "simplex", "unit_vector", "sum_to_zero_vector"]
_ORDERED = ["ordered", "positive_ordered"]
_SQUARE = ["cov_matrix", "corr_matrix", "cholesky_factor_corr", "cholesky_factor_cov"]
_MATRICES = ["matrix", "sum_to_zero_matrix", "row_stochastic_matrix", "column_stochastic_matrix"]
_RANKS = dict.fromkeys(["int", "real"], 0) | dict.fromkeys(_VECTORS + _ORDERED, 1)
_RANKS |= dict.fromkeys(_MATRICES + _SQUARE, 2)
TYPES = frozenset(_RANKS)
_ARGUMENT = TYPES | {"array", "data", "tuple"}  # by which an argument of a function begins


class Expression(NamedTuple):
    """A size or a bound: its source, and its tree (None if it could not be parsed)."""

    source: str
    tree: tuple | None


class Declaration(NamedTuple):
    """One variable of the data block.

    `array_sizes` are the sizes of the array, `sizes` those of its elements' type as written (one
    for `cov_matrix[K]`). `checked` is False if only the name is variables: tuples, complex numbers.
    """

    name: str
    base: str
    array_sizes: tuple[Expression, ...]
    sizes: tuple[Expression, ...]
    lower: Expression | None
    upper: Expression | None
    checked: bool

    @property
    def is_int(self) -> bool:
        """Whether its elements are integers."""
        return self.base == "int"

    @property
    def dims(self) -> tuple[Expression, ...]:
        """Expression of each dimension, the array's first; square types count twice."""
        square = self.base in _SQUARE and len(self.sizes) == 1
        return self.array_sizes + self.sizes * (2 if square else 1)

    def to_stan(self, sizes: tuple[int | None, ...] = ()) -> str:
        """Return the declaration in Stan's current syntax, with known sizes filled in.

        `sizes` has one entry per dimension, None for an unknown size; () fills in nothing.
        """
        filled = zip(self.dims, sizes or (None,) * len(self.dims), strict=True)
        dims = [dim.source if size is None else str(size) for dim, size in filled]
        rank = len(self.array_sizes)
        array = f"array[{', '.join(dims[:rank])}] " if rank else ""
        bounds = (("lower", self.lower), ("upper", self.upper))
        limits = ", ".join(f"{word}={bound.source}" for word, bound in bounds if bound)
        inner = ", ".join(dims[rank : rank + len(self.sizes)])
        constraint, size = f"<{limits}>" if limits else "", f"[{inner}]" if inner else ""
        return f"{array}{self.base}{constraint}{size} {self.name}"


class DataVariable(NamedTuple):
    """A declared variable with its value, an int64 or float64 array of the declared shape."""

    declaration: Declaration
    value: np.ndarray


def parse(body: str) -> list[Declaration]:
    """Parse the stripped body of a block into the declarations at its top level, in order.

    Statements that cannot be parsed are skipped: Stan's compiler gives better messages for errors.
    """
    declarations = []
    for statement in split(tokens(body), ";", "}"):
        with contextlib.suppress(NotSupported):
            declarations.extend(_statement(body, statement))
    return declarations


def typed_names(tokens: Sequence[Token]) -> list[tuple[str, str, int]]:
    """Return each name that is declared, at any depth and as an argument, its type, and array rank.

    Only arrays in the current syntax have a rank.
    """
    found, ranks = [], {}
    for place, token in enumerate(tokens):
        if token == "array" and at(tokens, place + 1) == "[":
            last = closing(tokens, place + 1)
            ranks[last + 1] = len(split(tokens[place + 2 : last], ","))
        elif token in TYPES:
            after = place + 1
            for opening, sign in (("<", ">"), ("[", "")):
                if at(tokens, after) == opening:
                    after = closing(tokens, after, sign) + 1
            several = at(tokens, after + 1) in (",", "=")
            rest = tokens[after : closing(tokens, after, ";") if several else after + 1]
            for name, *_ in filter(None, split(rest, ",")):
                if name in _ARGUMENT or not NAME.fullmatch(name):
                    break
                found.append((str(name), str(token), ranks.get(place, 0)))
    return found


def evaluate(
    expression: Expression, variables: Mapping[str, DataVariable]
) -> int | float | np.ndarray | None:
    """Evaluate a size or bound, given the variables before it; None if that is impossible."""
    return expressions.evaluate(expression.tree, _Declared(variables))


class _Declared(expressions.Values):
    """Values of declared variables, which have known types."""

    def __init__(self, declared: Mapping[str, DataVariable]) -> None:
        super().__init__({name: variable.value for name, variable in declared.items()})
        self.declared = declared

    def of_shape(self, name: str, argument: tuple) -> int:
        """Return a size of a variable."""
        match argument:
            case "name", variable if variable in self.declared:
                return _SHAPES[name](self.declared[variable])
        raise NotSupported


def _statement(body: str, statement: Sequence[Token]) -> list[Declaration]:
    """Parse `[array[...]] type[<...>][[...]] name[[...]], ...`, in old or new array syntax."""
    array_sizes: tuple[Expression, ...] = ()
    if at(statement, 0) == "array":
        end = _closing(statement, 1)
        array_sizes = _expressions(body, statement[2:end])
        statement = statement[end + 1 :]
    base, statement = at(statement, 0), statement[1:]
    if at(statement, 0) == "(":  # tuple(...)
        statement = statement[_closing(statement, 0) + 1 :]
    limits: dict[str, Expression] = {}
    if at(statement, 0) == "<":
        end = _closing(statement, 0, ">")
        parts = [part for part in split(statement[1:end], ",") if at(part, 1) == "="]
        limits = {part[0]: _expression(body, part[2:]) for part in parts}
        statement = statement[end + 1 :]
    sizes: tuple[Expression, ...] = ()
    if at(statement, 0) == "[":
        end = _closing(statement, 0)
        sizes = _expressions(body, statement[1:end])
        statement = statement[end + 1 :]
    rank = _RANKS.get(base)
    checked = rank == len(sizes) or (base in _SQUARE and len(sizes) == 1)
    declarations = []
    for declarator in filter(None, split(statement, ",")):
        name = str(declarator[0])
        if not NAME.fullmatch(name):
            raise NotSupported
        old_sizes: tuple[Expression, ...] = ()
        if at(declarator, 1) == "[":
            old_sizes = _expressions(body, declarator[2 : _closing(declarator, 1)])
        bounds = limits.get("lower"), limits.get("upper")
        sizes_before = array_sizes + old_sizes
        declarations.append(Declaration(name, base, sizes_before, sizes, *bounds, checked))
    return declarations


def _closing(statement: Sequence[Token], start: int, sign: str = "") -> int:
    end = closing(statement, start, sign)
    if end == len(statement):
        raise NotSupported
    return end


def _expressions(body: str, listed: Sequence[Token]) -> tuple[Expression, ...]:
    return tuple(_expression(body, part) for part in split(listed, ",") if part)


def _expression(body: str, part: Sequence[Token]) -> Expression:
    if not part:
        raise NotSupported
    source = " ".join(body[part[0].start : part[-1].end].split())
    return Expression(source, expressions.parse(part))


def _size(variable: DataVariable) -> int:
    """Stan's `size`: outer dimension of an array, number of elements of a vector or matrix."""
    return variable.value.shape[0] if variable.declaration.array_sizes else variable.value.size


def _matrix_shape(variable: DataVariable) -> tuple[int, ...]:
    shape, declaration = variable.value.shape, variable.declaration
    if declaration.array_sizes or not shape:
        raise NotSupported
    if len(shape) == 2:
        return shape
    return (1, *shape) if declaration.base == "row_vector" else (*shape, 1)


_SHAPES: dict[str, Any] = {
    "size": _size,
    "num_elements": lambda variable: variable.value.size,
    "rows": lambda variable: _matrix_shape(variable)[0],
    "cols": lambda variable: _matrix_shape(variable)[1],
}
