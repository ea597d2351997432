"""From a target and a sampler to an ArviZ object: the function users call."""

import contextlib
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.engine.compile_errors import explained
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.engine.protocol import Sampler
from stanadapt.engine.registry import find, with_standardized_defaults
from stanadapt.errors import require_flag, warn
from stanadapt.results import arviz_module, as_path
from stanadapt.runs.chains import make_chains, randomness, require_memory
from stanadapt.runs.checkpoint import WriteCheckpoints
from stanadapt.runs.choose_sampler import (
    AUTO,
    choose_sampler,
    require_batches,
    require_exact,
    require_pseudo_samples,
    require_threads,
)
from stanadapt.runs.coordinates import (
    NO,
    Coordinates,
    Start,
    as_given,
    choose_coordinates,
    in_scales_of,
    learn_scales,
)
from stanadapt.runs.kept import begin, close
from stanadapt.runs.load import load
from stanadapt.runs.prior import with_prior
from stanadapt.runs.progress import RunProgress, Watch
from stanadapt.runs.reference import read_source
from stanadapt.runs.result import ExtraGroups
from stanadapt.runs.run import Surroundings, advance, draw_on, packed_up, require_limits, until
from stanadapt.runs.warm_start import (
    ChainInit,
    GivenStart,
    choose_chain_init,
    starting_values,
    with_kept_reference,
)
from stanadapt.runs.workers import RunOnWorkers, on_workers, require_executor
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.noise import noise_warnings
from stanadapt.targets.target import Samplable, require_samplable


def sample(
    target: Samplable,
    sampler: Any = AUTO,
    *,
    chains: int = 4,
    parallel_chains: int | None = None,
    threads_per_chain: int = 1,
    iter_warmup: int | None = None,
    iter_sampling: int | None = None,
    until_ess: float | None = None,
    max_minutes: float | None = None,
    thin: int = 1,
    seed: int | None = None,
    inits: Any = None,
    warm_start: Any = None,
    reference_distribution: Any = None,
    prior_data: Any = None,
    network: Any = None,
    standardize: bool | None = None,
    save_warmup: bool = False,
    save_unconstrained: bool = False,
    save_pseudo: bool = False,
    run: str | PathLike | None = None,
    on_progress: Callable[[RunProgress], Any] | None = None,
    executor: Any = None,
    show_progress: bool = True,
    **settings: Any,
) -> Any:
    """Draw from a target with one of our samplers.

    Parameters
    ----------
    target
        A Stan program with its data, its pseudo-extension (`Extended`) or, for sgld, its rows in
        batches (`Minibatches`).
    sampler
        Name of a sampler (`stanadapt samplers` lists them), or an instance of its `Settings`;
        "auto": whitened_hmc where the density has a usable gradient, else am. The result's
        attributes say which, and why.
    chains, parallel_chains
        How many, and how many at once (default: as many as there are cores). The draws do not
        depend on the latter.
    threads_per_chain
        Threads that share the moves of one chain, for samplers that make several per iteration: up
        to `pseudo_samples` of pseudo_extended, one per level of parallel_tempering or particle of
        smc. For more cores than chains, and densities slower than some microseconds. The draws do
        not depend on it.
    iter_warmup, iter_sampling
        Iterations per chain; default: what suits the sampler. The warm-up of whitened_hmc ends when
        it has settled: there iter_warmup is the most it may take. Without iter_sampling, chains of
        an exact sampler (but not of smc) go on to four times its length where this is likely to
        bring R-hat below 1.01 and bulk and tail effective sample sizes above 100 per chain.
    until_ess, max_minutes
        Go on until the smallest bulk and tail effective sample size of the parameters is the
        former, and R-hat below 1.01; stop after the latter, of warm-up and sampling, and return
        what there is.
    thin
        Keep every thin-th iteration.
    seed
        0 to 2**32 - 1; default: a random one, recorded in the result's attributes.
    inits
        Where chains start: see `initial_values.initial_positions`.
    warm_start
        An earlier fit of the same program, or its file or run folder, by any sampler, with the same
        data or others: chains start at its draws, in coordinates that these standardize, instead of
        a pre-run. Where a check at some hundred draws finds that the posterior has other scales
        now, a sentence says so, and they are learned afresh. kameleon learns from these draws as if
        they were its own.
    reference_distribution, prior_data
        For samplers that temper (simulated_tempering, continuous_tempering, parallel_tempering,
        pseudo_extended, smc): what lies at the hot end. The first is a `ReferenceDistribution`,
        "pathfinder", a result of `approximate`, an earlier fit, or its file: see `fit_reference`,
        which these are given to, with the settings inflation and reference_family. The second, not
        for smc, are other data of the program, such as none. Default: what warm_start was given, or
        else a reference that is learned during warm-up.
    prior_data
        Also, of every sampler: data without observations, under which the program is the prior. The
        default sampler draws from it, and the result has the groups `prior`, `prior_predictive`
        (what the program replicates, under the data of the posterior) and `sample_stats_prior`.
    network
        For nice: a `Network` that `train_nice` made for this program, or its file.
    standardize
        Whether the sampler runs in coordinates that a pre-run has standardized: location, scales
        and, unless the sampler is one for many modes, correlations, learned by all chains together
        from gradients (from values, for samplers without gradients). Settings in "units of the
        unconstrained parameters" are then in units of their standard deviations. What is saved
        does not depend on it. None: as suits the sampler, which is not where `warm_start`,
        `network`, or the hot end of a sampler that tempers are given, for an `Extended`, and for
        fewer than 50 iterations of warm-up. False: as in the papers. The pre-run counts as warm-up;
        the attribute `standardized` says what was done.
    save_warmup, save_unconstrained
        Add the groups `warmup_*`, and `unconstrained_posterior`.
    save_pseudo
        For an `Extended`, or the sampler pseudo_extended: add the group `pseudo`, all
        pseudo-samples with their temperatures and weights, for `weighted_summary`.
    run
        Folder, new or empty, where draws and the state of the chains are kept while they run:
        `resume` goes on from there in another process, draw for draw, after a crash, Ctrl-C, or to
        make the run longer; `load` reads the draws so far.
    on_progress
        Function that is given a `RunProgress` about ten times a second: iterations, acceptance and
        divergences of each chain, effective sample size and R-hat so far. Where it returns True the
        run stops, and the draws so far are returned.
    executor
        A `concurrent.futures.Executor`, or a client of Dask, whose workers run the chains, all at
        once if there are so many; default: threads of this process. The draws are the same. Workers
        need this version of the package, and what the backend needs.
    show_progress
        Bars in a terminal, lines elsewhere.
    settings
        The sampler's own, by name.

    Returns
    -------
    ArviZ object
        Groups posterior, sample_stats and, where the program has one, log_likelihood; attributes
        record how it was made. After Ctrl-C: the draws so far, with `interrupted` set.

    Raises
    ------
    StanadaptError
        Before sampling for whatever is wrong with the arguments; after it only if no draw was
        kept.

    """
    program = require_samplable(target).target
    require_limits(until_ess, max_minutes)
    run = None if run is None else as_path(run)
    keep = ExtraGroups(
        require_flag("save_unconstrained", save_unconstrained),
        require_flag("save_pseudo", save_pseudo),
    )
    watch = Watch(program, on_progress, max_minutes)
    require_executor(executor)
    given = _given_start(warm_start, reference_distribution, prior_data, network)
    choice = choose_sampler(target, sampler)
    found, typed = find(choice.sampler, **settings)
    given = with_kept_reference(found, given)
    plan = make_plan(
        chains=chains, parallel_chains=parallel_chains, thin=thin, seed=seed,
        threads_per_chain=threads_per_chain,
        iter_warmup=found.iter_warmup if iter_warmup is None else iter_warmup,
        iter_sampling=found.iter_sampling if iter_sampling is None else iter_sampling,
        save_warmup=save_warmup, show_progress=show_progress,
    )  # fmt: skip
    plan = until(plan, until_ess, found if iter_sampling is None else None)
    _require_compatible(target, found, typed, plan, keep.pseudo)
    chain_init = choose_chain_init(target, found, typed, plan, given)
    coordinates = choose_coordinates(standardize, target, found, plan, given)
    if coordinates.kind != NO:
        moved = program.dim - program.noise_size
        typed = with_standardized_defaults(found, typed, settings, moved)
    design = ChainDesign(
        found, typed, plan, len(program.column_names), any(keep), keep.pseudo, chain_init.init
    )
    require_memory(design, program.dim, on_disk=run is not None)
    inits = starting_values(inits, found, given)
    with explained(found):
        start, runs, known = _ready_chains(target, design, inits, coordinates, chain_init, executor)
    known["sampler_reason"] = choice.reason
    arviz_module()  # its import takes seconds, for which Ctrl-C is not to wait after the last draw
    keeper = begin(run, start, runs, design, keep, known, chain_init.prior_data)
    around = _surroundings(keeper, watch, start, design, chain_init.prior_data, executor)
    fit = _carried_out(around, start, runs, known, keep)
    return with_prior(fit, program, chain_init.prior_data, plan, sample)


def _require_compatible(
    target: Samplable, sampler: Sampler, settings: Any, plan: Plan, save_pseudo: bool
) -> None:
    """Raise StanadaptError where the sampler is not for this target, or has not what is asked."""
    require_exact(target.target, sampler)
    require_batches(target, sampler)
    require_threads(sampler, settings, plan.threads_per_chain)
    if save_pseudo:
        require_pseudo_samples(target, sampler)


def _surroundings(
    keeper: WriteCheckpoints | None,
    watch: Watch,
    start: Start,
    design: ChainDesign,
    prior_data: str | None,
    executor: Any,
) -> Surroundings:
    """What chains run in, also when their plan grows."""

    def workers(plan: Plan) -> RunOnWorkers | None:
        return on_workers(executor, start.target, design._replace(plan=plan), prior_data)

    def room(plan: Plan) -> None:
        dim = start.target.target.dim
        require_memory(design._replace(plan=plan), dim, on_disk=keeper is not None)

    return Surroundings(keeper, watch, workers, room)


def _carried_out(
    around: Surroundings,
    start: Start,
    chains: list[Chain],
    known: dict[str, Any],
    keep: ExtraGroups,
) -> Any:
    """Run chains that are ready, in a folder if they are kept in one, and return the result."""
    keeper = around.keeper
    with keeper.writing() if keeper else contextlib.nullcontext():
        known = draw_on(start.target.target, chains, around, known)
        if keeper:
            return close(keeper, start.target, chains, known, keep)
        return packed_up(start.target, chains, known, keep)


def _learn(target: Samplable, executor: Any, chains: list[Chain], design: ChainDesign) -> bool:
    """Run chains that learn scales for others, where those will run; whether it was interrupted."""
    workers = on_workers(executor, target, design, None)
    return advance(chains, workers=workers, task="learning the scales")


def _given_start(
    warm_start: Any,
    reference_distribution: Any,
    prior_data: Any,
    network: Any,
) -> GivenStart:
    """Read what is given as a file."""
    if isinstance(warm_start, str | PathLike):
        warm_start = load(warm_start)
    if reference_distribution is not None:
        reference_distribution = read_source(reference_distribution)
    return GivenStart(warm_start, reference_distribution, prior_data, network)


def _ready_chains(
    target: Samplable,
    design: ChainDesign,
    inits: Any,
    coordinates: Coordinates,
    chain_init: ChainInit,
    executor: Any,
) -> tuple[Start, list[Chain], dict[str, Any]]:
    """Find out where chains start, make and compile them; warn of a noisy estimate.

    The last of what is returned are attributes of the result that are known by then.
    """
    plan, sampler, program = design.plan, design.sampler, target.target
    sources = randomness(plan)
    rngs = [source.moves for source in sources]
    positions = initial_positions(target, inits, rngs, bool(sampler.uses_gradient))
    if program.noise:
        for sentence in noise_warnings(program, positions[0], plan.seed):
            warn(sentence)
    kind, why, scales = coordinates
    if scales is not None and not scales.misfit:
        start = in_scales_of(target, scales, positions)
    elif kind == NO:
        start = as_given(target, positions, why)
    else:
        rngs = [source.scales for source in sources]
        learn = partial(_learn, target, executor)
        start = learn_scales(target, sampler, kind, plan, positions, rngs, learn)
    if scales is not None and scales.misfit:
        start.description["notes"] = [scales.misfit, *start.description.get("notes", [])]
    if chain_init.fitted is not None:
        start = start.after(chain_init.fitted)
    words = f"Compiling {sampler.name} (once; up to two minutes)"
    with slow_step(plan.show_progress, words):
        runs = make_chains(start, design, sources)
        seconds = runs[0].compile() + start.compile_seconds + program.compile_seconds
    known = {"compile_seconds": seconds, **chain_init.description, **start.description}
    return start, runs, known
