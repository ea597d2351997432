"""Fits with every kind of variable that CmdStan's CSV files hold, built from made-up draws."""

import numpy as np

from stanadapt import results
from stanadapt.results.labels import arrays, make_labels, phase_groups

COLUMNS = [
    "mu", "theta.1", "theta.2", "theta.3", "L.1.1", "L.2.1", "L.1.2", "L.2.2", "t:1", "t:2.1",
    "t:2.2", "z.real", "z.imag", "w.1.real", "w.1.imag", "w.2.real", "w.2.imag", "M.1.1", "M.2.1",
    "M.1.2", "M.2.2", "M.1.3", "M.2.3", "k", "y_rep.1", "y_rep.2", "log_lik.1", "log_lik.2",
]  # fmt: skip
PARAMETERS = ["mu", "theta", "L", "t", "z"]
DATA = '{"y": [1.5, -2.0]}'
NUTS = ("lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy")
ATTRIBUTES = {
    "inference_library": "stanadapt", "model": "pairs", "sampler": "nuts", "exact": True,
    "settings": '{"target_accept": 0.9, "max_treedepth": 8}', "parameters": PARAMETERS,
    "iter_warmup": 60, "iter_sampling": 100, "thin": 2, "seed": 7, "chains_kept": [1, 2, 4],
    "warmup_seconds": [1.5, 2.0, 9.0, 0.25], "sampling_seconds": [0.5, 1.0, 9.0, 12345.6789],
    "backend_version": "CmdStan 2.27.0", "interrupted": False,
}  # fmt: skip


def draws(chains=3, length=50, seed=1, extremes=True):
    """Draws of very unequal scales, with the extremes of floating-point numbers."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.integers(-9, 9, len(COLUMNS))
    values = rng.normal(size=(chains, length, len(COLUMNS))) * scales
    values[..., COLUMNS.index("k")] = rng.integers(-3, 4, (chains, length))
    if extremes:
        values[0, 0, :4] = 5e-324, -1.7976931348623157e308, 0.1 + 0.2, -0.0
    return values


def statistics(names, shape, seed=2):
    rng = np.random.default_rng(seed)
    made = {
        "lp": rng.normal(size=shape), "acceptance_rate": rng.random(shape),
        "step_size": np.full(shape, 0.3), "tree_depth": rng.integers(1, 5, shape),
        "n_steps": rng.integers(1, 32, shape), "diverging": rng.random(shape) < 0.1,
        "energy": rng.normal(size=shape), "accepted": rng.random(shape) < 0.5,
        "n_density": np.ones(shape, dtype=int), "leapfrogs": rng.integers(1, 9, shape),
        "weight": rng.random(shape), "log_weight": rng.normal(size=shape),
    }  # fmt: skip
    return {name: made[name] for name in names}


def fit(chains=3, length=50, stats=NUTS, warmup=0, labels=None, extremes=True, **changes):
    """Build a fit; with `warmup`, also so many draws of warm-up per chain."""
    by_name = results.variables(COLUMNS, draws(chains, length, extremes=extremes))
    shapes = {name: x.shape[2:] for name, x in by_name.items()}
    made = make_labels(labels, shapes, arrays(DATA), PARAMETERS)
    groups = phase_groups(made, "", by_name, statistics(stats, (chains, length)))
    if warmup:
        early = results.variables(COLUMNS, draws(chains, warmup, seed=3))
        groups |= phase_groups(made, "warmup_", early, statistics(stats, (chains, warmup), 4))
    attributes = {**ATTRIBUTES, **changes}
    if chains != 3 and "chains_kept" not in changes:
        attributes["chains_kept"] = list(range(1, chains + 1))
    return results.build(groups, attributes)
