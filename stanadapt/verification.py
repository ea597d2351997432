"""Whether our log density is CmdStan's: compared at CmdStan's own draws, up to one constant.

CmdStan writes a draw as constrained values and its log density as `lp__`, every bit of both. The
draw is taken back to its position and our density evaluated there. The two may differ by rounding
and by one constant, for each drops constants as it likes.

A probability within 1e-13 of 1 holds three digits of its position, so that the density at the
position read back is not the one CmdStan computed. Where the two differ, this loss is measured:
positions near the draw are evaluated, constrained, read back and evaluated again.

Releases of Stan differ in their transforms, which does no harm where the Jacobians agree up to a
constant. Those of a simplex p do: stick-breaking, until Stan 2.36, and the isometric log ratio,
since, both have the determinant prod(p) times a constant.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import stanio

from stanadapt.declarations import parse
from stanadapt.errors import StanadaptError
from stanadapt.program import block
from stanadapt.target import Target

DRAWS = 200
# of max(1, |lp__|): above rounding in long sums; above other releases' approximations of functions
EQUAL, CLOSE = 1e-8, 1e-3
# in log density, whatever lp__: it changes a draw's weight by a tenth
LARGEST = 0.1
# the odds that 8 uniform errors all stay below a quarter of the largest possible one are 2e-5
NEIGHBOURS, STEP, SAFETY = 8, 0.5, 4.0
# stick-breaking leaves an error of this size in every element, however small the element is
SIMPLEXES = ("simplex", "column_stochastic_matrix", "row_stochastic_matrix")
EPSILON = np.finfo(float).eps


class Verification(NamedTuple):
    """What came of it.

    verdict
        "equal", "close", "differs" or "not checked".
    draws
        At how many draws the densities were compared.
    difference
        The largest |ours - lp__ - constant| / max(1, |lp__|) of these, less what rounding
        explains; inf where our density throws or is not finite, NaN where none was compared.
    sentence
        All of this in words, for the user.
    stan
        Stan's own words where our density throws.

    """

    verdict: str
    draws: int
    difference: float
    sentence: str
    stan: str = ""


class _Point(NamedTuple):
    """A draw: what CmdStan wrote, and what we make of it. `chain` and `draw` count from 0."""

    chain: int
    draw: int
    row: np.ndarray
    lp: float
    position: np.ndarray
    ours: float
    words: str


def verify(
    target: Target, column_names: list[str], draws: np.ndarray, lp: np.ndarray, version: str
) -> Verification:
    """Compare a target's log density with CmdStan's.

    Parameters
    ----------
    target
        What CmdStan has drawn from.
    column_names
        Stan's dotted names of the columns of `draws`, the parameters among them.
    draws
        Constrained values, shape (chain, draw, column).
    lp
        CmdStan's `lp__`, shape (chain, draw).
    version
        CmdStan's, for the sentence.

    Returns
    -------
    Verification
        From up to 200 draws, evenly spaced, always the same ones. Those that cannot be read back
        well enough to say anything are left out and counted.

    """
    reason = _incomparable(target, column_names)
    if reason:
        return _not_checked(version, reason)
    place = {name: column for column, name in enumerate(column_names)}
    columns = [place[name] for name in target.model.param_names()]
    chosen = _chosen(lp)
    if len(chosen) < 2:
        return _not_checked(version, "its draws are fewer than two, or all the same")
    read = [_read(target, draws[c, d, columns], lp[c, d], c, d) for c, d in chosen]
    points = [point for point in read if point is not None]
    excess = _excess(target, points)
    told = ~np.isnan(excess)
    left_out = len(chosen) - int(told.sum())
    if told.sum() < 2:
        where = "lie too close to the boundary of a constraint to be read back"
        return _not_checked(version, f"{left_out} of {len(chosen)} draws {where}")
    kept = [point for point, tells in zip(points, told, strict=True) if tells]
    return _judge(kept, excess[told], left_out, version)


def _not_checked(version: str, reason: str) -> Verification:
    sentence = f"density not checked against CmdStan {version}: {reason}"
    return Verification("not checked", 0, np.nan, sentence)


def _incomparable(target: Target, column_names: list[str]) -> str:
    """Why the densities cannot be compared; "" where they can."""
    code = target.program.code
    if re.search(r"\bunit_vector\b", block(code, "parameters")):
        return "lp__ depends on the length of the vector behind a unit vector, which no draw holds"
    if re.search(r"_rng\s*\(", block(code, "transformed data")):
        return "its transformed data are random, so that every run has a density of its own"
    there = set(column_names)
    lacking = [name for name in target.model.param_names() if name not in there]
    return f"its draws lack {', '.join(lacking[:5])}" if lacking else ""


def _chosen(lp: np.ndarray) -> list[tuple[int, int]]:
    """Choose (chain, draw), evenly spaced; a chain that stands still counts once."""
    _, first = np.unique(lp, return_index=True)
    flat = np.sort(first[np.isfinite(lp.ravel()[first])])
    if flat.size > DRAWS:
        flat = flat[np.linspace(0, flat.size - 1, DRAWS).round().astype(int)]
    return [(int(c), int(d)) for c, d in zip(*np.unravel_index(flat, lp.shape), strict=True)]


def _read(target: Target, row: np.ndarray, lp: float, chain: int, draw: int) -> _Point | None:
    position = _position(target, stanio.stan_variables(target.parameters, row))
    if position is None:
        return None
    ours, _, words = target.evaluate(position)
    return _Point(chain, draw, row, float(lp), position, ours, words)


def _position(target: Target, values: dict[str, Any]) -> np.ndarray | None:
    """Position of constrained values; None where rounding has put them on a boundary."""
    try:
        position = target.unconstrain(values)
    except StanadaptError:
        return None
    return position if np.isfinite(position).all() else None


def _excess(target: Target, points: list[_Point]) -> np.ndarray:
    """How far densities are apart at each point, beyond rounding; NaN where that tells nothing."""
    lp = np.array([point.lp for point in points])
    apart = np.array([point.ours for point in points]) - lp
    scale, rounding = np.maximum(1.0, np.abs(lp)), np.zeros(lp.size)
    beyond = _beyond(apart, EQUAL * scale)
    if np.any(beyond > EQUAL * scale):
        declared, rng = parse(block(target.program.code, "parameters")), np.random.default_rng(5)
        simplexes = {d.name for d in declared if d.base in SIMPLEXES} & target.parameters.keys()
        rounding = np.array([_rounding(target, point, simplexes, rng) for point in points])
        beyond = _beyond(apart, EQUAL * scale + rounding)
    tells = (beyond <= EQUAL * scale) | (rounding <= np.minimum(CLOSE * scale, LARGEST))
    return np.where(tells, np.maximum(0.0, beyond - np.where(tells, rounding, 0.0)), np.nan)


def _beyond(apart: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Distance from the constant: the median, in which a point weighs as well as it is known."""
    finite = np.flatnonzero(np.isfinite(apart))
    if not finite.size:
        return np.full(apart.size, np.inf)
    order = finite[np.argsort(apart[finite])]
    weight = np.cumsum(1.0 / known[order])
    constant = apart[order[np.searchsorted(weight, weight[-1] / 2)]]
    return np.where(np.isfinite(apart), np.abs(apart - constant), np.inf)


def _rounding(
    target: Target, point: _Point, simplexes: set[str], rng: np.random.Generator
) -> float:
    """How much the density near a point changes when a draw is written and read back.

    inf where it cannot be read back, or only to where the density is not finite.
    """
    if target.unconstrained:
        return 0.0
    if not _returns(target, point):
        return np.inf
    largest = 0.0
    for _ in range(NEIGHBOURS):
        # far enough for another rounding, near enough for one of the same size
        near = point.position + rng.uniform(-STEP, STEP, target.dim)
        before = target.evaluate(near)[0]
        if not np.isfinite(before):
            continue
        try:
            values = target.constrain(near)
        except RuntimeError:  # generated quantities may throw, which the backend stanli runs too
            continue
        for name in sorted(simplexes):
            values[name] = values[name] + rng.choice([-EPSILON, EPSILON], values[name].shape)
        back = _position(target, values)
        after = -np.inf if back is None else target.evaluate(back)[0]
        largest = max(largest, abs(after - before))
    return SAFETY * largest


def _returns(target: Target, point: _Point) -> bool:
    """Whether its position gives the draw: a singular matrix is read back as quite another."""
    try:
        again = target.model.param_constrain(point.position)
    except RuntimeError:
        return False
    parts = [slice(v.start_idx, v.end_idx) for v in target.parameters.values()]
    off = np.abs(point.row - again)
    return all(off[part].max() <= EQUAL * np.abs(point.row[part]).max() for part in parts)


def _judge(points: list[_Point], excess: np.ndarray, left_out: int, version: str) -> Verification:
    """Turn the excess, shape (point,), into a verdict and its sentence."""
    relative = excess / [max(1.0, abs(point.lp)) for point in points]
    badness = np.maximum(relative / CLOSE, excess / LARGEST)
    worst, largest, n = int(np.argmax(badness)), float(relative.max()), len(points)
    point, size = points[worst], f"largest relative difference {largest:.1g}"
    place = f"chain {point.chain + 1}, draw {point.draw + 1}"
    where = f"{size} ({excess[worst]:.2g} in log density, at {place})"
    if badness[worst] > 1:
        verdict, wrong = "differs", int(np.sum((relative > EQUAL) | (excess > LARGEST)))
        if np.isinf(excess[worst]):
            where = f"ours is {point.ours:g} where lp__ is {point.lp:.6g}, at {place}"
        text = f"differs from that of CmdStan {version} at {wrong} of {n} draws, {where}"
    elif largest > EQUAL:
        verdict, text = "close", f"close to that of CmdStan {version} at {n} draws, {where}"
    else:
        verdict, text = "equal", f"verified against CmdStan {version} at {n} draws, {size}"
    if left_out:
        text += f"; {left_out} more left out, too close to a boundary to be read back"
    return Verification(verdict, n, largest, f"density {text}", point.words)
