"""BridgeStan's Python package as all backends use it: imported late, and silent on versions."""

import warnings
from pathlib import Path
from typing import Any

from stanadapt.engine.compiled.user_folders import stand_in_home

VERSIONS_DIFFER = "The version of the compiled model does not match"


def package() -> Any:
    """Import BridgeStan's package, also for a user without a home, whom it refuses.

    It names a folder in the home for its own downloads, which are not used.
    """
    with stand_in_home():
        import bridgestan
    return bridgestan


def bound_model(library: str | Path, data: str) -> Any:
    """Make a bridgestan.StanModel, which keeps no copy of the data.

    Its warning of a library of another version names no cure; `toolchain.outdated_bridgestan`
    does, and a function that is missing is an error.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", VERSIONS_DIFFER, RuntimeWarning)
        model = package().StanModel(library, data, warn=False)
    model.data = None  # would be a second copy of the data, as text
    return model
