"""Find the modes that the draws of a fit visited: positions, weights, and agreement of chains."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stanadapt import results
from stanadapt.diagnostics import printed_tables
from stanadapt.diagnostics.hill_climb import Ends, climb, group_ends, make_frame
from stanadapt.diagnostics.ranked import effective_size, size_of_mean
from stanadapt.errors import Message, StanadaptError, answers_other_words, require_whole
from stanadapt.results import Fit
from stanadapt.targets.target import (
    Target,
    check_same_target,
    parameter_draws,
    require_exact_density,
    require_target,
)

# climbs: all of them miss a mode with 1 % of the draws in 13 % of fits, with 2 % in 2 %
STARTS = 200
ASSIGNED = 20_000  # draws assigned to a mode, evenly thinned: 0.03 ms each
# A saddle this shallow at most halves the density, so that chains cross it easily; two equal normal
# modes are joined up to a distance of about 3 standard deviations.
DIP = 0.5
FEWEST = 10
RARE = 0.01  # a chain may miss a mode lighter than this without making the weights suspect
LARGEST_Z = 4.0  # between a chain and the others, largest over chains and modes
LARGEST_DOUBT = 0.02  # share of climbed draws nearest to a draw of another mode
# labels switch between modes with such a difference of log densities, and of entries by their range
LIKE, NEAR = 1.0, 0.1
SHOWN_COLUMNS, SHOWN_CHAINS = 6, 8
NOT_TRUSTED = "the weights cannot be trusted"
NO_PROOF = "No diagnostic can prove that all modes were found: only visited modes are listed."


class Modes(printed_tables.PrintedFrame):
    """The modes of a posterior: a data frame that prints as a table with messages.

    Printed are the first parameters and chains only.
    """

    @property
    def _is_complete(self) -> bool:
        return {"weight", "error", "log_density", "position"} <= set(self.columns)

    def _printed(self) -> printed_tables.Printed:
        positions = [results.scalars(position) for position in self["position"]]
        names = list(dict.fromkeys(name for position in positions for name in position))
        chains = [name for name in self.columns if name.startswith("weight_")][:SHOWN_CHAINS]
        titles = {c: c.replace("weight_", "chain ") for c in ("weight", "error", *chains)}
        shown = {title: [f"{x:.3f}" for x in self[name]] for name, title in titles.items()}
        shown["log density"] = ["" if np.isnan(x) else f"{x:.2f}" for x in self["log_density"]]
        for name in names[:SHOWN_COLUMNS]:
            shown[name] = [f"{x[name]:.4g}" if name in x else "" for x in positions]
        numbers = [str(number) for number in self.index]
        table = printed_tables.PrintedTable("mode", numbers, shown, {})
        return printed_tables.Printed([table], self.attrs.get("messages", []))

    def scalar_columns(self) -> pd.DataFrame:
        """Return a table with one column per scalar parameter in place of `position`."""
        positions = pd.DataFrame([results.scalars(p) for p in self["position"]], index=self.index)
        return self.drop(columns="position").join(positions)


@answers_other_words
def modes(fit: Fit, target: Target, *, starts: int = STARTS) -> Modes:
    """Find the modes that the draws of a fit visited, and estimate their weights.

    From `starts` evenly spaced draws, an optimizer climbs the log density on the unconstrained
    scale. Two end points belong to the same mode if the log density falls by no more than 0.5 on a
    path between them. Each draw (of at most 20,000, evenly thinned) is assigned to the mode of the
    nearest climbed draw. A long curved ridge may be split if there are too few climbs to follow it:
    raise `starts`.

    Parameters
    ----------
    fit : Fit
        Result of `sample` or `stan_nuts`, with one chain or more.
    target : Target
        The target that was sampled, with the same program and data; it must not have noise.
    starts : int
        Number of climbs, at least 10. A mode of weight w is found with probability
        1 - (1 - w)^starts if draws are independent.

    Returns
    -------
    Modes
        A pandas.DataFrame with one row per mode, heaviest first, numbered from 1, which prints as a
        table with messages.

        - `weight`, and `weight_1`, ... by chain.
        - `error` is the Monte Carlo standard error of the weight: the larger of ArviZ's and that
          from the spread of chains.
        - `log_density` is on the unconstrained scale, includes the Jacobian, and is known up to a
          constant.
        - `position` has the constrained values by parameter, in Stan's shapes.

        If climbs leave the neighborhood of the draws (the density has no maximum, as in a funnel),
        `log_density` is NaN and `position` empty: the row is a region, not a mode.
        `attrs["messages"]` states whether chains agree, and the limits of the method.

    Raises
    ------
    StanadaptError
        Stage "settings", unless `fit` is a fit of `target` with draws that can be evaluated.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, "rwm", seed=1, show_progress=False)
    >>> table = sa.modes(fit, target, starts=20)
    >>> len(table), round(float(table.loc[1, "position"]["x"]), 2)
    (1, 1.0)
    """
    require_whole("starts", starts, FEWEST)
    require_fit_of(target, fit, "modes")
    rows, chain = parameter_rows(target, fit)
    position = target.unconstrain_rows(rows)
    read = np.isfinite(position).all(axis=1)
    places = np.flatnonzero(read)
    spaced = np.linspace(0, len(places) - 1, min(starts, len(places))).round().astype(int)
    usable = [i for i in places[spaced] if _is_finite(target, position[i])]
    if len(usable) < FEWEST:
        raise StanadaptError(
            "too_few_starts",
            f"modes needs at least {FEWEST} draws at which {target.name} can be evaluated, got "
            f"{len(usable)}: sample longer.",
        )
    centered, scale = _center(position[read], chain[read])
    frame = make_frame(centered, scale)
    ends = climb(target.evaluate, position[usable], frame)
    group = group_ends(target.evaluate, ends, frame, DIP)
    nearest, doubtful = _assign(position[read], position[usable], group)
    visited = np.full((group.max() + 1, len(rows)), np.nan)
    visited[:, read] = nearest == np.arange(group.max() + 1)[:, None]
    heaviest = np.argsort(-np.nanmean(visited, axis=1), kind="stable")
    visited = visited[heaviest].reshape(len(visited), chain[-1] + 1, -1)
    table = _table(target, visited, np.argsort(heaviest)[group], ends)
    table.attrs["messages"] = [
        *_describe_regions(table),
        *_describe_labels(table),
        *_describe_chains(visited),
        *_describe_doubt(float(doubtful.mean()), int((~read).sum())),
        Message("unseen_modes", NO_PROOF),
    ]
    return table


def _is_finite(target: Target, position: np.ndarray) -> bool:
    value, gradient, _ = target.evaluate(position)
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def require_fit_of(target: Target, fit: Any, user: str) -> None:
    """Raise StanadaptError unless fit is a fit of a target whose density has gradients."""
    require_climbable(target, user)
    if not results.is_fit(fit):
        raise StanadaptError(
            "not_a_fit",
            f"{user} expects a result of sample or stan_nuts, got {type(fit).__name__}."
            + " Call it for each fit." * isinstance(fit, list | tuple | dict),
        )
    check_same_target(target, fit)


def require_climbable(target: Target, user: str) -> Target:
    """Return a target; StanadaptError if its density has noise."""
    cure = f"it cannot be climbed. Give {user} a target without noise."
    require_exact_density(require_target(target), "estimated_density", "", cure)
    return target


def parameter_rows(target: Target, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Return thinned draws of all parameters, shape (draw, column), and the chain of each.

    Raises StanadaptError if the fit lacks a parameter of the target.
    """
    values = parameter_draws(target, fit)
    chains, draws, _ = values.shape
    thinned = np.linspace(0, draws - 1, min(draws, ASSIGNED // chains)).round().astype(int)
    rows = values[:, thinned].reshape(chains * thinned.size, -1)
    return rows, np.repeat(np.arange(chains), thinned.size)


def _spread(values: np.ndarray) -> np.ndarray:
    """Return robust standard deviations of columns; 1 for a constant column."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    spread = (high - low) / 1.35
    spread = np.where(spread > 0, spread, values.std(axis=0))
    return np.where(spread > 0, spread, 1.0)


def _center(position: np.ndarray, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Subtract the median of each chain; return draws, shape (draw, dim), and spread, shape (dim,).

    The spread is that within chains: chains stuck far from each other must not stretch the unit of
    length.
    """
    centered, spread = position.copy(), []
    for c in np.unique(chain):
        centered[chain == c] -= np.median(position[chain == c], axis=0)
        spread.append(_spread(centered[chain == c]))
    return centered, np.median(spread, axis=0)


def _assign(
    position: np.ndarray, start: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of the start nearest to each position, and starts near another group."""
    centers = np.array([np.median(start[group == g], axis=0) for g in range(group.max() + 1)])
    # the distance between modes must not stretch the unit of length
    scale = _spread(start - centers[group])
    tree = scipy.spatial.cKDTree(start / scale)
    nearest = group[tree.query(position / scale)[1]]
    two = tree.query(start / scale, k=2)[1]
    other = np.where(two[:, 0] == np.arange(len(start)), two[:, 1], two[:, 0])
    return nearest, group[other] != group


def _table(target: Target, visited: np.ndarray, group: np.ndarray, ends: Ends) -> Modes:
    """Make the table; `visited` has shape (mode, chain, draw), NaN for draws without position."""
    rows = []
    for g, visits in enumerate(visited):
        members = np.flatnonzero(group == g)
        best = members[np.argmax(ends.log_density[members])]
        inside = bool(ends.inside[best])
        by_chain = np.nanmean(visits, axis=1)
        rows.append(
            {"weight": np.nanmean(visits), "error": _error(visits)}
            | {f"weight_{c}": weight for c, weight in enumerate(by_chain, 1)}
            | {
                "log_density": ends.log_density[best] if inside else np.nan,
                "position": target.constrain(ends.position[best]) if inside else {},
            }
        )
    return Modes(rows, index=pd.RangeIndex(1, len(rows) + 1, name="mode"))


def _error(visits: np.ndarray) -> float:
    """Return the standard error of a weight, at least that from the spread of chains."""
    visits = np.nan_to_num(visits)
    if np.ptp(visits) == 0:
        return 0.0
    ess = size_of_mean(visits)
    within = visits.std() / np.sqrt(ess if ess >= 1 else 1.0)  # NaN for fewer than four draws
    between = visits.mean(axis=1).std(ddof=1) / np.sqrt(len(visits)) if len(visits) > 1 else 0.0
    return float(max(within, between))


def _describe_regions(table: pd.DataFrame) -> list[Message]:
    """Report rows that are not modes."""
    return [
        Message(
            "no_maximum",
            f"Row {number} is a region, not a mode: from its draws (weight {row['weight']:.3f}) "
            "the density rises until it leaves the neighborhood of all draws, as in a funnel, or "
            "because it has no maximum.",
        )
        for number, row in table.iterrows()
        if np.isnan(row["log_density"])
    ]


def _describe_labels(table: pd.DataFrame) -> list[Message]:
    """Report the first two modes that differ in the order of the entries of vectors only."""
    for (one, first), (other, second) in combinations(table.iterrows(), 2):
        if abs(first["log_density"] - second["log_density"]) < LIKE:
            name = _permuted(first["position"], second["position"])
            if name:
                text = (
                    f"Mode {other} is mode {one} with the entries of {name} in another order: "
                    "labels switch, and means of single entries have no meaning. Declare "
                    f"{name}, or locations of the same length, as `ordered`, or summarize what "
                    "does not depend on labels."
                )
                return [Message("labels_switch", text)]
    return []


def _permuted(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return a vector that, with all others of its length, has another order in the other mode."""
    vectors = {n: x for n, x in one.items() if np.ndim(x) == 1 and x.size and np.isrealobj(x)}

    def differs(name: str, order: Any) -> bool:
        x = np.asarray(vectors[name])
        scale = max(np.ptp(x), NEAR * np.abs(x).max())
        return bool(np.any(np.abs(x[order] - other[name]) > NEAR * scale))

    for name, x in vectors.items():
        order = np.argsort(x)[np.argsort(np.argsort(other[name]))]
        like = [each for each in vectors if len(vectors[each]) == len(x)]
        if differs(name, slice(None)) and not any(differs(each, order) for each in like):
            return name
    return ""


def _describe_chains(visited: np.ndarray) -> list[Message]:
    """Report whether chains agree.

    `visited`, shape (mode, chain, draw): whether a draw belongs to a mode; NaN for draws left out.
    """
    weight = np.nanmean(visited, axis=2)
    modes, chains = weight.shape
    if chains == 1:
        count = "one mode" if modes == 1 else f"{modes} modes"
        text = f"One chain, {count}: run several chains from different starts, and compare them."
        return [Message("one_chain", text)]
    if modes == 1:
        text = f"All {chains} chains stayed in the same region, which is the only row of the table."
        return [Message("chains_in_one_mode", text)]
    if np.all((weight == 0) | (weight == 1)):
        text = (
            f"No chain ever left its mode: {NOT_TRUSTED}, since they only reflect the starting "
            "points. Use a sampler for multimodal posteriors."
        )
        return [Message("no_mode_switches", text)]
    absent = [_describe_absent(m, weight[m]) for m in range(modes) if not weight[m].all()]
    z = max(_largest_z(visits) for visits in np.nan_to_num(visited))
    start = "Largest" if absent else f"All {chains} chains visited all {modes} modes; largest"
    text = f"{start} difference of a chain from the others: z = {z:.1f}"
    if z > LARGEST_Z:
        return [*absent, Message("mode_weights_differ", f"{text}: {NOT_TRUSTED}.")]
    return [*absent, Message("mode_weights_agree", f"{text}.")]


def _describe_absent(mode: int, weight: np.ndarray) -> Message:
    """Report the chains that never visited a mode; `weight` is that of the mode by chain."""
    absent = [str(c + 1) for c in np.flatnonzero(weight == 0)]
    who = f"Chain {absent[0]}" if len(absent) == 1 else f"Chains {', '.join(absent)}"
    others = weight[weight > 0].mean()
    rare = others < RARE
    trust = ", too few to rule out chance" if rare else f": {NOT_TRUSTED}"
    plural = "chain's" if (weight > 0).sum() == 1 else "chains'"
    return Message(
        "rare_mode" if rare else "chain_missed_mode",
        f"{who} never visited mode {mode + 1}, which has {others:.2g} of the other {plural} "
        f"draws{trust}.",
    )


def _largest_z(visits: np.ndarray) -> float:
    """Return the largest difference of a chain's weight from the others', in standard errors.

    `visits` has shape (chain, draw). The variance is that of all chains together, as if they
    agreed, since a chain with one visit cannot estimate its own.
    """
    ess = np.array([effective_size(chain[None]) if np.ptp(chain) else np.nan for chain in visits])
    # a chain that never moved is assumed to be like the others
    ess = np.where(np.isfinite(ess), ess, np.nanmedian(ess) if np.isfinite(ess).any() else 1.0)
    weight, sd = visits.mean(axis=1), visits.std()
    if sd == 0:
        return 0.0
    z = []
    for chain in range(len(visits)):
        others = np.delete(ess, chain)
        rest = np.average(np.delete(weight, chain), weights=others)
        z.append(abs(weight[chain] - rest) / (sd * np.sqrt(1 / ess[chain] + 1 / others.sum())))
    return float(max(z))


def _describe_doubt(doubtful: float, left_out: int) -> list[Message]:
    """Report the share of draws that may have the wrong mode, and draws without a position."""
    facts = (
        (
            "touching_modes", doubtful > LARGEST_DOUBT,
            f"{doubtful:.0%} of the climbed draws are nearest to a draw of another mode: the modes "
            "touch, and weights may be wrong by the same amount.",
        ),
        (
            "boundary_draws", left_out > 0,
            f"{left_out} draws on the boundary of a constraint were left out.",
        ),
    )  # fmt: skip
    return [Message(code, text) for code, holds, text in facts if holds]
