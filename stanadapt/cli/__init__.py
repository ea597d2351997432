"""The command line. Its imports take seconds, so Ctrl-C is handled before they begin."""

import contextlib
import errno
import logging
import os
import sys
import warnings
from typing import Any

from stanadapt.cli import interruption

FAULTS_OF_OUTPUT = {
    errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC),
}  # fmt: skip


def main() -> None:
    """Run the command `stanadapt`.

    Signs that the terminal's encoding lacks are printed as question marks. If standard output
    cannot be written, because a disk is full, or nothing can be imported, because there is no place
    for temporary files, the command ends with one line on standard error.
    """
    interruption.listen()
    # Matplotlib reports at import in several lines that it cannot write to the home
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    warnings.showwarning = _as_note
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # None, or not a file
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(interruption.run(_run))


def _as_note(message: Any, category: type[Warning], *place: Any, **options: Any) -> None:
    """Print a warning of an import as commands print theirs, without a line of code."""
    if sys.stderr is not None:
        print(f"note: {message}", file=sys.stderr)


def _run() -> int:
    from stanadapt.cli.commands import app
    from stanadapt.errors import StanadaptError

    try:
        return _flushed(app)
    except StanadaptError as error:  # of an import: a command reports its own
        print(f"error in {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in FAULTS_OF_OUTPUT or error.filename is not None:
            raise
        return _not_written(error)


def _flushed(app: Any) -> int:
    """Run the app and write the end of its output; return its exit code."""
    try:
        app()
    except SystemExit as end:
        try:
            sys.stdout.flush()
        except AttributeError:  # it is closed
            pass
        except BrokenPipeError:  # without a reader: Python would try again at exit, and complain
            _discard_output()
        code = end.code
        if isinstance(code, str):  # an experiment of a paper ends with a reason
            print(code, file=sys.stderr)
        return code if isinstance(code, int) else int(bool(code))
    return 0


def _not_written(error: OSError) -> int:
    """Report an error of standard output, and leave nothing that Python would flush at exit."""
    from stanadapt.errors import StanadaptError

    why = error.strerror or str(error)
    message = f"the output cannot be written: {why}. Free some space, or write it elsewhere."
    _discard_output()
    with contextlib.suppress(OSError, AttributeError, ValueError):
        print(f"error in {StanadaptError('output_not_written', message)}", file=sys.stderr)
    return 1


def _discard_output() -> None:
    """Leave nothing in standard output that Python would fail to write at exit."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
