"""The noncentered form of a program, as lines of Stan, for the groups that a map has found.

If members x_j have the prior normal(l, s), and s is a function of one parameter, the program may
declare residuals with standard normal priors in their place: x = l + s * x_raw. Which function it
is follows from the slope of the log precision in the unconstrained parameter, and from how Stan
transforms that parameter. A file of its own, since it writes Stan, and `shape.py` measures.
"""

import re

import numpy as np

from stanadapt.engine.triangular_map import A, B, C
from stanadapt.samplers.whitened.map_groups import Group
from stanadapt.samplers.whitened.straighten import Straightened
from stanadapt.targets.target import Target

# relative error within which a factor of the scale is taken for 1, and two numbers are the same
ALMOST_ONE, SAME = 0.02, 1e-6
# the standard deviation by the slope of the log precision: in a positive parameter, whose logarithm
# is the coordinate, and in one without bounds
POSITIVE = {-2: "{}", -1: "sqrt({})", 1: "inv_sqrt({})", 2: "inv({})"}
FREE = {-2: "exp({})", -1: "exp({} / 2)", 1: "exp(-{} / 2)", 2: "exp(-{})"}


def noncentered_lines(target: Target, found: Straightened, positions: np.ndarray) -> list[str]:
    """Return lines of Stan for each group whose members are the elements of one vector."""
    lines = []
    for group in found.groups:
        lines += _of_group(target, found, group, positions)
    return lines


def _of_group(
    target: Target, found: Straightened, group: Group, positions: np.ndarray
) -> list[str]:
    names = target.coordinate_names
    stems = {names[j].partition("[")[0] for j in group.members}
    scale, location = group.prior.scale, group.prior.location
    form = _form(target, scale, positions).get(group.prior.slope)
    if len(stems) != 1 or form is None:
        return []
    (stem,) = stems
    if len([name for name in names if name.partition("[")[0] == stem]) != len(group.members):
        return []
    size = form.format(names[scale])
    factor = _factor(found, group)
    if abs(factor - 1.0) > ALMOST_ONE:
        size = f"{factor:.3g} * {size}"
    center = f"{names[location]} + " if location >= 0 else ""
    vector = f"vector[{len(group.members)}]"
    return [
        f"parameters: {vector} {stem}_raw;  // in place of {stem}",
        f"transformed parameters: {vector} {stem} = {center}{size} * {stem}_raw;",
        f"model: {stem}_raw ~ std_normal();  // in place of the prior of {stem}",
    ]


def _form(target: Target, scale: int, positions: np.ndarray) -> dict[int, str]:
    """Return the forms for a parameter that Stan transforms by exp, or not at all."""
    name, *index = re.split(r"[\[\],]+", target.coordinate_names[scale].rstrip("]"))
    values = []
    for x in (positions[0], positions[-1]):
        value = np.asarray(target.constrain(x)[name])
        values.append(float(value[tuple(int(i) - 1 for i in index)]))
    at = positions[[0, -1], scale]
    if np.allclose(values, at, rtol=SAME, atol=0.0):
        return FREE
    return POSITIVE if np.allclose(values, np.exp(at), rtol=SAME, atol=0.0) else {}


def _factor(found: Straightened, group: Group) -> float:
    """Return the constant factor of the standard deviation: the median of the members'."""
    coordinates = list(found.straightening.coordinate)
    numbers = found.straightening.numbers[[coordinates.index(j) for j in group.members]]
    return float(np.exp(-0.5 * np.median(numbers[:, A] - numbers[:, B] * numbers[:, C])))
