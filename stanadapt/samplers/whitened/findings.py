"""Attributes and notes of a result after a pooled warm-up.

A file of its own, so that a reworded message does not make Numba recompile the samplers.
"""

from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.sampler_checks import FAR_BELOW
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.engine.block_map import BlockMap, unpacked
from stanadapt.engine.triangular_map import NONE, TriangularMap
from stanadapt.engine.warmup import Progress, Sampled
from stanadapt.errors import Message
from stanadapt.samplers.straightened_pair import MOST_POINTS, straightened_pair
from stanadapt.samplers.whitened import pooled_am, whitened_hmc
from stanadapt.samplers.whitened.choose_trajectory import CUT_SHORT
from stanadapt.samplers.whitened.priors import Group
from stanadapt.samplers.whitened.stage_parts import Learned
from stanadapt.samplers.whitened.straightened import Straightened

# The acceptance rate of fixed trajectories may end far above its target, since their step size is
# bounded by their length; that of NUTS should exceed it by at most this share of the remainder.
NUTS_ABOVE = 0.125
NONE_THROWN = Sampled()
# largest number of coordinates that a message names, and of sets of drivers outside of groups
LISTED, MOST_PHRASES = 5, 3
# draws of half a chain, at least, that show whether it drifts
FEWEST = 50
AT_BOUND = 37.0  # where 1 / (1 + exp(-z)) is 1 to rounding
# the attribute with the kind of a block, and the words for either
BLOCK = "gaussian_block"
EXACT, NEARLY = "exact", "nearly"
SAID = {EXACT: "Gaussian, straightened exactly", NEARLY: "nearly Gaussian, straightened"}


@reports_for(whitened_hmc.Settings)
def report(view: RunView) -> Findings:
    """Report the kind of trajectories and of metric, the reason, and improper directions."""
    if view.progress is None:
        return Findings()
    names, learned = view.target.coordinate_names, view.progress.learned
    thrown = Sampled.together(chain.thrown_away for chain in view.chains)
    found = attributes(view.settings, view.progress, thrown)
    found.update(straightening(learned.straightened, names))
    # long trajectories succeed where nothing is left that the matrix does not have
    whole = learned.choice.two_stage and not len(view.progress.bounds)
    if learned.metric.kind == "sparse" and whole:
        found["metric"] += f": {listed(names)} Gaussian with a sparse precision, whitened exactly"
    groups = {}
    if learned.straightened.map_is_used or learned.straightened.block_is_used:
        rows, _, block = learned.straightened.straightening
        draws = view.positions(MOST_POINTS)
        groups = straightened_pair(rows, block, draws, names, len(view.chains))
    notes = find_improper(learned, names, view.with_edges, still(view))
    return Findings(found, notes + began_again(view, thrown, found), groups)


def began_again(view: RunView, thrown: Sampled, found: dict[str, Any]) -> list[str]:
    """Return the note that draws were thrown away; none if they are the result after all."""
    if not thrown.iterations:
        return []
    text = (
        f"whitened_hmc: {thrown.diverging} of the first {thrown.iterations:,} trajectories "
        "diverged. Sampling began again with shorter steps, for an acceptance rate of "
        f"{found['acceptance_target']:g}; those draws count as warm-up."
    )
    return [Message("sampling_began_again", text)]


@reports_for(pooled_am.Settings)
def report_walk(view: RunView) -> Findings:
    """Report the length of the warm-up, and the kind of covariance that it learned."""
    if view.progress is None:
        return Findings()
    learned = view.progress.learned
    values = {"warmup_iterations": view.progress.used, "metric": learned.metric.kind}
    if not learned.settled:
        values["unsettled"] = (
            "pooled_am: the log density had not settled when the covariance was learned, and the "
            "chains may not have reached the bulk of the posterior. Raise iter_warmup, or give "
            "inits."
        )
    return Findings(values)


def attributes(settings: Any, progress: Progress, thrown: Sampled = NONE_THROWN) -> dict[str, Any]:
    """Return the attributes: the kind of trajectories, the reason for it, and the metric.

    If adaptation had not settled, `unsettled` is the text of a reason of the verdict.
    """
    learned = progress.learned
    if learned.reviewed and not thrown.iterations:  # Ctrl-C came before other draws
        learned = learned._replace(**learned.reviewed._asdict())
    two_stage, reason = learned.choice
    kind = f"{2 * learned.fixed.n_steps} gradients per draw" if two_stage else "NUTS"
    nuts_target = max(settings.nuts_target_accept, learned.nuts.target_accept)
    target = learned.fixed.target_accept if two_stage else nuts_target
    if nuts_target > settings.nuts_target_accept and not two_stage:
        shorter = f"so steps are shorter (target_accept {target:g})"
        diverged = learned.nuts.shortened
        why = "its trajectories diverged in warm-up"
        if thrown.iterations:
            why = f"{thrown.diverging} of its first {thrown.iterations:,} trajectories diverged"
        elif not diverged:
            why = "the coordinates that the block depends on are far from normal"
        reason += f"; {why}, {shorter}"
    highest = 1.0 if two_stage else 1.0 - NUTS_ABOVE * (1.0 - target)
    word = {"low rank": "rank", "sparse": "band"}.get(learned.metric.kind)
    rank = f", {word} {learned.metric.rank}" if word else ""
    unsettled = _unsettled(progress)
    return {
        **({"unsettled": unsettled} if unsettled else {}),
        "warmup_cut_short": learned.choice == CUT_SHORT,
        "warmup_iterations": progress.used,
        "warmup_climbs": learned.travel.rounds,
        "warmup_returns": learned.travel.returned,
        "warmup_moves": learned.travel.moved,
        "climbs_there": learned.travel.reached,
        "fixed_trajectories": two_stage,
        "trajectory": f"{kind}: {reason}",
        "metric": learned.metric.kind + rank,
        "acceptance_target": target,
        "acceptance_range": [FAR_BELOW * target, highest],
    }


def _unsettled(progress: Progress) -> str:
    if progress.learned.choice == CUT_SHORT:
        return (
            f"Warm-up was cut short after {progress.used} iterations, before it was complete: "
            f"raise iter_warmup above {progress.ceiling}."
        )
    if not progress.learned.settled:
        return (
            "The log density had not settled when the metric was learned, and the chains may not "
            "have reached the bulk of the posterior. Raise iter_warmup, or give inits."
        )
    return ""


def straightening(found: Straightened, names: list[str]) -> dict[str, Any]:
    """Return the dependencies that a map removes, in words, and the distances from a Gaussian.

    The distances are missing if the posterior was close to a Gaussian for the default sampler and
    no map was searched for.
    """
    if not np.isfinite(found.distance_before):
        return {}
    distances: dict[str, Any] = {"distance_from_gaussian": found.distance_before}
    said = []
    if found.block_is_used:
        block = unpacked(found.straightening.block)
        distances[BLOCK] = EXACT if found.exact or found.normal else NEARLY
        said.append(f"{' given '.join(members_and_hubs(block, names))}: {SAID[distances[BLOCK]]}")
    if found.map_is_used:
        said.append(f"{dependencies(found, names)}: straightened")
    if not said or not np.isfinite(found.distance):
        return {**distances, "straightening": said[0]} if said else distances
    before, after = found.distance_before, found.mean_distance(len(names))
    return {
        **distances,
        "distance_straightened": after,
        "straightening": (
            f"{'; '.join(said)}, distance from a Gaussian {before:.2g} -> {after:.2g}"
        ),
    }


def members_and_hubs(block: BlockMap, names: list[str]) -> list[str]:
    """Return the names of the coordinates of a block, and those of its hubs."""
    return [listed([names[j] for j in np.sort(part)]) for part in (block.block, block.hubs)]


def dependencies(found: Straightened, names: list[str]) -> str:
    """Return in words which coordinates depend on which, in a map."""
    # groups whose scales depend on the same coordinate in one phrase, such as the levels of a
    # nested hierarchy
    alike: dict[tuple[int, int], list[Group]] = {}
    for group in found.groups:
        alike.setdefault((group.prior.scale, group.prior.slope), []).append(group)
    parts = [
        _in_words(groups, names)
        for groups in alike.values()
        if any(clear_members(group, names) for group in groups)
    ]
    members = {j for group in found.groups for j in group.members}
    return "; ".join(parts + _without_group(found.straightening, members, names))


def _without_group(straightening: TriangularMap, members: set[int], names: list[str]) -> list[str]:
    """Name the drivers of the other mapped coordinates, if a few phrases are enough."""
    columns = (
        straightening.scale_driver, straightening.second_driver, straightening.location_driver,
    )  # fmt: skip
    alike: dict[tuple[int, ...], list[int]] = {}
    for j, *drivers in zip(straightening.coordinate, *columns, strict=True):
        if int(j) not in members:
            alike.setdefault(tuple(sorted({int(k) for k in drivers} - {NONE})), []).append(int(j))
    if len(alike) > MOST_PHRASES:
        alike = {(): [j for found in alike.values() for j in found]}
    return [
        f"{listed([names[j] for j in found])} {'depends' if len(found) == 1 else 'depend'} on "
        f"{listed([names[k] for k in drivers]) if drivers else 'others'}"
        for drivers, found in alike.items()
    ]


def clear_members(group: Group, names: list[str]) -> list[int]:
    """Return the members of which it is clear, or which are elements of a vector with such ones."""
    stems = {results.variable_of(names[j]) for j in set(group.members) - set(group.unclear)}
    return [j for j in group.members if results.variable_of(names[j]) in stems]


def _in_words(groups: list[Group], names: list[str]) -> str:
    priors = [group.prior for group in groups]
    members, scales, locations = (
        sorted({number for number in numbers if number >= 0})
        for numbers in (
            [j for group in groups for j in clear_members(group, names)],
            [driver for prior in priors for driver, _ in prior.scales],
            [prior.location for prior in priors],
        )
    )
    around = f" around {listed([names[j] for j in locations])}" if locations else ""
    verb = "scales" if len(members) == 1 else "scale"
    of, by = (listed([names[j] for j in numbers]) for numbers in (members, scales))
    return f"{of} {verb} with {by}{around}"


def listed(names: list[str]) -> str:
    """Return names of coordinates as a short list: theta[1] to theta[8] as theta[1..8]."""
    indices: dict[str, list[str]] = {}
    for name in names:
        stem, _, index = name.rstrip("]").partition("[")
        indices.setdefault(stem, []).append(index)
    parts = []
    for stem, found in indices.items():
        if _consecutive(found):
            parts.append(f"{stem}[{found[0]}..{found[-1]}]")
        else:
            parts += [f"{stem}[{index}]" if index else stem for index in found]
    if len(parts) > LISTED:
        parts = [*parts[:LISTED], f"{len(parts) - LISTED} more"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _consecutive(indices: list[str]) -> bool:
    """Whether these are three or more whole numbers, each one above the last."""
    if len(indices) < 3 or not all(index.isdigit() for index in indices):
        return False
    return np.array_equal(np.diff([int(index) for index in indices]), np.ones(len(indices) - 1))


def still(view: RunView) -> frozenset[int]:
    """Return coordinates that seemed to drift in warm-up, but in whose draws no chain does.

    So it is where chains are in separate modes, on the way to which some were in warm-up. Between
    two declared bounds, they may still be on such a way, unless they reach a bound to rounding.
    """
    drifting = view.progress.learned.unbounded
    if not len(drifting):
        return frozenset()
    draws = view.positions(MOST_POINTS)[:, drifting].reshape(len(view.chains), -1, len(drifting))
    slopes = {int(row[0]): row[1] for row in view.progress.bounds}  # 0 without a second bound
    slope = np.array([slopes.get(i, 0.0) for i in drifting.tolist()])
    inside = (slope > 0.0) & (slope * np.abs(draws) < AT_BOUND).all(axis=(0, 1))
    half = draws.shape[1] // 2
    halves = np.stack([draws[:, :half], draws[:, -half:]])
    if half < FEWEST:
        return frozenset(drifting[inside].tolist())
    with np.errstate(all="ignore"):
        (one, two), (first, second) = halves.mean(axis=2), halves.std(axis=2)
        narrow, wide = np.minimum(first, second), np.maximum(first, second)
        stays = (np.abs(one - two) < narrow) & (wide < 2.0 * narrow)
    return frozenset(drifting[stays.all(axis=0) | inside].tolist())


def find_improper(
    learned: Learned,
    names: list[str],
    with_edges: frozenset[int] = frozenset(),
    still: frozenset[int] = frozenset(),
) -> list[str]:
    """Return notes on directions without a gradient, and on directions without bounds.

    Coordinates with a hard edge are left out: their density may be flat, but it ends.
    """
    notes: list[str] = []
    without_gradient = [i for i in learned.metric.flat if i not in with_edges]
    drifting = [i for i in learned.unbounded if i not in with_edges | still]
    if without_gradient:
        flat = ", ".join(names[i] for i in without_gradient[:LISTED])
        notes.append(
            Message(
                "flat_direction",
                f"whitened_hmc: the gradient did not change with {flat}: the density is flat, or "
                "increases without bound, in this direction, and the posterior may be improper. "
                "Add a prior, or remove the parameter from the model.",
            )
        )
    if drifting:
        wide = ", ".join(names[i] for i in drifting[:LISTED])
        notes.append(
            Message(
                "unbounded_direction",
                f"whitened_hmc: the draws of {wide} drifted without bound in warm-up: the "
                "posterior may be improper. Check that the data or a prior bounds every direction.",
            )
        )
    return notes
