"""Chains run as long as their plan wants: to their end, and on from there until they suffice.

Whether a run may end, with enough effective draws and chains that agree; else, how it grows.

From chains that are ready to an ArviZ object: they run, and no draw is lost on the way.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import of_columns, worst_columns
from stanadapt.diagnostics.verdict import ESS_PER_CHAIN, R_HAT, judged, not_judged
from stanadapt.engine.chain import Chain, Keeper, run
from stanadapt.engine.console import reporter, say, slow_step
from stanadapt.engine.plan import Plan
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError, is_real
from stanadapt.runs.checkpoint import WriteCheckpoints
from stanadapt.runs.progress import Watch, parameters_so_far
from stanadapt.runs.result import ExtraGroups, pack_result
from stanadapt.runs.workers import RunOnWorkers, outcome
from stanadapt.targets.target import Samplable, Target

# by how much a run grows at a time, and how much more than what seems to be missing
LEAST_GROWTH, MOST_GROWTH, MARGIN = 1.2, 3.0, 1.1
# the most iterations that a run of default length grows to by itself, in units of that length
MOST_BY_DEFAULT = 4


class Shortfall(NamedTuple):
    """What a run lacks.

    iter_sampling
        How many iterations per chain, in all, should do; those of the plan where they suffice, or
        where more would be in vain.
    reason
        What is not enough yet, as part of a sentence.

    """

    iter_sampling: int
    reason: str


def until(plan: Plan, until_ess: float | None, of_default_length: Sampler | None) -> Plan:
    """Return a plan that grows as was asked for; else until it is usable, if the sampler may."""
    if until_ess is not None:
        return plan._replace(until_ess=float(until_ess))
    sampler = of_default_length
    return until_usable(plan) if sampler and sampler.exact and sampler.traits.extends else plan


def until_usable(plan: Plan) -> Plan:
    """Return a plan that grows until the verdict finds enough draws, or is too far from that."""
    most = MOST_BY_DEFAULT * plan.iter_sampling
    return plan._replace(until_ess=float(ESS_PER_CHAIN * plan.chains), most_iterations=most)


def shortfall(target: Target, chains: list[Chain]) -> Shortfall:
    """Compare the draws of chains that are done with what their plan wants of them.

    The smallest bulk and tail effective sample size of the parameters must be `until_ess`, and
    R-hat below 1.01; both R-hat - 1 and the inverse of a size fall with the number of draws.
    """
    plan, kept = chains[0].plan, [chain for chain in chains if not chain.stopped]
    enough = Shortfall(plan.iter_sampling, "")
    if not plan.until_ess or not kept:
        return enough
    columns = parameters_so_far(target, kept)
    columns = {name: x for name, x in columns.items() if not np.all(x == x.flat[0])}
    if plan.most_iterations:  # no more is measured than the verdict will: of hundreds, a few
        columns = {name: columns[name] for name in worst_columns(columns)}
    if not columns:
        return enough
    r_hats, bulks, tails = np.array(list(of_columns(columns).values())).T
    smallest = min(bulks.min(), tails.min())
    r_hat = r_hats.max() if len(kept) > 1 else 1.0
    if smallest >= plan.until_ess and r_hat < R_HAT:
        return enough
    missing = MARGIN * max(plan.until_ess / smallest, (r_hat - 1.0) / (R_HAT - 1.0))
    if not np.isfinite(missing):  # a chain that did not move
        missing = np.inf
    if plan.most_iterations and missing * plan.iter_sampling > plan.most_iterations:
        return enough
    reason = f"effective sample sizes down to {smallest:.0f}, R-hat up to {r_hat:.3f}"
    return Shortfall(_rounded(plan, float(np.clip(missing, LEAST_GROWTH, MOST_GROWTH))), reason)


def _rounded(plan: Plan, growth: float) -> int:
    """Return the length of a run that grows, in two digits, within what its plan allows."""
    longer = growth * plan.iter_sampling
    unit = 10 ** max(int(np.log10(longer)) - 1, 0)
    longer = unit * int(np.ceil(longer / unit))
    return min(longer, plan.most_iterations) if plan.most_iterations else longer


def require_limits(until_ess: Any, max_minutes: Any) -> None:
    """Raise StanadaptError, stage "settings", unless they are None or numbers above zero."""
    for name, value in (("until_ess", until_ess), ("max_minutes", max_minutes)):
        if value is not None and not (is_real(value) and 0 < value < np.inf):
            raise StanadaptError("settings", f"{name} must be a number above zero, got {value!r}.")


# numbers that are judged in some tenths of a second
QUICKLY_JUDGED = 2_000_000


def advance(
    chains: list[Chain],
    keeper: Keeper | None = None,
    on_progress: Callable[[list[Chain]], Any] = lambda chains: None,
    workers: RunOnWorkers | None = None,
    task: str = "",
) -> bool:
    """Run chains to their end, with a display of it; return whether they were interrupted.

    On the workers of an executor, if there are any, and in threads of this process otherwise. task
    is what they do, where that is neither warm-up nor sampling.
    """
    plan = chains[0].plan
    with reporter(plan.show_progress, task) as report, terminated_as_interrupted():

        def update(chains: list[Chain]) -> None:
            report.update(chains)
            on_progress(chains)

        try:
            if workers is not None:
                return workers.run(chains, update, keeper or Keeper())
            return run(chains, plan.parallel_chains, update, keeper=keeper)
        except KeyboardInterrupt:  # while the last state was shown
            return not all(chain.finished for chain in chains)


def packed_up(
    target: Samplable,
    chains: list[Chain],
    known: dict[str, Any],
    keep: ExtraGroups,
    hurried: bool = False,
) -> Any:
    """Return the ArviZ object of chains that have run, judged if there is time; see `pack_result`.

    Ctrl-C while it is put together, or before that (`hurried`), leaves no time; during sampling,
    some tenths of a second.
    """
    if known["interrupted"]:
        size = sum(chain.sampling.rows * chain.sampling.constrained.shape[1] for chain in chains)
        hurried = hurried or size > QUICKLY_JUDGED
    words = "Putting the result together, and judging it"
    with slow_step(chains[0].plan.show_progress, words):
        with uninterrupted() as pressed:
            fit = pack_result(target, chains, known, keep)
        if hurried or pressed:
            return not_judged(fit)
        with _handling(signal.SIGINT, signal.default_int_handler):  # ends the judging, not the run
            return judged(fit)


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Let Ctrl-C wait: no draw is to be lost; the list, empty at first, tells of it."""
    pressed: list[int] = []
    with _handling(signal.SIGINT, lambda number, frame: pressed.append(number)):
        yield pressed


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, by which batch systems end a job, do what Ctrl-C does."""
    with _handling(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def _handling(number: int, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if saved is None else saved)


class Surroundings(NamedTuple):
    """What chains run in.

    keeper
        Writes their folder; None without one.
    watch
        Called between chunks; may stop them.
    workers
        Returns who runs chains of a plan; or None: threads of this process.
    require_memory
        Raises StanadaptError for a plan whose draws there is no room for.

    """

    keeper: WriteCheckpoints | None
    watch: Watch
    workers: Callable[[Plan], RunOnWorkers | None]
    require_memory: Callable[[Plan], None]


def draw_on(
    target: Target, chains: list[Chain], around: Surroundings, known: dict[str, Any]
) -> dict[str, Any]:
    """Advance chains until their plan has what it wants, and return attributes of how it ended.

    No draw is lost: where there is no room for more of them, or Ctrl-C comes while they are looked
    at, those that there are are the result. known holds the attributes known before.
    """
    notes = [*known.get("notes", ())]
    reasons = around.keeper.folder.lengthened if around.keeper else []
    with terminated_as_interrupted():
        while True:
            workers = around.workers(chains[0].plan)
            interrupted = advance(chains, around.keeper, around.watch, workers)
            if interrupted:
                break
            try:
                found = _lacking(target, chains)
                # time may be up just when chains have reached their length
                interrupted = found is not None and bool(around.watch.note)
                if found is None or interrupted:
                    break
                _grow(chains, found, around, reasons)
            except KeyboardInterrupt:
                interrupted = True
                break
            except StanadaptError as error:
                notes.append(f"no more draws were made. {error.message}")
                break
    known = {**known, "notes": notes}
    if reasons:
        known["iter_sampling_reason"] = f"too few at first: {'; '.join(reasons)}"
    return known | outcome(around.watch, workers, interrupted, known)


def _lacking(target: Target, chains: list[Chain]) -> Shortfall | None:
    """Look at the draws, and return what they lack; None where they are enough."""
    plan = chains[0].plan
    with slow_step(plan.show_progress, "Looking whether there are enough draws"):
        found = shortfall(target, chains)
    return None if found.iter_sampling == plan.iter_sampling else found


def _grow(chains: list[Chain], found: Shortfall, around: Surroundings, reasons: list[str]) -> None:
    """Make the run longer, and add to the reasons."""
    plan = chains[0].plan
    longer = plan._replace(iter_sampling=found.iter_sampling)
    around.require_memory(longer)
    why = f"{plan.iter_sampling} gave {found.reason}"
    _lengthen(chains, longer, around.keeper, [*reasons, why])
    reasons.append(why)
    say(plan.show_progress, f"Drawing on: {why}.")


def _lengthen(
    chains: list[Chain], longer: Plan, keeper: WriteCheckpoints | None, reasons: list[str]
) -> None:
    shorter = chains[0].plan
    try:
        for chain in chains:
            chain.plan = longer
        if keeper is not None:
            keeper.folder.lengthen(chains, reasons)
        for chain in chains:
            chain.sampling.grow(longer.draws)
    except (StanadaptError, MemoryError) as error:
        for chain in chains:
            chain.plan = shorter
        if isinstance(error, MemoryError):
            raise StanadaptError("settings", "they do not fit into memory.") from None
        raise
