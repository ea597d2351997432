"""Gaussian approximations of a posterior, and draws from them."""

import time
from typing import Any, Literal

import numpy as np

from stanadapt.engine.compilation_progress import compiling
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.errors import StanadaptError, require_names, require_whole
from stanadapt.results import Fit
from stanadapt.results.rehearsal import rehearse_draws
from stanadapt.runs.load import with_run_loaded
from stanadapt.samplers.initial_values import initial_positions, require_inits
from stanadapt.samplers.variational.methods import Fitted, Method, choose_method, require_size
from stanadapt.studies.approximate.importance_draws import Draws, importance_draws
from stanadapt.studies.approximate.pack_approximation import (
    STATISTICS,
    ApproximationRecord,
    pack_approximation,
)
from stanadapt.targets.target import Samplable, require_exact_density, require_samplable

UNCONSTRAINED = "unconstrained"  # the group that a result may have in addition


def approximate(
    target: Samplable,
    method: Literal["pathfinder", "advi", "laplace"] = "pathfinder",
    *,
    draws: int = 1000,
    seed: int | None = None,
    inits: Any = None,
    save: Any = (),
    show_progress: bool = True,
    **settings: Any,
) -> Fit:
    """Approximate a posterior by Gaussians on the unconstrained scale, and draw from these.

    This takes seconds and is not exact: use it for a first look, for starting values, or if a
    sampler would take too long. The result reports how far the approximation is from the posterior,
    as far as importance weights can show this.

    Parameters
    ----------
    target : Target or other samplable
        A Stan program with its data; its density needs a gradient.
    method : str
        "pathfinder": several climbs to modes suggest Gaussians, and those with the highest evidence
        lower bound (ELBO) are used; "advi": the Gaussian that maximizes the ELBO by stochastic
        gradients; "laplace": the Gaussian at the mode, with the curvature of the log density there,
        Jacobian of the transforms included.
    draws : int
        Number of draws in the result.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: a random one, recorded in the result's attributes.
    inits : optional
        Starting points of the climbs, as for `initial_values.initial_positions`: one per path of
        Pathfinder, one for the other methods.
    save : str or list of str
        "unconstrained" adds the group `unconstrained_posterior`. Default: no further group.
    show_progress : bool
        Whether to report steps that take longer than a second.
    **settings
        Settings of the method: `PathfinderSettings`, `AdviSettings` and `LaplaceSettings` in
        `samplers/variational/methods.py`. Pathfinder has paths, history, elbo_draws and
        max_iterations; ADVI has algorithm ("fullrank" or "meanfield"), iterations, grad_samples
        and learning_rate; Laplace's method has max_iterations.

    Returns
    -------
    Fit
        As from `sample`, with one chain of independent draws (with several paths, these are
        resampled by weight, with replacement). `sample_stats` has lp, lp_approx and log_weight, the
        log of the normalized, Pareto smoothed importance weights. The group `approximation` has the
        ELBO along the way and the Gaussians, with mean `location` and `factor` L of the covariance
        L L^T. Attributes: `exact` is false; `pareto_k` of the weights and `pareto_k_meaning`, a
        text; the verdict is "do not use" if k is too large.

    Raises
    ------
    StanadaptError
        Stage "settings" for wrong arguments, "initialization" if the density is not finite at the
        start, "sampling" if no approximation was found.

    References
    ----------
    See `samplers/variational/`: `pathfinder`, `advi` and `laplace`.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.approximate(target, "laplace", draws=2000, seed=1, show_progress=False)
    >>> fit.attrs["verdict"], round(float(fit.posterior["x"].mean()))
    ('fine', 1)
    """
    program, names = require_samplable(target).target, require_names("save", save)
    if set(names) - {UNCONSTRAINED}:
        raise StanadaptError("unknown_argument", f"save takes {UNCONSTRAINED!r}, got {save!r}.")
    save_unconstrained, inits = bool(names), with_run_loaded(inits)
    method_functions, method_settings, plan = plan_approximation(
        method, settings, draws=draws, seed=seed, inits=inits, show_progress=show_progress
    )
    require_exact_density(
        program, "estimated_density", f"{method} follows gradients, but ",
        "use sample, or make the target without `noise` to approximate both.",
    )  # fmt: skip
    require_size(method, method_functions, method_settings, target.dim)
    further = ["position"] if save_unconstrained else []
    rehearse_draws(program, plan, STATISTICS, {"sampler": method}, further)
    return _approximate(
        target, method, method_functions, method_settings, plan, inits, save_unconstrained
    )


def plan_approximation(
    method: Any, settings: dict[str, Any], *, draws: Any, seed: Any, inits: Any, show_progress: Any
) -> tuple[Method, Any, Plan]:
    """Return the method with its settings, and the plan: all that needs no target, checked."""
    functions, chosen = choose_method(method, settings)
    require_inits(inits)
    plan = make_plan(
        chains=getattr(chosen, "paths", 1), parallel_chains=None, iter_warmup=0,
        iter_sampling=require_whole("draws", draws, 1), thin=1, seed=seed, save_warmup=False,
        show_progress=show_progress,
    )  # fmt: skip
    return functions, chosen, plan


def _approximate(
    target: Samplable,
    name: str,
    method: Method,
    settings: Any,
    plan: Plan,
    inits: Any,
    save_unconstrained: bool,
) -> Any:
    *each, drawing, quantities = np.random.SeedSequence(plan.seed).spawn(plan.chains + 2)
    rngs = [np.random.default_rng(source) for source in each]
    starts = initial_positions(target, inits, rngs)
    compile_seconds = _compile(target, name, method, settings, starts, plan)
    began = time.perf_counter()
    with slow_step(plan.show_progress, f"Approximating {target.name} by {name}"):
        fitted = method.fit(target, settings, starts, rngs)
    fit_seconds = time.perf_counter() - began
    began, density = time.perf_counter(), target.density()
    draws = importance_draws(
        fitted.parts, density, np.random.default_rng(drawing), plan.iter_sampling
    )
    _require_proper_draws(target, name, draws)
    run = ApproximationRecord(
        name, settings, plan, int(quantities.generate_state(1, np.uint32)[0]),
        compile_seconds, fit_seconds, time.perf_counter() - began,
    )  # fmt: skip
    fitted = fitted._replace(densities=[*fitted.densities, density])
    with slow_step(plan.show_progress, "Building the result and judging it"):
        return pack_approximation(target, run, fitted, draws, save_unconstrained)


def _require_proper_draws(target: Samplable, name: str, draws: Draws) -> None:
    """Raise StanadaptError if the draws are degenerate, as for an improper posterior."""
    if not np.isfinite(draws.log_density).any():
        raise StanadaptError(
            "no_density_at_draws",
            f"the density of {target.name} is not finite at any draw of the approximation by "
            f"{name}. Start elsewhere (inits), try another method, or use sample.",
            target.evaluate(draws.positions[0])[2],
        )
    if len(draws.positions) > 1 and not np.all(np.ptp(draws.positions, axis=0) > 0.0):
        raise StanadaptError(
            "approximation_too_far",
            f"the approximation of {target.name} by {name} is so far out that rounding makes its "
            "draws equal: the posterior seems to be improper. Check that priors or data bound "
            "every parameter, or start elsewhere (inits).",
        )


def _compile(
    target: Samplable,
    name: str,
    method: Method,
    settings: Any,
    starts: list[np.ndarray],
    plan: Plan,
) -> float:
    """Compile the method by a fit of the smallest size, which is discarded; return seconds."""
    smallest = {"max_iterations": 1, "iterations": 2, "grad_samples": 1, "paths": 1}
    brief = {name: value for name, value in smallest.items() if name in settings._fields}
    began = time.perf_counter()
    rngs = [np.random.default_rng(0)]
    with compiling(plan.show_progress, name):
        try:
            fitted: Fitted | None = method.fit(target, settings._replace(**brief), starts[:1], rngs)
        except StanadaptError:
            fitted = None  # the fit itself will report the reason
        if fitted is not None:
            importance_draws(fitted.parts, target.density(), rngs[0], 1)
    return time.perf_counter() - began
