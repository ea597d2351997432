"""Comparison of a native density with the embedded backend's, which is independent code.

Both are evaluated at a few random points when a program is bound, and must agree in gradients and
in differences of log densities; their constants may differ. This finds faults that no table of
known faults lists, of a release of Stan or of the embedded backend. The comparison takes
milliseconds. It is omitted if the embedded backend cannot bind and evaluate the program quickly,
and the outcome says so: a check at no point is no check. Sizes decide this and not a clock, since
the faster backend is sought only where both were compared: see `faster`.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.backends import known_faults, stanli
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import has_random_data, without_blocks
from stanadapt.targets.stan.unrolled_size import unrolled_size

# the embedded backend unrolls loops: above this, binding may take more than 0.3 s
MOST_ITERATIONS = 500
# of data, and parameters, to bind and evaluate in 0.1 s: where the work may grow with a power of
# the size, or is unknown, and where it grows in proportion
MOST_CHARACTERS = 20_000, 1_000_000
MOST_PARAMETERS = 300, 100_000
_STEEP = re.compile(
    r"\b(?:\w*(?:multi_|cholesky|inverse|wishart|lkj|mdivide|determinant|eigen|matrix|svd|qr_|cov|gp_|"
    r"integrate|solve|hmm|laplace|tcrossprod)\w*|ode_\w+|dae\w*|map_rect|reduce_sum\w*)\s*\("
    r"|\*\s*\w+\s*'"  # an outer product
)
# allows for the approximations of _lcdf functions and solvers, which differ between releases
TOLERANCE = 1e-3
# relative to the largest derivative, or to the log density, whose differences others are
ROUNDING = 1e-11
AGREES = "agrees with"  # begins the outcome if no difference is found
UNSOLVED = "does not solve the program's equations"  # in the outcome, if the other backend does
# a solver may fail in one release and not in another, which does not make either density wrong
_SOLVER = re.compile(r"\b(?:ode_|integrate_|algebra_solver|solve_|dae)\w*\s*\(")
Answer = tuple[float, np.ndarray]


@np.errstate(all="ignore")  # differences that are not finite are disagreements
def check(
    program: Program,
    data: CheckedData,
    native: Any,
    name: str,
    version: str,
    bind: Callable[[Program, CheckedData], Any] = stanli.bound,
) -> str:
    """Compare the density of a native model with that of the embedded backend.

    `native` is bound to the data; `name` is that of its backend, with its version, and
    `version` that of its Stan. The outcome begins with "agrees with" or "not compared". If the
    densities disagree, StanadaptError is raised. Nothing can be compared where the native density
    fails to solve an equation.
    """
    dim, reason = native.param_unc_num(), ""
    proportional = not _STEEP.search(known_faults.density_text(program.code))
    if not dim:
        reason = "no parameters"
    elif data.size > MOST_CHARACTERS[proportional] or dim > MOST_PARAMETERS[proportional]:
        reason = "the program is large"  # and would take long to bind a second time
    elif unrolled_size(program, data).iterations > MOST_ITERATIONS:
        reason = "the program's loops are large"
    elif has_random_data(program.code):
        reason = "the transformed data are random"
    if reason:
        return f"not compared: {reason}"
    # the embedded backend also computes generated quantities, which may throw, with parameters
    without = program._replace(code=without_blocks(program.code, ["generated quantities"]))
    try:
        embedded = bind(without, data)
    except StanadaptError as error:
        return f"not compared: the embedded backend does not bind the program ({error.code})"
    points = stanli.finite_points(embedded)
    if not points:
        return "not compared: the density is finite at none of the random points"
    if reason := _other_coordinates(native, embedded, points):
        return f"not compared: {reason}"
    cure = "Use backend='stanli', or a newer CmdStan. unsafe=True omits this check."
    faults = known_faults.find(program.code, version)
    known = known_faults.describe(faults, version) if faults else ""
    trust = f"Trust the embedded backend: {known}. "
    if any(fault.writes_memory for fault in faults):
        raise StanadaptError(
            "densities_disagree",
            f"the density of {program.name} was not evaluated by {name}. {trust}{cure}",
        )
    ours, theirs = ([stanli.evaluate(m, point) for point in points] for m in (native, embedded))
    solved, unsolved = _solved(program, ours, name)
    if not solved:
        return f"not compared: {unsolved}"
    points = [points[i] for i in solved]
    ours, theirs = ([answers[i] for i in solved] for answers in (ours, theirs))
    where = _disagreement(ours, theirs)
    if where is None:
        return f"{AGREES} stanli {stanli.installed()} at {len(points)} points{unsolved}"
    point, (value, gradient) = points[where], ours[where]
    other, other_gradient = theirs[where]
    worst = int(np.argmax(np.nan_to_num(abs(gradient - other_gradient), nan=np.inf)))
    trust = trust if known else _trust(native, point, gradient, name)
    shown = np.array2string(point[:6], precision=4, separator=", ")
    raise StanadaptError(
        "densities_disagree",
        f"the densities of {program.name} disagree at the unconstrained position {shown}"
        f"{' (the first 6 coordinates)' if point.size > 6 else ''}: {name} gives the log density "
        f"{value:.8g} and, in coordinate {worst + 1}, the derivative {gradient[worst]:.8g}; "
        f"stanli {stanli.installed()} gives {other:.8g} and {other_gradient[worst]:.8g} (log "
        f"densities may differ by a constant). {trust}{cure}",
    )


def solves_equations(program: Program) -> bool:
    """Whether a log density calls a solver, which may take long far from the posterior."""
    return bool(_SOLVER.search(known_faults.density_text(program.code)))


def _solved(program: Program, ours: list[Answer], name: str) -> tuple[list[int], str]:
    """Return the points to compare, and words on those at which a native solver fails."""
    points = range(len(ours))
    if not solves_equations(program):
        return [*points], ""
    solved = [i for i in points if np.isfinite([ours[i][0], *ours[i][1]]).all()]
    if len(solved) == len(ours):
        return solved, ""
    lost = f"{name} {UNSOLVED} at {len(ours) - len(solved)} of {len(ours)} points, as stanli does"
    return solved, f"; {lost}" if solved else lost


def _other_coordinates(native: Any, embedded: Any, points: list[np.ndarray]) -> str:
    """Say why the unconstrained coordinates may differ; "" if both transform them alike."""
    differ = "the releases of Stan transform the parameters differently"  # a simplex, since 2.37
    if native.param_unc_num() != embedded.param_unc_num():
        return differ
    try:
        pairs = [(m.param_constrain(p) for m in (native, embedded)) for p in points]
        same = all(np.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in pairs)
    except RuntimeError:
        return "the transform of the parameters throws at a random point"
    return "" if same else differ


def _disagreement(ours: list[Answer], theirs: list[Answer]) -> int | None:
    """Return the number of the first point at which the densities disagree."""
    values, others = (np.array([value for value, _ in answers]) for answers in (ours, theirs))
    slopes, other_slopes = (np.array([slope for _, slope in answers]) for answers in (ours, theirs))
    # constants may differ, so the first point is the reference of log densities
    differences = np.abs((values - values[0]) - (others - others[0]))
    allowed = TOLERANCE * (1.0 + np.abs(others - others[0])) + ROUNDING * np.abs(others)
    # of each coordinate, since their units differ; at one point, a derivative may be near zero
    largest = np.abs(other_slopes).max(axis=0)
    near = np.abs(slopes - other_slopes) <= TOLERANCE * largest + ROUNDING * largest.max(initial=0)
    wrong = ~((differences <= allowed) & near.all(axis=1))
    return int(np.argmax(wrong)) if wrong.any() else None


def _trust(native: Any, point: np.ndarray, gradient: np.ndarray, name: str) -> str:
    """Say whether the native gradient contradicts the values of the same code."""
    if not np.all(np.isfinite(gradient)):
        return f"{name} fails where the embedded backend does not. "
    along = gradient if gradient.any() else np.ones_like(gradient)
    error = stanli.gradient_error(native, point, along)
    if error is not None and error > TOLERANCE:
        return f"Do not trust {name}: its gradient is not the derivative of its density. "
    return "One of the two is wrong; trust neither until you know which. "
