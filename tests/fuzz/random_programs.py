"""Random Stan programs, each with its exact log density and gradient.

`random_program(seed)` is a complete program with data. `batch(programs)` joins many into one,
because compiling takes seconds. The values are exact up to one constant per program (a `~` drops
constants that the oracle includes), so differences between positions are compared; gradients are
compared directly. Programs use the language of Stan 2.27.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import random_forms as forms
from tests.fuzz.random_expressions import MODEL
from tests.fuzz.random_statements import Statements
from tests.fuzz.random_syntax import (
    Apply,
    Declare,
    Density,
    Element,
    Form,
    Function,
    Increment,
    Literal,
    Loop,
    Name,
    VectorChoice,
    holds,
    indented,
    run,
)

STEP = 1e-30  # complex step: its error, of order STEP**2, is below rounding
SPREAD = 0.7  # of the positions

BLOCKS = """\
data {{
  int<lower=1> N;
  int<lower=1> J;
  vector[N] y;
  matrix[N, J] D;
  array[N] int<lower=0> k;
  array[N] int<lower=0, upper=1> z;
  array[N] int<lower=1, upper=N> order;
  array[N] int<lower=1, upper=J> group;{which}
}}
parameters {{
  real a;
  real b;
  real<lower=0> tau;
  vector[N] x;
  vector[J] w;
  matrix[N, J] M;
}}
"""


def _half_squares(*values: np.ndarray) -> np.ndarray:
    return -0.5 * sum(np.sum(np.square(v).reshape(-1, v.shape[-1]), axis=0) for v in values)


_SQUARES = "square({}) + square({}) + square({}) + dot_self({}) + dot_self({})"
ENVELOPE = Increment(
    Apply(
        Form(f"-0.5 * ({_SQUARES} + dot_self(to_vector({{}})))", _half_squares),
        tuple(map(Name, ("a", "b", "tau", "x", "w", "M"))),
    )
)


class RandomProgram(NamedTuple):
    """A program, its data, and its exact log density.

    A position is a, b, log(tau), x, w and M, column by column: Stan's unconstrained parameters.
    """

    seed: int
    functions: tuple[Function, ...]
    body: tuple
    data: dict[str, int | np.ndarray]

    @property
    def code(self) -> str:
        return _code(self.functions, indented(self.body))

    @property
    def dim(self) -> int:
        n, j = self.data["N"], self.data["J"]
        return 3 + n + j + n * j

    @property
    def compiles(self) -> bool:
        """Whether the C++ that Stan 2.27 generates for it is certain to compile."""
        return not holds((self.functions, self.body), VectorChoice)

    def positions(self, count: int) -> np.ndarray:
        """Random positions, shape (count, dim), the same at every call."""
        rng = np.random.default_rng([self.seed, 1])
        return SPREAD * rng.standard_normal((count, self.dim))

    def value_and_gradient(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density, up to one constant for all positions, and its gradient."""
        n, j = self.data["N"], self.data["J"]
        z = position[:, None] + 1j * STEP * np.eye(self.dim)
        names = {name: _copied(value, self.dim) for name, value in self.data.items()}
        x, w, m = np.split(z[3:], [n, n + j])
        names |= {"a": z[0], "b": z[1], "tau": np.exp(z[2]), "x": x, "w": w}
        names |= {"M": m.reshape(j, n, self.dim).swapaxes(0, 1), "target": z[2]}
        run(self.body, names)
        return float(names["target"][0].real), names["target"].imag / STEP


def _copied(value: int | np.ndarray, copies: int) -> int | np.ndarray:
    if isinstance(value, int):
        return value
    return np.broadcast_to(value[..., None], (*value.shape, copies))


def _code(functions: Sequence[Function], body: Sequence[str], which: str = "") -> str:
    written = [f"  {line}" for function in functions for line in function.lines()]
    lines = ["functions {", *written, "}"] if written else []
    lines += [BLOCKS.format(which=which).rstrip(), "model {", *body, "}"]
    return "\n".join(lines) + "\n"


def batch(programs: Sequence[RandomProgram]) -> str:
    """One program for all; the integer `which` in its data, from 1, selects the model block."""
    body = []
    for number, program in enumerate(programs, 1):
        body += [f"  if (which == {number}) {{  // seed {program.seed}"]
        body += [f"  {line}" for line in indented(program.body)] + ["  }"]
    functions = [function for program in programs for function in program.functions]
    return _code(functions, body, which="\n  int<lower=1> which;")


def random_data(rng: np.random.Generator, n: int, j: int) -> dict[str, int | np.ndarray]:
    return {
        "N": n,
        "J": j,
        "y": rng.normal(size=n).round(2),
        "D": rng.normal(size=(n, j)).round(2),
        "k": rng.integers(0, 7, n),
        "z": rng.integers(0, 2, n),
        "order": rng.permutation(n) + 1,
        "group": rng.integers(1, j + 1, n),
    }


def random_program(seed: int, parameter_branches: bool = False) -> RandomProgram:
    """The program of a seed; with `parameter_branches` it also branches on parameters."""
    rng = np.random.default_rng(seed)
    n, j = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    writer = Statements(seed, n, j, parameter_branches)
    for number in range(writer.pick((3, 0), (2, 1), (1, 2))):
        writer.functions.append(writer.function(f"f{seed}_{number}"))
    body = [writer.statement(MODEL) for _ in range(writer.random.randint(2, 7))]
    body += [writer.use(function, MODEL) for function in writer.functions]
    writer.random.shuffle(body)
    body = (*_locals(writer), *body, ENVELOPE)
    return RandomProgram(seed, tuple(writer.functions), body, random_data(rng, n, j))


def branching_program(seed: int) -> RandomProgram:
    """The program of a seed that also branches on parameters."""
    return random_program(seed, parameter_branches=True)


def branches(seed: int) -> bool:
    """Whether `mixed_program(seed)` branches on parameters: three in ten do."""
    return seed % 10 >= 7


def mixed_program(seed: int) -> RandomProgram:
    return random_program(seed, parameter_branches=branches(seed))


def _locals(writer: Statements) -> tuple[Declare, ...]:
    """The local variables of every model block, set to constants, data or parameters."""
    scalars = [Literal(0.0), Literal(1.3), Name("a"), Element("y", (Literal(2),))]
    vectors = [
        Name("x"),
        Name("y"),
        Apply(forms.repeated("N", writer.n), (writer.one_of(scalars),)),
        Apply(forms.TANH, (Apply(forms.SCALE, (Name("b"), Name("x"))),)),
    ]
    scale = Apply(forms.repeated("N", writer.n), (writer.one_of((Literal(1.3), Name("tau"))),))
    return (
        Declare("real", "s", writer.one_of(scalars)),
        Declare("real", "t", writer.one_of(scalars)),
        Declare("int", "n", Literal(0)),
        Declare("vector[N]", "u", writer.one_of(vectors), ("N",)),
        Declare("vector[N]", "v", writer.one_of(vectors), ("N",)),
        Declare("vector[N]", "scale", scale, ("N",)),
        Declare("matrix[N, J]", "Q", writer.one_of((Name("M"), Name("D"))), ("N", "J")),
        Declare("array[N] real", "r", Apply(forms.TO_ARRAY, (writer.one_of(vectors),)), ("N",)),
    )


_I, _J = Name("i"), Name("j")
VARIATES = (Element("y", (_I,)), Element("D", (_I, _J)), Literal(0.4))
LOCATIONS = (
    Name("a"), Element("w", (_J,)), Element("x", (_I,)), Element("M", (_I, _J)),
    Apply(forms.ADD, (Element("w", (_J,)), Element("x", (_I,)))),
    Apply(forms.SCALE, (Name("b"), Element("D", (_I, _J)))),
    Element("w", (Element("group", (_I,)),)),
)  # fmt: skip
SCALES = (
    Literal(1.3),
    Name("tau"),
    Apply(forms.EXP, (Element("w", (_J,)),)),
    Apply(forms.EXP, (Element("x", (_I,)),)),
)


class Nested(NamedTuple):
    variate: Any
    location: Any
    scale: Any
    outer: str
    drops: bool


NESTED = tuple(
    Nested(*chosen)
    for chosen in product(VARIATES, LOCATIONS, SCALES, ("rows", "columns"), (True, False))
)


def nested_program(number: int) -> RandomProgram:
    """Make a program with only a normal density within two loops; `number` indexes `NESTED`."""
    nested = NESTED[number]
    arguments = (nested.location, nested.scale)
    density = (Density(forms.NORMAL, nested.variate, arguments, nested.drops),)
    rows, columns = ("i", 1, "N"), ("j", 1, "J")
    outside, inside = (rows, columns) if nested.outer == "rows" else (columns, rows)
    rng = np.random.default_rng(number)
    return RandomProgram(
        number, (), (Loop(*outside, (Loop(*inside, density),)), ENVELOPE), random_data(rng, 7, 3)
    )
