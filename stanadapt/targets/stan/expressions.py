"""Expressions of Stan: their trees, and their values if data and literals determine them.

The trees are walked; no code is executed. Whatever is outside the part of Stan that is read here
has no value: Stan checks it.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stanadapt.targets.stan.syntax import NAME, Token

# Binary operators from loosest to tightest, as in stanc's grammar: %/% binds tighter than *.
_LOOSENESS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), "*/%", ("%/%",))
_PRECEDENCE = {sign: level for level, signs in enumerate(_LOOSENESS, 1) for sign in signs}
Tree = tuple[Any, ...]


class NotSupported(Exception):
    """The expression is outside the part of Stan that is read here."""


def parse(tokens: Sequence[Token]) -> Tree | None:
    """Return the tree of an expression; None if it is not supported."""
    try:
        return _Parser(tokens).parse()
    except (NotSupported, RecursionError):
        return None


def names(tree: Tree | None) -> set[str]:
    """Return the names of variables in an expression."""
    match tree:
        case "name", str(name):
            return {name}
        case tuple():
            return set().union(*(names(part) for part in tree if isinstance(part, tuple)))
    return set()


class _Parser:
    """Precedence climbing over a list of tokens.

    Trees are `("number", value)`, `("name", text)`, `("call", name, arguments)`,
    `("index", tree, indices)`, `("unary", sign, tree)`, `("binary", sign, left, right)` and
    `("choice", condition, then, otherwise)`.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = [*map(str, tokens), ""]
        self.position = 0

    def parse(self) -> Tree:
        tree = self._choice()
        if self.tokens[self.position]:
            raise NotSupported
        return tree

    def _take(self, *accepted: str) -> str:
        """Consume and return the next token if it is one of `accepted`; otherwise return ""."""
        token = self.tokens[self.position]
        if token and token in accepted:
            self.position += 1
            return token
        return ""

    def _require(self, token: str) -> None:
        if not self._take(token):
            raise NotSupported

    def _choice(self) -> Tree:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        then = self._choice()
        self._require(":")
        return "choice", condition, then, self._choice()

    def _binary(self, loosest: int) -> Tree:
        left = self._unary()
        while (level := _PRECEDENCE.get(self.tokens[self.position], 0)) >= loosest:
            sign = self._take(*_PRECEDENCE)
            left = "binary", sign, left, self._binary(level + 1)
        return left

    def _unary(self) -> Tree:
        if sign := self._take("-", "+", "!"):
            return "unary", sign, self._unary()
        base = self._postfix()
        if self._take("^"):  # binds tighter than a sign on its left, looser than one on its right
            return "binary", "^", base, self._unary()
        return base

    def _postfix(self) -> Tree:
        tree = self._atom()
        while self._take("["):
            tree = "index", tree, self._arguments("]")
        return tree

    def _atom(self) -> Tree:
        token = self.tokens[self.position]
        self.position += 1
        if token == "(":
            tree = self._choice()
            self._require(")")
            return tree
        if NAME.fullmatch(token):
            return ("call", token, self._arguments(")")) if self._take("(") else ("name", token)
        digits = token.replace("_", "")
        if digits.isdecimal():
            return "number", int(digits)
        try:
            return "number", float(digits)
        except ValueError:
            raise NotSupported from None

    def _arguments(self, closing: str) -> Tree:
        if self._take(closing):
            return ()
        trees = [self._choice()]
        while self._take(","):
            trees.append(self._choice())
        self._require(closing)
        return tuple(trees)


def evaluate(tree: Tree | None, values: "Values") -> int | float | np.ndarray | None:
    """Return the value of an expression; None if it cannot be computed.

    Integer division rounds toward zero, as in Stan.
    """
    try:
        with np.errstate(all="ignore"):
            value = values.of(tree)
    except (NotSupported, ArithmeticError, ValueError, TypeError, IndexError, RecursionError):
        return None
    return None if isinstance(value, complex) else value


class Values:
    """The values of variables by name, numbers and arrays, and of expressions of them."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables

    def of(self, tree: Tree | None) -> Any:
        """Return the value of a tree; NotSupported if it is not determined."""
        match tree:
            case "number", value:
                return value
            case "name", name if name in self.variables:
                return _item(self.variables[name])
            case "call", name, arguments:
                return self.called(name, arguments)
            case "index", container, indices:
                return _index(self.of(container), [self.of(index) for index in indices])
            case "unary", sign, operand:
                value = self.of(operand)
                return int(not _scalar(value)) if sign == "!" else -value if sign == "-" else value
            case "binary", sign, left, right:
                return self._binary(sign, left, right)
            case "choice", condition, then, otherwise:
                return self.of(then if _scalar(self.of(condition)) else otherwise)
        raise NotSupported

    def called(self, name: str, arguments: Tree) -> Any:
        """Return the value of a function."""
        if name in _SHAPES and len(arguments) == 1:
            return self.of_shape(name, arguments[0])
        values = [self.of(argument) for argument in arguments]
        function: Any = _FUNCTIONS.get((name, len(values)))
        if function is None or (len(values) == 2 and any(np.ndim(value) for value in values)):
            raise NotSupported
        return _item(function(*values))

    def of_shape(self, name: str, argument: Tree) -> int:
        """Return a size of an array; its type in Stan is not known."""
        value = self.of(argument)
        if not isinstance(value, np.ndarray):
            raise NotSupported
        return _SHAPES[name](value.shape)

    def _binary(self, sign: str, left: Tree, right: Tree) -> Any:
        first: Any = self.of(left)
        if sign in ("&&", "||"):  # as in Stan, the right side is evaluated only if it decides
            decided = bool(_scalar(first)) == (sign == "||")
            return int(bool(_scalar(first) if decided else _scalar(self.of(right))))
        second: Any = self.of(right)
        arrays = [value for value in (first, second) if isinstance(value, np.ndarray)]
        both = len(arrays) == 2
        # Between two containers * is a matrix product; Stan reports different shapes as an error.
        if arrays and (
            sign not in "+-*" or (both and (sign == "*" or first.shape != second.shape))
        ):
            raise NotSupported
        return _OPERATORS[sign](first, second)


def _item(value: Any) -> Any:
    """Return Python's number for one of NumPy; arrays and other values stay."""
    return value.item() if isinstance(value, np.ndarray | np.generic) and not value.ndim else value


def _index(value: Any, indices: list) -> Any:
    if not isinstance(value, np.ndarray) or len(indices) > value.ndim:
        raise NotSupported
    pairs = zip(indices, value.shape, strict=False)
    if not all(isinstance(index, int) and 1 <= index <= size for index, size in pairs):
        raise NotSupported
    return _item(value[tuple(index - 1 for index in indices)])


def _scalar(value: Any) -> int | float:
    if isinstance(value, np.ndarray):
        raise NotSupported
    return value


def _divide(a: int | float, b: int | float) -> int | float:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%/%": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "^": lambda a, b: float(a) ** float(b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}
_SHAPES = {
    "size": lambda shape: shape[0],
    "num_elements": math.prod,
    "rows": lambda shape: shape[0],
    "cols": lambda shape: shape[1],
}
_FUNCTIONS = {
    ("sum", 1): np.sum,
    ("max", 1): np.max,
    ("min", 1): np.min,
    ("max", 2): max,
    ("min", 2): min,
    ("pi", 0): lambda: math.pi,
    ("positive_infinity", 0): lambda: math.inf,
    ("negative_infinity", 0): lambda: -math.inf,
}
