"""The one exception that users see, and the warnings: each carries a code."""

import os
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from stanadapt.errors.codes import RECURRING, Message, stage_of

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"  # with separator: not stanadapt_other
_IMPORT = "<frozen importlib"


class StanadaptError(Exception):
    """An error, with a text that names the expected value, the actual one, and a remedy.

    Parameters
    ----------
    code : str
        The kind of error, whose stage in the life of a fit the table of messages states.
    message : str
        The message of this package.
    stan : str
        Stan's message (from the compiler, the model or CmdStan), unchanged.
    fit : Fit, optional
        The finished fit with which something is wrong, so that no draw is lost.

    Attributes
    ----------
    stage : str
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

    def __init__(self, code: str, message: str, stan: str = "", fit: Any = None) -> None:
        self.code, self.stage = code, stage_of(code)
        self.message = message
        self.stan = stan.strip()
        self.fit = fit
        super().__init__(code, message, self.stan)

    def recurs(self, *stages: str) -> bool:
        """Whether every further run of a study would fail with the same error.

        `stages` also recur in this study, such as "data" if all runs have the same data.
        """
        return self.stage in (*RECURRING, *stages)

    def __str__(self) -> str:
        text = f"{self.stage}: {self.message} [{self.code}]"
        return f"{text}\nStan says:\n{self.stan}" if self.stan else text


class StanadaptWarning(UserWarning):
    """A warning of the package; `code` is the kind of warning, "" for none."""

    code: str = ""

    def __str__(self) -> str:
        return f"{self.args[0]} [{self.code}]" if self.code else str(self.args[0])


class ConvergenceWarning(StanadaptWarning):
    """A warning that a fit is not fine, or a remark on a fit, with the reason and a remedy."""


# libraries that call us, such as decorators and caches
_BETWEEN = {"numpy", "numba", "contextlib", "importlib"}


def _is_inside(frame: FrameType) -> bool:
    """Whether a frame is of the package, of an import, or of a library that calls us in between."""
    if frame.f_code.co_filename.startswith((_PACKAGE, _IMPORT)):
        return True
    return frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN


def warn(message: str, category: type[StanadaptWarning] = StanadaptWarning) -> None:
    """Warn at the first line outside the package, which is the user's."""
    warning = category(str(message))
    if isinstance(message, Message):
        warning.code = message.code
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        # frames of the import system do not count as levels
        level += not frame.f_code.co_filename.startswith(_IMPORT)
        frame = frame.f_back
    warnings.warn(warning, stacklevel=level + 1)
