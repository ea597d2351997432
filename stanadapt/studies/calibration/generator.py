"""A Stan program that draws parameters and data: the generator of simulation-based calibration."""

import json
import re
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import block, strip
from stanadapt.targets.target import Data, Target

# backends evaluate only programs with parameters; this one adds a name that no user will choose
DUMMY = "unused_by_the_generator"
ADDED = f" parameters {{ real {DUMMY}; }} model {{ {DUMMY} ~ std_normal(); }} "
_EMPTY = re.compile(r"(?<!transformed )\b(?:parameters|model)\s*\{\s*\}")
_QUANTITIES = re.compile(r"\bgenerated\s+quantities\s*\{")


class Simulated(NamedTuple):
    """One draw of a generator: values of the parameters, and the data of the program as JSON."""

    truth: dict[str, np.ndarray]
    data: str


class Generator:
    """Draws parameters from the prior, and data given these parameters.

    Its program has no parameters; its generated quantities declare, under the same names, every
    parameter of the program under study and those of its data that are simulated. The other data of
    the program under study are those of the generator.
    """

    def __init__(self, program: Program, data: Data, studied: Program, backend: Any) -> None:
        self.studied, self.program = studied, program
        self._target = Target(
            _add_parameter(self.program), data, backend=backend, show_progress=False
        )
        self._integers = {d.name: d.is_int for d in studied.declared("data")}
        self.data = self._target.data
        self._constants = json.loads(self.data or "{}")
        drawn = set(results.shapes(self._target.column_names)) - {DUMMY}
        lacking = [n for n in self._integers if n not in drawn and n not in self._constants]
        if lacking:
            raise StanadaptError(
                "generator_mismatch",
                f"generator: the data {', '.join(lacking)} of {studied.name} are neither drawn by "
                "the generator nor among its data; it draws "
                f"{', '.join(sorted(drawn)) or 'nothing'}.",
            )

    def draw(self, seed: int) -> Simulated:
        """Draw once; StanadaptError, stage "generated quantities", if Stan throws."""
        out = np.empty((1, len(self._target.column_names)))
        constrain = self._target.constrainer(seed)
        if constrain(np.zeros((1, 1)), out):
            raise StanadaptError(
                "generator_failed",
                f"the generator of {self.studied.name} failed with seed {seed}: its priors may "
                "lead to values that its distributions do not accept.",
                constrain.explain(),
            )
        values = results.variables(self._target.column_names, out[None])
        drawn = {name: x[0, 0] for name, x in values.items() if name != DUMMY}
        data = {}
        for name, is_int in self._integers.items():
            x = drawn.get(name)
            if x is None:
                data[name] = self._constants[name]
            else:
                data[name] = (np.rint(x).astype(int) if is_int else x).tolist()
        return Simulated(drawn, json.dumps(data))


def require_parameters(simulated: Simulated, target: Target) -> None:
    """Raise StanadaptError unless every parameter has been drawn in its shape."""
    for name, declared in target.parameters.items():
        if name not in simulated.truth:
            raise StanadaptError(
                "generator_mismatch",
                f"generator: it does not draw the parameter {name} of {target.name}. Declare it in "
                "generated quantities.",
            )
        if simulated.truth[name].shape != declared.dimensions:
            raise StanadaptError(
                "generator_mismatch",
                f"generator: it draws {name} with shape {simulated.truth[name].shape}, but "
                f"{target.name} declares {declared.dimensions}.",
            )


def _add_parameter(program: Program) -> Program:
    """Add a parameter that is not used to a program without parameters."""
    if block(program.code, "parameters").strip():
        raise StanadaptError(
            "unsuitable_generator",
            f"generator: {program.name} has parameters. It must draw everything in generated "
            "quantities, with functions that end in _rng.",
        )
    code = program.code
    for match in reversed([*_EMPTY.finditer(strip(code))]):
        code = code[: match.start()] + " " * len(match[0]) + code[match.end() :]
    place = _QUANTITIES.search(strip(code))
    if place is None:
        raise StanadaptError(
            "unsuitable_generator",
            f"generator: {program.name} has no block of generated quantities.",
        )
    code = code[: place.start()] + ADDED + code[place.start() :]
    return program._replace(code=code)
