"""Codes of messages: programs and tests read the code, people read the text.

A code is declared once, in the `messages.py` of the layer or the family of samplers that uses it,
with its meaning and its cure. The page "Messages" of the documentation and `stanadapt explain CODE`
are made from these declarations.
"""

from importlib import import_module
from pathlib import Path
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
# other messages with codes: a reason of a verdict; a note in a result, which is also a warning
VERDICT, NOTE = "verdict", "note"
CODES: dict[str, "Code"] = {}


class Code(str):
    """The stable name of a message, such as "low_ess": a string with a meaning and a cure.

    Parameters
    ----------
    name
        Lower case, words joined by underscores. It does not change when the text does.
    kind
        The stage of an error, one of `STAGES`; or `VERDICT`; or `NOTE`.
    meaning
        The cause, as a complete sentence.
    cure
        The remedy, likewise.

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

    def __new__(cls, name: str, kind: str, meaning: str, cure: str) -> "Code":
        if name in CODES:
            raise ValueError(f"the code {name} is declared twice")
        if kind not in (*STAGES, VERDICT, NOTE):
            raise ValueError(f"kind must be verdict, note or one of {STAGES}, got {kind!r}")
        code = super().__new__(cls, name)
        code.kind, code.meaning, code.cure = kind, meaning, cure
        CODES[name] = code
        return code

    def __reduce__(self) -> Any:
        return _code, (str(self),)


class Message(str):
    """Text for people, with a code for programs: otherwise an ordinary string.

    Parameters
    ----------
    code
        The kind of message.
    text
        The expected value, the actual one, and a remedy, in full.

    """

    code: Code

    def __new__(cls, code: Code, text: str) -> "Message":
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __reduce__(self) -> Any:
        return Message, (self.code, str(self))

    def extended(self, prefix: str = "", suffix: str = "") -> "Message":
        """Return a message with the same code and more text."""
        return Message(self.code, f"{prefix}{self}{suffix}")


def _code(name: str) -> Code:
    """Look up a code that comes from another process."""
    return CODES[name] if name in CODES else all_codes()[name]


def codes_of(messages: Any) -> list[str]:
    """Return the codes of messages, in their order; "" for a plain string."""
    return [str(getattr(message, "code", "")) for message in messages]


def all_codes() -> dict[str, Code]:
    """Return every code of the package by its name, sorted: imports each `messages` module."""
    root = Path(__file__).parents[2]
    for path in sorted(root.glob("stanadapt/**/messages.py")):
        import_module(".".join(path.relative_to(root).with_suffix("").parts))
    return dict(sorted(CODES.items()))
