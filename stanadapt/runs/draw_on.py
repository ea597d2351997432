"""Chains run as long as their plan wants: to their end, and on from there until they suffice."""

from collections.abc import Callable
from typing import Any, NamedTuple

from stanadapt.engine.chain import Chain
from stanadapt.engine.plan import Plan
from stanadapt.engine.progress import say
from stanadapt.engine.status import slow_step
from stanadapt.errors import StanadaptError
from stanadapt.runs.drive import advance, terminated_as_interrupted
from stanadapt.runs.progress import Watch
from stanadapt.runs.run_on_workers import RunOnWorkers, outcome
from stanadapt.runs.sufficient import Shortfall, shortfall
from stanadapt.runs.write_checkpoints import WriteCheckpoints
from stanadapt.targets.target import Target


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
