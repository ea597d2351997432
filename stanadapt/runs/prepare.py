"""From the arguments of `sample` to what will be run: all are checked and resolved here, once."""

import inspect
from collections.abc import Callable, Collection
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from stanadapt.engine import chain
from stanadapt.engine.chain import ChainDesign, Keeper
from stanadapt.engine.plan import Plan, make_plan, require_numbers
from stanadapt.engine.protocol import PRESET, Sampler
from stanadapt.engine.registry import load_all, resolve
from stanadapt.engine.starts import START_OPTIONS, ChainInit
from stanadapt.engine.warmup import NO_BOUNDS
from stanadapt.errors import StanadaptError, did_you_mean, in_our_words, require_flag, require_names
from stanadapt.results import as_path
from stanadapt.runs.chains import bounds_for, require_memory
from stanadapt.runs.checkpoint import WriteCheckpoints
from stanadapt.runs.choose_sampler import (
    choose_sampler,
    names_of_settings,
    require_gradients,
    require_suitable,
)
from stanadapt.runs.coordinates import NO, CoordinateChoice, choose_coordinates, require_kind
from stanadapt.runs.folder import require_empty
from stanadapt.runs.load import is_run, load
from stanadapt.runs.progress import Watch
from stanadapt.runs.result import SavedGroups, rehearse_result
from stanadapt.runs.spec import RunSpec
from stanadapt.runs.stopping_rule import FIRST_LENGTH, require_limits, with_stopping_rule
from stanadapt.runs.warm_start import choose_chain_init, read_start, starting_values
from stanadapt.runs.workers import SLICES, RunOnWorkers
from stanadapt.samplers.initial_values import require_inits
from stanadapt.targets.target import Samplable, Target, require_samplable

# arguments of `sample` that are numbers of a plan
NUMBERS = "chains", "parallel_chains", "iter_warmup", "iter_sampling", "thin", "seed"


class Setup(NamedTuple):
    """What will be run."""

    target: Samplable  # in its own coordinates; of a run that continues, in those of its chains
    design: ChainDesign  # sampler, settings in the target's coordinates, plan
    standardized_settings: Any  # of the sampler in standardized coordinates
    coordinates: CoordinateChoice  # in which chains are to run
    begin: ChainInit  # how the state of a chain begins
    inits: Any  # starting positions
    save: SavedGroups  # extra groups of the result
    attributes: dict[str, Any]  # of the result
    folder: Path | None  # of draws and states
    executor: Any  # its workers run the chains; None: threads of this process
    watch: Watch  # ends the run
    # what advances chains in threads of this process, and what keeps those of a folder
    run_chains: Callable[..., bool] = chain.run
    make_keeper: Callable[..., Keeper] = WriteCheckpoints
    slices: tuple[float, float] = SLICES  # seconds that a worker advances a chain: first, and most

    def on_workers(self, target: Samplable, spec: Callable[[], RunSpec]) -> RunOnWorkers | None:
        """Return the loop that runs chains on the executor's workers, if there is one."""
        if self.executor is None:
            return None
        return RunOnWorkers(self.executor, target, spec(), self.slices)


def keywords(function: Any, given: dict[str, Any]) -> SimpleNamespace:
    """Return the keyword arguments of a call of `sample` or `resume`, from all names it has."""
    return SimpleNamespace(
        **{name: given[name] for name in inspect.unwrap(function).__kwdefaults__}
    )


def prepare(
    target: Samplable,
    sampler: Any,
    settings: dict[str, Any],
    asked: SimpleNamespace,
    keeps_result: bool = True,
) -> Setup:
    """Check the arguments of `sample`, and resolve names, defaults and files.

    `asked` has its keyword arguments, and `keeps_result` is whether an ArviZ object will be made.
    Raises StanadaptError if an argument is wrong; nothing has been sampled.
    """
    program, until_mcse = require_samplable(target).target, asked.until_mcse
    require_arguments(asked, settings.get("threads_per_chain", 1))
    folder = None if asked.run is None else as_path(asked.run)
    saved = _saved_groups(asked.save)
    if until_mcse is not None:
        saved = saved._replace(gradient=True)
    families = family_options() if settings else []
    own_options = {name: settings[name] for name in families if name in settings}
    chosen = {name: value for name, value in settings.items() if name not in own_options}
    threads = own_options.pop("threads_per_chain", 1)
    choice = choose_sampler(target, sampler)
    require_known(choice.sampler, chosen, vars(asked))
    moved, size = program.dim - program.noise_size, target.dim - program.noise_size
    found, typed, standardized = resolve(choice.sampler, chosen, size, moved)
    given = read_start(target, found, asked.warm_start, own_options)
    plan = _plan_of(asked, found, threads)
    require_suitable(target, found, typed, plan, saved.pseudo)
    begin = choose_chain_init(target, found, typed, plan, given)
    coordinates = choose_coordinates(asked.standardize, target, found, plan, given)
    if saved.gradient:
        require_gradients(
            found, target is program and coordinates.kind == NO,
            "save='gradient'" if until_mcse is None else "until_mcse",
        )  # fmt: skip
    found.check_run(typed, size, coordinates.kind != NO)
    columns = len(program.column_names)
    design = ChainDesign(
        found, typed, plan, columns, saved.positions, saved.keeps_extra(found), begin.init,
        bounds_for(target, found) if coordinates.kind == NO else NO_BOUNDS,
    )  # fmt: skip
    require_memory(design, program.dim, on_disk=folder is not None)
    if keeps_result:
        rehearse_result(target, design, saved)
    attributes = {"sampler_reason": choice.reason}
    if chosen.get(PRESET) is not None:
        attributes[PRESET] = chosen[PRESET]
    return Setup(
        target, design, standardized, coordinates, begin,
        inits=starting_values(asked.inits, found, given), save=saved, attributes=attributes,
        folder=folder, executor=asked.executor, watch=watch_of(program, asked),
    )  # fmt: skip


def require_arguments(asked: SimpleNamespace, threads_per_chain: Any = 1) -> None:
    """Raise StanadaptError for keyword arguments of `sample` that are wrong for any target.

    Commands call it before they compile a program.
    """
    require_limits(asked.until_ess, asked.until_mcse, asked.max_minutes, asked.executor)
    numbers = {name: getattr(asked, name) for name in NUMBERS}
    require_numbers(**numbers, threads_per_chain=threads_per_chain)
    require_flag("save_warmup", asked.save_warmup)
    shows(asked.show_progress)
    _saved_groups(asked.save)
    require_kind(asked.standardize)
    if not is_run(asked.inits):
        require_inits(asked.inits)
    if isinstance(asked.warm_start, str | PathLike) and not as_path(asked.warm_start).exists():
        load(asked.warm_start)  # which names a missing file
    if asked.run is not None:
        require_empty(as_path(asked.run))


def shows(show_progress: Any) -> bool:
    """Whether bars are shown: not if a function of the user is called instead."""
    return not callable(show_progress) and require_flag("show_progress", show_progress)


def watch_of(target: Target, asked: SimpleNamespace) -> Watch:
    """Return what ends a run at its time limit, or when the user's function asks for it."""
    own = asked.show_progress if callable(asked.show_progress) else None
    return Watch(target, own, asked.max_minutes)


def _plan_of(asked: SimpleNamespace, sampler: Sampler, threads: Any) -> Plan:
    length = sampler.iter_sampling
    if asked.until_mcse is not None:
        length = max(FIRST_LENGTH, asked.thin)
    default = asked.iter_sampling is None
    plan = make_plan(
        chains=asked.chains, parallel_chains=asked.parallel_chains, thin=asked.thin,
        seed=asked.seed, threads_per_chain=threads,
        iter_warmup=sampler.iter_warmup if asked.iter_warmup is None else asked.iter_warmup,
        iter_sampling=length if default else asked.iter_sampling,
        save_warmup=asked.save_warmup, show_progress=shows(asked.show_progress),
    )  # fmt: skip
    return with_stopping_rule(plan, asked.until_ess, asked.until_mcse, sampler if default else None)


def _saved_groups(save: Any) -> SavedGroups:
    names = require_names("save", save)
    unknown = [name for name in names if name not in SavedGroups._fields]
    if unknown:
        raise StanadaptError(
            "unknown_argument",
            f"save takes {' and '.join(map(repr, SavedGroups._fields))}, got {unknown[0]!r}."
            + did_you_mean(unknown[0], SavedGroups._fields),
        )
    return SavedGroups(**dict.fromkeys(names, True))


def family_options() -> list[str]:
    """Return the keywords that some families of samplers take in addition to their settings."""
    load_all()
    return [*START_OPTIONS, "threads_per_chain"]


def require_known(sampler: Any, settings: dict[str, Any], arguments: Collection[str]) -> None:
    """Raise StanadaptError for a keyword that neither `sample` nor the sampler has."""
    if not isinstance(sampler, str):
        return
    known, arguments = {PRESET, *names_of_settings(sampler)}, [*arguments, *family_options()]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise StanadaptError(
            "unknown_argument",
            f"sample has no argument, and {sampler} no setting, named {unknown[0]!r}; the settings "
            f"of {sampler} are {', '.join(sorted(known)) or 'none'}."
            + (in_our_words(unknown[0]) or did_you_mean(unknown[0], [*arguments, *known])),
        )
