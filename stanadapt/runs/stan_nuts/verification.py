"""Check of our log density against CmdStan's, at CmdStan's own draws, up to one constant.

CmdStan writes a draw as constrained values and its log density as `lp__`, both to the last bit. The
draw is mapped back to its position and our density is evaluated there. The two may differ by
rounding and by one constant, as each drops different constants.

A probability within 1e-13 of 1 holds only three digits of its position, so that the density at the
position read back is not the one that CmdStan computed. Where the two differ, this loss is
measured: positions near the draw are evaluated, constrained, read back and evaluated again.

Releases of Stan differ in their transforms, which does no harm if the Jacobians agree up to a
constant. Those of a simplex p do: stick-breaking, up to Stan 2.36, and the isometric log ratio,
since then, both have the determinant prod(p) times a constant.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import stanio

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.declarations import parse
from stanadapt.targets.stan.program import block
from stanadapt.targets.target import Target

DRAWS = 200
# of max(1, |lp__|): above rounding in long sums; above differences in functions between releases
EQUAL, CLOSE = 1e-8, 1e-3
# in log density, unless lp__ is so large that its own rounding comes near: a draw's weight changes
# by a tenth
LARGEST, LEAST = 0.1, 1e-12
# the probability that 8 uniform errors all stay below a quarter of the largest possible is 2e-5
NEIGHBORS, STEP, SAFETY = 8, 0.5, 4.0
# stick-breaking leaves an error of size EPSILON in every element, however small
SIMPLEXES = ("simplex", "column_stochastic_matrix", "row_stochastic_matrix")
EPSILON = np.finfo(float).eps


class Verification(NamedTuple):
    """Outcome of the check.

    verdict
        "equal", "close", "differs" or "not checked".
    draws
        Number of draws at which the densities were compared.
    difference
        The largest |ours - lp__ - constant| / max(1, |lp__|) among these, less what rounding
        explains; inf where our density throws or is not finite, NaN where none was compared.
    sentence
        The outcome as a sentence, for the user.
    stan
        Stan's message where our density throws.

    """

    verdict: str
    draws: int
    difference: float
    sentence: str
    stan: str = ""


class _Point(NamedTuple):
    """A draw as CmdStan wrote it, and our density there. `chain` and `draw` count from 0."""

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
    """Compare a target's log density with CmdStan's.

    Parameters
    ----------
    target
        The target from which CmdStan drew.
    column_names
        Stan's dotted names of the columns of `draws`, which include the parameters.
    draws
        Constrained values, shape (chain, draw, column).
    lp
        CmdStan's `lp__`, shape (chain, draw).
    version
        CmdStan's version, for the sentence.

    Returns
    -------
    Verification
        From up to 200 draws, evenly spaced, always the same ones. Those that cannot be read back
        well enough to be informative are left out and counted.

    """
    reason = _incomparable(target, column_names)
    if reason:
        return _not_checked(version, reason)
    column_of = {name: column for column, name in enumerate(column_names)}
    columns = [column_of[name] for name in target.model.param_names()]
    chosen = _chosen(lp)
    if len(chosen) < 2:
        return _not_checked(version, "it has fewer than two draws, or they are all the same")
    read = [_read(target, draws[c, d, columns], lp[c, d], c, d) for c, d in chosen]
    points = [point for point in read if point is not None]
    excess = _excess(target, points)
    informative = ~np.isnan(excess)
    left_out = len(chosen) - int(informative.sum())
    if informative.sum() < 2:
        where = "lie too close to the boundary of a constraint to be read back"
        return _not_checked(version, f"{left_out} of {len(chosen)} draws {where}")
    kept = [point for point, counts in zip(points, informative, strict=True) if counts]
    return _judge(kept, excess[informative], left_out, version)


def _not_checked(version: str, reason: str) -> Verification:
    sentence = f"density not checked against CmdStan {version}: {reason}"
    return Verification("not checked", 0, np.nan, sentence)


def _incomparable(target: Target, column_names: list[str]) -> str:
    """Why the densities cannot be compared; "" where they can."""
    code = target.program.code
    if re.search(r"\bunit_vector\b", block(code, "parameters")):
        return "lp__ depends on the length of the vector behind a unit vector, which no draw holds"
    if re.search(r"_rng\s*\(", block(code, "transformed data")):
        return "its transformed data are random, so that every run has a different density"
    available = set(column_names)
    lacking = [name for name in target.model.param_names() if name not in available]
    return f"its draws lack {', '.join(lacking[:5])}" if lacking else ""


def _chosen(lp: np.ndarray) -> list[tuple[int, int]]:
    """Choose (chain, draw), evenly spaced; a chain that does not move counts once."""
    _, first = np.unique(lp, return_index=True)
    flat = np.sort(first[np.isfinite(lp.ravel()[first])])
    if flat.size > DRAWS:
        flat = flat[np.linspace(0, flat.size - 1, DRAWS).round().astype(int)]
    return [(int(c), int(d)) for c, d in zip(*np.unravel_index(flat, lp.shape), strict=True)]


def _read(target: Target, row: np.ndarray, lp: float, chain: int, draw: int) -> _Point | None:
    position = _position(target, stanio.stan_variables(target.parameters, row))
    if position is None:
        return None
    ours, _, message = target.evaluate(position)
    return _Point(chain, draw, row, float(lp), position, ours, message)


def _position(target: Target, values: dict[str, Any]) -> np.ndarray | None:
    """Position of constrained values; None where rounding has put them on a boundary."""
    try:
        position = target.unconstrain(values)
    except StanadaptError:
        return None
    return position if np.isfinite(position).all() else None


def _excess(target: Target, points: list[_Point]) -> np.ndarray:
    """Difference of the densities per point, beyond rounding; NaN where it is uninformative."""
    lp = np.array([point.lp for point in points])
    apart = np.array([point.ours for point in points]) - lp
    scale, rounding = np.maximum(1.0, np.abs(lp)), np.zeros(lp.size)
    beyond = _beyond(apart, EQUAL * scale)
    if np.any(beyond > EQUAL * scale):
        declared, rng = parse(block(target.program.code, "parameters")), np.random.default_rng(5)
        simplexes = {d.name for d in declared if d.base in SIMPLEXES} & target.parameters.keys()
        rounding = np.array([_rounding(target, point, simplexes, rng) for point in points])
        beyond = _beyond(apart, EQUAL * scale + rounding)
    informative = (beyond <= EQUAL * scale) | (rounding <= np.minimum(CLOSE * scale, LARGEST))
    less = np.maximum(0.0, beyond - np.where(informative, rounding, 0.0))
    return np.where(informative, less, np.nan)


def _beyond(apart: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Distance from the constant: the median, each point weighted by one over its error."""
    finite = np.flatnonzero(np.isfinite(apart))
    if not finite.size:
        return np.full(apart.size, np.inf)
    order = finite[np.argsort(apart[finite])]
    weight = np.cumsum(1.0 / error[order])
    constant = apart[order[np.searchsorted(weight, weight[-1] / 2)]]
    return np.where(np.isfinite(apart), np.abs(apart - constant), np.inf)


def _rounding(
    target: Target, point: _Point, simplexes: set[str], rng: np.random.Generator
) -> float:
    """Change of the density near a point when a draw is written and read back.

    inf where it cannot be read back, or only to a position where the density is not finite.
    """
    if target.is_unconstrained:
        return 0.0
    if not _returns(target, point):
        return np.inf
    largest = 0.0
    for _ in range(NEIGHBORS):
        # far enough for independent rounding, near enough for rounding of the same size
        near = point.position + rng.uniform(-STEP, STEP, target.dim)
        before = target.evaluate(near)[0]
        if not np.isfinite(before):
            continue
        try:
            values = target.constrain(near)
        except RuntimeError:  # generated quantities may throw: stanli runs them here too
            continue
        for name in sorted(simplexes):
            values[name] = values[name] + rng.choice([-EPSILON, EPSILON], values[name].shape)
        back = _position(target, values)
        after = -np.inf if back is None else target.evaluate(back)[0]
        largest = max(largest, abs(after - before))
    return SAFETY * largest


def _returns(target: Target, point: _Point) -> bool:
    """Whether its position gives back the draw: a singular matrix may be read as quite another."""
    try:
        again = target.model.param_constrain(point.position)
    except RuntimeError:
        return False
    parts = [slice(v.start_idx, v.end_idx) for v in target.parameters.values()]
    off = np.abs(point.row - again)
    return all(off[part].max() <= EQUAL * np.abs(point.row[part]).max() for part in parts)


def _judge(points: list[_Point], excess: np.ndarray, left_out: int, version: str) -> Verification:
    """Turn the excess, shape (point,), into a verdict and its sentence."""
    scale = np.array([max(1.0, abs(point.lp)) for point in points])
    relative, bound = excess / scale, np.maximum(LARGEST, LEAST * scale)
    badness = np.maximum(relative / CLOSE, excess / bound)
    worst, largest, n = int(np.argmax(badness)), float(relative.max()), len(points)
    point, size = points[worst], f"largest relative difference {largest:.1g}"
    source = f"chain {point.chain + 1}, draw {point.draw + 1}"
    where = f"{size} ({excess[worst]:.2g} in log density, at {source})"
    if badness[worst] > 1:
        verdict, wrong = "differs", int(np.sum((relative > EQUAL) | (excess > bound)))
        if np.isinf(excess[worst]):
            where = f"ours is {point.ours:g} where lp__ is {point.lp:.6g}, at {source}"
        text = f"differs from that of CmdStan {version} at {wrong} of {n} draws, {where}"
    elif largest > EQUAL:
        verdict, text = "close", f"close to that of CmdStan {version} at {n} draws, {where}"
    else:
        verdict, text = "equal", f"verified against CmdStan {version} at {n} draws, {size}"
    if left_out:
        text += f"; {left_out} more left out, too close to a boundary to be read back"
    return Verification(verdict, n, largest, f"density {text}", point.message)
