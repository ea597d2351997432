"""One run: `sample`, `resume`, workers and run folders are four ways to drive it.

    begin     coordinates and starting positions, chains, compilation    (`reopen`: from a folder)
    advance   run the chains until their plan has enough draws
    result    the ArviZ object, judged

No finished draw is lost on the way: Ctrl-C, a full disk, or a lack of memory end a run with the
draws that there are.
"""

import contextlib
import itertools
from typing import Any

import numpy as np

from stanadapt.diagnostics.reasons import attempted
from stanadapt.diagnostics.verdict import judge, skip_judging
from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.console import say, slow_step
from stanadapt.engine.interrupts import interruptible, released, uninterrupted
from stanadapt.engine.plan import Plan
from stanadapt.errors import Message, StanadaptError
from stanadapt.results import variable_name
from stanadapt.runs.begin import advance_chains, begin_chains, compiling_sampler
from stanadapt.runs.chains import Start, randomness, require_memory
from stanadapt.runs.checkpoint import newest, resumed, summary_of
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.prepare import Setup
from stanadapt.runs.progress import Watch
from stanadapt.runs.result import RunRecord, kept_chains, pack_result, stacked
from stanadapt.runs.spec import RunSpec, spec_of
from stanadapt.runs.stopping_rule import MOST_FOR_MEANS, Shortfall, is_out_of_reach, shortfall
from stanadapt.runs.workers import Reference, RunOnWorkers
from stanadapt.samplers.whitened.missing_tails import missing_tails
from stanadapt.samplers.whitened.modes_outside import modes_missed
from stanadapt.targets.coordinates import element_name

# numbers that are judged within some tenths of a second
QUICKLY_JUDGED = 2_000_000


class Run:
    """Chains on a target, with their record.

    `start` and `design` have the target and the settings in the coordinates of the chains. A run
    that continues has the folder from which it does, and the program under prior-only data: its
    chains hold the address of a density that must live as long as they do.
    """

    def __init__(
        self,
        setup: Setup,
        start: Start,
        design: ChainDesign,
        chains: list[Chain],
        record: RunRecord,
        folder: RunFolder | None = None,
        reference: Reference | None = None,
    ) -> None:
        self.setup, self.start, self.design, self.chains = setup, start, design, chains
        self.record, self.folder, self.reference = record, folder, reference
        self.keeper: Any = None

    @classmethod
    def begin(cls, setup: Setup) -> "Run":
        """Make the chains of a new run, and fill its folder before the first iteration.

        Raises StanadaptError: "no_draws" or "interrupted", if the watch or Ctrl-C ends the pre-run;
        stage "files" if the folder cannot be written or has no space for the draws.
        """
        with explained(setup.design.sampler):
            run = cls(setup, *begin_chains(setup))
        if setup.folder is not None:
            run._keep(setup.folder)
        return run

    @classmethod
    def reopen(cls, setup: Setup, folder: RunFolder, start: Start, record: RunRecord) -> "Run":
        """Make the chains of a run from its folder, each from its last checkpoint."""
        design, plan = setup.design, setup.design.plan
        held, sources = newest(folder, plan.chains), randomness(plan)
        reference = Reference(start.target.target, setup.begin.prior_data)
        with explained(design.sampler), compiling_sampler(design):
            # compiling calls `freeze`, which may change arrays in place: on a chain for this alone
            resumed(held[0], start, design, sources[0], 0, reference.handle).compile()
            chains = [
                resumed(arrays, start, design, source, number, reference.handle)
                for number, (arrays, source) in enumerate(zip(held, sources, strict=True))
            ]
        run = cls(setup, start, design, chains, record, folder, reference)
        folder.give_memory(chains)
        for chain in chains:
            if not chain.warming_up:
                chain.warmup.trim()
        run.keeper = setup.make_keeper(folder, chains, summary_of(held[0])["generation"])
        folder.write_plan(plan)
        return run

    @property
    def plan(self) -> Plan:
        """Planned lengths; they grow when the run is extended."""
        return self.chains[0].plan

    def spec(self) -> RunSpec:
        """Return the run as plain data."""
        design = self.design._replace(plan=self.plan)
        return spec_of(self.start.target, design, self.setup.save, self.setup.begin.prior_data)

    def _keep(self, path: Any) -> None:
        """Fill a new folder, and keep it up to date from then on."""
        spec, record = self.spec(), self.record
        self.folder = folder = RunFolder.create(path, spec.manifest(self.start.target, self.design))
        with folder.lock():
            spec.write(folder, self.start.positions, record.attributes, record.notes)
            folder.give_memory(self.chains, new=True)
            self.keeper = self.setup.make_keeper(folder, self.chains)
            self.keeper.write_together(self.chains)
            folder.write_manifest()

    def finish(self) -> Any:
        """Advance the chains, and return the result.

        Signals wait, except where they can cost no draw: see `engine.interrupts`.
        """
        writing = self.keeper.writing() if self.keeper else contextlib.nullcontext()
        with uninterrupted(), writing:
            self.advance()
            return self.result()

    def parameter_draws(self) -> dict[str, np.ndarray]:
        """Advance the chains, and return their draws alone, by the names of `results.element`.

        A result is neither built nor judged, which takes longer than many runs of a study.
        """
        with uninterrupted():
            self.advance()
            if self.record.interrupted:
                raise KeyboardInterrupt
            target = self.start.target
            numbers, length = kept_chains(target, self.chains, self.record)
            draws = stacked([self.chains[i].sampling.constrained for i in numbers], length)
        named = enumerate(target.target.column_names)
        parameters = set(target.target.recorded_parameters)
        return {
            element_name(name): np.array(draws[..., column])
            for column, name in named
            if variable_name(name) in parameters
        }

    def advance(self) -> None:
        """Run the chains until their plan has enough draws, time is up, or they are interrupted.

        If there is no room for more draws, or Ctrl-C comes while they are judged, the draws so far
        are the result.
        """
        watch, reasons = self.setup.watch, self.folder.lengthened if self.folder else []
        lacked: dict[bool, list[float]] = {True: [], False: []}  # only like is compared
        while True:
            workers = self.setup.on_workers(self.start.target, self.spec)
            interrupted = advance_chains(self.chains, self.setup, self.keeper, workers)
            if interrupted:
                break
            try:
                with released():
                    missing = self._shortfall()
                # time may be up just when chains have reached their length
                interrupted = missing is not None and bool(watch.note)
                if missing is None or interrupted:
                    break
                lacked[missing.of_means].append(missing.missing)
                if not self.plan.most_iterations and is_out_of_reach(
                    lacked[missing.of_means], missing.of_means * self.plan.iter_sampling
                ):
                    self.record.notes.append(_out_of_reach(missing, self.plan.iter_sampling))
                    break
                self.extend(missing, reasons)
            except KeyboardInterrupt:
                interrupted = True
                break
            except Exception as error:  # of any kind: the draws so far are the result
                cause = f"{type(error).__name__}: {error}."
                cause = error.message if isinstance(error, StanadaptError) else cause
                note = f"sampling stopped early: {cause}"
                self.record.notes.append(Message("not_extended", note))
                break
        if reasons:
            self.record.attributes["iter_sampling_reason"] = f"extended: {'; '.join(reasons)}"
        self._record_end(watch, workers, interrupted)

    def _shortfall(self) -> Shortfall | None:
        with slow_step(self.plan.show_progress, "Checking convergence"):
            missing = shortfall(self.start.target.target, self.chains)
        return None if missing.iter_sampling == self.plan.iter_sampling else missing

    def extend(self, missing: Shortfall, reasons: list[str]) -> None:
        """Make the run longer, and add to the reasons.

        Raises StanadaptError: "out_of_memory", or of stage "files"; the run then has its former
        length.
        """
        shorter = self.plan
        longer = shorter._replace(iter_sampling=missing.iter_sampling)
        design, dim = self.design._replace(plan=longer), self.start.target.target.dim
        require_memory(design, dim, on_disk=self.folder is not None)
        reason = f"after {shorter.iter_sampling} iterations, {missing.reason}"
        try:
            for chain in self.chains:
                chain.plan = longer
            if self.folder is not None:
                self.folder.lengthen(self.chains, [*reasons, reason])
            for chain in self.chains:
                chain.sampling.grow(longer.draws)
        except Exception as error:
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
        stopped = watch.note or (self.keeper.ended if self.keeper else None)
        # a run that was asked to stop was not interrupted
        record.interrupted = interrupted and not stopped
        if interrupted and stopped:
            record.notes.append(stopped)
            record.stopped = stopped
            record.keep_all_chains = watch.stopped_by_user

    def result(self) -> Any:
        """Return the ArviZ object; its arrays are private, and changes do not reach a folder."""
        if self.folder is None:
            return self._pack()
        with uninterrupted() as pressed:
            for chain in self.chains:
                if not chain.abandoned:
                    self.keeper.write(chain)
            self.keeper.finish()
            for name, whole in self.folder.private_arrays().items():
                phase, _, kind = name.partition("_")
                for chain, share in zip(self.chains, whole, strict=True):
                    setattr(getattr(chain, phase), kind, share)
        path = str(self.folder.path)
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
        again = [chain for chain in self.chains if chain.thrown_away.iterations]
        if not any(chain.sampling.rows for chain in again):
            for chain in again:
                chain.recall_draws()
        if self.record.interrupted:
            size = sum(c.sampling.rows * c.sampling.constrained.shape[1] for c in self.chains)
            hurried = hurried or size > QUICKLY_JUDGED
        words = "Building the result and computing diagnostics"
        with slow_step(self.plan.show_progress, words):
            with uninterrupted() as pressed:
                fit = pack_result(self.start.target, self.chains, self.record, self.setup.save)
            if hurried or pressed:
                return skip_judging(fit)
            progress = self.chains[0].progress
            learned = None if progress is None else progress.learned
            return judge_unless_interrupted(fit, self.start.target.base, learned)


def judge_unless_interrupted(fit: Any, target: Any, learned: Any = None) -> Any:
    """Judge a fit by its draws and its warm-up; Ctrl-C ends the judging, not the run."""
    try:
        with interruptible():
            tails = attempted("tail_missing", missing_tails, target, fit, learned)
            modes = attempted("mode_missed", modes_missed, target, fit)
            return judge(fit, itertools.chain(tails, modes))
    except KeyboardInterrupt:  # as the judging began or ended
        return skip_judging(fit)


def _out_of_reach(missing: Shortfall, draws: int) -> Message:
    needed = missing.missing * draws
    text = (
        f"{'until_mcse' if missing.of_means else 'until_ess'} seems out of reach: after {draws:,} "
        f"draws per chain, the run was not extended again; {missing.reason}."
    )
    if needed < 1e15:
        text += f" At this rate, it would take about {float(f'{needed:.2g}'):,.0f}"
        many = missing.of_means and needed > MOST_FOR_MEANS
        text += f", more than the {MOST_FOR_MEANS:,} to which a run extends." if many else "."
    return Message("out_of_reach", text)
