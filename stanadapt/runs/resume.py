"""Continue a run from its folder, in another process: the draws are those of one long run."""

from collections.abc import Callable
from importlib.metadata import version
from os import PathLike
from types import SimpleNamespace
from typing import Any

from stanadapt.engine.plan import Plan
from stanadapt.engine.starts import ChainInit
from stanadapt.errors import StanadaptError, answers_other_words, require_whole, warn
from stanadapt.results import Fit
from stanadapt.runs.chains import Start
from stanadapt.runs.coordinates import NO, CoordinateChoice
from stanadapt.runs.folder import RunFolder
from stanadapt.runs.prepare import Setup, keywords, shows, watch_of
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.result import RunRecord, rehearse_result
from stanadapt.runs.run import Run
from stanadapt.runs.spec import changed_files, other_versions, read_spec, record_changes, target_for
from stanadapt.runs.stopping_rule import require_limits, with_stopping_rule
from stanadapt.targets.target import Samplable


@answers_other_words
def resume(
    run: str | PathLike,
    target: Samplable | None = None,
    *,
    iter_sampling: int | None = None,
    until_ess: float | None = None,
    until_mcse: float | None = None,
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
    until_mcse : float, optional
        As for `sample`; the run must have kept gradients (until_mcse or save="gradient").
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
    asked, folder = keywords(resume, locals()), RunFolder.open(run)
    with folder.lock():
        try:
            setup, start, record = prepare_again(folder, target, asked)
            again = Run.reopen(setup, folder, start, record)
        except StanadaptError as error:
            if error.code != "run_unreadable":
                raise
            then, now = folder.manifest.get("stanadapt", "?"), version("stanadapt")
            text = f"{error.message} The run began with stanadapt {then}, and this is {now}."
            raise StanadaptError(error.code, text) from None
        return again.finish()


def prepare_again(
    folder: RunFolder, target: Samplable | None, asked: SimpleNamespace
) -> tuple[Setup, Start, RunRecord]:
    """Check the keyword arguments of `resume`, and make target and design of the chains again.

    Raises StanadaptError: as `resume`; nothing has been sampled.
    """
    until_ess, until_mcse = asked.until_ess, asked.until_mcse
    require_limits(until_ess, until_mcse, asked.max_minutes, asked.executor)
    spec, begun = read_spec(folder)
    if until_mcse is not None and not spec.save.gradient:
        raise StanadaptError(
            "option_not_used",
            "until_mcse needs gradients at all draws, which this run has not kept: begin one with "
            "until_mcse or save='gradient'.",
        )
    plan = _changed(folder, spec.plan, asked.iter_sampling, asked.parallel_chains)
    if until_ess is not None or until_mcse is not None:
        plan = with_stopping_rule(plan, until_ess, until_mcse or plan.until_mcse or None, None)
    shown = shows(asked.show_progress)
    spec = spec._replace(plan=plan._replace(show_progress=shown))
    made = target_for(spec, folder, target, shown)
    design = spec.make_design(made.target)
    rehearse_result(made, design, spec.save)
    # as in the result: `load` and a later `resume` must name its draws alike
    record_changes(folder, made)
    setup = Setup(
        made, design, design.settings, CoordinateChoice(NO, "as the run began"),
        ChainInit(None, {}, spec.prior_data), inits=None, save=spec.save,
        attributes=begun["attributes"], folder=folder.path, executor=asked.executor,
        watch=watch_of(made.target, asked),
    )  # fmt: skip
    changed = changed_files(folder, made.target) if target is None else []
    for note in changed:
        warn(note)
    notes = [*begun["notes"], *other_versions(spec), *changed]
    record = RunRecord(begun["attributes"], notes)
    return setup, Start.free(made, begun["positions"], {}), record


def _changed(folder: RunFolder, plan: Plan, iter_sampling: Any, parallel_chains: Any) -> Plan:
    """Return the plan with the lengths that may differ from those of the run."""
    if iter_sampling is not None:
        least = plan.iter_sampling
        if require_whole("iter_sampling", iter_sampling, 1) < least:
            raise StanadaptError(
                "out_of_range",
                f"iter_sampling counts all sampling iterations, and {least} are already planned "
                f"for this run: give {least} or more, got {iter_sampling}. "
                f"stanadapt.load({str(folder.path)!r}) returns the draws so far.",
            )
        plan = plan._replace(
            iter_sampling=int(iter_sampling), until_ess=0.0, until_mcse=0.0, most_iterations=0
        )
    if parallel_chains is not None:
        parallel = require_whole("parallel_chains", parallel_chains, 1)
        plan = plan._replace(parallel_chains=min(parallel, plan.chains))
    return plan
