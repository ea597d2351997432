"""Whether functions are compiled in our way (`callees`), or, more slowly, in Numba's.

Our way changes parts of Numba that are not public. In a newer release one of them may be missing,
or do something else: then Numba's way is taken, with a warning.
"""

from collections.abc import Callable

import numba

from stanadapt.errors import Message, warn

# the newest release of Numba that our way was tried with
TRIED = 0, 68


class OwnWay:
    """Whether our way works; None in a newer release, until something has to be compiled."""

    works: bool | None = True if numba.version_info.short <= TRIED else None


def own_way_works(trial: Callable[[], None]) -> bool:
    """Return whether our way works, by a trial if that is not known."""
    if OwnWay.works is None:
        OwnWay.works = True  # for the functions of the trial
        try:
            trial()
        except Exception as error:
            give_up(error)
    return bool(OwnWay.works)


def give_up(error: Exception) -> None:
    """Compile in Numba's way from now on, and warn."""
    OwnWay.works = False
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    warn(
        Message(
            "numba_too_new",
            f"With Numba {numba.__version__}, code cannot be compiled as with older releases "
            f"({reason}): the first run of each sampler takes some four times as long.",
        )
    )
