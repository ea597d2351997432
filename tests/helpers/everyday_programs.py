"""Positions at which the bundled programs in raw units are evaluated, near their posteriors.

At standard normal positions their densities are astronomically small, and rounding removes most of
their terms. Centers and spreads are rounded values for the unconstrained parameters, from one fit
of each program.
"""

import numpy as np


def _several(*parts):
    """Return an array of numbers; a pair (value, times) repeats one."""
    pairs = [part if isinstance(part, tuple) else (part, 1) for part in parts]
    return np.concatenate([np.full(times, float(value)) for value, times in pairs])


# center, spread
POSITIONS = {
    "autoregressive": (_several(125, 1.01, -0.23, -0.4), _several(0.2, (4e-4, 2), 0.2)),
    "galaxies": (
        _several(-1.5, 1.6, 9800, 9.36, 9.32, 7.66),
        _several(0.3, 0.4, 500, 0.05, 0.08, 0.15),
    ),
    "garch": (_several(1.7e-4, -11.3, -2.7, 1.8), _several(5e-4, 0.2, 0.4, 0.2)),
    "gaussian_process": (_several(3.9, 1.7, 3.1), _several(0.3, 0.2, 0.2)),
    "item_response": (
        _several((-0.2, 100), (0.1, 24), (0.1, 24)),
        _several((0.8, 100), (0.3, 24), (0.8, 24)),
    ),
    "linear": (
        _several(652, -6e-6, -0.32, -1.3e-3, 1.5e-3, -48, 2.3),
        _several(1.5, 3e-4, 0.06, 3e-4, 1e-4, 5, 0.2),
    ),
    "lotka_volterra": (
        _several(-0.68, -3.8, -0.16, -3.6, 3.6, 1.9, -1.2, -1.7),
        _several(0.04, 0.06, 0.04, 0.05, 0.06, 0.1, 0.2, 0.2),
    ),
    "mixture": (3.0, 4.0),  # among its modes, for all data
    "negative_binomial": (_several(-3.3, -1e-3, -0.4, -0.3), _several(0.15, 6e-5, 0.3, 0.2)),
    "ordered_logistic": (_several(0.87, -1.0, 8.0, 1.8), _several(0.03, 0.5, 0.4, 0.1)),
    "student_t": (_several(-66, 0.74, 8.7, 1.8, 1.0), _several(1.5, 0.01, 2, 0.2, 0.5)),
    "varying_intercepts": (
        _several(1.46, -1.1, (1.5, 85), -0.69, -0.27),
        _several(0.1, 0.2, (0.3, 85), 0.1, 0.05),
    ),
    "varying_slopes": (
        _several(252, 10, 3.2, 1.8, 0.1, (0, 36), 3.25),
        _several(8, 2, 0.3, 0.3, 0.4, (0.8, 36), 0.1),
    ),
    "weibull": (
        _several(3.3, -0.23, 0.03, -1.4e-3, 5.5e-3, -0.8, -1.1, -0.38, 0.07),
        _several(0.2, 0.3, 4e-3, 0.01, 4e-3, 0.3, 0.4, 0.4, 0.15),
    ),
}


def spread(name):
    """Return scales of the unconstrained parameters, 1 for a program without an entry above."""
    return POSITIONS[name][1] if name in POSITIONS else 1.0


def positions(name, dimensions, count, scale=1.0, seed=1):
    """Draw positions, standard normal for a program without an entry above."""
    center, spread = POSITIONS.get(name, (0.0, 1.0))
    return center + scale * spread * np.random.default_rng(seed).standard_normal(
        (count, dimensions)
    )
