"""Random expressions: their parts and probabilities.

Data decide which statements are executed; parameters do so only on request. Stored values are
bounded, so that no loop can let numbers grow without limit.
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.fuzz import random_forms as forms
from tests.fuzz.random_syntax import (
    Apply,
    Call,
    Choice,
    Element,
    Function,
    Literal,
    Name,
    Range,
    VectorChoice,
)

THRESHOLD = 0.137  # not a value of the data or of a literal, so that no comparison is a tie


@dataclass(frozen=True)
class Scope:
    """The names that a statement may use: readable variables by kind, and writable variables.

    long_index, short_index
        Loop variables within 1:N and 1:J; those in `from_two` are never 1.
    in_model
        Whether the variables of the program's blocks are in scope.
    drops, jumps
        Whether `~`, and whether `break` and `continue`, may be used. They may not if parameters
        decide, because the constants that `~` drops would then depend on the parameters.
    """

    scalars: tuple[str, ...]
    vectors: tuple[str, ...]
    writable: tuple[str, ...]
    arrays: tuple[str, ...] = ()
    matrices: tuple[str, ...] = ()
    long_index: tuple[str, ...] = ()
    short_index: tuple[str, ...] = ()
    from_two: tuple[str, ...] = ()
    loops: int = 0
    branches: int = 0
    in_model: bool = True
    drops: bool = True
    jumps: bool = False

    def own(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self.writable]


MODEL = Scope(
    scalars=("a", "b", "tau", "s", "t", "n"),
    vectors=("x", "y", "u", "v"),
    writable=("s", "t", "n", "u", "v", "r", "Q"),
    arrays=("r",),
    matrices=("M", "D", "Q"),
)
FUNCTION = Scope(
    scalars=("p", "q", "t"), vectors=("g", "h"), writable=("t", "h"), in_model=False, drops=False
)


class Expressions:
    """Random expressions; n and j are the sizes N and J, `functions` the user-defined functions."""

    def __init__(self, seed: int, n: int, j: int, parameter_branches: bool) -> None:
        self.random = random.Random(seed)
        self.n, self.j, self.parameter_branches = n, j, parameter_branches
        self.functions: list[Function] = []
        self.names: Counter[str] = Counter()  # of local variables, by their letters

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *weighted: tuple[float, Any]) -> Any:
        """One of the second members, with the first members as weights."""
        weights, things = zip(*weighted, strict=True)
        return self.random.choices(things, weights)[0]

    def one_of(self, things: Any) -> Any:
        return self.random.choice(list(things))

    def literal(self) -> Literal:
        return Literal(round(self.random.uniform(-2, 2), 2))

    # --- indices ---------------------------------------------------------------------------------

    def long_index(self, scope: Scope) -> Any:
        """An integer within 1:N."""
        if not scope.long_index or self.chance(0.05):
            return Literal(self.random.randint(1, self.n))
        name = self.one_of(scope.long_index)
        forms_of = [(8, Name(name)), (0.6, Apply(forms.mirrored("N", self.n), (Name(name),)))]
        if scope.in_model:
            forms_of.append((1.5, Element("order", (Name(name),))))
        if name in scope.from_two:
            forms_of.append((4, Apply(forms.BEFORE, (Name(name),))))
        return self.pick(*forms_of)

    def short_index(self, scope: Scope) -> Any:
        """An integer within 1:J."""
        if scope.short_index and self.chance(0.85):
            return Name(self.one_of(scope.short_index))
        if scope.long_index and self.chance(0.5):
            return Element("group", (self.long_index(scope),))
        return Literal(self.random.randint(1, self.j))

    # --- conditions ------------------------------------------------------------------------------

    def condition(self, scope: Scope) -> Apply:
        """A condition on data and loop variables."""
        index, number = self.long_index(scope), Literal(self.random.randint(1, 4))
        simple = [(1.0, Apply(forms.ABOVE, (index, number)))]
        if scope.in_model:
            above, count = Literal(THRESHOLD), Element("k", (index,))
            indices = (self.long_index(scope), self.short_index(scope))
            simple += [
                (3, Apply(forms.ABOVE, (count, number))),
                (1, Apply(forms.EQUAL, (Element("z", (index,)), Literal(1)))),
                (1, Apply(forms.ABOVE, (Element("y", (index,)), above))),
                (1, Apply(forms.ABOVE, (Element("D", indices), above))),
            ]
        condition = self.pick(*simple)
        if self.chance(0.1):
            return Apply(forms.NOT, (condition,))
        if self.chance(0.1):
            form = self.one_of((forms.BOTH, forms.EITHER))
            return Apply(form, (condition, self.pick(*simple)))
        return condition

    def parameter_condition(self, scope: Scope) -> Apply:
        """A condition on an expression that may depend on parameters."""
        number = self.pick(
            (3, Name(self.one_of(scope.scalars))),
            (3, Element(self.one_of(scope.vectors), (self.long_index(scope),))),
            (2, self.scalar(scope, 1)),
        )
        return Apply(forms.ABOVE, (number, Literal(THRESHOLD)))

    def either_condition(self, scope: Scope) -> Apply:
        on_parameters = self.parameter_branches and self.chance(0.5)
        return self.parameter_condition(scope) if on_parameters else self.condition(scope)

    # --- numbers ---------------------------------------------------------------------------------

    def leaf(self, scope: Scope) -> Any:
        looping = bool(scope.long_index)
        kinds = [(1, self.literal()), (3, Name(self.one_of(scope.scalars)))]
        containers = scope.vectors + scope.arrays
        kinds += [
            (6 if looping else 1, Element(self.one_of(containers), (self.long_index(scope),)))
        ]
        if scope.in_model:
            indices = (self.long_index(scope), self.short_index(scope))
            kinds += [
                (3 if scope.short_index else 1, Element("w", (self.short_index(scope),))),
                (4 if looping and scope.short_index else 1,
                 Element(self.one_of(scope.matrices), indices)),
                (1 if looping else 0.3, Element("k", (self.long_index(scope),))),
            ]  # fmt: skip
        return self.pick(*kinds)

    def scalar(self, scope: Scope, depth: int | None = None) -> Any:
        depth = self.pick((2, 0), (3, 1), (2, 2), (1, 3)) if depth is None else depth
        if depth == 0 or self.chance(0.15):
            return self.leaf(scope)
        below = [self.scalar(scope, depth - 1) for _ in range(2)]
        kinds = [
            (4, Apply(self.one_of(forms.UNARY + forms.BOUNDED), (below[0],))),
            (6, Apply(self.one_of(forms.SCALAR_BINARY), tuple(below))),
            (0.3, Apply(forms.NEGATIVE, (below[0],))),
            (1, Choice(self.either_condition(scope), *below)),
        ]
        if scope.loops < 2:
            kinds.append((0.7, self.reduction(scope)))
            kinds += [(1.5, self.call(f, scope)) for f in self.callable(scope, "real")]
        return self.pick(*kinds)

    def reduction(self, scope: Scope) -> Apply:
        if scope.in_model and self.chance(0.3):
            row = Element(self.one_of(scope.matrices), (self.long_index(scope),))
            return Apply(forms.DOT, (row, Name("w")))
        if self.chance(0.2):
            return Apply(forms.DOT, (self.vector(scope, 0), self.vector(scope, 0)))
        return Apply(self.one_of(forms.REDUCTIONS), (self.vector(scope, 1),))

    def bounded(self, scope: Scope) -> Any:
        """A number to store: no larger than the numbers that exist already."""
        if self.chance(0.35):
            return self.leaf(scope)
        return Apply(self.one_of(forms.BOUNDED), (self.scalar(scope),))

    def positive(self, scope: Scope) -> Any:
        kinds = [
            (1, Literal(self.one_of((0.5, 1.0, 1.3, 2.0)))),
            (
                2,
                Apply(
                    self.one_of(forms.POSITIVE), (self.scalar(scope, self.pick((3, 0), (1, 1))),)
                ),
            ),
        ]
        if scope.in_model:
            kinds += [
                (1, Apply(forms.EXP, (Name(self.one_of("ab")),))),
                (1, Apply(forms.EXP, (Element("w", (self.short_index(scope),)),))),
                (1, Element("scale", (self.long_index(scope),))),
                (1, Name("tau")),
            ]
        return self.pick(*kinds)

    # --- vectors ---------------------------------------------------------------------------------

    def vector_leaf(self, scope: Scope) -> Any:
        kinds = [(6, Name(self.one_of(scope.vectors)))]
        kinds += [(1, Apply(forms.repeated("N", self.n), (self.leaf(scope),)))]
        if scope.in_model:
            matrix = self.one_of(scope.matrices)
            column = self.short_index(scope)
            kinds += [
                (1, Element(self.one_of(scope.vectors), (Name("order"),))),
                (1, Apply(forms.PRODUCT, (Name(matrix), Name("w")))),
                (1, Element(matrix, (Range(), column))),
                (0.5, Apply(forms.COLUMN, (Name(matrix), column))),
                (0.5, Apply(forms.ROWS_DOT, (Name(matrix), Name(self.one_of(scope.matrices))))),
                (0.5, Apply(forms.TO_VECTOR, (Name("r"),))),
            ]
        return self.pick(*kinds)

    def vector(self, scope: Scope, depth: int | None = None) -> Any:
        """A vector of N elements."""
        depth = self.pick((2, 0), (3, 1), (2, 2)) if depth is None else depth
        if depth == 0 or self.chance(0.2):
            return self.vector_leaf(scope)
        p, q = (self.vector(scope, depth - 1) for _ in range(2))
        kinds = [
            (4, Apply(self.one_of(forms.UNARY + forms.BOUNDED), (p,))),
            (3, Apply(self.one_of(forms.VECTOR_UNARY), (p,))),
            (4, Apply(self.one_of(forms.VECTOR_BINARY), (p, q))),
            (3, Apply(self.one_of(forms.MIXED), (self.scalar(scope, 0), p))),
            (1, Apply(forms.spliced(self.random.randint(1, self.n - 1)), (p, q))),
            (0.5, VectorChoice(self.either_condition(scope), p, q)),
        ]
        kinds += [(1.5, self.call(f, scope)) for f in self.callable(scope, "vector")]
        return self.pick(*kinds)

    def bounded_vector(self, scope: Scope) -> Any:
        if self.chance(0.3):
            return self.vector_leaf(scope)
        return Apply(self.one_of(forms.BOUNDED), (self.vector(scope),))

    def positive_vector(self, scope: Scope) -> Any:
        if self.chance(0.4):
            return Apply(self.one_of(forms.POSITIVE), (self.vector(scope, 1),))
        return self.pick((2, Name("scale")), (1, self.positive(scope)))

    # --- user-defined functions ------------------------------------------------------------------

    def callable(self, scope: Scope, returns: str) -> list[Function]:
        """Functions that may be called here; functions call none, to limit the number of calls."""
        return [f for f in self.functions if f.returns == returns and scope.in_model]

    def call(self, function: Function, scope: Scope) -> Call:
        arguments = {
            "p": lambda: self.scalar(scope, 0),
            "q": lambda: self.scalar(scope, 0),
            "g": lambda: self.vector(scope, 0),
            "N": lambda: Name("N"),
        }
        return Call(function, tuple(arguments[name]() for _, name in function.arguments))
