"""The noncentered form of a program, as lines of Stan, for the groups that a map has found.

If members x_j have the prior normal(l, s), and s is a function of one parameter or of two, as a
product, the program may declare residuals with standard normal priors in their place:
x = l + s * x_raw. Which function it is follows from the slope of the log precision in the
unconstrained parameter, and from how Stan transforms that parameter.
"""

import numpy as np

from stanadapt import results
from stanadapt.engine.triangular_map import A, B, C, S, T
from stanadapt.samplers.whitened.findings import clear_members
from stanadapt.samplers.whitened.priors import Prior
from stanadapt.samplers.whitened.straighten import Straightened
from stanadapt.targets.target import Target

# relative error within which a factor of the scale is taken for 1, and two numbers are the same
ALMOST_ONE, SAME = 0.02, 1e-6
# the standard deviation by the slope of the log precision: in a positive parameter, whose logarithm
# is the coordinate, and in one without bounds
POSITIVE = {-2: "{}", -1: "sqrt({})", 1: "inv_sqrt({})", 2: "inv({})"}
FREE = {-2: "exp({})", -1: "exp({} / 2)", 1: "exp(-{} / 2)", 2: "exp(-{})"}


def noncentered_lines(target: Target, found: Straightened, positions: np.ndarray) -> list[str]:
    """Return lines of Stan for each vector whose elements are all members of groups."""
    names, lines, values = target.coordinate_names, [], target.elements(positions[0])
    priors = {j: group.prior for group in found.groups for j in clear_members(group, names)}
    for stem in dict.fromkeys(results.variable_of(names[j]) for j in sorted(priors)):
        elements = [j for j, name in enumerate(names) if results.variable_of(name) == stem]
        is_vector = all(len(target.coordinates[j].index) == 1 for j in elements)
        is_free = is_vector and all(values.get(names[j]) == positions[0, j] for j in elements)
        if is_free and all(j in priors for j in elements):
            lines += _of_vector(target, found, stem, {j: priors[j] for j in elements}, positions)
    return lines


def _of_vector(
    target: Target, found: Straightened, stem: str, priors: dict[int, Prior], positions: np.ndarray
) -> list[str]:
    sizes = _sizes(target, list(priors.values()), positions)
    locations = [prior.location for prior in priors.values()]
    center = _elements(target, locations)
    if not sizes or (center is None and max(locations) >= 0):
        return []
    factor = _factor(found, list(priors))
    parts = [f"{factor:.3g} *"] if abs(factor - 1.0) > ALMOST_ONE else []
    # a product with a vector is by element
    parts += [f"{size} {'.*' if is_vector else '*'}" for size, is_vector in sizes]
    vector, around = f"vector[{len(priors)}]", f"{center} + " if center else ""
    return [
        f"parameters: {vector} {stem}_raw;  // in place of {stem}",
        f"transformed parameters: {vector} {stem} = {around}{' '.join(parts)} {stem}_raw;",
        f"model: {stem}_raw ~ std_normal();  // in place of the prior of {stem}",
    ]


def _sizes(target: Target, priors: list[Prior], positions: np.ndarray) -> list[tuple[str, bool]]:
    """Return the factors of the members' scales, and whether each is a vector; numbers first.

    Empty if one of them has no form in Stan.
    """
    sizes = []
    for drivers, slopes in (
        ([p.scale for p in priors], {p.slope for p in priors}),
        ([p.second for p in priors], {p.second_slope for p in priors}),
    ):
        if max(drivers) < 0:
            continue
        text = _elements(target, drivers)
        forms = {_form(target, k, positions).get(slope) for k in set(drivers) for slope in slopes}
        if text is None or None in forms or len(forms) > 1:
            return []
        sizes.append((str(forms.pop()).format(text), len(set(drivers)) > 1))
    return sorted(sizes, key=lambda size: size[1])


def _elements(target: Target, drivers: list[int]) -> str | None:
    """Return an expression for one coordinate, or for the elements of a vector, in this order."""
    names = [target.coordinate_names[k] for k in drivers] if min(drivers) >= 0 else []
    if len(set(names)) <= 1:
        return names[0] if names else None
    stems = set(map(results.variable_of, names))
    indices = [name.partition("[")[2].rstrip("]") for name in names]
    if len(stems) > 1 or not all(index.isdigit() for index in indices):
        return None
    (stem,) = stems
    size = sum(name.startswith(f"{stem}[") for name in target.coordinate_names)
    if indices == [str(i + 1) for i in range(size)]:
        return stem
    return f"{stem}[{{{', '.join(indices)}}}]"


def _form(target: Target, scale: int, positions: np.ndarray) -> dict[int, str]:
    """Return the forms for a parameter that Stan transforms by exp, or not at all."""
    name = target.coordinate_names[scale]
    values = [target.elements(x).get(name, np.nan) for x in positions[[0, -1]]]
    at = positions[[0, -1], scale]
    if np.allclose(values, at, rtol=SAME, atol=0.0):
        return FREE
    return POSITIVE if np.allclose(values, np.exp(at), rtol=SAME, atol=0.0) else {}


def _factor(found: Straightened, members: list[int]) -> float:
    """Return the constant factor of the standard deviation: the median of the members'."""
    coordinates = list(found.straightening.coordinate)
    numbers = found.straightening.numbers[[coordinates.index(j) for j in members]]
    away = numbers[:, B] * numbers[:, C] + numbers[:, S] * numbers[:, T]
    return float(np.exp(-0.5 * np.median(numbers[:, A] - away)))
