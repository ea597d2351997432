"""The shape of a posterior by a fit of any sampler: distance from a Gaussian, tails without draws.

A fit by NUTS may pass every check and yet lack the neck of a funnel: its steps are too long to
enter. Gradients at its draws still show that the posterior is a funnel. From them the map of
`samplers.whitened` is learned, after which the coordinates are nearly independent. The marginal
density of a scale is then the average of its conditional densities, given what the draws have in
the other coordinates (Gelfand and Smith, 1990, Journal of the American Statistical Association 85),
and that average also has mass in regions without draws of the fit.
"""

from typing import NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.mixing import mixing
from stanadapt.diagnostics.modes import parameter_rows, require_fit_of
from stanadapt.engine.triangular_map import place, with_memory
from stanadapt.errors import Message
from stanadapt.results import Fit
from stanadapt.samplers.whitened.findings import dependencies
from stanadapt.samplers.whitened.straighten import straighten
from stanadapt.samplers.whitened.straightened import UNCHANGED, Straightened, apply_map
from stanadapt.studies.noncentered import noncentered_lines
from stanadapt.targets.target import Target

# draws at which gradients are computed
MOST_DRAWS = 600
# distances above which a posterior is called far from a Gaussian, and below which coordinates are
# nearly independent
FAR, NEARLY_INDEPENDENT = 0.3, 0.3
# conditional densities averaged, points of each, and how far they reach beyond the draws, in units
# of their range
CONDITIONALS, POINTS, REACH = 24, 161, 2.0
# mass beyond all draws that is reported: this much, and more than chance leaves there, by the
# effective sample size
LARGEST_MISSED, BY_CHANCE = 0.01, 5.0


class Tail(NamedTuple):
    """A tail of one coordinate beyond all draws of a fit, and its mass by the density."""

    name: str
    side: str
    mass: float


class Shape(NamedTuple):
    """What the draws of a fit, and gradients there, show of a posterior."""

    found: Straightened  # the distance from a Gaussian, and the map that reduces it
    tails: list[Tail]  # tails without draws
    program: list[str]  # lines of the noncentered program, for the groups of the map
    names: list[str]  # names of the coordinates
    was_straightened: bool  # whether the fit was drawn in the coordinates of such a map

    @property
    def messages(self) -> list[Message]:
        """What a user should know; empty if the posterior is close to a Gaussian."""
        distance, found = self.found.distance_before, self.found
        if not np.isfinite(distance):
            text = "The distance from a Gaussian cannot be computed: too few draws with a gradient."
            return [Message("shape_unknown", text)]
        messages = []
        if distance > FAR:
            text = f"The distance from a Gaussian is {distance:.2g} (0 for a Gaussian)"
            if found.map_is_used:
                text += (
                    f": {dependencies(found, self.names)}; without that, it is {found.distance:.2g}"
                )
            messages.append(Message("far_from_gaussian", f"{text}. {self._remedy}"))
        for tail in self.tails:
            text = (
                f"The density has {tail.mass:.0%} of its mass at values of {tail.name} {tail.side} "
                "all draws: do not use this fit."
            )
            messages.append(Message("tail_missed", text))
        return messages

    @property
    def _remedy(self) -> str:
        remedy = "The default sampler draws from the straightened posterior"
        if self.was_straightened:
            remedy = "This fit was drawn from the straightened posterior"
        elif not self.found.map_is_used:
            return "No coordinates were found on which scales or locations depend."
        if not self.program:
            return f"{remedy}."
        lines = "\n".join(f"    {line}" for line in self.program)
        return f"{remedy}; for NUTS, write the program as\n{lines}"


def measure_shape(target: Target, fit: Fit) -> Shape:
    """Measure how far a posterior is from a Gaussian at draws of a fit, and find its lost tails.

    StanadaptError unless `fit` is a fit of `target` with all of its parameters.
    """
    require_fit_of(target, fit, "diagnose")
    rows, chain = parameter_rows(target, fit)
    per_chain = len(rows) // (chain[-1] + 1)
    kept = np.linspace(0, per_chain - 1, min(per_chain, max(1, MOST_DRAWS // (chain[-1] + 1))))
    chosen = (np.arange(0, len(rows), per_chain)[:, None] + kept.round().astype(int)).ravel()
    positions = target.unconstrain_rows(rows[chosen])
    finite = np.isfinite(positions).all(axis=1)
    gradients = target.evaluate_rows(positions)[1]
    found = straighten(positions, gradients, UNCHANGED, 0.0)
    names = target.coordinate_names
    straightened = results.attribute(fit, "straightening") is not None
    if not found.map_is_used:
        return Shape(found, [], [], names, straightened)
    tails = []
    if found.distance < NEARLY_INDEPENDENT and finite.all():
        y, _, _ = apply_map(found.straightening, positions, gradients)
        scales = sorted({driver for group in found.groups for driver, _ in group.prior.scales})
        # of all draws, chain by chain: some hundred of them end before the others do
        parts = (target.unconstrain_rows(part) for part in np.split(rows, chain[-1] + 1))
        mapped = [apply_map(found.straightening, x, np.zeros_like(x))[0][:, scales] for x in parts]
        for scale, draws in zip(scales, np.moveaxis(np.array(mapped), -1, 0), strict=True):
            tails += _tails(target, found, y, scale, draws)
    program = noncentered_lines(target, found, positions[finite])
    return Shape(found, tails, program, names, straightened)


def _tails(
    target: Target, found: Straightened, y: np.ndarray, scale: int, draws: np.ndarray
) -> list[Tail]:
    """Return the tails of a coordinate, in those of the map, that have mass but no draws.

    All `draws` of it have shape (chain, draw); y are those at which gradients were computed.
    """
    if not np.isfinite(draws).all():
        return []
    low, high = draws.min(), draws.max()
    grid = np.linspace(low - REACH * (high - low), high + REACH * (high - low), POINTS)
    density = _marginal(target, found, y, scale, grid)
    size = mixing(draws).ess_bulk
    limit = max(LARGEST_MISSED, BY_CHANCE / size) if size > 0.0 else np.inf
    name = target.coordinate_names[scale]
    if scale in found.straightening.coordinate:  # then this is its standardized residual
        name += ", given the parameters that it depends on,"
    edges, below = grid + 0.5 * (grid[1] - grid[0]), np.cumsum(density)
    masses = {
        "below": float(np.interp(low, edges, below)),
        "above": 1.0 - float(np.interp(high, edges, below)),
    }
    return [Tail(name, side, mass) for side, mass in masses.items() if mass > limit]


def _marginal(
    target: Target, found: Straightened, y: np.ndarray, scale: int, grid: np.ndarray
) -> np.ndarray:
    """Return the average of conditional densities on a grid, each with a sum of 1."""
    straightening = with_memory(found.straightening, y.shape[1])
    others = y[np.linspace(0, len(y) - 1, CONDITIONALS).round().astype(int)]
    average, x = np.zeros(len(grid)), np.empty(y.shape[1])
    for row in others:
        logs, at = np.empty(len(grid)), row.copy()
        for i, value in enumerate(grid):
            at[scale] = value
            log_jacobian = place(straightening, at, x)
            logs[i] = target.evaluate(x)[0] + log_jacobian
        logs = np.where(np.isfinite(logs), logs, -np.inf)
        if np.isfinite(logs.max()):
            density = np.exp(logs - logs.max())
            average += density / density.sum()
    return average / max(average.sum(), 1e-300)
