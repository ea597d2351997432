"""Stan's own NUTS on the same target, as the same kind of result.

`engine="cmdstan"` runs CmdStan through CmdStanPy; `engine="stanli"` runs the NUTS inside the
embedded backend, which shares its density with our samplers and so cannot confirm it.
"""

import copy
import json
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.verdict import judge
from stanadapt.engine.console import status
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.errors import StanadaptError, is_one_of, require_between, require_whole, warn
from stanadapt.results.attributes import origin
from stanadapt.results.labels import named_dimensions, phase_groups
from stanadapt.runs.stan_nuts import cmdstan, stanli
from stanadapt.runs.stan_nuts.engine import STATISTICS, NutsRun, NutsSettings
from stanadapt.runs.stan_nuts.verification import Verification, verify
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.stan import toolchain
from stanadapt.targets.target import Target, require_target, variable_name

ENGINES = {"cmdstan": cmdstan.run, "stanli": stanli.run}


def stan_nuts(
    target: Target,
    *,
    engine: str = "auto",
    chains: int = 4,
    parallel_chains: int | None = None,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    thin: int = 1,
    seed: int | None = None,
    inits: Any = None,
    save_warmup: bool = False,
    show_progress: bool = True,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
) -> Any:
    """Draw from a target with Stan's NUTS.

    Parameters
    ----------
    target
        A Stan program with its data.
    engine
        "cmdstan", "stanli", or "auto": CmdStan where it is installed. The result's attribute
        `engine` holds which it was, and `engine_independent` whether its density is not ours.
    adapt_delta, max_treedepth
        Stan's target acceptance, in (0, 1), and largest depth of a trajectory's tree.

    The other parameters are those of `sample`; chains start from the same positions.

    Returns
    -------
    ArviZ object
        As from `sample`. The attributes `density_verdict` ("equal", "close", "differs" or "not
        checked"), `density_checked_draws`, `density_difference` and the sentence
        `density_verified` record how our log density compares with CmdStan's at its draws.

    Raises
    ------
    StanadaptError
        Stage "installation" without CmdStan, "syntax" if it cannot compile the program,
        "sampling" if every chain failed (the draws of complete chains are kept), or if our log
        density is not CmdStan's: the error's `fit` is then the result.

    """
    target = require_target(target)
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, iter_warmup=iter_warmup,
        iter_sampling=iter_sampling, thin=thin, seed=seed, save_warmup=save_warmup,
        show_progress=show_progress,
    )  # fmt: skip
    settings = NutsSettings(
        require_between("adapt_delta", adapt_delta, 0.0, 1.0),
        require_whole("max_treedepth", max_treedepth, 1),
    )
    rngs = [np.random.default_rng(source.spawn(2)[0]) for source in plan.seeds()]
    positions = initial_positions(target, inits, rngs)
    chosen = choose_engine(engine)
    with status(plan.show_progress) as report:
        outcome = ENGINES[chosen](target, plan, settings, positions, report)
    attributes = _attributes(target, plan, settings, chosen, outcome)
    notes = [*outcome.remarks, *_failed_quantities(attributes["n_failed_quantities"])]
    for sentence in notes:
        warn(sentence)
    # which engine it was stands in an attribute of its own
    attributes["notes"] = [sentence for sentence in notes if sentence != stanli.SHARED]
    try:
        verification = _verification(target, plan, chosen, outcome)
    except KeyboardInterrupt:  # the draws must not be lost
        verification = Verification("not checked", 0, np.nan, "density not checked: interrupted")
        attributes["interrupted"] = True
    attributes |= _density_attributes(target, verification)
    fit = results.build(
        _groups(target, plan, outcome), attributes, **named_dimensions(target.labels)
    )
    _report_density(target, verification, fit)
    return judge(fit)


def choose_engine(engine: str) -> str:
    """Return the engine that a name or "auto" stands for; StanadaptError if it is missing."""
    if not is_one_of(engine, {"auto", *ENGINES}):
        known = ", ".join(["auto", *ENGINES])
        raise StanadaptError("settings", f"engine must be one of {known}, got {engine!r}.")
    if engine == "auto":
        return "cmdstan" if toolchain.cmdstan() else "stanli"
    if engine == "cmdstan" and not toolchain.cmdstan():
        problem = toolchain.cmdstan_problem()
        raise StanadaptError(
            "installation",
            f"CmdStan is {f'not usable: {problem}' if problem else 'not installed.'} Run "
            "`stanadapt install-cmdstan`, or use engine='stanli', which needs no compiler.",
        )
    return engine


def _failed_quantities(count: int) -> list[str]:
    if not count:
        return []
    return [
        f"{count} draws of Stan's NUTS hold NaN: their generated quantities threw, or are not "
        "numbers. The parameters are not touched by it: mend the block, or leave out what throws."
    ]


def _groups(target: Target, plan: Plan, outcome: NutsRun) -> results.Groups:
    """Groups without what is excluded, and the noise, which NUTS samples like a parameter."""
    names = outcome.column_names
    own = [i for i, name in enumerate(names) if variable_name(name) not in target.left_out]
    kept = plan.thinned(plan.iter_warmup)
    phases = {"": slice(kept, None)}
    if plan.save_warmup and kept:
        phases["warmup_"] = slice(0, kept)
    groups: results.Groups = {}
    for prefix, rows in phases.items():
        stats = {
            name: outcome.statistics[:, rows, column].astype(kind)
            for column, (name, kind) in enumerate(STATISTICS.values())
        }
        draws = results.variables([names[i] for i in own], outcome.draws[:, rows][..., own])
        groups |= phase_groups(target.labels, prefix, draws, stats)
    return groups | copy.deepcopy(target.data_groups)


def _verification(target: Target, plan: Plan, engine: str, outcome: NutsRun) -> Verification:
    if engine != "cmdstan":
        return Verification("not checked", 0, np.nan, f"density not checked: {stanli.SHARED}")
    rows, version = slice(plan.thinned(plan.iter_warmup), None), outcome.engine.split()[-1]
    lp = outcome.statistics[:, rows, list(STATISTICS).index("lp__")]
    return verify(target, outcome.column_names, outcome.draws[:, rows], lp, version)


def _density_attributes(target: Target, verification: Verification) -> dict[str, Any]:
    """Attributes on the check, and on the density that was checked."""
    return {
        "density_verdict": verification.verdict,
        "density_checked_draws": verification.draws,
        "density_difference": verification.difference,
        "density_verified": verification.sentence,
        "density_backend": target.backend,
        "density_backend_version": target.backend_version,
    }


def _report_density(target: Target, verification: Verification, fit: Any) -> None:
    """Raise if the densities differ, warn if they are only close."""
    if verification.verdict == "close":
        warn(
            f"{target.backend_version}: {verification.sentence}. Releases of Stan compute some "
            "functions slightly differently; if that is not the cause, please report it."
        )
    if verification.verdict != "differs":
        return
    other = "backend='cmdstan'" if target.backend != "cmdstan" else "another backend"
    raise StanadaptError(
        "sampling",
        f"do not trust draws of our samplers on {target.name} with backend {target.backend!r} "
        f"({target.backend_version}): its {verification.sentence}. CmdStan's own draws "
        f"are in this error's `fit`. Make the target with {other}, or rewrite the program, and "
        "please report this with the program.",
        verification.stan,
        fit,
    )


def _attributes(
    target: Target, plan: Plan, settings: NutsSettings, engine: str, outcome: NutsRun
) -> dict[str, Any]:
    # iterations that thinning drops have leapfrogs too: the kept ones stand for all
    leapfrogs = outcome.statistics[..., list(STATISTICS).index("n_leapfrog__")] * plan.thin
    kept, chains = plan.thinned(plan.iter_warmup), outcome.draws.shape[0]
    return {
        **origin(target, plan),
        "sampler": "nuts",
        "exact": True,
        "settings": json.dumps(settings._asdict()),
        "engine": outcome.engine,
        "engine_independent": engine == "cmdstan",
        "warmup_seconds": outcome.warmup_seconds,
        "sampling_seconds": outcome.sampling_seconds,
        "compile_seconds": outcome.compile_seconds,
        "n_gradients": int(leapfrogs.sum()),
        "n_gradients_warmup": int(leapfrogs[:, :kept].sum()),
        "n_density": 0,
        "n_failed": 0,
        "n_failed_quantities": int(np.isnan(outcome.draws[:, kept:]).any(axis=-1).sum()),
        "n_stopped": plan.chains - chains,
        "interrupted": False,
        "chains_kept": list(range(1, chains + 1)),
    }
