"""From a target and a sampler to an ArviZ object: the function users call."""

from collections.abc import Callable
from os import PathLike
from types import SimpleNamespace
from typing import Any

import numpy as np

from stanadapt.engine.protocol import AUTO, SamplerName
from stanadapt.results import Fit
from stanadapt.runs.choose_sampler import require_sampler
from stanadapt.runs.independent import independent_draws
from stanadapt.runs.prepare import (
    family_options,
    keywords,
    prepare,
    require_arguments,
    require_known,
)
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.run import Run
from stanadapt.targets.target import Samplable, Target, require_samplable


def sample(
    target: Samplable,
    sampler: SamplerName | str | tuple = AUTO,
    *,
    chains: int = 4,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    seed: int | None = None,
    inits: Any = None,
    warm_start: Any = None,
    until_ess: float | None = None,
    until_mcse: float | None = None,
    max_minutes: float | None = None,
    thin: int = 1,
    parallel_chains: int | None = None,
    standardize: bool | str | None = None,
    save_warmup: bool = False,
    save: Any = (),
    run: str | PathLike | None = None,
    executor: Any = None,
    show_progress: bool | Callable[[RunProgress], Any] = True,
    **settings: Any,
) -> Fit:
    """Draw from the posterior of a Stan program.

    Parameters
    ----------
    target : Target
        A Stan program with its data; or its pseudo-extension (`Extended`), or its rows in batches
        (`Minibatches`, for sgld). Draws of a program without parameters are independent, as those
        of CmdStan's `fixed_param`: simulated data.
    sampler : str or Settings
        Name of a sampler (`stanadapt samplers` lists them), or an instance of its `Settings`, in
        which a field that equals its default counts as not given. The default, "auto", is
        whitened_hmc if the density has a usable gradient, and am otherwise. Attributes of the
        result record the choice and the reason.
    chains : int
        Number of chains.
    iter_warmup, iter_sampling : int, optional
        Iterations per chain. Default: chosen by the sampler. For whitened_hmc, iter_warmup is an
        upper limit: its warm-up ends when it has settled. If iter_sampling is not given, chains of
        an exact sampler (except smc) continue to up to four times their default length, provided
        that this is likely to bring R-hat below 1.01 and bulk and tail ESS above 100 per chain, or
        1,000 in all.
    seed : int, optional
        Seed of the random numbers, 0 to 2**32 - 1. Default: a random one, recorded in the result.

    Returns
    -------
    Fit
        ArviZ object with the groups posterior and sample_stats; with log_likelihood and
        posterior_predictive if the program computes them; and with the data. Attributes record how
        it was made; `verdict` and `verdict_codes` record whether it can be used. After Ctrl-C, it
        has the draws so far, and the attribute `interrupted` is set.

    Other Parameters
    ----------------
    inits : optional
        Starting values: a radius r (uniform on (-r, r) on the unconstrained scale); a mapping of
        parameters to constrained values, or a list with one mapping per chain, or JSON text or a
        JSON file of either; an array of unconstrained positions; an earlier fit or its file,
        store or run folder, or CSV files of CmdStan's chains or their folder, where each chain
        takes a random draw; or "pathfinder". Default: random, with radius 2.
    warm_start : fit or path, optional
        An earlier fit of the same program by any sampler, with the same or other data; or its file
        or run folder. Chains start at its draws and use its scales instead of a pre-run. If the
        scales of the posterior have changed, they are learned again, with a warning. The default
        learns metric and map from these draws first, and judges them on new ones; kameleon learns
        from them as if they were its own.
    until_ess : float, optional
        Sample until the smallest bulk and tail ESS of the parameters is at least this, and R-hat
        below 1.01. A run that comes no closer in three extensions ends with a note.
    until_mcse : float, optional
        Sample until the mean of every parameter, estimated with control variates (`expectations`),
        has a standard error below this share of its standard deviation: 0.01, for example; and, as
        for `until_ess`, until R-hat is below 1.01, and bulk and tail ESS above 100 per chain. The
        run begins with 100 iterations per chain unless iter_sampling is given, and keeps gradients
        (save="gradient").
    max_minutes : float, optional
        Stop after this many minutes of pre-run, warm-up and sampling, not counting compilation, and
        return the draws so far, about the same number from each chain. If there are no draws yet,
        an error is raised.
    thin : int
        Keep every thin-th iteration.
    parallel_chains : int, optional
        Number of chains that run at once. Default: as many as there are cores. The draws do not
        depend on it.
    standardize : bool or str, optional
        Whether the sampler runs in coordinates that a pre-run of all chains has standardized by
        location, scales and, for most samplers, correlations. Settings that are given in units of
        the unconstrained parameters are then in units of their standard deviations. The draws are
        always saved in the program's own coordinates. The pre-run counts as warm-up. Default: yes,
        except with

        - a sampler that learns scales itself;
        - a `warm_start`, a network, or a given hot end of a tempering sampler;
        - an `Extended` or `Minibatches`;
        - fewer than 50 iterations of warm-up.

        False: the coordinates of the program, as in the papers. "straighten": the pre-run also
        learns a map that makes funnels and curved valleys nearly Gaussian, as the default sampler
        does; the map is for a single region, not for several modes.
    save_warmup : bool
        Add the groups `warmup_posterior` and `warmup_sample_stats`.
    save : str or sequence of str
        What to keep as well: "unconstrained", the draws on the unconstrained scale; "gradient", the
        gradients of the log density there, which `expectations` then need not evaluate, in the same
        group (whitened_hmc and nuts; hmc and mala with standardize=False); "pseudo", all
        pseudo-samples with temperatures and weights (for an `Extended` or pseudo_extended).
    run : path, optional
        New or empty folder in which draws and states are stored during the run. From there,
        `resume` continues in another process, draw for draw, after a crash or Ctrl-C, or to make
        the run longer; `load` reads the draws so far.
    executor : optional
        A `concurrent.futures.Executor` or a Dask client with workers that run the chains. Default:
        threads of this process. The draws are the same.
    show_progress : bool or callable
        Whether to show bars in a terminal, and lines elsewhere; or a function that is called with a
        `RunProgress` about ten times a second, and that stops the run by returning True.
    **settings
        Settings of the sampler, by name (`stanadapt samplers NAME` lists them). `preset` selects
        the published settings of a paper (`preset="titsias2019"`); other settings, and
        `standardize`, override it. Some families of samplers take further arguments:
        `reference_distribution` or `prior_data`, the hot end of tempering samplers (see
        `runs.reference.fit_reference`); `network`, for nice; `threads_per_chain`, for samplers that
        share the moves of a chain among threads.

    Raises
    ------
    StanadaptError
        Before sampling, if an argument is wrong; after sampling, only if there are no draws.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, seed=1, show_progress=False)
    >>> fit.attrs["sampler"], fit.attrs["verdict"]
    ('whitened_hmc', 'fine')
    """
    asked = keywords(sample, locals())
    if not require_samplable(target, empty=True).dim:
        return independent_draws(target.target, sampler, settings, asked)
    return Run.begin(prepare(target, sampler, settings, asked)).finish()


def parameter_draws(target: Target, sampler: Any, **options: Any) -> dict[str, np.ndarray]:
    """Return the draws that `sample` returns with these options, by parameter, not judged.

    For studies of many fits that are not kept: shape (chain, draw) of each element.
    """
    setup = prepare(target, sampler, *_split(options), keeps_result=False)
    return Run.begin(setup).parameter_draws()


def require_options(sampler: Any = AUTO, /, **options: Any) -> None:
    """Raise StanadaptError for arguments of `sample` that are wrong for any target.

    For studies and commands, which may have to compile a program before they have a target.
    """
    settings, asked = _split(options)
    if isinstance(sampler, str) and sampler != AUTO:
        of_families = family_options()
        chosen = {name: value for name, value in settings.items() if name not in of_families}
        require_known(sampler, chosen, vars(asked))
        require_sampler(sampler, **chosen)
    require_arguments(asked, settings.get("threads_per_chain", 1))


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], SimpleNamespace]:
    """Return the settings among the options of a call, and its keyword arguments with defaults."""
    defaults = sample.__kwdefaults__ or {}
    settings = {name: value for name, value in options.items() if name not in defaults}
    return settings, SimpleNamespace(**{n: options.get(n, x) for n, x in defaults.items()})
