"""From chains that are ready to an ArviZ object: they run, and no draw is lost on the way."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from stanadapt.diagnostics.verdict import judged, not_judged
from stanadapt.engine.chain import Chain, Keeper, run
from stanadapt.engine.progress import reporter
from stanadapt.engine.status import slow_step
from stanadapt.runs.pack_result import ExtraGroups, pack_result
from stanadapt.runs.run_on_workers import RunOnWorkers
from stanadapt.targets.target import Samplable

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
