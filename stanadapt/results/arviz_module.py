"""The installed ArviZ, of either line, imported when it is first needed."""

import functools
import tempfile
import warnings
from importlib.metadata import version
from typing import Any

from stanadapt.engine.compiled.cache_folder import environment


@functools.cache  # called for every column of a table, by several threads at once
def arviz_module() -> Any:
    """Return the installed ArviZ, imported at the first call.

    In 0.23 it computes variances without Numba from then on, which it would use for the first
    R-hat of every process: compilation takes longer than all R-hats of most fits.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ 0.23 announces 1.0 at import
        try:
            import arviz  # takes 2.6 s in 0.23, so that it is imported only when needed
        except OSError:  # 0.23 cannot record in the user's cache that it showed its announcement
            with tempfile.TemporaryDirectory() as folder, environment(XDG_CACHE_HOME=folder):
                import arviz
    if hasattr(arviz, "Numba"):
        arviz.Numba.disable_numba()
    return arviz


@functools.cache
def is_tree() -> bool:
    """Whether fits are trees of xarray, as in ArviZ 1.x, which then need not be imported."""
    return int(version("arviz").split(".")[0]) >= 1
