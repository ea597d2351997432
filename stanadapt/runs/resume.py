"""Continue a run from its folder, in another process: the draws are those of one long run."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from stanadapt.engine.compile_errors import explained
from stanadapt.engine.interrupts import uninterrupted
from stanadapt.engine.plan import Plan
from stanadapt.errors import StanadaptError, require_flag, require_whole
from stanadapt.results import Fit
from stanadapt.runs.chains import Start
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.progress import RunProgress, Watch
from stanadapt.runs.rehearsal import rehearse_run
from stanadapt.runs.result import RunRecord
from stanadapt.runs.run import START, Run
from stanadapt.runs.spec import other_versions, read_spec, record_changes, target_for
from stanadapt.runs.stopping_rule import require_limits
from stanadapt.runs.tree import unpacked
from stanadapt.runs.workers import require_executor
from stanadapt.targets.target import Samplable


def resume(
    run: str | PathLike,
    target: Samplable | None = None,
    *,
    iter_sampling: int | None = None,
    until_ess: float | None = None,
    max_minutes: float | None = None,
    parallel_chains: int | None = None,
    executor: Any = None,
    show_progress: bool | Callable[[RunProgress], Any] = True,
) -> Fit:
    """Continue a run that is stored in a folder and has stopped, or make it longer.

    The draws are those of a run that was never stopped, to the bit, if libraries and processor are
    the same.

    Parameters
    ----------
    run : path
        The folder.
    target : Target, optional
        The target. Default: made from the program and the data in the folder. Needed for an
        `Extended`. Its labels, which change no draw, replace those in the folder.
    iter_sampling : int, optional
        Sampling iterations per chain in all, no fewer than are planned for the run. Default: as
        planned, or as many as the run needs if it has a target for the effective sample size.
    until_ess : float, optional
        Sample until the smallest bulk and tail ESS of the parameters is at least this, and R-hat
        below 1.01. A run that comes no closer in three extensions ends with a note.
    max_minutes : float, optional
        Stop after this many minutes, and return the draws so far.
    parallel_chains, executor, show_progress
        As for `sample`.

    Returns
    -------
    Fit
        As from `sample`.

    Raises
    ------
    StanadaptError
        Stage "files" for a folder without a run, or one that another process is writing;
        "run_mismatch" if program, data, backend, noise, excluded quantities or sampler differ
        from those of the run.

    Examples
    --------
    >>> import tempfile, stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> folder = tempfile.mkdtemp()
    >>> quiet = {"show_progress": False}
    >>> fit = sa.sample(target, seed=1, iter_sampling=500, run=folder, **quiet)
    >>> longer = sa.resume(folder, iter_sampling=1000, **quiet)
    >>> longer["posterior"].sizes["draw"]
    1000

    """
    folder = RunFolder.open(run)
    require_limits(until_ess, max_minutes)
    require_executor(executor)
    on_progress = show_progress if callable(show_progress) else None
    shown = on_progress is None and require_flag("show_progress", show_progress)
    with folder.lock():
        held = unpacked(folder.read_arrays(START))
        spec = read_spec(folder, held["location"], held["factor"], held.get("map_rows"))
        plan = _changed(spec.plan, iter_sampling, until_ess, parallel_chains)
        spec = spec._replace(plan=plan._replace(show_progress=shown))
        made = target_for(spec, folder, target, shown)
        nothing = np.zeros((plan.chains, 3), np.int64)
        start = Start(made, held["positions"], nothing, np.zeros((plan.chains, 2)), 0.0, {})
        record = RunRecord(dict(held["attributes"]), [*held["notes"], *other_versions(spec)])
        watch = Watch(made.target, on_progress, max_minutes)
        sampler, settings = spec.find_sampler()
        rehearse_run(made, sampler, settings, spec.plan, spec.save)
        # they are those of the result: `load` and a later `resume` must name its draws alike
        record_changes(folder, made)
        with explained(sampler):
            reopened = Run.reopen(folder, spec, start, record, executor)
        with uninterrupted():
            reopened.advance(watch)
            return reopened.result()


def _changed(plan: Plan, iter_sampling: Any, until_ess: Any, parallel_chains: Any) -> Plan:
    """Return the plan with the lengths that may differ from those of the run."""
    if iter_sampling is not None:
        least = plan.iter_sampling
        if require_whole("iter_sampling", iter_sampling, 1) < least:
            raise StanadaptError(
                "out_of_range",
                f"iter_sampling counts all sampling iterations, and {least} are already planned "
                f"for this run: give {least} or more, got {iter_sampling}.",
            )
        plan = plan._replace(iter_sampling=int(iter_sampling), until_ess=0.0, most_iterations=0)
    if until_ess is not None:
        plan = plan._replace(until_ess=float(until_ess), most_iterations=0)
    if parallel_chains is not None:
        parallel = require_whole("parallel_chains", parallel_chains, 1)
        plan = plan._replace(parallel_chains=min(parallel, plan.chains))
    return plan
