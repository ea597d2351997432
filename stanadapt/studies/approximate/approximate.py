"""From a target to an approximation of its posterior: the function users call."""

import time
from typing import Any

import numpy as np

from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.errors import StanadaptError, require_whole
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.samplers.variational.methods import Fitted, Method, choose_method, require_size
from stanadapt.studies.approximate.importance_draws import Draws, importance_draws
from stanadapt.studies.approximate.pack_approximation import Run, pack_approximation
from stanadapt.targets.target import Samplable, require_samplable


def approximate(
    target: Samplable,
    method: str = "pathfinder",
    *,
    draws: int = 1000,
    seed: int | None = None,
    inits: Any = None,
    save_unconstrained: bool = False,
    show_progress: bool = True,
    **settings: Any,
) -> Any:
    """Approximate a posterior by Gaussians on the unconstrained scale, and draw from these.

    It takes seconds, and is not exact: for a first look, for starting values, and where a sampler
    would take too long. The result says how far it is from the posterior, as far as can be told.

    Parameters
    ----------
    target
        A Stan program with its data; its density needs a gradient.
    method
        "pathfinder": of the Gaussians that climbs to the modes suggest, those with the highest
        evidence lower bound (ELBO); "advi": the Gaussian that stochastic gradients of the ELBO
        find; "laplace": at the mode, with the curvature there, Jacobian of the transforms included.
    draws
        How many are kept.
    seed
        0 to 2**32 - 1; default: a random one, recorded in the result's attributes.
    inits
        Where climbs start: see `initial_values.initial_positions`. One start per path of
        Pathfinder, one for the other methods.
    save_unconstrained
        Add the group `unconstrained_posterior`.
    show_progress
        Say what takes longer than a second.
    settings
        The method's own, by name: `PathfinderSettings`, `AdviSettings` and `LaplaceSettings` in
        `methods.py`. Of Pathfinder paths, history, elbo_draws, max_iterations; of ADVI algorithm
        ("fullrank" or "meanfield"), iterations, grad_samples, learning_rate; of Laplace's method
        max_iterations.

    Returns
    -------
    ArviZ object
        As from `sample`, with one chain of independent draws (of several paths: chosen by weight,
        with replacement). `sample_stats` has lp, lp_approx and log_weight, the Pareto smoothed
        importance weights, normalized. The group `approximation` has the ELBO along the way and the
        Gaussians, mean `location` and `factor` L of the covariance L L^T. Attributes: `exact` is
        false; `pareto_k` of the weights and `pareto_k_meaning`, a sentence; the verdict is "do not
        use" where k is too large.

    Raises
    ------
    StanadaptError
        Stage "settings" for whatever is wrong with the arguments, "initialization" where the
        density is not finite at the start, "sampling" where no approximation was found.

    References
    ----------
    See `kernels/variational/`: `pathfinder`, `advi` and `laplace`.

    """
    program = require_samplable(target).target
    chosen, typed = choose_method(method, settings)
    if program.noise:
        raise StanadaptError(
            "settings",
            f"{method} follows gradients, but the density of {program.name} is an estimate with "
            f"noise {', '.join(program.noise)}. Use sample, or make the target without `noise` to "
            "approximate both.",
        )
    require_size(method, chosen, typed, target.dim)
    plan = make_plan(
        chains=getattr(typed, "paths", 1), parallel_chains=None, iter_warmup=0,
        iter_sampling=require_whole("draws", draws, 1), thin=1, seed=seed, save_warmup=False,
        show_progress=show_progress,
    )  # fmt: skip
    return _approximate(target, method, chosen, typed, plan, inits, save_unconstrained)


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
    compile_seconds = _compiled(target, method, settings, starts, plan)
    began = time.perf_counter()
    with slow_step(plan.show_progress, f"Approximating {target.name} by {name}"):
        fitted = method.fit(target, settings, starts, rngs)
    fit_seconds = time.perf_counter() - began
    began, density = time.perf_counter(), target.density()
    drawn = importance_draws(
        fitted.parts, density, np.random.default_rng(drawing), plan.iter_sampling
    )
    _require_draws(target, name, drawn)
    run = Run(
        name, settings, plan, int(quantities.generate_state(1, np.uint32)[0]),
        compile_seconds, fit_seconds, time.perf_counter() - began,
    )  # fmt: skip
    fitted = fitted._replace(densities=[*fitted.densities, density])
    with slow_step(plan.show_progress, "Putting the result together, and judging it"):
        return pack_approximation(target, run, fitted, drawn, save_unconstrained)


def _require_draws(target: Samplable, name: str, drawn: Draws) -> None:
    """Raise StanadaptError where draws are no distribution: of improper posteriors, for example."""
    if not np.isfinite(drawn.log_density).any():
        raise StanadaptError(
            "sampling",
            f"the density of {target.name} is not finite at any draw of the approximation by "
            f"{name}. Start elsewhere (inits), try another method, or use sample.",
            target.evaluate(drawn.positions[0])[2],
        )
    if len(drawn.positions) > 1 and not np.all(np.ptp(drawn.positions, axis=0) > 0.0):
        raise StanadaptError(
            "sampling",
            f"the approximation of {target.name} by {name} lies so far away that its draws cannot "
            "be told apart: the posterior seems to be improper. Check that priors or data bound "
            "every parameter, or start elsewhere (inits).",
        )


def _compiled(
    target: Samplable, method: Method, settings: Any, starts: list[np.ndarray], plan: Plan
) -> float:
    """Compile what will run, by a fit of the smallest size that is thrown away; return seconds."""
    small = {"max_iterations": 1, "iterations": 2, "grad_samples": 1, "paths": 1}
    least = {name: value for name, value in small.items() if name in settings._fields}
    began = time.perf_counter()
    rngs = [np.random.default_rng(0)]
    with slow_step(plan.show_progress, "Compiling (once; up to a minute)"):
        try:
            fitted: Fitted | None = method.fit(target, settings._replace(**least), starts[:1], rngs)
        except StanadaptError:
            fitted = None  # the fit itself will say why
        if fitted is not None:
            importance_draws(fitted.parts, target.density(), rngs[0], 1)
    return time.perf_counter() - began
