"""What every test module shares."""

import os
import signal

# Where CmdStan is installed, "auto" would compile every program that a test writes. A test of the
# native backends, or of the choice, names its backend or takes this away.
os.environ["STANADAPT_BACKEND"] = "stanli"
os.environ.pop("COLUMNS", None)  # tables are as wide as this says

# what a shell starts in the background ignores Ctrl-C, and Python then has no handler for it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
