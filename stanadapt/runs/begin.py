"""Chains at their beginning: starting positions, coordinates that a pre-run learns, compilation."""

from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from stanadapt.diagnostics.ranked import SUPERCHAINS, is_nested
from stanadapt.engine.chain import Chain, ChainDesign, Keeper, compiled_functions
from stanadapt.engine.compilation_progress import compiling
from stanadapt.engine.console import reporter, slow_step
from stanadapt.engine.interrupts import released
from stanadapt.errors import StanadaptError, warn
from stanadapt.runs.chains import Start, make_chains, randomness
from stanadapt.runs.coordinates import NO, as_given, in_scales_of, learn_scales
from stanadapt.runs.failures import no_draws
from stanadapt.runs.prepare import Setup
from stanadapt.runs.progress import LEARNING
from stanadapt.runs.result import RunRecord, SavedGroups
from stanadapt.runs.spec import spec_of
from stanadapt.runs.workers import RunOnWorkers
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.noise import noise_warnings


def begin_chains(setup: Setup) -> tuple[Start, ChainDesign, list[Chain], RunRecord]:
    """Find coordinates and starting positions, make the chains, and compile the sampler.

    Raises StanadaptError: "no_draws" or "interrupted", if the watch or Ctrl-C ends the pre-run.
    """
    program, design = setup.target.target, setup.design
    sources = randomness(design.plan)
    positions = _initial_positions(setup, [source.moves for source in sources])
    shared: dict = {}
    if setup.inits is None and is_nested(design.plan.chains, design.plan.draws):
        # for nested R-hat: chains with the same start are compared with the others
        positions = [positions[k % SUPERCHAINS].copy() for k in range(len(positions))]
        shared = {"superchains": SUPERCHAINS}
    if program.noise:
        for note in noise_warnings(program, positions[0], design.plan.seed):
            warn(note)
    start = _find_start(setup, positions, [source.scales for source in sources])
    start = start.after(setup.begin.cost)
    if start.target.standard_coordinates is not None:
        design = design._replace(settings=setup.standardized_settings)
    with setup.watch.stopped(), compiling_sampler(design):
        chains = make_chains(start, design, sources)
        seconds = chains[0].compile() + start.compile_seconds + program.compile_seconds
    attributes = {
        "compile_seconds": seconds, **shared, **setup.begin.description, **start.description,
        **setup.attributes,
    }  # fmt: skip
    return start, design, chains, RunRecord(attributes, [*setup.begin.notes, *start.notes])


def compiling_sampler(design: ChainDesign) -> AbstractContextManager:
    """Show that a sampler is compiled, if it is, while the body makes its chains."""
    show = design.plan.show_progress
    return compiling(show, design.sampler.name, compiled_functions(design.sampler))


def _initial_positions(setup: Setup, rngs: list[np.random.Generator]) -> list[np.ndarray]:
    """Return a starting position for each chain, found within the time limit.

    Raises StanadaptError: "no_draws" if the watch ends the search, which can be long with
    inits="pathfinder" alone.
    """
    watch, gradient = setup.watch, bool(setup.design.sampler.uses_gradient)
    try:
        with slow_step(setup.design.plan.show_progress, "Seeking starting points"):
            return initial_positions(
                setup.target, setup.inits, rngs, gradient, watch.before_chains
            )  # fmt: skip
    except KeyboardInterrupt:
        if not watch.note:
            raise
    raise StanadaptError(
        "no_draws",
        f"{watch.note.rstrip('.')}, during the search for starting points: there are no draws. "
        "Random starting points (inits=None) need no search.",
    )


def _find_start(
    setup: Setup, positions: list[np.ndarray], rngs: list[np.random.Generator]
) -> Start:
    """Return coordinates and positions of the chains; a pre-run learns scales if needed."""
    target, (kind, why, scales) = setup.target, setup.coordinates
    misfit = None if scales is None else scales.misfit
    if scales is not None and misfit is None:
        return in_scales_of(target, scales, positions)
    if kind == NO:
        start = as_given(target, positions, why)
    else:
        sampler, plan = setup.design.sampler, setup.design.plan
        advance = partial(_advance_learners, setup)
        start = learn_scales(target, sampler, kind, plan, positions, rngs, advance)
    return start if misfit is None else start._replace(notes=(misfit, *start.notes))


def _advance_learners(setup: Setup, chains: list[Chain], design: ChainDesign) -> None:
    """Run chains that learn scales for others to their end.

    Raises StanadaptError, "no_draws" if the watch ends them, "interrupted" after Ctrl-C. With the
    scales so far it would be another run, with draws that depend on the speed of the machine.
    """
    watch = setup.watch
    spec = partial(spec_of, setup.target, design, SavedGroups())
    workers = setup.on_workers(setup.target, spec)
    with watch.during(LEARNING):
        interrupted = advance_chains(chains, setup, None, workers, LEARNING)
    if interrupted or watch.note:
        raise no_draws(setup.target, chains, not watch.note, watch.note, LEARNING)


def advance_chains(
    chains: list[Chain],
    setup: Setup,
    keeper: Keeper | None = None,
    workers: RunOnWorkers | None = None,
    task: str = "",
) -> bool:
    """Run chains to their end, with a progress display; return whether they were interrupted.

    They run on the workers of an executor if there are any, and in threads of this process
    otherwise. The task is shown if it is neither warm-up nor sampling.
    """
    plan = chains[0].plan
    with reporter(plan.show_progress, task) as report:

        def update(chains: list[Chain]) -> None:
            report.update(chains)
            setup.watch(chains)

        try:
            with released():
                if workers is not None:
                    return workers.run(chains, update, keeper or Keeper())
                return setup.run_chains(chains, plan.parallel_chains, update, keeper=keeper)
        except KeyboardInterrupt:  # before the first state was shown, or while the last one was
            return not all(chain.finished for chain in chains)
