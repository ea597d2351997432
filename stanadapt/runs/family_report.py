"""What a sampler adds to the result of its run, such that it cannot cost a finished draw.

A sampler's `after_run` may be a user's own. It is called after the last draw, so that its errors,
Ctrl-C while it works, and groups that the result cannot hold are remarks on a result without them.

A file of its own, because it is the only code of the package that calls a hook after the last draw.
"""

from collections.abc import Collection, Mapping
from typing import Any

from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.interrupts import interruptible
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import Message, StanadaptError
from stanadapt.results.rehearsal import rehearse
from stanadapt.runs.messages import REPORT_LEFT_OUT

LEFT_OUT = "left out of the result. The draws are unaffected"


def report_of(sampler: Sampler, view: RunView, taken: Collection[str]) -> Findings:
    """Return the report of a sampler, without the parts that the result cannot hold.

    Parameters
    ----------
    sampler
        One that has the hook `after_run`.
    view
        Its argument.
    taken
        Names of the groups and attributes that the result has without it.

    """
    assert sampler.after_run is not None
    try:
        with interruptible():
            found = Findings(*sampler.after_run(view))
    except KeyboardInterrupt:
        return _nothing(f"interrupted: the report of {sampler.name} on the run is {LEFT_OUT}.")
    except Exception as error:  # the draws are done, and the hook may be a user's
        problem = f"{type(error).__name__}: {error}"
        return _nothing(f"the report of {sampler.name} on the run is {LEFT_OUT}: {problem}")
    own = {n: x for n, x in found.attributes.items() if n not in taken}
    attributes = {n: x for n, x in own.items() if not _misfit({}, {n: x})}
    groups = {n: x for n, x in found.groups.items() if n not in taken and not _misfit({n: x}, {})}
    lost = sorted({*map(str, {*found.attributes, *found.groups} - {*attributes, *groups})})
    if not lost:
        return found
    parts = f"{', '.join(map(repr, lost))} {'is' if len(lost) == 1 else 'are'}"
    text = f"of the report of {sampler.name}, {parts} {LEFT_OUT}."
    return Findings(attributes, [*found.messages, Message(REPORT_LEFT_OUT, text)], groups)


def _misfit(groups: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """Return whether no result and no file can hold a group or an attribute."""
    try:
        rehearse(dict(groups), attributes)
    except StanadaptError:
        return True
    return False


def _nothing(text: str) -> Findings:
    return Findings(messages=[Message(REPORT_LEFT_OUT, text)])
