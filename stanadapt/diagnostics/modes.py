"""The modes that the draws of a fit visited: positions, weights, and which chains visited them.

Messages on a table of modes, and its printed form.
"""

import sys
from typing import Any

import numpy as np
import pandas as pd
import stanio
from rich.console import Console
from rich.table import Table
from scipy.spatial import cKDTree

from stanadapt import results
from stanadapt.diagnostics.hill_climb import Ends, climb, frame_of, group_ends
from stanadapt.diagnostics.mixing import ess_of_chain
from stanadapt.errors import StanadaptError, require_flag
from stanadapt.results import arviz_module
from stanadapt.targets.target import Target, check_same_target, require_target

RARE = 0.01  # a chain may miss a mode lighter than this without making the weights suspect
LARGEST_Z = 4.0  # between a chain and the others, largest over chains and modes
LARGEST_DOUBT = 0.02
SHOWN_COLUMNS, SHOWN_CHAINS = 6, 8
NOT_TRUSTED = "the weights cannot be trusted"
NO_PROOF = "No diagnostic proves that all modes were found: only visited ones can be listed."


def on_regions(table: pd.DataFrame) -> list[str]:
    """Sentences on rows that are not modes."""
    return [
        f"row {number} is a region, not a mode: from its draws (weight {row['weight']:.3f}) the "
        "density rises until it leaves the neighborhood of all draws, as in a funnel, or where it "
        "has no maximum."
        for number, row in table.iterrows()
        if np.isnan(row["log_density"])
    ]


def on_chains(visited: np.ndarray) -> list[str]:
    """Sentences on whether chains agree.

    Parameters
    ----------
    visited
        Whether a draw belongs to a mode, shape (mode, chain, draw), NaN for draws left out.

    """
    weight = np.nanmean(visited, axis=2)
    modes, chains = weight.shape
    if chains == 1:
        return [
            f"one chain, {_counted(modes)}: run several chains, from different starting points, "
            "to see whether they agree."
        ]
    if modes == 1:
        return [f"all {chains} chains stayed in the same region, the only row of the table."]
    if np.all((weight == 0) | (weight == 1)):
        return [
            f"no chain ever left its mode: {NOT_TRUSTED}, as they only reflect where the chains "
            "started. Use a sampler for multimodal posteriors."
        ]
    messages = [_on_absent(m, weight[m]) for m in range(modes) if not weight[m].all()]
    z = max(_largest_z(visits) for visits in np.nan_to_num(visited))
    start = "" if messages else f"all {chains} chains visited all {modes} modes; "
    end = f": {NOT_TRUSTED}" if z > LARGEST_Z else ""
    return [*messages, f"{start}largest difference of a chain from the others: z = {z:.1f}{end}."]


def on_doubt(share: float) -> list[str]:
    """Sentence on draws that may have been assigned to the wrong mode."""
    if share <= LARGEST_DOUBT:
        return []
    return [
        f"{share:.0%} of the climbed draws are nearest to one of another mode: the modes touch, "
        "and weights may be wrong by as much."
    ]


def _counted(modes: int) -> str:
    return "one mode" if modes == 1 else f"{modes} modes"


def _on_absent(mode: int, weight: np.ndarray) -> str:
    """Sentence on the chains that never visited a mode; `weight` of the mode by chain."""
    absent = [str(c + 1) for c in np.flatnonzero(weight == 0)]
    who = f"chain {absent[0]}" if len(absent) == 1 else f"chains {', '.join(absent)}"
    others = weight[weight > 0].mean()
    trust = f": {NOT_TRUSTED}" if others >= RARE else ", too few to rule out chance"
    plural = "chain's" if (weight > 0).sum() == 1 else "chains'"
    return f"{who} never visited mode {mode + 1}, which holds {others:.2g} of the other {plural} " \
        f"draws{trust}."  # fmt: skip


def _largest_z(visits: np.ndarray) -> float:
    """Largest difference of a chain's weight from the others', in joint standard errors.

    `visits` has shape (chain, draw). The variance is that of all chains together, as if they
    agreed: a chain with one visit cannot estimate its own.
    """
    ess = np.array([ess_of_chain(chain) for chain in visits])
    # a chain that never moved is taken to be like the others
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


def show_modes(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a table of modes and its messages, with the first few parameters only."""
    console = console or Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width: long lines are better than broken words
    positions = [_scalars(position) for position in table["position"]]
    names = list(dict.fromkeys(name for position in positions for name in position))
    chains = [name for name in table.columns if name.startswith("weight_")][:SHOWN_CHAINS]
    shown = Table(box=None, header_style="bold")
    titles = ["mode", "weight", "error", *(c.replace("weight_", "chain ") for c in chains)]
    for title in [*titles, "log density", *names[:SHOWN_COLUMNS]]:
        shown.add_column(title.replace("[", r"\["), justify="right")
    for (number, row), position in zip(table.iterrows(), positions, strict=True):
        cells = [str(number), *(f"{row[name]:.3f}" for name in ("weight", "error", *chains))]
        cells.append("" if np.isnan(row["log_density"]) else f"{row['log_density']:.2f}")
        cells += [f"{position[n]:.4g}" if n in position else "" for n in names[:SHOWN_COLUMNS]]
        shown.add_row(*cells)
    console.print(shown)
    for sentence in table.attrs["messages"]:
        console.print(sentence, highlight=False)


def with_scalar_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one column per scalar parameter in place of `position`, for a file."""
    positions = pd.DataFrame([_scalars(p) for p in table["position"]], index=table.index)
    return table.drop(columns="position").join(positions)


def _scalars(position: dict[str, Any]) -> dict[str, Any]:
    """Scalars by Stan's names, "w[2]"."""
    found = {}
    for name, value in position.items():
        for index in np.ndindex(np.shape(value)):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            found[label] = np.asarray(value)[index]
    return found


# climbs: all of them miss a mode with 1 % of the draws in 13 % of fits, with 2 % in 2 %
STARTS = 200
ASSIGNED = 20_000  # draws assigned to a mode, evenly thinned: 0.03 ms each
# A saddle this shallow halves the density at worst, which holds no chain back; two normal modes
# of equal weight are joined up to a distance of about 3 standard deviations.
DIP = 0.5
FEWEST = 10


def modes(target: Target, fit: Any, *, starts: int = STARTS, show: bool = True) -> pd.DataFrame:
    """Find the modes that the draws of a fit visited, and weigh them.

    The log density is climbed on the unconstrained scale, from `starts` evenly spaced draws. Ends
    are one mode if a path is found between them on which it dips by no more than 0.5. Every draw
    (of at most 20,000, evenly thinned) is assigned to the mode of the nearest climbed draw. A long
    curved ridge may be split where climbs are too few to follow it: raise `starts`.

    Parameters
    ----------
    target
        The target that was sampled, without noise.
    fit
        Result of `sample` or `stan_nuts` for the same program and data, of one chain or more.
    starts
        Number of climbs, at least 10; a mode of weight w is found with probability
        1 - (1 - w)^starts if draws are independent.
    show
        Also print the table.

    Returns
    -------
    pandas.DataFrame
        One row per mode, heaviest first, numbered from 1: `weight`; `error`, its Monte Carlo
        standard error, the larger of ArviZ's and that from the spread of chains; `weight_1`, ...
        per chain; `log_density` on the unconstrained scale, Jacobian included, up to a constant;
        `position`, constrained values in Stan's shapes by parameter. Where climbs leave the
        neighborhood of the draws (a density without a maximum, as in a funnel), `log_density` is
        NaN and `position` empty: the row is a region, not a mode. `attrs["messages"]` holds
        sentences: whether chains agree, and what cannot be known.

    Raises
    ------
    StanadaptError
        Stage "settings", unless `fit` is one of `target` with draws that are positions of it.

    """
    _check(target, fit, starts)
    show = require_flag("show", show)
    rows, chain = _rows(target, fit)
    position = target.unconstrain_rows(rows)
    read = np.isfinite(position).all(axis=1)
    usable = [i for i in _spaced(np.flatnonzero(read), starts) if _is_finite(target, position[i])]
    if len(usable) < FEWEST:
        raise StanadaptError(
            "settings",
            f"modes needs at least {FEWEST} draws at which {target.name} can be evaluated, got "
            f"{len(usable)}: sample longer.",
        )
    centered, scale = _within(position[read], chain[read])
    frame = frame_of(centered, scale)
    ends = climb(target.evaluate, position[usable], frame)
    group = group_ends(target.evaluate, ends, frame, DIP)
    nearest, doubtful = _assigned(position[read], position[usable], group)
    visited = np.full((group.max() + 1, len(rows)), np.nan)
    visited[:, read] = nearest == np.arange(group.max() + 1)[:, None]
    heaviest = np.argsort(-np.nanmean(visited, axis=1), kind="stable")
    visited = visited[heaviest].reshape(len(visited), chain[-1] + 1, -1)
    table = _table(target, visited, np.argsort(heaviest)[group], ends)
    messages = [*on_regions(table), *on_chains(visited), *on_doubt(float(doubtful.mean()))]
    if not read.all():
        count = int((~read).sum())
        messages.append(f"{count} draws on the boundary of a constraint were left out.")
    table.attrs["messages"] = [*messages, NO_PROOF]
    if show:
        show_modes(table)
    return table


def _spaced(values: np.ndarray, count: int) -> np.ndarray:
    chosen = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return values[chosen]


def _is_finite(target: Target, position: np.ndarray) -> bool:
    value, gradient, _ = target.evaluate(position)
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def _check(target: Target, fit: Any, starts: int) -> None:
    require_target(target)
    if not results.is_fit(fit):
        raise StanadaptError(
            "settings", f"modes takes a result of sample or stan_nuts, got {type(fit).__name__}."
        )
    if isinstance(starts, bool) or not isinstance(starts, int | np.integer) or starts < FEWEST:
        raise StanadaptError(
            "settings", f"starts must be a whole number, at least {FEWEST}, got {starts!r}."
        )
    if target.noise_size:
        raise StanadaptError(
            "settings",
            f"the density of {target.name} is only estimated, so that it cannot be climbed; give "
            "modes a target without noise.",
        )
    check_same_target(target, fit)


def _rows(target: Target, fit: Any) -> tuple[np.ndarray, np.ndarray]:
    """Thinned draws of all parameters, shape (draw, column), and the chain of each."""
    variables = dict(results.dataset(fit, "posterior").data_vars)
    columns = []
    for column in target.model.param_names():
        name, *index = [column] if column in variables else column.split(".")
        if name not in variables:
            raise StanadaptError(
                "settings", f"the fit must hold every parameter of {target.name}, but lacks {name}."
            )
        entry: Any = (..., *(int(i) - 1 for i in index))
        columns.append(variables[name].values[entry])
    chains, draws = columns[0].shape
    kept = np.linspace(0, draws - 1, min(draws, ASSIGNED // chains)).round().astype(int)
    rows = np.stack([c[:, kept].reshape(-1) for c in columns], axis=1).astype(float)
    return rows, np.repeat(np.arange(chains), kept.size)


def _spread(values: np.ndarray) -> np.ndarray:
    """Robust standard deviation of columns; 1 for a constant column."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    spread = (high - low) / 1.35
    spread = np.where(spread > 0, spread, values.std(axis=0))
    return np.where(spread > 0, spread, 1.0)


def _within(position: np.ndarray, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws less the median of their chain, shape (draw, dim), and their spread, shape (dim,).

    Spread within chains: chains stuck far apart must not stretch the unit of length.
    """
    centered, spread = position.copy(), []
    for c in np.unique(chain):
        centered[chain == c] -= np.median(position[chain == c], axis=0)
        spread.append(_spread(centered[chain == c]))
    return centered, np.median(spread, axis=0)


def _assigned(
    position: np.ndarray, start: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Group of the start nearest to each position; whether each start's nearest is of another."""
    centers = np.array([np.median(start[group == g], axis=0) for g in range(group.max() + 1)])
    # the distance between modes must not stretch the unit of length
    scale = _spread(start - centers[group])
    tree = cKDTree(start / scale)
    nearest = group[tree.query(position / scale)[1]]
    two = tree.query(start / scale, k=2)[1]
    other = np.where(two[:, 0] == np.arange(len(start)), two[:, 1], two[:, 0])
    return nearest, group[other] != group


def _table(target: Target, visited: np.ndarray, group: np.ndarray, ends: Ends) -> pd.DataFrame:
    """Make the table; `visited` has shape (mode, chain, draw), NaN for draws without position."""
    rows = []
    for g, visits in enumerate(visited):
        members = np.flatnonzero(group == g)
        best = members[np.argmax(ends.log_density[members])]
        found = bool(ends.inside[best])
        by_chain = np.nanmean(visits, axis=1)
        rows.append(
            {"weight": np.nanmean(visits), "error": _error(visits)}
            | {f"weight_{c}": weight for c, weight in enumerate(by_chain, 1)}
            | {
                "log_density": ends.log_density[best] if found else np.nan,
                "position": _constrained(target, ends.position[best]) if found else {},
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="mode"))


def _constrained(target: Target, position: np.ndarray) -> dict[str, np.ndarray]:
    try:
        return target.constrain(position)
    except RuntimeError:  # generated quantities threw: the backend stanli runs them here too
        flat = target.without_generated_quantities().param_constrain(position)
        return stanio.stan_variables(target.parameters, flat)


def _error(visits: np.ndarray) -> float:
    """Standard error of a weight, by the spread of chains too: one that never moved shows none."""
    visits = np.nan_to_num(visits)
    if np.ptp(visits) == 0:
        return 0.0
    ess = float(arviz_module().ess(visits, method="mean"))
    within = visits.std() / np.sqrt(ess if ess >= 1 else 1.0)  # NaN for fewer than four draws
    between = visits.mean(axis=1).std(ddof=1) / np.sqrt(len(visits)) if len(visits) > 1 else 0.0
    return float(max(within, between))
