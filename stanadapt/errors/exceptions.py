"""The one exception that users see, and the warnings: each carries a code."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from stanadapt.errors.codes import STAGES, Code, Message

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"  # not a neighbor whose name begins like ours
_IMPORT = "<frozen importlib"


class StanadaptError(Exception):
    """What was expected, what came, and what to try.

    Parameters
    ----------
    code
        What went wrong; its `kind` is the stage in the life of a fit.
    message
        Our own message, in complete sentences.
    stan
        Stan's message (from the compiler, the model or CmdStan), unchanged.
    fit
        The finished ArviZ object that the error is about, if there is one, so that no draw is
        lost; else None.

    Attributes
    ----------
    stage
        One of `STAGES`.

    Examples
    --------
    >>> import stanadapt as sa
    >>> try:
    ...     sa.Target("my_model.stan")
    ... except sa.StanadaptError as error:
    ...     print(error.stage, error.code)
    files file_missing

    """

    def __init__(self, code: Any, message: str, stan: str = "", fit: Any = None) -> None:
        self.code = code
        self.stage = code.kind if isinstance(code, Code) else code
        if self.stage not in STAGES:
            raise ValueError(f"an error needs the code of a stage, got {code!r}")
        self.message = message
        self.stan = stan.strip()
        self.fit = fit
        super().__init__(code, message, self.stan)

    def __str__(self) -> str:
        text = f"{self.stage}: {self.message} [{self.code}]"
        return f"{text}\nStan says:\n{self.stan}" if self.stan else text


class StanadaptWarning(UserWarning):
    """A warning of the package; `code` says of which kind."""

    code: str = ""

    def __str__(self) -> str:
        return f"{self.args[0]} [{self.code}]" if self.code else str(self.args[0])


class ConvergenceWarning(StanadaptWarning):
    """A fit is not exact, too short, or not to be used: the text says why, and what to try."""


def warn(message: str, category: type[StanadaptWarning] = StanadaptWarning) -> None:
    """Warn at the first line outside the package: the user's own."""
    warning = category(str(message))
    if isinstance(message, Message):
        warning.code = message.code
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, _IMPORT)):
        # frames of the import system have no level of their own
        level += not frame.f_code.co_filename.startswith(_IMPORT)
        frame = frame.f_back
    warnings.warn(warning, stacklevel=level + 1)
