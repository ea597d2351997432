"""A run goes on from its folder, in another process: draw for draw as if it had never stopped."""

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError, require_whole
from stanadapt.runs.chains import Start, randomness, require_memory
from stanadapt.runs.checkpoint import WriteCheckpoints, newest, resumed, summary_of
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.kept import START, close
from stanadapt.runs.prior import with_prior
from stanadapt.runs.progress import RunProgress, Watch
from stanadapt.runs.result import ExtraGroups
from stanadapt.runs.run import Surroundings, draw_on, require_limits
from stanadapt.runs.sample import sample
from stanadapt.runs.spec import PRIOR_DATA, other_versions, plan_of, sampler_of, target_of
from stanadapt.runs.tree import unpacked
from stanadapt.runs.workers import RunOnWorkers, on_workers, require_executor
from stanadapt.targets.standardized import Standardized
from stanadapt.targets.target import Samplable


def resume(
    run: str | PathLike,
    target: Samplable | None = None,
    *,
    iter_sampling: int | None = None,
    until_ess: float | None = None,
    max_minutes: float | None = None,
    parallel_chains: int | None = None,
    on_progress: Callable[[RunProgress], Any] | None = None,
    executor: Any = None,
    show_progress: bool = True,
) -> Any:
    """Go on with a run that was given `run` and has stopped, or is to be longer.

    The draws are those of a run that was never stopped, to the bit, if libraries and processor are
    the same.

    Parameters
    ----------
    run
        The folder.
    target
        Its target; default: made from the program and the data in the folder. Needed for an
        `Extended`.
    iter_sampling
        Iterations per chain in all, no fewer than the run was asked for; default: as many, or as
        many as it then takes, if the run was asked for enough effective draws.
    until_ess
        Go on until the smallest bulk and tail effective sample size of the parameters is this
        large and R-hat is below 1.01.
    max_minutes
        Stop after this time, and return what there is.
    parallel_chains, on_progress, executor, show_progress
        As for `sample`.

    Returns
    -------
    ArviZ object
        As of `sample`.

    Raises
    ------
    StanadaptError
        Stage "files" for a folder that holds no run, or one that another process is writing;
        "settings" where program, data, backend or sampler differ from those of the run.

    """
    folder = RunFolder.open(run)
    require_limits(until_ess, max_minutes)
    require_executor(executor)
    with folder.lock():
        plan = _changed(plan_of(folder), iter_sampling, until_ess, parallel_chains)
        resumed = _Resumed(folder, target, plan._replace(show_progress=bool(show_progress)))
        return resumed.run(max_minutes, on_progress, executor)


class _Resumed:
    """Chains that were read from a folder, and what is known of them."""

    def __init__(self, folder: RunFolder, target: Samplable | None, plan: Plan) -> None:
        given = target_of(folder, target, plan.show_progress)
        sampler, settings = sampler_of(folder)
        self.keep = ExtraGroups(**folder.manifest["keep"])
        self.folder, program = folder, given.target
        held = unpacked(folder.read_arrays(START))
        self.known = held["known"]
        # kept as long as the chains, which hold its address
        self._prior_data = _prior_data(folder)
        self._prior = program.with_prior_data(self._prior_data) if self._prior_data else None
        self.start = _start(given, held, plan.chains)
        self.design = ChainDesign(
            sampler, settings, plan, len(program.column_names), any(self.keep), self.keep.pseudo
        )
        with (
            explained(sampler),
            slow_step(plan.show_progress, f"Compiling {sampler.name} (once; up to two minutes)"),
        ):
            self.chains, generation = self._chains(self.design)
        self.keeper = WriteCheckpoints(folder, self.chains, generation)
        folder.write_plan(plan)

    def _chains(self, design: ChainDesign) -> tuple[list[Chain], int]:
        prior_handle = self._prior.density().handle if self._prior else 0
        held, sources = newest(self.folder, design.plan.chains), randomness(design.plan)
        # compiling calls `freeze`, which may change arrays in place: it is given a chain of its own
        resumed(held[0], self.start, design, sources[0], 0, prior_handle).compile()
        chains = [
            resumed(arrays, self.start, design, source, number, prior_handle)
            for number, (arrays, source) in enumerate(zip(held, sources, strict=True))
        ]
        self.folder.give_memory(chains)
        for chain in chains:
            if not chain.warming_up:
                chain.warmup.trim()
        return chains, summary_of(held[0])["generation"]

    def run(
        self,
        max_minutes: float | None,
        on_progress: Callable[[RunProgress], Any] | None,
        executor: Any,
    ) -> Any:
        """Advance the chains until they suffice, and return the result."""
        program = self.start.target.target
        around = Surroundings(
            self.keeper,
            Watch(program, on_progress, max_minutes),
            partial(self._workers, executor),
            partial(self._require_memory, program.dim),
        )
        notes = [*self.known.get("notes", []), *other_versions(self.folder)]
        known = draw_on(program, self.chains, around, {**self.known, "notes": notes})
        fit = close(self.keeper, self.start.target, self.chains, known, self.keep)
        return with_prior(fit, program, self._prior_data, self.chains[0].plan, sample)

    def _workers(self, executor: Any, plan: Plan) -> RunOnWorkers | None:
        design = self.design._replace(plan=plan)
        return on_workers(executor, self.start.target, design, self._prior_data)

    def _require_memory(self, dim: int, plan: Plan) -> None:
        require_memory(self.design._replace(plan=plan), dim, on_disk=True)


def _changed(plan: Plan, iter_sampling: Any, until_ess: Any, parallel_chains: Any) -> Plan:
    """Return a plan with what may differ from that of the run."""
    if iter_sampling is not None:
        least = plan.iter_sampling
        if require_whole("iter_sampling", iter_sampling, 1) < least:
            raise StanadaptError(
                "settings",
                f"iter_sampling counts all iterations, of which the run was asked for {least}: "
                f"give {least} or more, got {iter_sampling}.",
            )
        plan = plan._replace(iter_sampling=int(iter_sampling), until_ess=0.0, most_iterations=0)
    if until_ess is not None:
        plan = plan._replace(until_ess=float(until_ess), most_iterations=0)
    if parallel_chains is not None:
        parallel = require_whole("parallel_chains", parallel_chains, 1)
        plan = plan._replace(parallel_chains=min(parallel, plan.chains))
    return plan


def _prior_data(folder: RunFolder) -> str | None:
    return folder.read_text(PRIOR_DATA) if (folder.path / PRIOR_DATA).exists() else None


def _start(given: Samplable, held: dict[str, Any], chains: int) -> Start:
    target = given
    if held["location"] is not None:
        target = Standardized(given, held["location"], held["factor"])
    nothing = np.zeros((chains, 3), np.int64)
    return Start(
        target, held["positions"], nothing, np.zeros((chains, 2)), 0.0, held["description"]
    )
