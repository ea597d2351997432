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
            found = _checked(hook(view))
    except KeyboardInterrupt:
        return _nothing(f"interrupted: the report of {name} on the run is {LEFT_OUT}.")
    except Exception as error:  # the draws are done, and the hook may be a user's
        problem = f"{type(error).__name__}: {error}"
        return _nothing(f"the report of {name} on the run is {LEFT_OUT}: {problem}")
    attributes = {n: x for n, x in found.attributes.items() if _fits(n, taken, {}, {n: x})}
    groups = {n: x for n, x in found.groups.items() if _fits(n, taken, {n: x}, {})}
    lost = sorted({*map(str, {*found.attributes, *found.groups} - {*attributes, *groups})})
    notes = []
    if lost:
        text = f"{', '.join(map(repr, lost))} {'is' if len(lost) == 1 else 'are'} {LEFT_OUT}"
        notes = [Message("report_left_out", f"of the report of {name}, {text}.")]
    return Findings(attributes, [*found.messages, *notes], groups)


def _checked(returned: Any) -> Findings:
    """Return the findings of a hook; TypeError if they, or a part of them, are of another type.

    An author may forget `return`, or return a dict. One text as messages is one message, and not
    one for each letter.
    """
    if not isinstance(returned, Findings):
        kind = type(returned).__name__
        raise TypeError(
            f"`after_run` must return Findings(attributes={{...}}, messages=[...]), got {kind}"
        )
    attributes, messages, groups = returned
    messages = [messages] if isinstance(messages, str) else messages
    for name, part in (("attributes", attributes), ("groups", groups)):
        if not isinstance(part, Mapping):
            raise TypeError(f"{name} must be a dict, got {shortened(part)}")
    messages = [*messages] if isinstance(messages, Iterable) else [messages]
    if not all(isinstance(text, str) for text in messages):
        raise TypeError(f"messages must be a list of texts, got {shortened(messages)}")
    return Findings(dict(attributes), messages, dict(groups))


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
