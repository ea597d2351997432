"""Stan's own NUTS on the same target, as the same kind of result.

`engine="cmdstan"` runs CmdStan through CmdStanPy; `engine="stanli"` runs the NUTS inside the
embedded backend, which shares its density with our samplers and so cannot confirm it.
"""

import json
import warnings
from typing import Any

import numpy as np

from stanadapt import results, toolchain
from stanadapt.engines import STATISTICS, NutsRun, NutsSettings, cmdstan, stanli
from stanadapt.errors import StanadaptError
from stanadapt.inits import initial_positions
from stanadapt.plan import Plan, between, make_plan, whole
from stanadapt.provenance import origin
from stanadapt.status import status
from stanadapt.target import Target, checked, variable_of
from stanadapt.verification import Verification, verify

ENGINES = {"cmdstan": cmdstan.run, "stanli": stanli.run}


def reference(
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
        `engine` says which it was, and `engine_independent` whether its density is not ours.
    adapt_delta, max_treedepth
        Stan's: target acceptance in (0, 1), and the largest depth of a trajectory's tree.

    The other parameters are those of `sample`; chains start from the same positions as there.

    Returns
    -------
    ArviZ object
        As from `sample`. The attributes `density_verdict` ("equal", "close", "differs" or "not
        checked"), `density_checked_draws`, `density_difference` and the sentence
        `density_verified` tell how our log density compares with CmdStan's at its draws.

    Raises
    ------
    StanadaptError
        Stage "installation" without CmdStan, "syntax" if it cannot compile the program,
        "sampling" if every chain failed (the draws of complete chains are kept), or if our log
        density is not CmdStan's: the error's `fit` is then the result.

    """
    target = checked(target)
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, iter_warmup=iter_warmup,
        iter_sampling=iter_sampling, thin=thin, seed=seed, save_warmup=save_warmup,
        show_progress=show_progress,
    )  # fmt: skip
    settings = NutsSettings(
        between("adapt_delta", adapt_delta, 0.0, 1.0), whole("max_treedepth", max_treedepth, 1)
    )
    rngs = [np.random.default_rng(source.spawn(2)[0]) for source in plan.seeds()]
    positions = initial_positions(target, inits, rngs)
    chosen = choose_engine(engine)
    with status(plan.show_progress) as tell:
        outcome = ENGINES[chosen](target, plan, settings, positions, tell)
    for remark in outcome.remarks:
        warnings.warn(remark, UserWarning, stacklevel=2)
    attributes = _attributes(target, plan, settings, chosen, outcome)
    if attributes["n_failed_quantities"]:
        warnings.warn(
            f"{attributes['n_failed_quantities']} draws of the reference hold NaN: their generated "
            "quantities threw, or are not numbers.",
            UserWarning,
            stacklevel=2,
        )
    try:
        verification = _verification(target, plan, chosen, outcome)
    except KeyboardInterrupt:  # must not cost the draws
        verification = Verification("not checked", 0, np.nan, "density not checked: interrupted")
        attributes["interrupted"] = True
    attributes |= _density(target, verification)
    fit = results.build(_groups(target, plan, outcome), attributes)
    _tell(target, verification, fit)
    return fit


def choose_engine(engine: str) -> str:
    """Return the engine that a name or "auto" stands for; StanadaptError if it is not here."""
    if engine not in ("auto", *ENGINES):
        known = ", ".join(["auto", *ENGINES])
        raise StanadaptError("settings", f"engine must be one of {known}, got {engine!r}.")
    if engine == "auto":
        return "cmdstan" if toolchain.cmdstan() else "stanli"
    if engine == "cmdstan" and not toolchain.cmdstan():
        problem = toolchain.cmdstan_problem()
        raise StanadaptError(
            "installation",
            f"CmdStan is {f'not usable: {problem}' if problem else 'not installed.'} Run "
            "`stanadapt install-cmdstan`, or take engine='stanli', which needs no compiler.",
        )
    return engine


def _groups(target: Target, plan: Plan, outcome: NutsRun) -> results.Groups:
    """All but the noise of an estimated density, which NUTS moves like any other parameter."""
    names = outcome.column_names
    own = [i for i, name in enumerate(names) if variable_of(name) not in target.noise]
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
        groups |= results.groups_of(prefix, draws, stats)
    return groups


def _verification(target: Target, plan: Plan, engine: str, outcome: NutsRun) -> Verification:
    if engine != "cmdstan":
        return Verification("not checked", 0, np.nan, f"density not checked: {stanli.SHARED}")
    rows, version = slice(plan.thinned(plan.iter_warmup), None), outcome.engine.split()[-1]
    lp = outcome.statistics[:, rows, list(STATISTICS).index("lp__")]
    return verify(target, outcome.column_names, outcome.draws[:, rows], lp, version)


def _density(target: Target, verification: Verification) -> dict[str, Any]:
    """What of the check goes into the result, and whose density it was."""
    return {
        "density_verdict": verification.verdict,
        "density_checked_draws": verification.draws,
        "density_difference": verification.difference,
        "density_verified": verification.sentence,
        "density_backend": target.backend,
        "density_backend_version": target.backend_version,
    }


def _tell(target: Target, verification: Verification, fit: Any) -> None:
    """Raise where the densities differ, warn where they are only close."""
    if verification.verdict == "close":
        warnings.warn(
            f"{target.backend_version}: {verification.sentence}. Releases of Stan compute some "
            "functions slightly differently; if that is not it, please report it.",
            UserWarning,
            stacklevel=3,
        )
    if verification.verdict != "differs":
        return
    other = "backend='cmdstan'" if target.backend != "cmdstan" else "another backend"
    raise StanadaptError(
        "sampling",
        f"do not trust draws of our samplers on {target.name} with backend {target.backend!r} "
        f"({target.backend_version}): its {verification.sentence}. CmdStan's own draws "
        f"are in this error's `fit`. Make the target with {other}, or rewrite the program, and "
        "please report this together with the program.",
        verification.stan,
        fit,
    )


def _attributes(
    target: Target, plan: Plan, settings: NutsSettings, engine: str, outcome: NutsRun
) -> dict[str, Any]:
    # thinned-out iterations have leapfrogs too: what is kept stands for all
    leapfrogs = outcome.statistics[..., list(STATISTICS).index("n_leapfrog__")] * plan.thin
    kept, chains = plan.thinned(plan.iter_warmup), outcome.draws.shape[0]
    return {
        **origin(target, plan),
        "sampler": "nuts",
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
