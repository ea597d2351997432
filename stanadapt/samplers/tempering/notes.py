"""Notes on a run that tempered: a statistic, the range in which it is fine, a code and a text.

Each text states what was found and a remedy; it is also a warning at the end of the run. No
diagnostic proves that all modes were found.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stanadapt.diagnostics.mixing import R_HAT_UNUSABLE
from stanadapt.errors import Message
from stanadapt.samplers.tempering.particles import MOST_STAGES

# above this barrier, tempering needs more levels and time than it is worth
LARGEST_BARRIER = 15.0
# below this number of round trips, over all chains, the weights of modes are unreliable
FEWEST_TRIPS = 10
# above this mean largest weight, the other pseudo-samples contribute nothing
DEAD_WEIGHT = 0.9995
# a level with fewer visits than this, relative to the mean, is reported
UNEVEN = 0.1
# above this share of sweeps in which no two levels shared an energy ring, few swaps are left
OFTEN_ALONE = 0.5
# orders of magnitude between the volumes of modes
LARGEST_ORDERS = 2.0
# below this effective number of ancestors, modes may have been lost
FEWEST_ANCESTORS = 20.0
# above this spread of the log evidence of runs, their weights differ by more than half
LARGEST_SPREAD = 0.5
# of jumps: fewer of them accepted, more of them from an empty ring, fewer chains
FEW_ACCEPTED, OFTEN_EMPTY, FEWEST_CHAINS = 0.5, 0.05, 4


class Tempered(NamedTuple):
    """What the notes are about."""

    name: str  # of the sampler
    group: xr.Dataset  # the group `tempering`, one row per chain
    stats: Mapping[str, np.ndarray]  # statistics by name, shape (chain, draw)
    powers: bool = False  # the path has no reference
    given: bool = False  # the user chose the stages
    r_hat: float = 1.0  # the largest
    log_volumes: np.ndarray = np.empty(0)  # of the visited modes
    # unvisited: number of the short chains that ended where the run has no draws
    unvisited: int = 0
    short_chains: int = 0

    @property
    def evidence(self) -> np.ndarray:
        """Log evidence of each chain."""
        return self.group["log_evidence"].values

    @property
    def evidence_range(self) -> float:
        """Largest difference between chains."""
        return float(np.ptp(self.evidence))

    @property
    def particles(self) -> int:
        """Number of different particles among the draws of a chain."""
        return len(np.unique(self.stats["particle"][0]))

    @property
    def loss(self) -> str:
        """Why few particles have descendants."""
        weighted = "log_weight" in self.group
        return "only the weights of few particles count" if weighted else "few were resampled"

    @property
    def better_zeta(self) -> float:
        """The log_zeta that would have made visits of the coordinate even."""
        return float((self.group["log_zeta"] + self.group["log_zeta_correction"]).mean())


class Note(NamedTuple):
    """A note for a statistic outside of its range; NaN is in any range."""

    code: str
    statistic: Callable[[Tempered], Any]
    text: str  # with the fields `value` and `limit`, and `of`, a Tempered
    above: float = np.inf
    below: float = -np.inf

    def on(self, tempered: Tempered) -> list[Message]:
        """Return the note, if it applies."""
        value = float(self.statistic(tempered))
        if not (value > self.above or value < self.below):
            return []
        limit = self.above if value > self.above else self.below
        text = self.text.format(value=value, limit=limit, of=tempered)
        return [Message(self.code, f"{tempered.name}: {text}")]


def _largest(variable: str) -> Callable[[Tempered], Any]:
    return lambda t: t.group[variable].max() if variable in t.group else np.nan


def _least_visits(t: Tempered) -> float:
    """Return the visits to the level with the fewest, relative to the mean of its chain."""
    if "occupancy" not in t.group:
        return np.nan
    visits = t.group["occupancy"]
    return np.nanmin(visits.values / visits.mean("level").values[:, None])


def _least_visits_to_tenths(t: Tempered) -> float:
    if "coordinate_occupancy" not in t.group:
        return np.nan
    return float(t.group["coordinate_occupancy"].min()) * t.group.sizes["tenth"]


def _is_known(t: Tempered) -> bool:
    return bool(np.isfinite(t.evidence).all())


def _share(part: str, *whole: str) -> Callable[[Tempered], Any]:
    """Return the share of one count in the sum of others; NaN if that is 0."""

    def share(t: Tempered) -> float:
        total = sum(t.stats[name].sum() for name in whole)
        return t.stats[part].sum() / total if total else np.nan

    return share


PATH_NOTES = (
    Note(
        "improper_hot_chains",
        lambda t: t.powers,
        "with reference_family=power the hot chains sample pure powers of the density. For most "
        "programs these are improper (the power at the smallest inverse temperature has no finite "
        "integral), and the chains drift away. Use reference_family=gaussian, or raise the "
        "smallest inverse temperature.",
        above=0.0,
    ),
    Note(
        "large_barrier",
        _largest("barrier"),
        "the barrier between reference and target is {value:.1f}, above {limit:g}: few states "
        "travel from one to the other. Give a reference closer to the target "
        "(reference_distribution or prior_data), or use parallel_tempering with more iterations.",
        above=LARGEST_BARRIER,
    ),
    Note(
        "few_round_trips",
        lambda t: t.stats["round_trips"].sum(),
        "only {value:.0f} round trips between reference and target over all chains: the weights of "
        "modes depend on the starting points. Sample longer, widen the reference (inflation), or "
        "give one (reference_distribution or prior_data).",
        below=FEWEST_TRIPS,
    ),
    Note(
        "idle_pseudo_samples",
        lambda t: np.mean(t.stats.get("largest_weight", np.nan)),
        "the largest weight is {value:.3f} on average: the other pseudo-samples never come close "
        "to the target. Try parallel_tempering, a longer warm-up, or a reference closer to the "
        "target.",
        above=DEAD_WEIGHT,
    ),
    Note(
        "empty_rings",
        _largest("without_pair"),
        "in {value:.0%} of iterations, no two temperatures had states in the same energy ring, so "
        "nothing was swapped. Use fewer rings.",
        above=OFTEN_ALONE,
    ),
    Note(
        "repeated_draws",
        lambda t: np.sum(np.equal(t.stats.get("returned", 1), 0)),
        "{value:.0f} of {of.stats[returned].size} draws are repeated: the chain did not return to "
        "the target within longest_excursion moves, because the normalizing constants were not "
        "learned. Lengthen warm-up.",
        above=0,
    ),
    Note(
        "uneven_visits",
        _least_visits,
        "one temperature was visited only {value:.2f} times as often as the average one: its "
        "normalizing constant was not learned, and modes of very different widths may be missed. "
        "Lengthen warm-up.",
        below=UNEVEN,
    ),
    Note(
        "uneven_visits",
        _least_visits_to_tenths,
        "a tenth of the coordinate was visited only {value:.2f} times as often as the average one: "
        "draws and round trips are rare. Use coordinate=barrier, a longer warm-up or, with "
        "coordinate=uniform, learn_log_zeta=false and log_zeta={of.better_zeta:.1f}.",
        below=UNEVEN,
    ),
)

PARTICLE_NOTES = (
    Note(
        "evidence_unknown",
        lambda t: np.sum(~np.isfinite(t.evidence)),
        "no draw of the reference has a positive density in {value:.0f} of {of.evidence.size} "
        "chains, which used their initial positions instead: their log evidence is unknown. Give a "
        "reference closer to the target (reference_distribution), or lengthen warm-up.",
        above=0,
    ),
    Note(
        "few_ancestors",
        lambda t: t.group["effective_ancestors"].min() if _is_known(t) else np.nan,
        "the particles of a chain effectively descend from only {value:.0f} of the first ones, "
        "since {of.loss}: modes may be missing, and errors are underestimated. Use more particles "
        "or sweeps, a threshold nearer 1, or a reference closer to the target "
        "(reference_distribution).",
        below=FEWEST_ANCESTORS,
    ),
    Note(
        "evidence_spread",
        lambda t: t.evidence.std(ddof=1) if _is_known(t) and t.evidence.size > 1 else np.nan,
        "log evidence differs between chains, which are independent runs, by "
        "{of.evidence_range:.1f}: neither it nor the weights of modes are known. Use more "
        "particles or sweeps, or a threshold nearer 1.",
        above=LARGEST_SPREAD,
    ),
    Note(
        "too_many_stages",
        lambda t: np.nan if t.given else t.group.sizes["level"],
        "{limit} stages did not reach the target, and the last one jumped to it. Give a reference "
        "closer to the target (reference_distribution), or lower the threshold.",
        above=MOST_STAGES,
    ),
    Note(
        "reused_particles",
        lambda t: t.stats["particle"].shape[1] / t.particles,
        "{of.stats[particle].shape[1]} draws of a chain come from {of.particles} particles in "
        "turn. Draws of the same particle are not independent, which R-hat and effective sample "
        "sizes do not show. Raise particles to the number of draws, or take {of.particles} draws.",
        above=1.0,
    ),
)

JUMP_NOTES = (
    Note(
        "empty_files",
        _share("n_empty", "n_jumps", "n_empty"),
        "for {value:.0%} of jumps, the hotter chain had stored no state in the same energy ring. "
        "Lengthen warm-up, or raise levels.",
        above=OFTEN_EMPTY,
    ),
    Note(
        "rejected_jumps",
        _share("n_jumps_accepted", "n_jumps"),
        "{value:.0%} of jumps were accepted: rings are too wide. Raise levels, or lower "
        "highest_temperature.",
        below=FEW_ACCEPTED,
    ),
    Note(
        "shared_file_error",
        lambda t: len(t.stats["ring"]),
        "the stored states have an error that is common to all draws of a chain. Only a comparison "
        "of several chains shows it: run at least {limit}.",
        below=FEWEST_CHAINS,
    ),
)


MODE_NOTES = (
    Note(
        "chains_disagree_on_modes",
        lambda t: t.r_hat,
        "R-hat is {value:.2f}: chains disagree on the weights of modes, or are stuck in some. "
        "Sample longer, lengthen warm-up, or give a reference distribution "
        "(reference_distribution, prior_data); stanadapt.modes shows the modes of each chain.",
        above=R_HAT_UNUSABLE,
    ),
    Note(
        "unequal_mode_volumes",
        lambda t: np.ptp(t.log_volumes) / np.log(10.0) if t.log_volumes.size else 0.0,
        "the visited modes differ in volume by {value:.1f} orders of magnitude. Tempering finds "
        "modes according to their volume: smaller ones may have been missed without any other "
        "sign, and weights converge slowly. Start chains in the narrow modes that you expect "
        "(inits), and compare.",
        above=LARGEST_ORDERS,
    ),
    Note(
        "unvisited_regions",
        lambda t: t.unvisited,
        "{value:.0f} of the {of.short_chains} short chains of warm-up ended in regions of high "
        "density in which the run has no draws. If these are modes, they have little weight, or "
        "are too narrow for tempering to find again: start chains there (inits), and compare.",
        above=0,
    ),
)


def of_run(tempered: Tempered) -> list[Message]:
    """Return notes on a run of particles, or along a path, and on its modes."""
    if "ancestors" in tempered.group:
        return apply(PARTICLE_NOTES + MODE_NOTES, tempered)
    if "largest_weight" in tempered.stats and "occupancy" not in tempered.group:
        return apply(MODE_NOTES, tempered)  # one pseudo-sample: nothing is tempered
    return apply(PATH_NOTES + MODE_NOTES, tempered)


def apply(notes: tuple[Note, ...], tempered: Tempered) -> list[Message]:
    """Return those of some notes that apply."""
    return [message for note in notes for message in note.on(tempered)]
