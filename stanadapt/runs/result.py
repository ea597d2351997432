"""From chains that have run to an ArviZ object: which draws are kept, groups, attributes, notes."""

import contextlib
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.chain import FAILURES_BEFORE_STOP, Chain, Recording
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import as_chosen
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.results.attributes import origin
from stanadapt.results.labels import phase_groups
from stanadapt.runs.family_report import report_of
from stanadapt.runs.hard_edges import Edge, find_edges
from stanadapt.samplers.straightened_pair import MOST_POINTS, straightened_pair
from stanadapt.targets.pseudo_samples import pseudo_group
from stanadapt.targets.target import Samplable

VALUES_SHOWN = 6  # of the point at which a density failed
EDGES_FROM = 400  # draws from which hard edges are sought
FEW_POINTS = 100  # draws with which a position is compared
# share of evaluations up to which failures in warm-up alone are not worth a note
FEW_FAILURES = 0.01


class SavedGroups(NamedTuple):
    """Groups that a result has in addition to the posterior and its statistics."""

    unconstrained: bool = False
    pseudo: bool = False


@dataclass
class RunRecord:
    """What is known of a run in addition to its chains.

    Attributes
    ----------
    attributes
        Attributes of the result: how coordinates were chosen, seconds of compilation, and the like.
    notes
        Messages for the user.
    interrupted
        Whether it ended before its chains did.
    stopped
        Why the run ended on request: at its time limit, or by the progress function; "" if not.
    keep_all_chains
        Keep each chain that has draws, however few: the user's progress function, which stopped the
        run, saw the draws of all of them.

    """

    attributes: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    stopped: str = ""
    keep_all_chains: bool = False


def stan_message_at(target: Samplable, chain: Chain) -> str:
    """Stan's message at the position at which a chain's density last failed."""
    return target.evaluate(chain.density.failed_position)[2]


def failures(
    target: Samplable, chains: list[Chain], kept: list[int], at_edges: bool, cut_off: bool
) -> Iterator[str]:
    """Yield one note per kind of failure, however many there were.

    With `cut_off`, gradients were not finite in a region to which draws belong.
    If the density fails `at_edges`, the verdict names these. A few failures in warm-up alone are
    steps that were tried and found too long, and need no note.
    """
    evaluations = sum(chain.calls["values"] + chain.calls["gradients"] for chain in chains)
    failed = sum(chain.calls["failed"] for chain in chains)
    in_warmup = sum(int(chain.warmup_calls[2]) for chain in chains)
    trials = failed == in_warmup and failed <= FEW_FAILURES * evaluations
    if failed and not trials and not at_edges:
        worst = max(chains, key=lambda chain: chain.calls["failed"])
        message = " ".join(stan_message_at(target, worst).split())
        lacking = "density, or its gradient was not finite," if cut_off else "density"
        remedy = (
            "Some are as probable as the draws, which lack that region."
            if cut_off
            else "If there are many, bound the parameters in the program, or give them tighter "
            "priors."
        )
        yield Message(
            "failed_evaluations",
            f"{failed} of {evaluations} evaluations of {target.name} ({failed / evaluations:.2%}) "
            f"had no finite {lacking} and were rejected{quoted(message)}"
            f"{_point(target, chains.index(worst), worst.density.failed_position)} {remedy}",
        )
    quantities = sum(chain.failed_quantities for chain in chains)
    if quantities:
        worst = max(chains, key=lambda chain: chain.failed_quantities)
        constrain: Any = worst.sampling.constrain
        message = " ".join(constrain.explain().split())
        yield Message(
            "failed_quantities",
            f"generated quantities failed at {quantities} draws, and are NaN there"
            f"{quoted(message)} Parameters are unaffected. Fix the block, or remove the failing "
            "statement.",
        )
    stopped = [str(i + 1) for i, chain in enumerate(chains) if chain.stopped]
    if stopped:
        yield Message(
            "stopped_chains",
            f"{_chains(stopped)}: stopped after {FAILURES_BEFORE_STOP} consecutive failed "
            f"evaluations and left out; the result has {len(kept)} of {len(chains)} chains. "
            "Start elsewhere (inits), or use another seed.",
        )


def short_chains(stopped: Sequence[bool], kept: list[int], length: int) -> Iterator[str]:
    """Yield a note on the chains that an interruption left too short to keep.

    Chains that were stopped, since their density failed, have another note.
    """
    short = [str(i + 1) for i, ended in enumerate(stopped) if i not in kept and not ended]
    if short:
        yield Message(
            "chains_too_short",
            f"interrupted: {len(kept)} of {len(stopped)} chains are kept, with {length} draws "
            f"each; left out, with fewer draws: {_chains(short)}.",
        )


def _chains(numbers: list[str]) -> str:
    return f"chain{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def quoted(message: str) -> str:
    """Return the end of a sentence, with Stan's message if there is one."""
    if not message:
        return "."
    return f"; Stan says: {message}{'' if message.endswith(('.', '!', '?')) else '.'}"


def _point(target: Samplable, chain: int, position: np.ndarray) -> str:
    """Parameters where the density of a chain failed last, on their own scale if they have one."""
    program = target.target
    if position.size != program.dim:
        return ""  # of several pseudo-samples: their message says which one
    position = target.original(position)
    values: dict[str, Any] = dict(zip(program.coordinate_names, position, strict=True))
    with contextlib.suppress(RuntimeError):  # transformed parameters may throw here
        values = results.scalars(program.constrain(position))
    shown = [f"{name} = {value:.4g}" for name, value in list(values.items())[:VALUES_SHOWN]]
    more = f" and {len(values) - VALUES_SHOWN} more" if len(values) > VALUES_SHOWN else ""
    return f" The last of them in chain {chain + 1} was at {', '.join(shown)}{more}."


@np.errstate(all="ignore")  # reports on draws and densities that may be too large
def pack_result(
    target: Samplable, chains: list[Chain], record: RunRecord, save: SavedGroups
) -> Any:
    """Return the ArviZ object of a run, not judged yet, and warn of its notes.

    Raises
    ------
    StanadaptError
        "no_draws" or "interrupted", if there is no draw.

    """
    lengths = [_usable(chain) for chain in chains]
    whole = record.keep_all_chains
    numbers, length = _all_begun(lengths) if whole else common_length(lengths)
    if not length:
        raise no_draws(target, chains, record.interrupted, record.stopped)
    kept = [chains[i] for i in numbers]
    groups = _groups(target, kept, length, save)
    stats: Any = groups["sample_stats"]
    edges = _edges(target, kept, length, stats)
    attributes = _attributes(target, chains) | record.attributes
    if edges:
        attributes["hard_edges"] = json.dumps([str(edge) for edge in edges])
        attributes["share_at_edges"] = _share_that_failed(kept)
    attributes |= {
        "interrupted": record.interrupted,
        "chains_kept": [number + 1 for number in numbers],
    }
    sampler = chains[0].sampler
    view = RunView(target, kept, length, stats, frozenset(edge.coordinate for edge in edges))
    cut_off = _lacks_gradient(target, kept, view)
    if cut_off:
        attributes["share_without_gradient"] = _share_that_failed(kept)
    failed = failures(target, chains, numbers, at_edges=bool(edges), cut_off=cut_off)
    notes = [*record.notes, *failed]
    notes += short_chains([chain.stopped for chain in chains], numbers, length)
    hooks = [sampler.after_run, None if target.map_rows is None else _report_map]
    for hook in (hook for hook in hooks if hook is not None):
        reported = report_of(
            sampler._replace(after_run=hook), view,
            taken={*groups, *attributes, *target.target.data_groups},
        )  # fmt: skip
        attributes |= reported.attributes
        notes += reported.messages
        groups |= reported.groups
    for note in notes:
        warn(note)
    groups |= copy.deepcopy(target.target.data_groups)
    return results.build(groups, {**attributes, "notes": notes})


def _report_map(view: RunView) -> Findings:
    """Report on the map of a pre-run, which samplers do not see."""
    names = view.target.target.coordinate_names
    pair = straightened_pair(view.target.map_rows, view.positions(MOST_POINTS), names)
    return Findings(groups=pair)


def _edges(
    target: Samplable, chains: list[Chain], length: int, stats: dict[str, np.ndarray]
) -> list[Edge]:
    """Return the hard edges at which trajectories ended.

    They are sought only if trajectories diverged, and evaluations failed while sampling; not with
    tempering or pseudo-samples, of which failures at other temperatures are not told apart.
    """
    program = target.target
    hot = chains[0].sampler.tempering is not None or target.has_pseudo_samples
    ended = "diverging" in stats and stats["diverging"].any() and _share_that_failed(chains) > 0.0
    if not ended or hot or program.noise_size:
        return []
    view = RunView(target, chains, length, stats)
    return find_edges(program, view.positions(EDGES_FROM))


def _lacks_gradient(target: Samplable, chains: list[Chain], view: RunView) -> bool:
    """Whether a gradient was not finite at a position as probable as the draws.

    Samplers that follow gradients reject each such position, so the draws lack its region. Far out,
    where a trajectory diverges, a gradient may be too large for a float without harm.
    """
    program = target.target
    places = [chain.density.failed_position for chain in chains if chain.calls["failed"]]
    places = [target.original(place) for place in places if place.size == program.dim]
    evaluated = [program.evaluate(place)[:2] for place in places]
    lost = [value for value, slope in evaluated if not np.isfinite(slope).all()]
    lost = [value for value in lost if np.isfinite(value)]
    if not lost:
        return False
    draws = [program.evaluate(draw)[0] for draw in view.positions(FEW_POINTS)]
    return bool(max(lost) >= np.nanmin(draws))


def _share_that_failed(chains: list[Chain]) -> float:
    """Return the number of failed evaluations per iteration of sampling.

    A failure ends a trajectory: it is the share of trajectories that ended so.
    """
    failed = sum(chain.calls["failed"] - int(chain.warmup_calls[2]) for chain in chains)
    return failed / sum(chain.sampling.rows * chain.plan.thin for chain in chains)


def _usable(chain: Chain) -> int:
    """Number of draws to use: none of a stopped chain, since its last draws are all one point."""
    return 0 if chain.stopped else chain.sampling.rows


def common_length(lengths: list[int]) -> tuple[list[int], int]:
    """Choose the chains and the length to keep, all chains equally long.

    The largest product of draws and chains: draws alone would keep one fast chain of two, whose
    R-hat says nothing.
    """
    best: tuple[int, int] = (0, 0)
    for length in set(lengths):
        chains = sum(other >= length for other in lengths)
        best = max(best, (chains * chains * length, length))
    length = best[1]
    return [i for i, other in enumerate(lengths) if other >= length > 0], length


def _all_begun(lengths: list[int]) -> tuple[list[int], int]:
    """All chains that have draws, and the length of the shortest."""
    kept = [i for i, length in enumerate(lengths) if length]
    return kept, min((lengths[i] for i in kept), default=0)


def no_draws(
    target: Samplable, chains: list[Chain], interrupted: bool, stopped: str = "", task: str = ""
) -> StanadaptError:
    """Return the error of a run that ended before there was a draw, during a task or warm-up.

    stopped is the reason, if there is another one than Ctrl-C.
    """
    failing = [chain for chain in chains if chain.stopped]
    if failing and not stopped:
        return StanadaptError(
            "no_draws",
            f"{len(failing)} of {len(chains)} chains of {target.name} were stopped: their last "
            f"{FAILURES_BEFORE_STOP} evaluations all failed. Check the priors and the constraints, "
            "start elsewhere (`inits`), or use the default sampler or 'nuts', which search for a "
            "first step that works.",
            stan_message_at(target, failing[0]),
        )
    done = sum(chain.n_done for chain in chains)
    how = stopped.rstrip(".") or ("interrupted" if interrupted else "ended")
    return StanadaptError(
        "interrupted" if interrupted else "no_draws",
        f"{how}, during {task or 'warm-up'} after {done} iterations in all: there are no draws. "
        "A shorter warm-up (`iter_warmup`) reaches the first draws earlier.",
    )


def _stacked(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """(chain, draw, ...) of equally long chains: a view of their common array where it can be."""
    whole = arrays[0].base
    if whole is not None and all(array.base is whole for array in arrays):
        for first in range(len(whole) - len(arrays) + 1):
            part = whole[first : first + len(arrays)]
            if all(np.shares_memory(a[:1], p[:1]) for a, p in zip(arrays, part, strict=True)):
                return part[:, :length]
    return np.stack([array[:length] for array in arrays])


def _groups(
    target: Samplable, chains: list[Chain], length: int, save: SavedGroups
) -> results.Groups:
    groups: results.Groups = {}

    def add(prefix: str, recordings: list[Recording], length: int) -> None:
        draws = results.variables(
            target.target.column_names, _stacked([r.constrained for r in recordings], length)
        )
        table = np.stack([r.stats[:length] for r in recordings])
        stats = statistics(stat_labels(target, chains[0].sampler), table)
        groups.update(phase_groups(target.target.labels, prefix, draws, stats))

    add("", [chain.sampling for chain in chains], length)
    if chains[0].plan.warmup_draws:
        add("warmup_", [c.warmup for c in chains], min(c.warmup.rows for c in chains))
    if chains[0].sampling.unconstrained is not None:
        positions = [c.sampling.unconstrained for c in chains]
        raw = _stacked([p for p in positions if p is not None], length)
        if save.unconstrained:
            groups["unconstrained_posterior"] = {"position": target.original(raw)}
        if save.pseudo and target.has_pseudo_samples:  # those of a sampler: `after_run`
            groups[results.PSEUDO] = pseudo_group(target.target, *target.split_positions(raw))
    return groups


def stat_labels(target: Samplable, sampler: Sampler) -> list[tuple[str, str, int]]:
    """Name in a result, type and factor of each statistic that a chain records, in its order."""
    kinds, labels = sampler.info_types, []
    counted = "n_gradients" if sampler.uses_gradient else "n_density"
    for name in ("lp", "n_evaluations", *sampler.info._fields):
        if name == "n_evaluations":
            labels.append((counted, "int64", target.evaluations_per_call))
        else:
            labels.append((name, np.dtype(kinds.get(name, float)).name, 1))
    return labels


def statistics(labels: Sequence[Sequence], table: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics by name, from a table of shape (chain, draw, statistic)."""
    return {
        name: (table[..., column] * factor).astype(kind)
        for column, (name, kind, factor) in enumerate(labels)
    }


def attributes_at_start(target: Samplable, sampler: Sampler) -> dict[str, Any]:
    """Return attributes that are known before the first iteration, except settings and plan.

    A run folder has them from the start, so that draws of an unfinished run are judged by them.
    """
    program = target.target
    return {
        **target.description,
        "sampler": sampler.name,
        "exact": sampler.exact,
        "backend": program.backend,
        "backend_reason": program.backend_reason,
        "density_check": program.density_check,
        "backend_version": program.backend_version,
        "noise": list(program.noise),
        "rho": program.rho,
        **({"random_data": program.random_data} if program.random_data else {}),
    }


def _attributes(target: Samplable, chains: list[Chain]) -> dict[str, Any]:
    program, each = target.target, target.evaluations_per_call
    return {
        **origin(program, chains[0].plan),
        **attributes_at_start(target, chains[0].sampler),
        "settings": json.dumps(as_chosen(chains[0].settings)),
        "warmup_seconds": [chain.warmup_seconds for chain in chains],
        "sampling_seconds": [chain.sampling_seconds for chain in chains],
        "warmup_processor_seconds": [chain.warmup_processor_seconds for chain in chains],
        "sampling_processor_seconds": [chain.sampling_processor_seconds for chain in chains],
        "n_gradients": each * sum(chain.calls["gradients"] for chain in chains),
        "n_gradients_warmup": each * int(sum(chain.warmup_calls[1] for chain in chains)),
        "n_density": each * sum(chain.calls["values"] for chain in chains),
        "n_density_warmup": each * int(sum(chain.warmup_calls[0] for chain in chains)),
        "n_failed": sum(chain.calls["failed"] for chain in chains),
        "n_failed_quantities": sum(chain.failed_quantities for chain in chains),
        "n_stopped": sum(chain.stopped for chain in chains),
    }
