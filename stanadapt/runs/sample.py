"""From a target and a sampler to an ArviZ object: the function users call."""

from collections.abc import Callable
from os import PathLike
from typing import Any

from stanadapt.engine.chain import ChainDesign
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.plan import make_plan
from stanadapt.engine.protocol import PRESET
from stanadapt.engine.registry import find, with_settings_of_size, with_standardized_defaults
from stanadapt.engine.starts import START_OPTIONS
from stanadapt.errors import StanadaptError, did_you_mean, require_flag, require_names
from stanadapt.results import Fit, arviz_module, as_path
from stanadapt.runs.chains import require_memory
from stanadapt.runs.choose_sampler import (
    AUTO,
    choose_sampler,
    names_of_settings,
    require_batches,
    require_exact,
    require_pseudo_samples,
    require_threads,
)
from stanadapt.runs.coordinates import NO, choose_coordinates
from stanadapt.runs.load import load
from stanadapt.runs.progress import RunProgress, Watch
from stanadapt.runs.rehearsal import rehearse_run
from stanadapt.runs.result import SavedGroups
from stanadapt.runs.run import Run
from stanadapt.runs.stopping_rule import require_limits, with_stopping_rule
from stanadapt.runs.warm_start import (
    GivenStart,
    choose_chain_init,
    starting_values,
    with_kept_options,
)
from stanadapt.runs.workers import require_executor
from stanadapt.targets.target import Samplable, require_samplable


def sample(
    target: Samplable,
    sampler: Any = AUTO,
    *,
    chains: int = 4,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    seed: int | None = None,
    inits: Any = None,
    warm_start: Any = None,
    until_ess: float | None = None,
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
        (`Minibatches`, for sgld).
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
        that this is likely to bring R-hat below 1.01 and bulk and tail ESS above 100 per chain.
    seed : int, optional
        Seed of the random numbers, 0 to 2**32 - 1. Default: a random one, recorded in the result.
    inits : optional
        Starting values: a radius r (uniform on (-r, r) on the unconstrained scale); a mapping of
        parameters to constrained values, or a list with one mapping per chain, or JSON text or a
        JSON file of either; an array of unconstrained positions; an earlier fit, of which each
        chain takes a random draw; or "pathfinder". Default: random, with radius 2.
    warm_start : fit or path, optional
        An earlier fit of the same program by any sampler, with the same or other data; or its file
        or run folder. Chains start at its draws and use its scales instead of a pre-run. If the
        scales of the posterior have changed, they are learned again, with a warning. kameleon
        learns from these draws as if they were its own.
    until_ess : float, optional
        Sample until the smallest bulk and tail ESS of the parameters is at least this, and R-hat
        below 1.01. A run that comes no closer in three extensions ends with a note.
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
        Further groups: "unconstrained", the draws on the unconstrained scale; "pseudo", all
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

    Returns
    -------
    Fit
        ArviZ object with the groups posterior and sample_stats; with log_likelihood and
        posterior_predictive if the program computes them; and with the data. Attributes record how
        it was made; `verdict` and `verdict_codes` record whether it can be used. After Ctrl-C, it
        has the draws so far, and the attribute `interrupted` is set.

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
    program = require_samplable(target).target
    require_limits(until_ess, max_minutes)
    run = None if run is None else as_path(run)
    saved = _saved_groups(save)
    on_progress = show_progress if callable(show_progress) else None
    watch = Watch(program, on_progress, max_minutes)
    require_executor(executor)
    options = {name: settings.pop(name) for name in family_options() if name in settings}
    threads = options.pop("threads_per_chain", 1)
    given = _read_start(warm_start, options)
    choice = choose_sampler(target, sampler)
    _require_known(choice.sampler, settings)
    found, typed = find(choice.sampler, **settings)
    given = with_kept_options(found, given)
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, thin=thin, seed=seed,
        threads_per_chain=threads,
        iter_warmup=found.iter_warmup if iter_warmup is None else iter_warmup,
        iter_sampling=found.iter_sampling if iter_sampling is None else iter_sampling,
        save_warmup=save_warmup,
        show_progress=on_progress is None and require_flag("show_progress", show_progress),
    )  # fmt: skip
    plan = with_stopping_rule(plan, until_ess, found if iter_sampling is None else None)
    require_exact(program, found)
    require_batches(target, found)
    require_threads(found, typed, plan.threads_per_chain)
    if saved.pseudo:
        require_pseudo_samples(target, found)
    chain_init = choose_chain_init(target, found, typed, plan, given)
    coordinates = choose_coordinates(standardize, target, found, plan, given)
    moved = program.dim - program.noise_size
    typed = with_settings_of_size(found, typed, settings, target.dim - program.noise_size)
    if coordinates.kind != NO:
        defaults = with_standardized_defaults(found, typed, settings, moved)
        coordinates = coordinates._replace(settings=defaults)
    found.check_run(typed, target.dim - program.noise_size, coordinates.kind != NO)
    design = ChainDesign(
        found, typed, plan, len(program.column_names), any(saved), saved.pseudo, chain_init.init
    )
    require_memory(design, program.dim, on_disk=run is not None)
    inits = starting_values(inits, found, given)
    arviz_module()  # its import takes seconds, for which Ctrl-C is not to wait after the last draw
    rehearse_run(target, found, typed, plan, saved)
    with explained(found):
        made = Run.prepare(target, design, coordinates, chain_init, inits, saved, executor, watch)
    made.record.attributes["sampler_reason"] = choice.reason
    if settings.get(PRESET) is not None:
        made.record.attributes[PRESET] = settings[PRESET]
    made.keep_in(run)
    return made.finish(watch)


def _saved_groups(save: Any) -> SavedGroups:
    names = require_names("save", save)
    unknown = [name for name in names if name not in SavedGroups._fields]
    if unknown:
        raise StanadaptError(
            "unknown_argument",
            f"save takes {' and '.join(map(repr, SavedGroups._fields))}, got {unknown[0]!r}."
            + did_you_mean(unknown[0], SavedGroups._fields),
        )
    return SavedGroups(**dict.fromkeys(names, True))


def family_options() -> list[str]:
    """Return the keywords that some families of samplers take in addition to their settings."""
    return [*START_OPTIONS, "threads_per_chain"]


def _require_known(sampler: Any, settings: dict[str, Any]) -> None:
    """Raise StanadaptError for a keyword that neither `sample` nor the sampler has."""
    if not isinstance(sampler, str):
        return
    known = {PRESET, *names_of_settings(sampler)}
    unknown = [name for name in settings if name not in known]
    if unknown:
        arguments = [*(sample.__kwdefaults__ or ()), *family_options()]
        raise StanadaptError(
            "unknown_argument",
            f"sample has no argument, and {sampler} no setting, named {unknown[0]!r}; the settings "
            f"of {sampler} are {', '.join(sorted(known)) or 'none'}."
            + did_you_mean(unknown[0], [*arguments, *known]),
        )


def _read_start(warm_start: Any, options: dict[str, Any]) -> GivenStart:
    """Read the fits that were given as files."""
    if isinstance(warm_start, str | PathLike):
        warm_start = load(warm_start)
    for name, value in options.items():
        if START_OPTIONS[name].is_fit_file(value):
            options[name] = load(value)
    return GivenStart(warm_start, options)
