"""Check of our log density against CmdStan's, at CmdStan's draws, up to one constant.

CmdStan writes the constrained values of a draw and its log density, `lp__`, both to the last bit.
The draw is mapped back to its unconstrained position and our density is evaluated there. The two
may differ by rounding and by one constant, because each program drops different constants.

A probability within 1e-13 of 1 holds only three digits of its position, so the density at the
position read back is not the one that CmdStan computed. If the two densities differ, this loss is
measured: positions near the draw are evaluated, constrained, read back and evaluated again.

Releases of Stan differ in their transforms, which is harmless if the Jacobians agree up to a
constant. This holds for a simplex p: stick-breaking, up to Stan 2.36, and the isometric log ratio,
used since then, both have the determinant prod(p) times a constant.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import stanio

from stanadapt.errors import Message, StanadaptError
from stanadapt.targets.coordinates import element_name
from stanadapt.targets.stan.syntax import block, has_random_data
from stanadapt.targets.target import Target

DRAWS = 200
# tolerances relative to max(1, |lp__|): EQUAL exceeds rounding in long sums, CLOSE exceeds the
# differences in functions between releases
EQUAL, CLOSE = 1e-8, 1e-3
# largest difference in log density, which changes a draw's weight by a tenth; if lp__ is so large
# that its rounding comes near that, LEAST times its size
LARGEST, LEAST = 0.1, 1e-12
# the probability that 8 uniform errors all stay below a quarter of the largest possible is 2e-5
NEIGHBORS, STEP, SAFETY = 8, 0.5, 4.0
# stick-breaking leaves an error of size EPSILON in every element, no matter how small
SIMPLEXES = ("simplex", "column_stochastic_matrix", "row_stochastic_matrix")
EPSILON = np.finfo(float).eps


class Verification(NamedTuple):
    """Outcome of the check."""

    verdict: str  # "equal", "close", "differs" or "not checked"
    draws: int  # number of draws at which the densities were compared
    # the largest |ours - lp__ - constant| / max(1, |lp__|) among these, minus the part that
    # rounding explains; inf if our density throws or is not finite, NaN if none was compared
    difference: float
    # the outcome in words, without a full stop; its code is that of the verdict, or the reason why
    # the densities were not compared
    summary: Message
    stan: str = ""  # Stan's message if our density throws
    wrong: int = 0  # number of draws at which the densities differ, if the verdict is "differs"
    left_out: int = 0  # number of draws that cannot be read back well enough to be informative


def not_checked(summary: Message) -> Verification:
    """Return the outcome of a check that was not made."""
    return Verification("not checked", 0, np.nan, summary)


class _Point(NamedTuple):
    """A draw as CmdStan wrote it, with our density; `chain` and `draw` count from 0."""

    chain: int
    draw: int
    row: np.ndarray
    lp: float
    position: np.ndarray
    ours: float
    message: str


def verify(
    target: Target, column_names: list[str], draws: np.ndarray, lp: np.ndarray, version: str
) -> Verification:
    """Compare a target's log density with CmdStan's `lp__`, of shape (chain, draw).

    Draws are constrained values, shape (chain, draw, column), with Stan's dotted names of columns,
    which include the parameters. Up to 200 draws are compared, evenly spaced, always the same ones.
    Those that cannot be read back well enough to be informative are left out and counted.
    """
    reason = _incomparable(target, column_names)
    if reason:
        return _not_checked("incomparable_density", version, reason)
    column_of = {name: column for column, name in enumerate(column_names)}
    columns = [column_of[name] for name in target.model.param_names()]
    places = _select(lp)
    if len(places) < 2:
        reason = f"{len(places)} different draws are too few"
        return _not_checked("few_comparable_draws", version, reason)
    read = [_read(target, draws[c, d, columns], lp[c, d], c, d) for c, d in places]
    points = [point for point in read if point is not None]
    excess = _excess(target, points)
    informative = ~np.isnan(excess)
    left_out = len(places) - int(informative.sum())
    if informative.sum() < 2:
        reason = f"{left_out} of {len(places)} draws are too close to a boundary to be read back"
        return _not_checked("few_comparable_draws", version, reason)._replace(left_out=left_out)
    compared = [point for point, counts in zip(points, informative, strict=True) if counts]
    return _judge(compared, excess[informative], left_out, version, _shared_code(target, version))


def _shared_code(target: Target, version: str) -> str:
    """Return a clause if the release that drew also computes our density; "" if it does not."""
    if target.backend_version != f"CmdStan {version}":
        return ""
    if target.density_check.startswith("agrees"):
        check = target.density_check
        return f"CmdStan {version} computed both, and {check}, which is independent code"
    return f"CmdStan {version} computed both, so this does not reveal its faults"


def _not_checked(code: str, version: str, reason: str) -> Verification:
    return not_checked(Message(code, f"density not checked against CmdStan {version}: {reason}"))


def _incomparable(target: Target, column_names: list[str]) -> str:
    """Return why the densities cannot be compared; "" if they can."""
    code = target.program.code
    if re.search(r"\bunit_vector\b", block(code, "parameters")):
        return (
            "lp__ depends on the length of the vector behind a unit_vector, which is not recorded"
        )
    if has_random_data(code):
        return "its transformed data are random, so every run has a different density"
    available = set(column_names)
    names = target.model.param_names()
    lacking = [element_name(name) for name in names if name not in available]
    return f"its draws lack {', '.join(lacking[:5])}" if lacking else ""


def _select(lp: np.ndarray) -> list[tuple[int, int]]:
    """Select (chain, draw), evenly spaced; a chain that does not move counts once."""
    _, first = np.unique(lp, return_index=True)
    flat = np.sort(first[np.isfinite(lp.ravel()[first])])
    if flat.size > DRAWS:
        flat = flat[np.linspace(0, flat.size - 1, DRAWS).round().astype(int)]
    return [(int(c), int(d)) for c, d in zip(*np.unravel_index(flat, lp.shape), strict=True)]


def _read(target: Target, row: np.ndarray, lp: float, chain: int, draw: int) -> _Point | None:
    """Evaluate our density at a draw; None if the draw has no position."""
    position = _position(target, stanio.stan_variables(target.parameters, row))
    if position is None:
        return None
    ours, _, message = target.evaluate(position)
    return _Point(chain, draw, row, float(lp), position, ours, message)


def _position(target: Target, values: dict[str, Any]) -> np.ndarray | None:
    """Position of constrained values; None if rounding has moved them to a boundary."""
    try:
        position = target.unconstrain(values)
    except StanadaptError:
        return None
    return position if np.isfinite(position).all() else None


def _excess(target: Target, points: list[_Point]) -> np.ndarray:
    """Difference of the densities per point, beyond rounding; NaN where it is uninformative."""
    lp = np.array([point.lp for point in points])
    difference = np.array([point.ours for point in points]) - lp
    scale, rounding = np.maximum(1.0, np.abs(lp)), np.zeros(lp.size)
    beyond = _beyond(difference, EQUAL * scale)
    if np.any(beyond > EQUAL * scale):
        declared, rng = target.program.declared("parameters"), np.random.default_rng(5)
        simplexes = {d.name for d in declared if d.base in SIMPLEXES} & target.parameters.keys()
        rounding = np.array([_rounding(target, point, simplexes, rng) for point in points])
        beyond = _beyond(difference, EQUAL * scale + rounding)
    informative = (beyond <= EQUAL * scale) | (rounding <= np.minimum(CLOSE * scale, LARGEST))
    less = np.maximum(0.0, beyond - np.where(informative, rounding, 0.0))
    return np.where(informative, less, np.nan)


def _beyond(difference: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Distance of differences from the constant: their median, weighted by one over the error."""
    finite = np.flatnonzero(np.isfinite(difference))
    if not finite.size:
        return np.full(difference.size, np.inf)
    order = finite[np.argsort(difference[finite])]
    weight = np.cumsum(1.0 / error[order])
    constant = difference[order[np.searchsorted(weight, weight[-1] / 2)]]
    return np.where(np.isfinite(difference), np.abs(difference - constant), np.inf)


def _rounding(
    target: Target, point: _Point, simplexes: set[str], rng: np.random.Generator
) -> float:
    """Change of the density near a point when a draw is written and read back.

    inf if the draw cannot be read back, or its position then has a density that is not finite.
    """
    if target.is_unconstrained:
        return 0.0
    if not _returns(target, point):
        return np.inf
    largest = 0.0
    for _ in range(NEIGHBORS):
        # far enough for independent rounding errors, near enough for errors of the same size
        near = point.position + rng.uniform(-STEP, STEP, target.dim)
        before = target.evaluate(near)[0]
        if not np.isfinite(before):
            continue
        values = target.constrain(near)
        for name in sorted(simplexes):
            values[name] = values[name] + rng.choice([-EPSILON, EPSILON], values[name].shape)
        back = _position(target, values)
        after = -np.inf if back is None else target.evaluate(back)[0]
        largest = max(largest, abs(after - before))
    return SAFETY * largest


def _returns(target: Target, point: _Point) -> bool:
    """Whether the position gives the draw again: a singular matrix may be read as another one."""
    try:
        row = target.model.param_constrain(point.position)
    except RuntimeError:
        return False
    parts = [slice(v.start_idx, v.end_idx) for v in target.parameters.values()]
    off = np.abs(point.row - row)
    return all(off[part].max() <= EQUAL * np.abs(point.row[part]).max() for part in parts)


def _judge(
    points: list[_Point], excess: np.ndarray, left_out: int, version: str, shared_code: str
) -> Verification:
    """Turn the excess, shape (point,), into a verdict and its summary.

    `shared_code` is a clause if one release computed both densities, which then share its faults.
    """
    scale = np.array([max(1.0, abs(point.lp)) for point in points])
    relative, bound = excess / scale, np.maximum(LARGEST, LEAST * scale)
    badness = np.maximum(relative / CLOSE, excess / bound)
    worst, largest, n = int(np.argmax(badness)), float(relative.max()), len(points)
    point, size = points[worst], f"largest relative difference {largest:.1g}"
    source, wrong = f"chain {point.chain + 1}, draw {point.draw + 1}", 0
    detail = f"{size} ({excess[worst]:.2g} in log density, at {source})"
    if badness[worst] > 1:
        wrong = int(np.sum((relative > EQUAL) | (excess > bound)))
        if np.isinf(excess[worst]):
            detail = f"ours is {point.ours:g} and lp__ is {point.lp:.6g}, at {source}"
        verdict, code = "differs", "density_differs"
        text = f"differs from that of CmdStan {version} at {wrong} of {n} draws, {detail}"
    elif largest > EQUAL:
        verdict, code = "close", "density_close"
        text = f"close to that of CmdStan {version} at {n} draws, {detail}"
    else:
        verdict, code = "equal", "density_equal"
        text = f"verified against CmdStan {version} at {n} draws, {size}"
        if shared_code:
            text = f"the same as in CmdStan's own run at {n} draws, {size}; {shared_code}"
    if left_out:
        text += f"; {left_out} more left out, too close to a boundary to be read back"
    summary = Message(code, f"density {text}")
    return Verification(verdict, n, largest, summary, point.message, wrong, left_out)
