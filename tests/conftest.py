"""What every test module shares."""

import os

# Where CmdStan is installed, "auto" would compile every program that a test writes. A test of the
# native backends, or of the choice, names its backend or takes this away.
os.environ["STANADAPT_BACKEND"] = "stanli"
