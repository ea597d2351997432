"""A small abstract syntax of Stan: each node prints itself as Stan and computes itself in numpy.

`str(expression)` and `statement.lines()` are Stan code; `expression.value(names)` and
`statement.run(names)` compute. `names` maps the names of Stan variables to their values, and
"target" to the log density. Values are complex and have one more axis than in Stan, the last: one
copy per direction of the complex step, so that one pass yields the whole gradient, exact to
rounding. Because each node does both, the expected values need neither a parser nor Stan.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

Names = dict[str, Any]


class Form(NamedTuple):
    """An operation: `text` is formatted with printed arguments, `compute` is given their values."""

    text: str
    compute: Callable[..., Any]


def holds(thing: Any, kind: type) -> bool:
    """Whether a node, or a tuple of nodes, contains a node of this kind."""
    if isinstance(thing, tuple):
        return any(holds(each, kind) for each in thing)
    if isinstance(thing, kind):
        return True
    return is_dataclass(thing) and any(holds(getattr(thing, f.name), kind) for f in fields(thing))


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Literal:
    number: float

    def __str__(self) -> str:
        return f"({self.number})" if self.number < 0 else f"{self.number}"

    def value(self, names: Names) -> float:
        return self.number


@dataclass(frozen=True)
class Name:
    name: str

    def __str__(self) -> str:
        return self.name

    def value(self, names: Names) -> Any:
        return names[self.name]


@dataclass(frozen=True)
class Range:
    """The indices from low to high, inclusive; all indices if low is None."""

    low: int | None = None
    high: int | None = None

    def __str__(self) -> str:
        return "" if self.low is None else f"{self.low}:{self.high}"

    def value(self, names: Names) -> slice:
        return slice(None) if self.low is None else slice(self.low - 1, self.high)


@dataclass(frozen=True)
class Element:
    """A container at indices, which are integers, ranges or arrays of integers."""

    container: str
    indices: tuple

    def __str__(self) -> str:
        return f"{self.container}[{', '.join(map(str, self.indices))}]"

    def zero_based(self, names: Names) -> tuple:
        return tuple(_zero_based(index.value(names)) for index in self.indices)

    def value(self, names: Names) -> np.ndarray:
        return names[self.container][self.zero_based(names)]


@dataclass(frozen=True)
class Apply:
    form: Form
    arguments: tuple

    def __str__(self) -> str:
        return self.form.text.format(*self.arguments)

    def value(self, names: Names) -> Any:
        return self.form.compute(*(argument.value(names) for argument in self.arguments))


@dataclass(frozen=True)
class Choice:
    """The operator `? :`; it evaluates one branch only, as the other may be out of range."""

    condition: Any
    yes: Any
    no: Any

    def __str__(self) -> str:
        return f"({self.condition} ? {self.yes} : {self.no})"

    def value(self, names: Names) -> Any:
        return (self.yes if self.condition.value(names) else self.no).value(names)


class VectorChoice(Choice):
    """A choice between vectors; if both are data, the C++ that Stan 2.27 generates is invalid."""


@dataclass(frozen=True)
class Function:
    """A user-defined function; its last statement is a return."""

    name: str
    returns: str
    arguments: tuple[tuple[str, str], ...]
    body: tuple

    def lines(self) -> list[str]:
        declared = ", ".join(f"{kind} {name}" for kind, name in self.arguments)
        return [f"{self.returns} {self.name}({declared}) {{", *indented(self.body), "}"]


@dataclass(frozen=True)
class Call:
    function: Function
    arguments: tuple

    def __str__(self) -> str:
        first, *rest = map(str, self.arguments)
        bar = " | " if self.function.name.endswith("_lpdf") else ", "
        return f"{self.function.name}({first}{bar}{', '.join(rest)})"

    def value(self, names: Names) -> Any:
        given = (argument.value(names) for argument in self.arguments)
        own = dict(zip((name for _, name in self.function.arguments), given, strict=True))
        own["target"] = np.zeros_like(names["target"])
        try:
            run(self.function.body, own)
        except _Returned as returned:
            return returned.value
        raise AssertionError(f"{self.function.name} returns nothing")


# --- statements ----------------------------------------------------------------------------------


class _Broken(Exception):
    pass


class _Continued(Exception):
    pass


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True)
class Declare:
    """A local variable; `sizes` are the names of its sizes. An integer is a Python int."""

    kind: str
    name: str
    initial: Any = None
    sizes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        given = "" if self.initial is None else f" = {self.initial}"
        return [f"{self.kind} {self.name}{given};"]

    def run(self, names: Names) -> None:
        if self.kind == "int":
            names[self.name] = integer(self.initial.value(names))
            return
        shape = (*(names[size] for size in self.sizes), names["target"].size)
        names[self.name] = np.full(shape, np.nan, dtype=complex)
        if self.initial is not None:
            names[self.name][...] = self.initial.value(names)


@dataclass(frozen=True)
class Assign:
    """An assignment to a variable or to a part of it; `operator` is "=" or "+="."""

    target: Name | Element
    operator: str
    expression: Any

    def lines(self) -> list[str]:
        return [f"{self.target} {self.operator} {self.expression};"]

    def run(self, names: Names) -> None:
        value = self.expression.value(names)
        if self.operator == "+=":
            value = self.target.value(names) + value
        if isinstance(self.target, Element):
            names[self.target.container][self.target.zero_based(names)] = value
        elif isinstance(names[self.target.name], int):
            names[self.target.name] = integer(value)
        else:  # copied, because the value may be another variable
            copied = np.empty_like(names[self.target.name])
            copied[...] = value
            names[self.target.name] = copied


@dataclass(frozen=True)
class Increment:
    """`target +=` a number, or the sum of a vector."""

    expression: Any

    def lines(self) -> list[str]:
        return [f"target += {self.expression};"]

    def run(self, names: Names) -> None:
        names["target"] = names["target"] + total(self.expression.value(names))


@dataclass(frozen=True)
class Density:
    """A library density: `target +=` with all its terms, or `~`, which drops constants.

    All terms are computed in both cases. Values then differ from Stan's by a constant of the
    program, provided that no parameter decides whether a `~` is reached.
    """

    family: Form
    variate: Any
    arguments: tuple
    drops: bool

    def lines(self) -> list[str]:
        name, suffix = self.family.text.rsplit("_", 1)
        arguments = ", ".join(map(str, self.arguments))
        if self.drops:
            return [f"{self.variate} ~ {name}({arguments});"]
        return [f"target += {name}_{suffix}({self.variate} | {arguments});"]

    def run(self, names: Names) -> None:
        given = (argument.value(names) for argument in (self.variate, *self.arguments))
        names["target"] = names["target"] + total(self.family.compute(*given))


@dataclass(frozen=True)
class Branch:
    condition: Any
    yes: tuple
    no: tuple = ()

    def lines(self) -> list[str]:
        otherwise = ["} else {", *indented(self.no)] if self.no else []
        return [f"if ({self.condition}) {{", *indented(self.yes), *otherwise, "}"]

    def run(self, names: Names) -> None:
        run(self.yes if self.condition.value(names) else self.no, names)


@dataclass(frozen=True)
class Loop:
    """A loop over the integers from low to high."""

    variable: str
    low: int
    high: str
    body: tuple

    def lines(self) -> list[str]:
        return [f"for ({self.variable} in {self.low}:{self.high}) {{", *indented(self.body), "}"]

    def run(self, names: Names) -> None:
        _repeat(self.body, self.variable, range(self.low, names[self.high] + 1), names)


@dataclass(frozen=True)
class Foreach:
    """A loop over the elements of a container.

    Contrary to Stan's manual, CmdStan 2.27 and stanli visit the elements of a matrix row by row.
    """

    variable: str
    container: Any
    body: tuple

    def lines(self) -> list[str]:
        return [f"for ({self.variable} in {self.container}) {{", *indented(self.body), "}"]

    def run(self, names: Names) -> None:
        value = self.container.value(names)
        elements = value.reshape(-1, value.shape[-1])
        _repeat(self.body, self.variable, elements, names)


@dataclass(frozen=True)
class While:
    condition: Any
    body: tuple

    def lines(self) -> list[str]:
        return [f"while ({self.condition}) {{", *indented(self.body), "}"]

    def run(self, names: Names) -> None:
        trues = iter(lambda: bool(self.condition.value(names)), False)
        _repeat(self.body, "", trues, names)


@dataclass(frozen=True)
class Block:
    body: tuple

    def lines(self) -> list[str]:
        return ["{", *indented(self.body), "}"]

    def run(self, names: Names) -> None:
        run(self.body, names)


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`."""

    word: str

    def lines(self) -> list[str]:
        return [f"{self.word};"]

    def run(self, names: Names) -> None:
        raise _Broken if self.word == "break" else _Continued


@dataclass(frozen=True)
class Return:
    expression: Any

    def lines(self) -> list[str]:
        return [f"return {self.expression};"]

    def run(self, names: Names) -> None:
        raise _Returned(self.expression.value(names))


def run(statements: tuple, names: Names) -> None:
    for statement in statements:
        statement.run(names)


def _repeat(body: tuple, variable: str, values: Iterable, names: Names) -> None:
    for value in values:
        names[variable] = value
        try:
            run(body, names)
        except _Continued:
            continue
        except _Broken:
            return


def indented(statements: tuple) -> list[str]:
    return [f"  {line}" for statement in statements for line in statement.lines()]


# --- values --------------------------------------------------------------------------------------


def first(value: Any) -> float:
    """The real number shared by all copies of a scalar."""
    return np.ravel(value)[0].real


def integer(value: Any) -> int:
    return value if isinstance(value, int) else int(first(value))


def _zero_based(index: Any) -> Any:
    if isinstance(index, slice):
        return index
    if np.ndim(index) == 2:  # several indices, each with its copies
        return np.real(index[:, 0]).astype(int) - 1
    return integer(index) - 1


def total(value: Any) -> Any:
    """A number itself, or the sum of a vector."""
    return value if np.ndim(value) < 2 else np.sum(value, axis=0)
