"""The command line. Its imports take seconds, so Ctrl-C is handled before they begin."""

import sys

from stanadapt.cli import interruption


def main() -> None:
    """Run the command `stanadapt`."""
    interruption.listen()
    from stanadapt.cli.commands import app

    with interruption.interruptible():
        sys.exit(app())
