"""From chains that have run to an ArviZ object: which draws are kept, groups, attributes."""

import copy
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.reasons import draws_kept
from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.chain import Chain, ChainDesign, Recording
from stanadapt.engine.every_iteration import described
from stanadapt.engine.interrupts import interruptible
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import KEEP_GRADIENT, Sampler
from stanadapt.engine.settings import as_chosen
from stanadapt.errors import Message, warn
from stanadapt.results.attributes import origin
from stanadapt.results.labels import phase_groups
from stanadapt.results.rehearsal import rehearse, rehearse_draws
from stanadapt.runs.failures import (
    NOTHING_FAILED,
    failure_notes,
    find_failures,
    no_draws,
    short_chains,
)
from stanadapt.samplers.straightened_pair import MOST_POINTS, straightened_pair
from stanadapt.targets.pseudo_samples import empty_group, pseudo_group
from stanadapt.targets.target import Samplable


class SavedGroups(NamedTuple):
    """Groups that a result has in addition to the posterior and its statistics."""

    unconstrained: bool = False
    pseudo: bool = False
    gradient: bool = False

    def keeps_extra(self, sampler: Sampler) -> bool:
        """Whether the sampler's `extra_output` is kept."""
        return self.gradient if sampler.extra_output is KEEP_GRADIENT else self.pseudo

    @property
    def positions(self) -> bool:
        """Whether unconstrained draws are kept."""
        return self.unconstrained or self.pseudo or self.gradient


@dataclass
class RunRecord:
    """What is known of a run in addition to its chains."""

    # of the result: how coordinates were chosen, seconds of compilation, and the like
    attributes: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # messages for the user
    interrupted: bool = False  # whether it ended before its chains did
    # why the run ended on request, if it did: at its time limit, or by the progress function
    stopped: Message | None = None
    # keep each chain that has draws, however few: the user's progress function, which stopped the
    # run, saw the draws of all of them
    keep_all_chains: bool = False


@np.errstate(all="ignore")  # reports on draws and densities that may be too large
def pack_result(
    target: Samplable, chains: list[Chain], record: RunRecord, save: SavedGroups
) -> Any:
    """Return the ArviZ object of a run, not judged yet, and warn of its notes.

    Raises StanadaptError: "no_draws" or "interrupted", if there is no draw.
    """
    numbers, length = kept_chains(target, chains, record)
    kept, stopped = [chains[i] for i in numbers], [chain.stopped for chain in chains]
    groups = _groups(target, kept, length, save)
    stats: Any = groups["sample_stats"]
    view = RunView(target, kept, length, stats)
    failures, notes = NOTHING_FAILED, [*record.notes]
    with draws_kept("failed_evaluations") as unknown:
        failures = find_failures(view)
        notes += failure_notes(target, chains, numbers, failures)
    view = view._replace(with_edges=frozenset(edge.coordinate for edge in failures.edges))
    attributes = {
        **attributes_at_start(target, chains[0].sampler, chains[0].settings, chains[0].plan),
        **_costs(target, chains),
        **record.attributes,
        **failures.attributes,
        **every_iteration_attribute(kept),
        **{message.code: str(message) for message in unknown},
        "interrupted": record.interrupted,
        "chains_kept": [number + 1 for number in numbers],
    }
    notes += short_chains(stopped, numbers, length)
    sampler = chains[0].sampler
    hooks = [sampler.report, _report_map if target.is_straightened else None]
    for hook in (hook for hook in hooks if hook is not None):
        taken = {*groups, *attributes, *target.target.data_groups}
        reported = report_of(sampler.name, hook, view, taken)
        attributes |= reported.attributes
        notes += reported.messages
        groups |= reported.groups
    for note in notes:
        warn(note)
    groups |= copy.deepcopy(target.target.data_groups)
    return results.build(groups, {**attributes, "notes": notes})


def kept_chains(target: Samplable, chains: list[Chain], record: RunRecord) -> tuple[list[int], int]:
    """Return the numbers of the chains that a result has, and their common length.

    Raises StanadaptError: "no_draws" or "interrupted", if there is no draw.
    """
    # of a stopped chain none, since its last draws are all one point
    lengths = [0 if chain.stopped else chain.sampling.rows for chain in chains]
    numbers, length = common_length(lengths, record.keep_all_chains)
    if not length:
        raise no_draws(target, chains, record.interrupted, record.stopped)
    return numbers, length


def _report_map(view: RunView) -> Findings:
    """Report on the map of a pre-run, which samplers do not see."""
    names = view.target.target.coordinate_names
    _, _, rows, block = view.target.standard_coordinates
    positions, chains = view.positions(MOST_POINTS), len(view.chains)
    return Findings(groups=straightened_pair(rows, block, positions, names, chains))


def common_length(lengths: list[int], every: bool = False) -> tuple[list[int], int]:
    """Choose the chains and the length to keep, all chains equally long.

    The largest product of draws and chains: draws alone would keep one fast chain of two, of which
    R-hat knows nothing. Or `every` chain that has draws, and the length of the shortest.
    """
    if every:
        length = min((length for length in lengths if length), default=0)
        return [i for i, other in enumerate(lengths) if other], length
    best: tuple[int, int] = (0, 0)
    for length in set(lengths):
        chains = sum(other >= length for other in lengths)
        best = max(best, (chains * chains * length, length))
    length = best[1]
    return [i for i, other in enumerate(lengths) if other >= length > 0], length


# --- groups ---------------------------------------------------------------------------------------


def _groups(
    target: Samplable, chains: list[Chain], length: int, save: SavedGroups
) -> results.Groups:
    """Return the groups of equally long chains."""
    program, labels = target.target, stat_labels(target, chains[0].sampler)

    def phase(prefix: str, recordings: list[Recording], length: int) -> results.Groups:
        draws = stacked([recording.constrained for recording in recordings], length)
        stats = np.stack([recording.stats[:length] for recording in recordings])
        named = results.variables(program.column_names, draws, program.program.integers)
        return phase_groups(program.labels, prefix, named, statistics_by_name(labels, stats))

    groups = phase("", [chain.sampling for chain in chains], length)
    if chains[0].plan.warmup_draws:
        warmup = [chain.warmup for chain in chains]
        groups |= phase("warmup_", warmup, min(recording.rows for recording in warmup))
    positions = [chain.sampling.unconstrained for chain in chains]
    if positions[0] is not None:
        raw = stacked([p for p in positions if p is not None], length)
        if save.unconstrained or save.gradient:
            groups[results.UNCONSTRAINED] = {"position": target.original(raw)}
        if save.pseudo and target.has_pseudo_samples:  # a sampler's own: `report`
            groups[results.PSEUDO] = pseudo_group(program, *target.split_positions(raw))
    if save.gradient:
        gradients = stacked([chain.sampling.extra for chain in chains], length)
        groups[results.UNCONSTRAINED][results.GRADIENT] = gradients
    return groups


def stacked(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """(chain, draw, ...) of equally long chains: a view of their common array where it can be."""
    whole = arrays[0].base
    if whole is not None and all(array.base is whole for array in arrays):
        for first in range(len(whole) - len(arrays) + 1):
            part = whole[first : first + len(arrays)]
            if all(np.shares_memory(a[:1], p[:1]) for a, p in zip(arrays, part, strict=True)):
                return part[:, :length]
    return np.stack([array[:length] for array in arrays])


def stat_labels(target: Samplable, sampler: Sampler) -> list[tuple[str, str, int]]:
    """Name in a result, type and factor of each statistic that a chain records, in its order."""
    counted = "n_gradients" if sampler.uses_gradient else "n_density"
    named = [(name, sampler.info_types.get(name, float)) for name in ("lp", *sampler.info._fields)]
    labels = [(name, np.dtype(kind).name, 1) for name, kind in named]
    labels.insert(1, (counted, "int64", target.evaluations_per_call))
    return labels


def statistics_by_name(labels: Sequence[Sequence], table: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics by name, from a table of shape (chain, draw, statistic)."""
    return {
        name: (table[..., column] * factor).astype(kind)
        for column, (name, kind, factor) in enumerate(labels)
    }


def rehearse_result(target: Samplable, design: ChainDesign, save: SavedGroups) -> None:
    """Build, write and read a result of one draw in memory, before the first draw.

    Raises StanadaptError: "result_refused", if the result of the run could not be saved.
    """
    program = target.target
    rehearse_draws(
        program,
        design.plan,
        [name for name, _, _ in stat_labels(target, design.sampler)],
        attributes_at_start(target, design.sampler, design.settings, design.plan),
        ["position"] * (save.unconstrained or save.gradient) + [results.GRADIENT] * save.gradient,
        {results.PSEUDO: empty_group(program) if save.pseudo else {}},
    )


# --- attributes -----------------------------------------------------------------------------------


def attributes_at_start(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan
) -> dict[str, Any]:
    """Return the attributes that are known before the first iteration."""
    program = target.target
    return {
        **origin(program, plan),
        **target.description,
        "sampler": sampler.name,
        "settings": json.dumps(as_chosen(settings)),
        "exact": sampler.exact,
        "backend": program.backend,
        "backend_reason": program.backend_reason,
        "density_check": program.density_check,
        "backend_version": program.backend_version,
        "noise": list(program.noise),
        "rho": program.rho,
    }


def every_iteration_attribute(chains: Sequence[Chain]) -> dict[str, str]:
    """Return totals of all iterations, if the draws are not all of them, as JSON."""
    if chains[0].plan.thin == 1:
        return {}
    return {"every_iteration": json.dumps(described([chain.totals for chain in chains]))}


def _costs(target: Samplable, chains: list[Chain]) -> dict[str, Any]:
    """Return the attributes on time and evaluations: of each chain, and of all."""
    each, phases = target.evaluations_per_call, ("warmup", "sampling")
    times = [f"{phase}_{kind}" for kind in ("seconds", "processor_seconds") for phase in phases]
    calls = {name: sum(chain.calls[name] for chain in chains) for name in chains[0].calls}
    values, gradients, _ = np.sum([chain.warmup_calls for chain in chains], axis=0)
    return {
        **{name: [getattr(chain, name) for chain in chains] for name in times},
        "n_gradients": each * calls["gradients"],
        "n_gradients_warmup": each * int(gradients),
        "n_density": each * calls["values"],
        "n_density_warmup": each * int(values),
        "n_failed": calls["failed"],
        "n_failed_quantities": sum(chain.failed_quantities for chain in chains),
        "n_stopped": sum(chain.stopped for chain in chains),
    }


# --- what a sampler adds --------------------------------------------------------------------------


LEFT_OUT = "left out of the result. The draws are unaffected"


def report_of(
    name: str, hook: Callable[[RunView], Findings], view: RunView, taken: Collection[str]
) -> Findings:
    """Return the report of a sampler, without the parts that the result cannot hold.

    The hook is its `report`, and the view the argument of that; the result has groups and
    attributes of the names that are taken.
    """
    try:
        with interruptible():
            found = _checked(hook(view))
    except KeyboardInterrupt:
        return _nothing(f"interrupted: the report of {name} on the run is {LEFT_OUT}.")
    except Exception as error:  # the draws are done, and the hook may be a user's
        problem = f"{type(error).__name__}: {error}"
        return _nothing(f"the report of {name} on the run is {LEFT_OUT}: {problem}")
    attributes = {n: x for n, x in found.attributes.items() if _fits(n, taken, {}, {n: x})}
    groups = {n: x for n, x in found.groups.items() if _fits(n, taken, {n: x}, {})}
    lost = sorted({*map(str, {*found.attributes, *found.groups} - {*attributes, *groups})})
    notes = []
    if lost:
        text = f"{', '.join(map(repr, lost))} {'is' if len(lost) == 1 else 'are'} {LEFT_OUT}"
        notes = [Message("report_left_out", f"of the report of {name}, {text}.")]
    return Findings(attributes, [*found.messages, *notes], groups)


def _checked(returned: Any) -> Findings:
    """Return the findings of a hook; TypeError if they, or a part of them, are of another type.

    An author may forget `return`, or return a dict. One text as messages is one message, and not
    one for each letter.
    """
    if not isinstance(returned, Findings):
        kind = type(returned).__name__
        raise TypeError(
            f"`report` must return Findings(attributes={{...}}, messages=[...]), got {kind}"
        )
    attributes, messages, groups = returned
    messages = [messages] if isinstance(messages, str) else messages
    for name, part in (("attributes", attributes), ("groups", groups)):
        if not isinstance(part, Mapping):
            raise TypeError(f"{name} must be a dict, got {shortened(part)}")
    messages = [*messages] if isinstance(messages, Iterable) else [messages]
    if not all(isinstance(text, str) for text in messages):
        raise TypeError(f"messages must be a list of texts, got {shortened(messages)}")
    return Findings(dict(attributes), messages, dict(groups))


def _fits(name: Any, taken: Collection[str], groups: Mapping, attributes: Mapping) -> bool:
    """Whether the result has nothing of this name, and a file can hold the group or attribute."""
    try:
        if name not in taken:
            rehearse(dict(groups), attributes)
            return True
    except Exception:  # of any kind, from the author's function: the draws are done
        pass
    return False


def _nothing(text: str) -> Findings:
    return Findings(messages=[Message("report_left_out", text)])
