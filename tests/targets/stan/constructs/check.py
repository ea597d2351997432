"""Comparison of a program's density with its formula, in one target or in a merged one.

A compiled program takes ten seconds or more, most of them for what all programs share. `merge`
therefore makes one program of several: blocks one after the other, and each name with a prefix of
its program. The coordinates of a part are consecutive, and with those of all others fixed the
merged density differs from the part's by a constant.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import stanio

from stanadapt.targets.stan import declarations, syntax
from stanadapt.targets.stan.program import read
from stanadapt.targets.stan.syntax import BLOCKS, block
from tests.targets.stan.constructs.construct import INCLUDED, Construct

POINTS, RADIUS, STEP = 3, 1.0, 1e-4
GRADIENT_TOLERANCE = 1e-6
SUFFIXES = "lpdf|lpmf|lupdf|lupmf|cdf|lcdf|lccdf|lp|rng|jacobian"
TYPES = re.compile(r"int|real|complex\w*|tuple|\w*vector|\w*matrix|simplex|\w*ordered|cholesky\w*")


def resolved(construct: Any) -> str:
    """Return the code with its includes."""
    return read(construct.code, [INCLUDED], construct.name).code


def _declared(code: str) -> set[str]:
    found = [
        d for name in BLOCKS[1:] if name != "model" for d in declarations.parse(block(code, name))
    ]
    return {d.name for d in found if TYPES.fullmatch(d.base)}


def _functions(code: str) -> set[str]:
    """Return names of functions, without suffixes: names before a parenthesis in no bracket."""
    found, depth = set(), 0
    tokens = syntax.tokens(syntax.block(code, "functions"))
    for before, after in itertools.pairwise(tokens):
        outside = depth == 0
        depth += (before in ("{", "(", "[")) - (before in ("}", ")", "]"))
        if outside and after == "(":
            found.add(re.sub(rf"_(?:{SUFFIXES})$", "", before))
    return found


def prefixed(code: str, prefix: str) -> dict[str, str]:
    """Return the blocks of a program by name, with a prefix before each name it declares."""
    functions, variables = _functions(code), _declared(code) - _functions(code)
    patterns = []
    if functions:
        patterns.append(rf"(?:{'|'.join(functions)})(?=_(?:{SUFFIXES})\b|\b)")
    if variables:
        patterns.append(rf"(?:{'|'.join(variables)})\b(?!\s*\()")
    names = re.compile(rf"\b(?:{'|'.join(patterns)})")
    return {name: names.sub(rf"{prefix}\g<0>", block(code, name)) for name in BLOCKS}


def merge(constructs: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return one program for several, and its data. The prefix of the third is `p2_`."""
    bodies: dict[str, list[str]] = {name: [] for name in BLOCKS}
    data = {}
    for number, construct in enumerate(constructs):
        prefix = f"p{number}_"
        data |= {prefix + name: value for name, value in construct.data.items()}
        for name, body in prefixed(resolved(construct), prefix).items():
            bodies[name].append(f"{{ {body} }}" if name == "model" else body)
    parts = [f"{name} {{\n" + "\n".join(lines) + "\n}" for name, lines in bodies.items()]
    return "\n".join(parts), data


class Part(NamedTuple):
    """A program within a target: itself, its coordinates, and the prefix of its names."""

    target: Any
    start: int
    stop: int
    prefix: str = ""

    def position(self, u: np.ndarray) -> np.ndarray:
        """Return a position of the target with these coordinates of the part."""
        result = np.full(self.target.dim, 0.1)
        result[self.start : self.stop] = u
        return result

    def value(self, u: np.ndarray) -> float:
        """Return the log density."""
        return self.target.model.log_density(self.position(u))

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Return the gradient in the part's coordinates."""
        return self.target.model.log_density_gradient(self.position(u))[1][self.start : self.stop]

    def values(self, u: np.ndarray) -> Mapping[str, Any]:
        """Return parameters and generated quantities by name."""
        model, everything = self.target.model, {"include_tp": True, "include_gq": True}
        flat = model.param_constrain(self.position(u), rng=model.new_rng(1), **everything)
        names = stanio.parse_header(",".join(model.param_names(**everything)))
        cut, arrays = len(self.prefix), stanio.stan_variables(names, flat)
        return {k[cut:]: v for k, v in arrays.items() if k.startswith(self.prefix)}


def parts_of(target: Any, number: int) -> list[Part]:
    """Return the parts of a merged target."""
    names = target.model.param_unc_names()
    parts = []
    for k in range(number):
        prefix = f"p{k}_"
        indices = [i for i, name in enumerate(names) if name.startswith(prefix)]
        parts.append(Part(target, indices[0], indices[-1] + 1, prefix))
    return parts


def differences(function: Callable[[np.ndarray], Any], u: np.ndarray) -> np.ndarray:
    """Return central differences of fourth order, one row per coordinate."""
    rows = []
    for step in STEP * np.eye(u.size):
        near = np.subtract(function(u + step), function(u - step))
        far = np.subtract(function(u + 2 * step), function(u - 2 * step))
        rows.append((8 * near - far) / (12 * STEP))
    return np.array(rows)


def _expected(construct: Construct, part: Part, u: np.ndarray) -> float:
    """Return the formula's log density with the Jacobian of the transform, by differences."""
    result = float(construct.log_density(part.values(u)))
    if construct.of_position is not None:
        result += construct.of_position(u)
    free = construct.free
    if free is not None:
        slopes = differences(lambda at: np.atleast_1d(free(part.values(at))).ravel(), u)
        result += np.linalg.slogdet(slopes)[1]
    return result


def fault(construct: Construct, part: Part, seed: int = 7) -> str:
    """Compare density, gradient and quantities with the formulas; "" if all agree."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-RADIUS, RADIUS, (POINTS, part.stop - part.start))
    values = [part.values(u) for u in points]
    found = np.array([part.value(u) for u in points])
    expected = np.array([_expected(construct, part, u) for u in points])
    scale = 1 + np.abs(expected).max()
    gap = np.abs((found - found[0]) - (expected - expected[0])).max() / scale
    if not gap <= construct.tolerance:
        return f"log densities {found - found[0]}, expected {expected - expected[0]}"
    allowed = max(GRADIENT_TOLERANCE, 100 * construct.tolerance)
    for u in points:
        gradient, slopes = part.gradient(u), differences(part.value, u)
        if not np.allclose(gradient, slopes, rtol=0, atol=allowed * (1 + np.abs(slopes).max())):
            return f"gradient {gradient}, differences {slopes}"
    if construct.quantities is not None and not all(map(construct.quantities, values)):
        return f"generated quantities {values[0]}"
    return ""
