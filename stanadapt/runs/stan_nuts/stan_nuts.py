"""Stan's own NUTS on a target, with a result of the same form as that of `sample`.

`backend="cmdstan"` runs CmdStan through CmdStanPy; `backend="stanli"` runs the NUTS inside the
embedded backend, which shares its density with our samplers and so cannot confirm it.
"""

import copy
import json
from typing import Any, Literal

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.reasons import draws_kept
from stanadapt.diagnostics.verdict import skip_judging
from stanadapt.engine.console import status
from stanadapt.engine.interrupts import interruptible, uninterrupted
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.errors import (
    Message,
    StanadaptError,
    answers_other_words,
    is_one_of,
    require_between,
    require_whole,
    warn,
)
from stanadapt.results import Fit
from stanadapt.results.attributes import origin
from stanadapt.results.cmdstan_header import STATISTICS
from stanadapt.results.labels import phase_groups
from stanadapt.results.rehearsal import rehearse_draws
from stanadapt.runs.hard_edges import ends_of
from stanadapt.runs.load import with_run_loaded
from stanadapt.runs.run import judge_unless_interrupted
from stanadapt.runs.stan_nuts import cmdstan, stanli
from stanadapt.runs.stan_nuts.engine import METRICS, NutsRun, NutsSettings
from stanadapt.runs.stan_nuts.verification import Verification, not_checked, verify
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import BACKENDS
from stanadapt.targets.target import Target, require_target, variable_name

ENGINES = {"cmdstan": cmdstan.run, "stanli": stanli.run}


@answers_other_words
def stan_nuts(
    target: Target,
    *,
    backend: Literal["auto", "cmdstan", "stanli"] = "auto",
    chains: int = 4,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    seed: int | None = None,
    inits: Any = None,
    thin: int = 1,
    parallel_chains: int | None = None,
    save_warmup: bool = False,
    show_progress: bool = True,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
    metric: Literal["diag_e", "unit_e"] = "diag_e",
) -> Fit:
    """Draw from a target with Stan's NUTS.

    Parameters
    ----------
    target : Target
        A Stan program with its data.
    backend : {"auto", "cmdstan", "stanli"}
        The software that runs NUTS; "auto" is CmdStan if it is installed and not too old for the
        program, and stanli otherwise. The attribute `engine` of the result is its name and version,
        and `engine_independent` is 0 if its density is the one that our samplers use.
    chains : int
        Number of chains.
    iter_warmup, iter_sampling : int
        Iterations per chain.
    seed : int, optional
        From 0 to 2**32 - 1; default: random, recorded in the result's attributes.
    inits : optional
        Initial values, as for `sample`; with the same seed, chains start from the same positions as
        those of `sample`.
    thin : int
        Keep every thin-th iteration.
    parallel_chains : int, optional
        Number of chains that run at once. Default: as many as there are cores.
    save_warmup : bool
        Whether to keep the draws of warm-up.
    show_progress : bool
        Whether to report progress on standard error.
    adapt_delta : float
        Target acceptance rate, in (0, 1).
    max_treedepth : int
        Largest depth of a trajectory's tree, at least 1.
    metric : {"diag_e", "unit_e"}
        Form of the metric, with CmdStan's names: a diagonal matrix that warm-up learns, or the
        identity, with which warm-up tunes only the step size.

    Returns
    -------
    Fit
        As from `sample`. The attributes `density_verdict` ("equal", "close", "differs" or "not
        checked"), `density_checked_draws`, `density_difference` and `density_verified`, a summary
        in words, record how our log density compares with CmdStan's at its draws.

    Raises
    ------
    StanadaptError
        Stage "installation" if `backend` is "cmdstan" and CmdStan is not installed; "syntax" if it
        cannot compile the program; "sampling" if every chain failed, or if our log density differs
        from CmdStan's: the error's attribute `fit` is then the result. If only some chains failed,
        the others are returned with a warning.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.stan_nuts(target, backend="stanli", seed=1, show_progress=False)
    >>> fit.posterior["x"].shape
    (4, 1000)
    >>> fit.attrs["verdict"]
    'fine'
    """
    target = require_target(target)
    if target.described:
        raise StanadaptError(
            "not_a_stan_program",
            f"Stan's NUTS runs Stan programs, and not {target.described}. Use sample, for example "
            "with sampler='nuts'.",
        )
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, iter_warmup=iter_warmup,
        iter_sampling=iter_sampling, thin=thin, seed=seed, save_warmup=save_warmup,
        show_progress=show_progress,
    )  # fmt: skip
    if not is_one_of(metric, set(METRICS)):
        raise StanadaptError(
            "unknown_metric", f"metric must be one of {', '.join(METRICS)}, got {metric!r}."
        )
    settings = NutsSettings(
        require_between("adapt_delta", adapt_delta, 0.0, 1.0),
        require_whole("max_treedepth", max_treedepth, 1),
        metric,
    )
    rngs = [np.random.default_rng(source.spawn(2)[0]) for source in plan.seeds()]
    named = [name for name, _ in STATISTICS.values()]
    rehearse_draws(target, plan, named, {"settings": json.dumps(settings._asdict())})
    positions = initial_positions(target, with_run_loaded(inits), rngs)
    engine = choose_engine(backend)
    with status(plan.show_progress) as report:
        try:
            outcome = ENGINES[engine](target, plan, settings, positions, report)
        except StanadaptError as error:
            if error.code != "syntax_error" or backend != "auto" or engine == "stanli":
                raise
            engine = "stanli"  # CmdStan is too old for the program
            outcome = ENGINES[engine](target, plan, settings, positions, report)
    with uninterrupted() as pressed:  # the draws must not be lost
        fit = _result(target, plan, settings, engine, outcome)
        return skip_judging(fit) if pressed else judge_unless_interrupted(fit, target)


def _result(
    target: Target, plan: Plan, settings: NutsSettings, engine: str, outcome: NutsRun
) -> Fit:
    """Return the ArviZ object; Ctrl-C ends the comparison of densities alone."""
    attributes = _attributes(target, plan, settings, engine, outcome)
    notes = list(outcome.remarks)
    if lost := attributes["n_failed_quantities"]:
        text = (
            f"{lost} draws of Stan's NUTS contain NaN because their generated quantities failed "
            "or are not numbers. Parameters are unaffected. Fix the block, or remove the failing "
            "statement."
        )
        notes.append(Message("failed_quantities", text))
    for note in notes:
        warn(note)
    # the attribute `engine_independent` already records that the density is shared
    attributes["notes"] = [note for note in notes if note.code != "embedded_nuts"]
    verification = not_checked(Message("check_interrupted", "density not checked: interrupted"))
    try:
        with interruptible(), draws_kept("density_differs") as failed:
            verification = _verification(target, plan, engine, outcome)
        if failed:
            verification = not_checked(failed[0])
    except KeyboardInterrupt:
        failed, attributes["interrupted"] = [], True
    attributes |= {
        "density_verdict": verification.verdict,
        "density_checked_draws": verification.draws,
        "density_difference": verification.difference,
        "density_verified": str(verification.summary),
        "density_backend": target.backend,
        "density_backend_version": target.backend_version,
    }
    fit = results.build(_groups(target, plan, outcome), attributes)
    with draws_kept("hard_edges") as unknown:
        fit.attrs.update(ends_of(target, fit))
    fit.attrs.update({message.code: str(message) for message in [*failed, *unknown]})
    _report_density(target, verification, fit)
    return fit


def choose_engine(backend: str, argument: str = "backend", *others: str) -> str:
    """Return the engine for a name or "auto", the value of an argument; StanadaptError if none."""
    if not is_one_of(backend, {"auto", *ENGINES}):
        names = ", ".join(["auto", *ENGINES, *others])
        raise StanadaptError(
            "unknown_backend",
            f"{argument}, which runs Stan's NUTS, must be one of {names}, got {backend!r}.",
        )
    if backend == "auto":
        backend = "cmdstan" if toolchain.cmdstan() else "stanli"
    usable, why = BACKENDS["stanli"].availability()
    if backend == "stanli" and not usable:
        raise StanadaptError("stanli_unusable", f"{why}.")
    if backend == "cmdstan" and not toolchain.cmdstan():
        problem = toolchain.cmdstan_problem()
        raise StanadaptError(
            "cmdstan_broken" if problem else "cmdstan_missing",
            f"CmdStan is {f'not usable: {problem}' if problem else 'not installed.'} Run "
            f"`stanadapt install-cmdstan`, or use {argument}='stanli', which needs no compiler.",
        )
    return backend


def _groups(target: Target, plan: Plan, outcome: NutsRun) -> results.Groups:
    """Groups without excluded variables and noise, which NUTS samples like a parameter."""
    names = outcome.column_names
    columns = [i for i, name in enumerate(names) if variable_name(name) not in target.left_out]
    warmup = plan.thinned(plan.iter_warmup)
    phases = {"": slice(warmup, None)}
    if plan.save_warmup and warmup:
        phases["warmup_"] = slice(0, warmup)
    groups: results.Groups = {}
    for prefix, rows in phases.items():
        stats = {
            name: outcome.statistics[:, rows, column].astype(kind)
            for column, (name, kind) in enumerate(STATISTICS.values())
        }
        values = outcome.draws[:, rows][..., columns]
        draws = results.variables([names[i] for i in columns], values, target.program.integers)
        groups |= phase_groups(target.labels, prefix, draws, stats)
    return groups | copy.deepcopy(target.data_groups)


def _verification(target: Target, plan: Plan, engine: str, outcome: NutsRun) -> Verification:
    """Compare our log density with CmdStan's; the embedded engine's is ours."""
    if engine != "cmdstan":
        return not_checked(stanli.shared(target).extended(prefix="density not checked: "))
    rows, version = slice(plan.thinned(plan.iter_warmup), None), outcome.engine.split()[-1]
    lp = outcome.statistics[:, rows, list(STATISTICS).index("lp__")]
    return verify(target, outcome.column_names, outcome.draws[:, rows], lp, version)


def _report_density(target: Target, verification: Verification, fit: Any) -> None:
    """Raise if the densities differ, warn if they are only close."""
    if verification.verdict == "close":
        text = (
            f"{target.backend_version}: {verification.summary}. Releases of Stan compute some "
            "functions slightly differently. If this is not the cause, please report the problem."
        )
        warn(Message("density_close", text))
    if verification.verdict != "differs":
        return
    other = "backend='cmdstan'" if target.backend != "cmdstan" else "another backend"
    raise StanadaptError(
        "density_differs",
        f"do not trust draws of our samplers on {target.name} with backend {target.backend!r} "
        f"({target.backend_version}): its {verification.summary}. CmdStan's draws are in this "
        f"error's `fit`. Create the target with {other}, or rewrite the program. Please report the "
        "problem, and include the program.",
        verification.stan,
        fit,
    )


def _attributes(
    target: Target, plan: Plan, settings: NutsSettings, engine: str, outcome: NutsRun
) -> dict[str, Any]:
    # thinned iterations have leapfrogs too, which the kept iterations stand for
    leapfrogs = outcome.statistics[..., list(STATISTICS).index("n_leapfrog__")] * plan.thin
    warmup, chains = plan.thinned(plan.iter_warmup), outcome.draws.shape[0]
    metric = outcome.inverse_metric
    return {
        **({} if metric is None else {"inverse_metric": json.dumps(metric.tolist())}),
        **origin(target, plan),
        # Stan draws them again in each run, from its seed
        **({"random_data": f"{outcome.engine}, seed {plan.seed}"} if target.random_data else {}),
        "sampler": "nuts",
        "exact": True,
        "settings": json.dumps(settings._asdict()),
        "engine": outcome.engine,
        "engine_independent": engine == "cmdstan",
        "warmup_seconds": outcome.warmup_seconds,
        "sampling_seconds": outcome.sampling_seconds,
        "compile_seconds": outcome.compile_seconds,
        "n_gradients": int(leapfrogs.sum()),
        "n_gradients_warmup": int(leapfrogs[:, :warmup].sum()),
        "n_density": 0,
        "n_failed": 0,
        "n_failed_quantities": int(np.isnan(outcome.draws[:, warmup:]).any(axis=-1).sum()),
        "n_stopped": plan.chains - chains,
        "interrupted": False,
        "chains_kept": list(range(1, chains + 1)),
    }
