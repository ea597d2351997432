"""Independent tasks of a study, one after the other here, or on the workers of an executor."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import as_completed
from typing import Any

from rich.progress import Progress

from stanadapt.engine.console import line_console
from stanadapt.runs.workers import as_executor


def each_result(
    function: Callable[..., Any], tasks: Iterable[tuple], executor: Any, label: str, show: bool
) -> Generator[Any, None, None]:
    """Yield the results of a function for the arguments of each task, as they are ready.

    Parameters
    ----------
    function, tasks
        With an executor, both are sent to its workers.
    executor
        None, one of `concurrent.futures`, or a client of Dask.
    label, show
        The name of a bar, and whether there is one.

    """
    tasks = list(tasks)
    with Progress(console=line_console(), disable=not show) as bar:
        progress = bar.add_task(label, total=len(tasks))
        if executor is None:
            for arguments in tasks:
                yield function(*arguments)
                bar.advance(progress)
            return
        workers = as_executor(executor)
        futures = [workers.submit(function, *arguments) for arguments in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
                bar.advance(progress)
        finally:  # an error, or Ctrl-C, does not wait for tasks that have not begun
            for future in futures:
                future.cancel()
