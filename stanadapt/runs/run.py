"""One run: `sample`, `resume`, workers and run folders are four ways to drive it.

    prepare   coordinates and starting positions, chains, compilation    (`reopen`: from a folder)
    keep_in   from here on, draws and states are also kept in a folder
    advance   run the chains until their plan has enough draws
    result    the ArviZ object, judged

No finished draw is lost on the way: Ctrl-C, a full disk, or a lack of memory end a run with the
draws that there are.
"""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from os import PathLike
from typing import Any

from stanadapt.diagnostics.verdict import judge, skip_judging
from stanadapt.engine.chain import Chain, ChainDesign, Keeper, compiled_functions
from stanadapt.engine.chain import run as run_chains
from stanadapt.engine.compilation_progress import compiling
from stanadapt.engine.console import reporter, say, slow_step
from stanadapt.engine.interrupts import interruptible, released, uninterrupted
from stanadapt.engine.plan import Plan
from stanadapt.engine.starts import ChainInit
from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.runs.chains import Start, make_chains, randomness, require_memory
from stanadapt.runs.checkpoint import WriteCheckpoints, newest, resumed, summary_of
from stanadapt.runs.coordinates import NO, Coordinates, as_given, in_scales_of, learn_scales
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.progress import LEARNING, Watch
from stanadapt.runs.result import RunRecord, SavedGroups, no_draws, pack_result
from stanadapt.runs.spec import RunSpec, spec_of
from stanadapt.runs.stopping_rule import Shortfall, is_out_of_reach, shortfall
from stanadapt.runs.tree import packed
from stanadapt.runs.workers import Reference, RunOnWorkers, prior_reference, run_on_workers
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.noise import noise_warnings
from stanadapt.targets.target import Samplable

# numbers that are judged within some tenths of a second
QUICKLY_JUDGED = 2_000_000
# arrays that were found before the first iteration, in a run folder
START = "start.npz"


class Run:
    """Chains on a target, and what is known of them.

    Parameters
    ----------
    start
        The target in the coordinates of the chains, and where they begin.
    design
        Sampler, settings and plan.
    chains
        In their order.
    save
        Extra groups of the result.
    record
        Attributes and notes so far.
    prior_data
        JSON under which the program is the reference of a tempering sampler, or None.
    executor
        Its workers run the chains; None: threads of this process.
    reference
        The program under prior_data in a run that continues; its chains hold the address of its
        density, which must live as long as they do.

    """

    def __init__(
        self,
        start: Start,
        design: ChainDesign,
        chains: list[Chain],
        save: SavedGroups,
        record: RunRecord,
        prior_data: str | None = None,
        executor: Any = None,
        reference: Reference | None = None,
    ) -> None:
        self.start, self.design, self.chains = start, design, chains
        self.save, self.record, self.prior_data = save, record, prior_data
        self.executor, self.reference = executor, reference
        self.keeper: WriteCheckpoints | None = None

    @classmethod
    def prepare(
        cls,
        target: Samplable,
        design: ChainDesign,
        coordinates: Coordinates,
        chain_init: ChainInit,
        inits: Any,
        save: SavedGroups,
        executor: Any,
        watch: Watch,
    ) -> "Run":
        """Find coordinates and starting positions, make the chains, and compile the sampler.

        Raises
        ------
        StanadaptError
            "no_draws" or "interrupted", if the watch or Ctrl-C ends the pre-run.

        """
        sources = randomness(design.plan)
        rngs = [source.moves for source in sources]
        positions = _initial_positions(target, design, inits, rngs, watch)
        if target.target.noise:
            for note in noise_warnings(target.target, positions[0], design.plan.seed):
                warn(note)
        start = _find_start(target, design, coordinates, positions, sources, executor, watch)
        start = start.after(chain_init.cost)
        if start.target.location is not None:
            design = design._replace(settings=coordinates.settings)
        with watch.stopped(), compiling_sampler(design):
            chains = make_chains(start, design, sources)
            seconds = chains[0].compile() + start.compile_seconds + target.target.compile_seconds
        description = dict(start.description)
        notes = list(description.pop("notes", ()))
        attributes = {"compile_seconds": seconds, **chain_init.description, **description}
        record = RunRecord(attributes, notes)
        return cls(start, design, chains, save, record, chain_init.prior_data, executor)

    @classmethod
    def reopen(
        cls, folder: RunFolder, spec: RunSpec, start: Start, record: RunRecord, executor: Any
    ) -> "Run":
        """Make the chains of a run from its folder, each from its last checkpoint."""
        target = start.target.target
        design = spec.make_design(target)
        held, sources = newest(folder, spec.plan.chains), randomness(spec.plan)
        reference = prior_reference(target, spec.prior_data)
        handle = reference.handle if reference else 0
        with compiling_sampler(design):
            # compiling calls `freeze`, which may change arrays in place: on a chain for this alone
            resumed(held[0], start, design, sources[0], 0, handle).compile()
            chains = [
                resumed(arrays, start, design, source, number, handle)
                for number, (arrays, source) in enumerate(zip(held, sources, strict=True))
            ]
        run = cls(start, design, chains, spec.save, record, spec.prior_data, executor, reference)
        folder.give_memory(chains)
        for chain in chains:
            if not chain.warming_up:
                chain.warmup.trim()
        run.keeper = WriteCheckpoints(folder, chains, summary_of(held[0])["generation"])
        folder.write_plan(spec.plan)
        return run

    @property
    def target(self) -> Samplable:
        """The target in the coordinates of the chains."""
        return self.start.target

    @property
    def plan(self) -> Plan:
        """How long the run is to be, as far as is known by now."""
        return self.chains[0].plan

    @property
    def spec(self) -> RunSpec:
        """The run as plain data."""
        design = self.design._replace(plan=self.plan)
        return spec_of(self.target, design, self.save, self.prior_data)

    def keep_in(self, path: str | PathLike | None) -> None:
        """Fill a new folder before the first iteration, and keep it up to date from then on.

        Raises
        ------
        StanadaptError
            Stage "files" if the folder cannot be written or has no space for the draws.

        """
        if path is None:
            return
        spec = self.spec
        folder = RunFolder.create(path, spec.manifest(self.target, self.chains[0]))
        with folder.lock():
            spec.write_texts(folder)
            folder.write_arrays(START, packed(self._found_at_start(spec)))
            folder.give_memory(self.chains, new=True)
            self.keeper = WriteCheckpoints(folder, self.chains)
            self.keeper.write_together(self.chains)
            folder.write_manifest()

    def _found_at_start(self, spec: RunSpec) -> dict[str, Any]:
        return {
            "location": spec.location,
            "factor": spec.factor,
            "map_rows": spec.map_rows,
            "positions": list(self.start.positions),
            "attributes": self.record.attributes,
            "notes": list(self.record.notes),
        }

    def finish(self, watch: Watch) -> Any:
        """Advance the chains, and return the result.

        Signals wait, except where they can cost no draw: see `engine.interrupts`.
        """
        writing = self.keeper.writing() if self.keeper else contextlib.nullcontext()
        with uninterrupted(), writing:
            self.advance(watch)
            return self.result()

    def advance(self, watch: Watch) -> None:
        """Run the chains until their plan has enough draws, time is up, or they are interrupted.

        If there is no room for more draws, or Ctrl-C comes while they are judged, the draws so far
        are the result.
        """
        reasons = self.keeper.folder.lengthened if self.keeper else []
        lacked: list[float] = []
        while True:
            workers = self._workers()
            interrupted = advance_chains(self.chains, self.keeper, watch, workers)
            if interrupted:
                break
            try:
                with released():
                    missing = self._shortfall()
                # time may be up just when chains have reached their length
                interrupted = missing is not None and bool(watch.note)
                if missing is None or interrupted:
                    break
                lacked.append(missing.missing)
                if not self.plan.most_iterations and is_out_of_reach(lacked):
                    self.record.notes.append(_out_of_reach(missing))
                    break
                self.extend(missing, reasons)
            except KeyboardInterrupt:
                interrupted = True
                break
            except StanadaptError as error:
                note = f"sampling stopped early: {error.message}"
                self.record.notes.append(Message("not_extended", note))
                break
        if reasons:
            self.record.attributes["iter_sampling_reason"] = f"extended: {'; '.join(reasons)}"
        self._record_end(watch, workers, interrupted)

    def _workers(self) -> RunOnWorkers | None:
        if self.executor is None:
            return None
        return run_on_workers(self.executor, self.target, self.spec)

    def _shortfall(self) -> Shortfall | None:
        """Return what the draws lack; None if they are enough."""
        with slow_step(self.plan.show_progress, "Checking convergence"):
            missing = shortfall(self.target.target, self.chains)
        return None if missing.iter_sampling == self.plan.iter_sampling else missing

    def extend(self, missing: Shortfall, reasons: list[str]) -> None:
        """Make the run longer, and add to the reasons.

        Raises
        ------
        StanadaptError
            "out_of_memory", or of stage "files"; the run then has its former length.

        """
        shorter = self.plan
        longer = shorter._replace(iter_sampling=missing.iter_sampling)
        design, on_disk = self.design._replace(plan=longer), self.keeper is not None
        require_memory(design, self.target.target.dim, on_disk)
        reason = f"after {shorter.iter_sampling} iterations, {missing.reason}"
        try:
            for chain in self.chains:
                chain.plan = longer
            if self.keeper is not None:
                self.keeper.folder.lengthen(self.chains, [*reasons, reason])
            for chain in self.chains:
                chain.sampling.grow(longer.draws)
        except (StanadaptError, MemoryError) as error:
            for chain in self.chains:
                chain.plan = shorter
            if isinstance(error, MemoryError):
                raise StanadaptError(
                    "out_of_memory", "more draws do not fit into memory."
                ) from None
            raise
        reasons.append(reason)
        say(longer.show_progress, f"Continuing: {reason}.")

    def _record_end(self, watch: Watch, workers: RunOnWorkers | None, interrupted: bool) -> None:
        record = self.record
        if workers is not None:
            record.attributes["executor"] = workers.name
            if workers.trouble is not None:
                note = f"the run ended early. {workers.trouble.message}"
                record.notes.append(Message("ended_early", note))
        # a run that was asked to stop was not interrupted
        record.interrupted = interrupted and not watch.note
        if interrupted and watch.note:
            record.notes.append(watch.note)
            record.stopped = watch.note
            record.keep_all_chains = watch.stopped_by_user

    def result(self) -> Any:
        """Return the ArviZ object; its arrays are private, and changes do not reach a folder."""
        if self.keeper is None:
            return self._pack()
        with uninterrupted() as pressed:
            for chain in self.chains:
                if not chain.abandoned:
                    self.keeper.write(chain)
            self.keeper.finish()
            for name, whole in self.keeper.folder.private_arrays().items():
                phase, _, kind = name.partition("_")
                for chain, share in zip(self.chains, whole, strict=True):
                    setattr(getattr(chain, phase), kind, share)
        path = str(self.keeper.folder.path)
        self.record.notes += self.keeper.trouble
        self.record.attributes["run"] = path
        try:
            return self._pack(hurried=bool(pressed))
        except StanadaptError as error:
            if self.record.interrupted and error.code in ("no_draws", "interrupted"):
                error.message += f" The run is kept: stanadapt.resume({path!r}) continues it."
            raise

    def _pack(self, hurried: bool = False) -> Any:
        """Return the ArviZ object, judged if there is time.

        Ctrl-C while it is built, or before (`hurried`), leaves no time; Ctrl-C during sampling
        leaves some tenths of a second.
        """
        if self.record.interrupted:
            size = sum(c.sampling.rows * c.sampling.constrained.shape[1] for c in self.chains)
            hurried = hurried or size > QUICKLY_JUDGED
        words = "Building the result and computing diagnostics"
        with slow_step(self.plan.show_progress, words):
            with uninterrupted() as pressed:
                fit = pack_result(self.target, self.chains, self.record, self.save)
            if hurried or pressed:
                return skip_judging(fit)
            try:
                with interruptible():  # Ctrl-C ends the judging, not the run
                    return judge(fit)
            except KeyboardInterrupt:  # as the judging began or ended
                return skip_judging(fit)


def compiling_sampler(design: ChainDesign) -> AbstractContextManager:
    """Show that a sampler is compiled, if it is, while the body makes its chains."""
    show = design.plan.show_progress
    return compiling(show, design.sampler.name, compiled_functions(design.sampler))


def advance_chains(
    chains: list[Chain],
    keeper: Keeper | None = None,
    on_progress: Callable[[list[Chain]], Any] = lambda chains: None,
    workers: RunOnWorkers | None = None,
    task: str = "",
) -> bool:
    """Run chains to their end, with a progress display; return whether they were interrupted.

    They run on the workers of an executor if there are any, and in threads of this process
    otherwise. The task is shown if it is neither warm-up nor sampling.
    """
    plan = chains[0].plan
    with reporter(plan.show_progress, task) as report:

        def update(chains: list[Chain]) -> None:
            report.update(chains)
            on_progress(chains)

        try:
            with released():
                if workers is not None:
                    return workers.run(chains, update, keeper or Keeper())
                return run_chains(chains, plan.parallel_chains, update, keeper=keeper)
        except KeyboardInterrupt:  # before the first state was shown, or while the last one was
            return not all(chain.finished for chain in chains)


def _initial_positions(
    target: Samplable, design: ChainDesign, inits: Any, rngs: list, watch: Watch
) -> list:
    """Return a starting position for each chain, found within the time limit.

    Raises
    ------
    StanadaptError
        "no_draws" if the watch ends the search, which can be long with inits="pathfinder" alone.

    """
    gradient = bool(design.sampler.uses_gradient)
    try:
        with slow_step(design.plan.show_progress, "Seeking starting points"):
            return initial_positions(target, inits, rngs, gradient, watch.before_chains)
    except KeyboardInterrupt:
        if not watch.note:
            raise
    raise StanadaptError(
        "no_draws",
        f"{watch.note.rstrip('.')}, during the search for starting points: there are no draws. "
        "Random starting points (inits=None) need no search.",
    )


def _out_of_reach(missing: Shortfall) -> Message:
    text = (
        "until_ess seems out of reach: the run came no closer in its last extensions, so it was "
        f"not extended again; {missing.reason}."
    )
    return Message("out_of_reach", text)


def _find_start(
    target: Samplable,
    design: ChainDesign,
    coordinates: Coordinates,
    positions: list,
    sources: list,
    executor: Any,
    watch: Watch,
) -> Start:
    """Return coordinates and positions of the chains; a pre-run learns scales if needed."""
    kind, why, scales, _ = coordinates
    if scales is not None and not scales.misfit:
        return in_scales_of(target, scales, positions)
    if kind == NO:
        start = as_given(target, positions, why)
    else:
        rngs = [source.scales for source in sources]
        learn = partial(_advance_learners, target, executor, watch)
        start = learn_scales(target, design.sampler, kind, design.plan, positions, rngs, learn)
    if scales is not None:
        start.description["notes"] = [scales.misfit, *start.description.get("notes", [])]
    return start


def _advance_learners(
    target: Samplable, executor: Any, watch: Watch, chains: list[Chain], design: ChainDesign
) -> None:
    """Run chains that learn scales for others to their end.

    Raises
    ------
    StanadaptError
        "no_draws" if the watch ends them, "interrupted" after Ctrl-C. With the scales so far it
        would be another run, with draws that depend on the speed of the machine.

    """
    workers = None
    if executor is not None:
        workers = run_on_workers(executor, target, spec_of(target, design, SavedGroups()))
    with watch.during(LEARNING):
        interrupted = advance_chains(chains, None, watch, workers, LEARNING)
    if interrupted or watch.note:
        raise no_draws(target, chains, not watch.note, watch.note, LEARNING)
