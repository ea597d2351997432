"""Independent tasks of a study, one after the other here, or on the workers of an executor."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import as_completed
from typing import Any

from stanadapt.engine.console import task_bar
from stanadapt.errors import StanadaptError
from stanadapt.runs.workers import as_executor, submit, workers_failed


def each_result(
    function: Callable[..., Any],
    tasks: Iterable[tuple],
    executor: Any,
    label: str,
    show: bool,
    instead: Callable[[tuple, StanadaptError], Any] | None = None,
) -> Generator[Any, None, None]:
    """Yield the results of a function for the arguments of each task, as they are ready.

    With an executor, both are sent to its workers; `label` names a bar. `instead` makes a result
    from the arguments of a task that could not be sent, or whose worker failed, and the error.
    Without it, StanadaptError is raised.
    """
    tasks = list(tasks)
    with task_bar(show, label, len(tasks)) as advance:
        if executor is None:
            for arguments in tasks:
                yield function(*arguments)
                advance()
            return
        workers = as_executor(executor)
        futures = {submit(workers, function, *arguments): arguments for arguments in tasks}
        try:
            for future in as_completed(futures):
                try:
                    result = future.result()
                except Exception as error:
                    known = error if isinstance(error, StanadaptError) else workers_failed(error)
                    if instead is None:
                        raise known from error
                    result = instead(futures[future], known)
                yield result
                advance()
        finally:  # an error, or Ctrl-C, does not wait for tasks that have not begun
            for future in futures:
                future.cancel()
