"""Chains that agree once elements are renumbered, or signs are changed."""

import numpy as np
import pytest

from stanadapt.diagnostics.symmetries import advise_on_symmetry

VALUES = {
    "mu": np.array([-4.0, 1.0, 5.0]), "p": np.array([0.2, 0.3, 0.5]),
    "load": np.array([1.0, -0.8, 0.02]),
}  # fmt: skip
SWITCHED = [[0, 1, 2], [2, 0, 1], [0, 1, 2]]


def columns(orders=((0, 1, 2),) * 3, signs=(1, 1, 1), common=(0, 0, 0)):
    """Draws of three chains: means and weights of components, loadings, and a common scalar."""
    noise = 0.02 * np.random.default_rng(1).standard_normal((10, 3, 200))
    noise[3:6] -= noise[3:6].mean(axis=0)  # weights that sum to 1
    found = {"scale": noise[9] + np.array(common)[:, None]}
    for first, (name, values) in zip((0, 3, 6), VALUES.items(), strict=True):
        for k in range(3):
            there = [values[order[k]] if name != "load" else values[k] for order in orders]
            there = np.array(there) * (np.array(signs) if name == "load" else 1.0)
            found[f"{name}[{k + 1}]"] = there[:, None] + noise[first + k]
    return found


@pytest.mark.parametrize(
    ("changes", "worst", "said"),
    [
        ({}, "mu[1]", ""),
        ({"orders": SWITCHED}, "mu[1]", "Declare mu as ordered"),
        ({"orders": SWITCHED}, "p[3]", "Declare mu as ordered"),  # p is a simplex
        ({"signs": (1, -1, 1)}, "load[1]", "signs of load:"),
        ({"orders": SWITCHED, "common": (0, 1, 0)}, "mu[1]", ""),
        ({"signs": (1, -1, 1), "common": (0, 1, 0)}, "load[1]", ""),
        ({"common": (0, 1, 0)}, "scale", ""),
    ],
)
def test_a_symmetry_is_named_if_it_is_all_that_differs(changes, worst, said):
    advice = advise_on_symmetry(columns(**changes), worst)
    assert said in advice if said else not advice
