"""The command line. What it imports takes seconds: Ctrl-C is heard before."""

import sys

from stanadapt.cli import interruption


def main() -> None:
    """Run the command `stanadapt`."""
    interruption.listen()
    from stanadapt.cli.commands import app

    with interruption.interruptible():
        sys.exit(app())
