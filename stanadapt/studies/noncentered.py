"""The noncentered form of a program, as lines of Stan, for groups or for a block of a map.

If members x_j have the prior normal(l, s), and s is a function of one parameter or of two, as a
product, the program may declare residuals with standard normal priors in their place:
x = l + s * x_raw. Which function it is follows from the slope of the log precision in the
unconstrained parameter, and from how Stan transforms that parameter.

A Gaussian block is a sum of precision matrices, each times a function of the hubs. If those times
a power of one scale are W' W / s^2, with

    (W x)_t = (x_t - l) - rho (x_(t-1) - l),

the vector x is a random walk (rho = 1), an AR(1) process, or a group (rho = 0), and W x / s are its
residuals.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from stanadapt import results
from stanadapt.engine.block_map import LINEAR, SQUARE, BlockMap
from stanadapt.engine.triangular_map import A, B, C, S, T
from stanadapt.samplers.whitened.findings import clear_members
from stanadapt.samplers.whitened.priors import Prior
from stanadapt.samplers.whitened.straightened import Straightened
from stanadapt.targets.target import Target

# relative error within which a factor of the scale is taken for 1, and two numbers are the same
ALMOST_ONE, SAME = 0.02, 1e-6
# the standard deviation by the slope of the log precision: in a positive parameter, whose logarithm
# is the coordinate, and in one without bounds
POSITIVE = {-2: "{}", -1: "sqrt({})", 1: "inv_sqrt({})", 2: "inv({})"}
FREE = {-2: "exp({})", -1: "exp({} / 2)", 1: "exp(-{} / 2)", 2: "exp(-{})"}
# values of a coefficient at which the precision of a block is compared with that of a process
COEFFICIENTS = (0.3, -0.6)


def noncentered_lines(target: Target, found: Straightened, positions: np.ndarray) -> list[str]:
    """Return lines of Stan for each vector whose elements are all members of groups."""
    names, lines = target.coordinate_names, []
    priors = {j: group.prior for group in found.groups for j in clear_members(group, names)}
    for stem, elements in _free_vectors(target, sorted(priors), positions):
        lines += _of_vector(target, found, stem, {j: priors[j] for j in elements}, positions)
    return lines


def _free_vectors(
    target: Target, members: list[int], positions: np.ndarray
) -> Iterator[tuple[str, list[int]]]:
    """Yield vectors without bounds all of whose elements are members, by name."""
    names, values = target.coordinate_names, target.elements(positions[0])
    for stem in dict.fromkeys(results.variable_of(names[j]) for j in members):
        elements = [j for j, name in enumerate(names) if results.variable_of(name) == stem]
        is_vector = all(len(target.coordinates[j].index) == 1 for j in elements)
        is_free = is_vector and all(values.get(names[j]) == positions[0, j] for j in elements)
        if is_free and set(elements) <= set(members):
            yield stem, elements


def _of_vector(
    target: Target, found: Straightened, stem: str, priors: dict[int, Prior], positions: np.ndarray
) -> list[str]:
    sizes = _sizes(target, list(priors.values()), positions)
    locations = [prior.location for prior in priors.values()]
    center = _elements(target, locations)
    if not sizes or (center is None and max(locations) >= 0):
        return []
    # a product with a vector is by element
    parts = [f"{size} {'.*' if is_vector else '*'}" for size, is_vector in sizes]
    scale = _times(_factor(found, list(priors)), " ".join(parts))
    around = f"{center} + " if center else ""
    return _lines(stem, len(priors), f"{around}{scale} {stem}_raw")


def _times(factor: float, scale: str) -> str:
    return scale if abs(factor - 1.0) <= ALMOST_ONE else f"{factor:.3g} * {scale}"


def _lines(stem: str, size: int, value: str, first: bool = False, then: str = "") -> list[str]:
    """Return the lines of a vector with this value; its first element may keep its prior."""
    raw = f"vector[{size - first}] {stem}_raw;"
    return [
        f"parameters: {f'real {stem}_1; ' if first else ''}{raw}  // in place of {stem}",
        f"transformed parameters: vector[{size}] {stem} = {value};{then}",
        f"model: {stem}_raw ~ std_normal();  "
        f"// in place of the prior of {stem}{f'[2:{size}]' if first else ''}",
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


# --- blocks ---------------------------------------------------------------------------------------


class _Process(NamedTuple):
    factor: float  # of the standard deviation of residuals
    coefficient: float  # rho
    first: str  # kind of the first residual: one of `_FIRST`
    location: int | None  # number of l among the members


# by the square of its weight in W, given rho; it comes first if several are equal
_FIRST = {
    "prior": lambda rho: 0.0,
    "stationary": lambda rho: 1.0 - rho**2,
    "alike": lambda rho: 1.0,
}


def lines_of_block(target: Target, block: BlockMap, positions: np.ndarray) -> list[str]:
    """Return lines of Stan for vectors in a block that are random walks, AR(1), or groups."""
    lines = []
    members = np.setdiff1d(block.block, block.walk.members)  # innovations are noncentered
    for stem, elements in _free_vectors(target, sorted(map(int, members)), positions):
        for hub in range(len(block.hubs)):
            lines += _given_scale(target, block, stem, elements, hub, positions)
    return lines


def _given_scale(
    target: Target, block: BlockMap, stem: str, elements: list[int], hub: int, positions: np.ndarray
) -> list[str]:
    """Return the lines of a vector if its residuals have the scale of this hub."""
    order = {int(j): i for i, j in enumerate(block.block)}
    rows, matrices = np.array([order[j] for j in elements]), _matrices(block)
    slopes = block.exponents[:, hub]
    terms = [k for k in np.flatnonzero(slopes) if matrices[k][rows].nnz]
    codes = block.powers[terms].max(axis=1, initial=0.0)
    rho = np.flatnonzero(block.powers[terms].any(axis=0))
    # of a likelihood that has the scale, the data are in a shift, perhaps with another slope
    varying = np.flatnonzero(slopes)
    couplings = block.couplings.reshape(*block.shifts.shape, -1)[varying][:, rows]
    others = np.delete(block.exponents, hub, axis=1)[terms], block.shifts[varying][:, rows]
    one_scale = len(set(slopes[terms])) == 1 and len(rho) < 2 and set(codes) <= {0, LINEAR, SQUARE}
    if len(rows) < 2 or not one_scale or any(part.any() for part in (*others, couplings)):
        return []
    found = []
    for value in COEFFICIENTS:
        precision = sum(value**code * matrices[k] for code, k in zip(codes, terms, strict=True))
        found.append(_process(sparse.csr_array(precision)[rows], rows))
    names, hubs, (process, other) = target.coordinate_names, block.hubs, found
    form = _form(target, int(hubs[hub]), positions).get(int(slopes[terms[0]]))
    if process is None or other is None or form is None or process.first != other.first:
        return []
    coefficient = f"{round(process.coefficient, 6) + 0.0:g}"  # no -0
    if len(rho):
        if not np.allclose([process.coefficient, other.coefficient], COEFFICIENTS, atol=SAME):
            return []
        coefficient = names[int(hubs[rho[0]])]
    scale = _times(process.factor, form.format(names[int(hubs[hub])]))
    center = "" if process.location is None else names[int(block.block[process.location])]
    return _written(stem, len(rows), scale, coefficient, center, process.first)


def _matrices(block: BlockMap) -> list[sparse.csr_array]:
    """Return the precision matrix of each function."""
    n = len(block.block)
    lengths = np.arange(n) - block.first + 1
    row = np.repeat(np.arange(n), lengths)
    column = np.arange(len(row)) - np.repeat(block.start - block.first, lengths)
    found = []
    for values in block.precisions:
        lower = sparse.csr_array((values, (row, column)), shape=(n, n))
        lower.eliminate_zeros()
        found.append(sparse.csr_array(lower + sparse.triu(lower.T, 1)))
    return found


def _process(precision: sparse.csr_array, rows: np.ndarray) -> _Process | None:
    """Return the process that has these rows of a precision matrix, if there is one."""
    last = precision[[-1]].tocoo()
    size = precision[-1, rows[-1]]
    locations = np.setdiff1d(last.col[np.abs(last.data) > SAME * size], rows)
    if not size > 0.0 or len(locations) > 1:
        return None
    rho = -precision[-1, rows[-2]] / size
    weight = precision[0, rows[0]] / size - rho**2
    first = next((k for k, of in _FIRST.items() if np.isclose(weight, of(rho), atol=SAME)), None)
    if first is None:
        return None
    n, width = precision.shape
    moved = sparse.csr_array((np.ones(n), (np.arange(n), rows)), shape=(n, width))
    for location in locations:
        columns = np.full(n, location)
        moved = moved - sparse.csr_array((np.ones(n), (np.arange(n), columns)), shape=(n, width))
    steps = sparse.diags_array([np.ones(n), np.full(n - 1, -rho)], offsets=[0, -1])
    weights = np.append(np.sqrt(max(_FIRST[first](rho), 0.0)), np.ones(n - 1))
    residuals = sparse.diags_array(weights) @ steps @ moved
    left = size * (residuals.T @ residuals)[rows] - precision
    if np.abs(left).max() > SAME * size:
        return None
    return _Process(size**-0.5, rho, first, int(locations[0]) if len(locations) else None)


def _written(stem: str, n: int, scale: str, rho: str, center: str, first: str) -> list[str]:
    value, around = f"{scale} * {stem}_raw", f"{center} + " if center else ""
    if rho == "0":
        return _lines(stem, n, f"{around}{value}")
    if rho == "1":
        return _lines(stem, n, f"cumulative_sum(append_row({stem}_1, {value}))", first=True)
    then = f" for (t in 2:{n}) {stem}[t] += {rho} * {stem}[t - 1];"
    if first == "stationary":
        then = f" {stem}[1] /= sqrt(1 - square({rho}));{then}"
    if center:
        then = f"{then} {stem} += {center};"
    if first == "prior":
        value = f"append_row({stem}_1{f' - {center}' if center else ''}, {value})"
    return _lines(stem, n, value, first == "prior", then)
