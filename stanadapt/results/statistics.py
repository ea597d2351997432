"""The sampler's statistics of a fit by ArviZ's names, whichever library drew it."""

import contextlib
import json
from collections.abc import Callable, Hashable
from types import SimpleNamespace

import numpy as np
import xarray as xr

from stanadapt.engine.every_iteration import add, described, no_iterations
from stanadapt.results.arviz_object import Fit, dataset, from_json, group_names

# ArviZ's name of each statistic, and those of libraries that keep their own
OTHER_NAMES = {
    "lp": ("logp", "lp__", "logdensity", "model_logp"),
    "acceptance_rate": ("mean_tree_accept", "accept_prob", "accept_stat__"),
    "step_size": ("stepsize__", "adapt_state.step_size"),
    "tree_depth": ("depth", "treedepth__", "num_trajectory_expansions"),
    "n_steps": ("num_steps", "n_leapfrog__", "num_integration_steps", "tree_size"),
    "diverging": ("divergent__", "is_divergent"),
    "energy": ("energy__",),
    "reached_max_treedepth": ("maxdepth_reached",),
}
POTENTIAL = "potential_energy"  # numpyro's, minus the log density
# A draw of PyMC by several step methods has a number of each: how they make one. Others, such as
# energies of parts of the parameters, make none.
OF_SEVERAL_STEPS: dict[str, Callable[[xr.DataArray, str], xr.DataArray]] = {
    "lp": lambda values, steps: values.isel({steps: -1}),
    "acceptance_rate": lambda values, steps: values.mean(steps),
    "tree_depth": lambda values, steps: values.max(steps),
    "n_steps": lambda values, steps: values.sum(steps),
    "diverging": lambda values, steps: values.astype(bool).any(steps),
    "reached_max_treedepth": lambda values, steps: values.astype(bool).any(steps),
}


def standard_names(stats: xr.Dataset) -> xr.Dataset:
    """Return statistics by ArviZ's names, one for each draw; those that have them stay."""
    found: dict[Hashable, Hashable] = {}
    for name, others in OTHER_NAMES.items():
        present = [other for other in others if other in stats]
        if name not in stats and present:
            found[present[0]] = name
    stats = stats.rename_vars(found)
    if "lp" not in stats and POTENTIAL in stats:
        stats = stats.assign(lp=-stats[POTENTIAL])
    for name in OTHER_NAMES.keys() & stats.keys():
        steps = set(map(str, stats[name].dims)) - {"chain", "draw"}
        if len(steps) == 1 and name in OF_SEVERAL_STEPS:
            stats[name] = OF_SEVERAL_STEPS[name](stats[name], *steps)
        elif steps:
            stats = stats.drop_vars(name)
    # PyMC writes zeros if NUTS is not the last of several step methods
    pymc = "smallest_eigval" in stats
    return stats.drop_vars("lp") if pymc and "lp" in stats and not stats["lp"].any() else stats


def has_other_names(fit: Fit) -> bool:
    """Whether the statistics of a fit have names that ArviZ does not use."""
    stats = dataset(fit, "sample_stats") if "sample_stats" in group_names(fit) else ()
    return any(name in stats for others in OTHER_NAMES.values() for name in others)


def statistics(fit: Fit, group: str = "sample_stats") -> dict[str, np.ndarray]:
    """Return the statistics with a number for each draw, as floats, shape (chain, draw).

    Those that other libraries leave empty, with NaN throughout, are left out. Empty if there is no
    such group.
    """
    if group not in group_names(fit):
        return {}
    found = {}
    for name, variable in standard_names(dataset(fit, group)).data_vars.items():
        if set(variable.dims) != {"chain", "draw"}:
            continue
        values = variable.transpose("chain", "draw").values  # other libraries use other orders
        # truth values, some of them missing, are objects
        with contextlib.suppress(TypeError, ValueError):
            values = values.astype(float)
            if not np.isnan(values).all():
                found[str(name)] = values
    return found


def every_iteration(fit: Fit) -> dict[str, str]:
    """Return the attribute on the draws of a fit, for a fit that is thinned."""
    stats = statistics(fit)
    if "every_iteration" in fit.attrs or fit.attrs.get("thin", 1) != 1 or "diverging" not in stats:
        return {}
    settings = SimpleNamespace(**from_json(fit, "settings", {}))
    chains = []
    for chain in range(len(stats["diverging"])):
        chains.append(no_iterations())
        table = np.stack([values[chain] for values in stats.values()], axis=1)
        add(chains[-1], table, list(stats), settings)
    return {"every_iteration": json.dumps(described(chains))}


def is_fixed(stats: dict[str, np.ndarray]) -> bool:
    """Whether these are of CmdStan's `fixed_param`, which writes zeros and draws no chain."""
    return (
        bool(stats)
        and stats.keys() <= {"lp", "acceptance_rate"}
        and not any(values.any() for values in stats.values())
    )
