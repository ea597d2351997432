"""State of a chain in a pooled warm-up: its tuning, and its record of the current block.

A block is a number of iterations that every chain makes by itself; after it, chains are pooled.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.adaptation import Averaging
from stanadapt.engine.compiled.jit import jit

# columns of Record.numbers
ACCEPTANCE, LOG_DENSITY, DIVERGING, STEEP = range(4)
NUMBERS = 4
# beyond this number, some chains may differ from the others
MANY_CHAINS = 8
# windows of NUTS are judged by all draws but the first sixth
JUDGED_FROM = 6

# chains are in separate modes if R-hat exceeds this in a window of that length, or longer, and the
# halves of each chain are typically less than MIXED of their standard deviation apart
SEPARATE, LEAST_TO_SEPARATE, MIXED = 5.0, 30, 0.35


def sd_of_level(dim: int) -> float:
    """Return the standard deviation of the log density of a Gaussian."""
    return float(np.sqrt(dim / 2))


def unit_of_levels(dim: int, sds: float = 3.0) -> float:
    """Return the unit of distances between levels of the log density: draws are hardly as far."""
    return sds * sd_of_level(dim) + 2.0


class Tuning(NamedTuple):
    """How a chain moves, and how it learns its step size within a block.

    two_stage, n_steps
        Whether trajectories consist of n_steps two-stage steps; if not, NUTS is used.
    step_size, averaging
        Step size in units of the whitened posterior, and its dual averaging.

    """

    two_stage: bool
    step_size: float
    n_steps: int
    averaging: Averaging
    learns_step: bool  # whether `adapt` changes the step size
    # if positive, the next iteration of NUTS begins with a search for a step size, and dual
    # averaging is centered at this multiple of the result
    search: float
    nuts_target_accept: float  # acceptance rate to tune the step size of NUTS to
    max_treedepth: int  # largest depth of a tree of NUTS
    # whether the chain has stored L^T g for its current point and the current factor L
    force_known: bool


class Record(NamedTuple):
    """The iterations of a chain since chains were last pooled, written in place by the loop."""

    # positions, gradients: shape (length, dim)
    positions: np.ndarray
    gradients: np.ndarray
    # ACCEPTANCE, LOG_DENSITY and DIVERGING, and STEEP: whether a trajectory of NUTS diverged within
    # the support, where a shorter step may help; shape (length, 4)
    numbers: np.ndarray
    rows: np.ndarray  # how many of them are filled, shape (1,)


@jit
def no_record(dim):
    """Return a Record that keeps nothing."""
    rows = np.zeros(1, np.int64)
    return Record(np.empty((0, dim)), np.empty((0, dim)), np.empty((0, NUMBERS)), rows)


class Window(NamedTuple):
    """A block of all chains, in their order."""

    # positions, gradients, numbers: shapes (chain, iteration, dim) twice, and (chain, iteration, 4)
    positions: np.ndarray
    gradients: np.ndarray
    numbers: np.ndarray
    moved: np.ndarray  # whether each chain moved at all, shape (chain,)

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.positions.shape[2]

    @property
    def acceptance(self) -> np.ndarray:
        """Acceptance probabilities, shape (chain, iteration)."""
        return self.numbers[:, :, ACCEPTANCE]

    @property
    def log_density(self) -> np.ndarray:
        """Log densities, shape (chain, iteration)."""
        return self.numbers[:, :, LOG_DENSITY]

    @property
    def divergences(self) -> int:
        """Number of trajectories that diverged."""
        return int(self.numbers[:, :, DIVERGING].sum())

    @property
    def steep_share(self) -> float:
        """Share of trajectories of NUTS that diverged within the support, among those judged."""
        steep = self.judged(STEEP)
        return float(steep.mean()) if steep.size else 0.0

    def judged(self, column: int) -> np.ndarray:
        """Return a column of `numbers` without the first sixth, whose steps may be too long."""
        return self.numbers[:, self.numbers.shape[1] // JUDGED_FROM :, column]

    @property
    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and gradients of all chains that moved, shapes (m, dim).

        A chain that never moved carries no information about scales, and its distance from the
        others would be mistaken for one. If no chain moved, all are returned.
        """
        which = self.moved if self.moved.any() else ~self.moved
        positions, gradients = self.positions[which], self.gradients[which]
        return positions.reshape(-1, self.dim), gradients.reshape(-1, self.dim)

    @property
    def within_modes(self) -> "Window":
        """Return the window, without the distances between chains if they are in separate modes.

        A metric of all of them would be that of these distances, and far too wide in each mode.
        Chains that move slowly are apart too, but so are the halves of each.
        """
        few = self.positions.shape[1] < LEAST_TO_SEPARATE
        if few or self.r_hat <= SEPARATE or self._drift() > MIXED:
            return self
        return self._replace(
            positions=_about_one_mean(self.positions), gradients=_about_one_mean(self.gradients)
        )

    def _drift(self) -> float:
        """Typical distance between the means of halves of a chain, in their standard deviations."""
        positions = self.positions[self.moved]
        if not len(positions):
            return np.inf
        half = positions.shape[1] // 2
        halves = np.stack([positions[:, :half], positions[:, -half:]])
        between, within = halves.mean(axis=2).var(axis=0, ddof=1), halves.var(axis=2).mean(axis=0)
        return float(np.sqrt(np.median(between / np.maximum(within, np.finfo(float).tiny))))

    def part(self, iterations: slice) -> "Window":
        """Return the window of some of the iterations."""
        return Window(
            self.positions[:, iterations],
            self.gradients[:, iterations],
            self.numbers[:, iterations],
            self.moved,
        )

    def settled(self, former: np.ndarray, *, together: bool = False) -> bool:
        """Whether the log density has stopped changing, within and between chains.

        former contains the chains' means in the previous block, shape (chain,). If `together`, it
        suffices that the mean of all chains has.
        """
        changes, sd = self.log_density.mean(axis=1) - former, sd_of_level(self.dim)
        same = bool(_all_but_few(np.abs(changes))[1] < sd + 1.0)
        # the more chains, the sooner one of them changes much by chance
        if len(changes) > MANY_CHAINS or together:
            same |= bool(np.abs(changes.mean()) < (sd + 1.0) * np.sqrt(4.0 / len(changes)))
        return same and not self.levels_differ()

    def levels_differ(self) -> bool:
        """Whether chains have levels of the log density too different for one distribution."""
        lowest, highest = _all_but_few(self.log_density.mean(axis=1))
        return bool(highest - lowest >= self._apart())

    def _apart(self) -> float:
        """Return a distance between the highest and the lowest levels of one distribution.

        The log density moves slowly: in a short window, the mean of a chain is nearly that of one
        draw, and nine tenths of these are within 3.3 standard deviations, but four are within 2.
        """
        return unit_of_levels(self.dim, 3.0 if len(self.numbers) <= MANY_CHAINS else 4.5)

    def still_moving(self, former: np.ndarray) -> bool:
        """Whether a chain is far below another, or still rises fast: ten times the bounds above."""
        return bool(self.rising(former).any() or self.far_below().any())

    def rising(self, former: np.ndarray) -> np.ndarray:
        """Which chains still rise fast."""
        rises = self.log_density.mean(axis=1) - former
        return rises > 10.0 * (sd_of_level(self.dim) + 1.0)

    def far_below(self) -> np.ndarray:
        """Which chains are far below the highest, by the bound of `still_moving`."""
        means = self.log_density.mean(axis=1)
        return means < means.max() - 10.0 * unit_of_levels(self.dim)

    def stuck(self, former: np.ndarray) -> np.ndarray:
        """Which chains stay on a level below that of the highest, by the bounds of `settled`."""
        means, sd = self.log_density.mean(axis=1), sd_of_level(self.dim)
        lower = means < _all_but_few(means)[1] - self._apart()
        return lower & (np.abs(means - former) < sd + 1.0)

    @property
    def r_hat(self) -> float:
        """Largest split R-hat of all coordinates and the log density, of chains that moved."""
        values = np.concatenate([self.positions, self.log_density[:, :, None]], axis=2)
        values = values[self.moved]
        half = values.shape[1] // 2
        if not len(values) or half < 2:
            return np.inf
        halves = np.concatenate([values[:, :half], values[:, -half:]])
        within = halves.var(axis=1, ddof=1).mean(axis=0)
        between = halves.mean(axis=1).var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt((half - 1) / half + between / within)
        return float(np.nanmax(ratio, initial=1.0))


def _about_one_mean(rows: np.ndarray) -> np.ndarray:
    moved: np.ndarray = rows - rows.mean(axis=1, keepdims=True) + rows.mean(axis=(0, 1))
    return moved


def _all_but_few(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest value of chains; of many, of nine tenths of them.

    The extremes of hundreds of means of a few draws exceed any bound, although nothing is wrong.
    """
    ordered = np.sort(values)
    few = len(ordered) // 20 if len(ordered) > MANY_CHAINS else 0
    return ordered[few], ordered[len(ordered) - 1 - few]


def make_window(states: Sequence[Any]) -> Window:
    """Stack the blocks of all chains, which are equally long."""
    rows = min(state.record.rows[0] for state in states)
    positions, gradients, numbers = (
        np.stack([getattr(state.record, field)[:rows] for state in states])
        for field in ("positions", "gradients", "numbers")
    )
    moved = np.ptp(positions, axis=1).any(axis=1) if rows else np.zeros(len(states), bool)
    return Window(positions, gradients, numbers, moved)


def make_room(state: Any, length: int) -> Any:
    """Return the state with an empty block that has room for `length` iterations."""
    record, dim, rows = state.record, state.record.positions.shape[1], np.zeros(1, np.int64)
    if len(record.positions) < length:
        record = Record(
            np.empty((length, dim)), np.empty((length, dim)), np.empty((length, NUMBERS)), rows
        )
    return state._replace(record=record._replace(rows=rows))
