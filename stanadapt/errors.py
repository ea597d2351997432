"""The one error a user meets, and the stage of the work in which it happened."""

from typing import Any

STAGES = (
    "settings",
    "syntax",
    "data",
    "initialisation",
    "sampling",
    "generated quantities",
    "installation",
    "files",
)


class StanadaptError(Exception):
    """What was expected, what came, and what to try.

    Parameters
    ----------
    stage
        One of `STAGES`: where in the life of a fit it happened.
    message
        Our own words, complete sentences.
    stan
        Stan's own words (of the compiler, the model or CmdStan), kept as they are.
    fit
        The finished ArviZ object that the error is about, where there is one, so that no draw is
        lost; else None.

    """

    def __init__(self, stage: str, message: str, stan: str = "", fit: Any = None) -> None:
        if stage not in STAGES:
            raise ValueError(f"stage must be one of {', '.join(STAGES)}, got {stage!r}")
        self.stage = stage
        self.message = message
        self.stan = stan.strip()
        self.fit = fit
        super().__init__(stage, message, self.stan)

    def __str__(self) -> str:
        text = f"{self.stage}: {self.message}"
        return f"{text}\nStan says:\n{self.stan}" if self.stan else text
