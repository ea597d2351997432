"""Codes of messages: programs and tests read the code, people read the text.

A code is written as a plain string where its message is made; `messages.toml`, next to this file,
holds what each of them means and what helps. The page "Messages" of the documentation and
`stanadapt explain CODE` are made from that table.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

# stages in the life of a fit, at which an error may arise
STAGES = (
    "settings",
    "sampler",  # the code of a sampler: registration, compilation
    "syntax",
    "data",
    "initialization",
    "sampling",
    "generated quantities",
    "installation",
    "files",
)
# stages whose errors every further run of a study would meet again
RECURRING = ("settings", "sampler", "syntax", "files", "installation")
# other messages with codes: a reason of a verdict; a note in a result, which is also a warning
VERDICT, NOTE = "verdict", "note"


class Code(str):
    """The stable name of a message, such as "low_ess": a string with a meaning and a cure.

    Those of the package are in its table. Authors of samplers declare their own.

    Parameters
    ----------
    name
        Lower case, words joined by underscores. It does not change when the text does.
    kind
        The stage of an error, one of `STAGES`; or `VERDICT`; or `NOTE`.
    meaning
        The cause, as a complete sentence.
    cure
        The remedy, likewise; "" if every message with this code states it.

    Examples
    --------
    >>> from stanadapt.errors import all_codes
    >>> code = all_codes()["unknown_sampler"]
    >>> code.kind, code == "unknown_sampler"
    ('settings', True)
    """

    kind: str
    meaning: str
    cure: str

    def __new__(cls, name: str, kind: str, meaning: str, cure: str = "") -> "Code":
        declared = _table()
        if name in declared:
            raise ValueError(f"the code {name} is declared twice")
        if kind not in (*STAGES, VERDICT, NOTE):
            raise ValueError(f"kind must be verdict, note or one of {STAGES}, got {kind!r}")
        declared[name] = code = _declared(cls, name, kind, meaning, cure)
        return code

    def __reduce__(self) -> Any:
        return _declared, (Code, str(self), self.kind, self.meaning, self.cure)


def _declared(cls: type[Code], name: str, kind: str, meaning: str, cure: str) -> Code:
    code = str.__new__(cls, name)
    code.kind, code.meaning, code.cure = kind, meaning, cure
    return code


class Message(str):
    """Text for people, with a code for programs: otherwise an ordinary string.

    Parameters
    ----------
    code
        The kind of message.
    text
        The expected value, the actual one, and a remedy, in full.
    """

    code: str

    def __new__(cls, code: str, text: str) -> "Message":
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __reduce__(self) -> Any:
        return Message, (self.code, str(self))

    def extended(self, prefix: str = "", suffix: str = "") -> "Message":
        """Return a message with the same code and more text."""
        return Message(self.code, f"{prefix}{self}{suffix}")


def codes_of(messages: Iterable[str]) -> list[str]:
    """Return the codes of messages, in their order; "" for a plain string."""
    return [str(getattr(message, "code", "")) for message in messages]


def all_codes() -> dict[str, Code]:
    """Return every code by its name, sorted: those of the package, and those declared since."""
    return dict(sorted(_table().items()))


@cache
def _table() -> dict[str, Code]:
    """Read the package's table, once, when the first error is made or a code is looked up."""
    text = resources.files("stanadapt.errors").joinpath("messages.toml").read_text("utf-8")
    return {
        name: _declared(Code, name, kind, entry["meaning"], entry.get("cure", ""))
        for kind, entries in tomllib.loads(text).items()
        for name, entry in entries.items()
    }


def stage_of(code: str) -> str:
    """Return the stage of an error's code; ValueError for any other string."""
    known = code if isinstance(code, Code) else _table().get(code)
    if known is None or known.kind not in STAGES:
        raise ValueError(f"an error needs a code of a stage, got {code!r}")
    return known.kind
