"""What a sampler adds to the result of its run, such that it cannot cost a finished draw.

A sampler's `after_run` may be a user's own. It is called after the last draw, so that its errors,
Ctrl-C while it works, and parts that the result cannot hold are remarks on a result without them.

A file of its own, because it is the only code of the package that calls a hook after the last draw.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from reprlib import repr as shortened
from typing import Any

from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.interrupts import interruptible
from stanadapt.errors import Message
from stanadapt.results.rehearsal import rehearse

LEFT_OUT = "left out of the result. The draws are unaffected"


def report_of(
    name: str, hook: Callable[[RunView], Findings], view: RunView, taken: Collection[str]
) -> Findings:
    """Return the report of a sampler, without the parts that the result cannot hold.

    The hook is its `after_run`, and the view the argument of that; the result has groups and
    attributes of the names that are taken.
    """
    try:
        with interruptible():
            found, faults = _read(hook(view))
    except KeyboardInterrupt:
        return _nothing(f"interrupted: the report of {name} on the run is {LEFT_OUT}.")
    except Exception as error:  # the draws are done, and the hook may be a user's
        problem = f"{type(error).__name__}: {error}"
        return _nothing(f"the report of {name} on the run is {LEFT_OUT}: {problem}")
    attributes = {n: x for n, x in found.attributes.items() if _fits(n, taken, {}, {n: x})}
    groups = {n: x for n, x in found.groups.items() if _fits(n, taken, {n: x}, {})}
    lost = sorted({*map(str, {*found.attributes, *found.groups} - {*attributes, *groups})})
    if lost:
        faults.append(
            f"{', '.join(map(repr, lost))} {'is' if len(lost) == 1 else 'are'} {LEFT_OUT}"
        )
    notes = [Message("report_left_out", f"of the report of {name}, {fault}.") for fault in faults]
    return Findings(attributes, [*found.messages, *notes], groups)


def _read(returned: Any) -> tuple[Findings, list[str]]:
    """Return the findings of a hook, and a text for each part of another type, which is left out.

    An author may forget `return`, return a dict, or give one text as messages, each letter of
    which would become a warning.
    """
    if not isinstance(returned, Findings):
        kind = type(returned).__name__
        raise TypeError(
            f"`after_run` must return Findings(attributes={{...}}, messages=[...]), got {kind}"
        )
    faults = []
    parts: dict[str, Any] = {"attributes": {}, "groups": {}}
    for part in parts:
        value = getattr(returned, part)
        if isinstance(value, Mapping):
            parts[part] = dict(value)
        else:
            faults.append(f"{part} must be a dict, got {shortened(value)}: they are {LEFT_OUT}")
    given = [returned.messages] if isinstance(returned.messages, str) else returned.messages
    if not isinstance(given, Iterable):
        faults.append(
            f"messages must be a list of texts, got {shortened(given)}: they are {LEFT_OUT}"
        )
        given = []
    messages = []
    for text in given:
        if isinstance(text, str):
            messages.append(text)
        else:
            faults.append(f"a message must be a text, got {shortened(text)}: it is {LEFT_OUT}")
    return Findings(messages=messages, **parts), faults


def _fits(name: Any, taken: Collection[str], groups: Mapping, attributes: Mapping) -> bool:
    """Whether the result has nothing of this name, and a file can hold the group or attribute."""
    try:
        if name not in taken:
            rehearse(dict(groups), attributes)
            return True
    except Exception:  # of whatever the author put there: the draws are done
        pass
    return False


def _nothing(text: str) -> Findings:
    return Findings(messages=[Message("report_left_out", text)])
