"""The chain that disagrees, if exactly one does, and chains that agree up to a symmetry."""

import numpy as np
import pytest

from stanadapt import results
from stanadapt.diagnostics.outlying_chain import describe_outlying_chain, outlying_chain
from stanadapt.diagnostics.symmetries import advise_on_symmetry
from stanadapt.diagnostics.verdict import verdict
from tests.helpers.autoregression import autoregression

SHAPE = (4, 400)


def outlier(draws):
    return outlying_chain(draws, float(results.arviz_module().rhat(draws)))


def normal(seed=1, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape)


def slow(seed=1):
    """Draws worth about ten independent ones per chain."""
    return autoregression(0.95, SHAPE, seed)


@pytest.mark.parametrize("scale", [1e-6, 1e5])
@pytest.mark.parametrize("chain", range(4))
def test_one_chain_in_another_place(chain, scale):
    draws = normal()
    draws[chain] += 0.7
    draws *= scale
    assert outlier(draws) == chain
    text = describe_outlying_chain(draws, float(results.arviz_module().rhat(draws)))
    for fact in (f"Chain {chain + 1}", f"{draws[chain].mean():.4g}", "1.00"):
        assert fact in text


@pytest.mark.parametrize(("draws", "found"), [
    (slow() + 9 * (np.arange(4)[:, None] == 2), 2),  # all are slow
    (normal() * np.array([1, 3, 1, 1])[:, None], 1),  # wider
    (normal() + 9 * (np.arange(4)[:, None] > 1), None),  # pairs that disagree
    (normal() + 9 * np.arange(4)[:, None], None), (normal() + 0.13 * np.arange(4)[:, None], None),
    (normal(shape=(2, 400)) + 9 * np.arange(2)[:, None], None),  # two cannot show which is wrong
])  # fmt: skip
def test_one_chain_alone_is_found(draws, found):
    assert outlier(draws) == found
    assert found is not None or describe_outlying_chain(draws, 2.0) == ""


def test_the_difference_is_named_not_means_that_agree():
    wider = normal() * np.array([1, 3, 1, 1])[:, None]
    said = describe_outlying_chain(wider, float(results.arviz_module().rhat(wider)))
    assert f"its standard deviation is {wider[1].std():.4g}, that of the others" in said
    assert "mean" not in said
    narrower = normal() * np.array([1, 1, 1, 0.3])[:, None]
    said = describe_outlying_chain(narrower, float(results.arviz_module().rhat(narrower)))
    assert f"its standard deviation is {narrower[3].std():.4g}, that of the others" in said
    drifting = normal()
    drifting[2] = np.sort(drifting[2])  # the same values
    said = describe_outlying_chain(drifting, float(results.arviz_module().rhat(drifting)))
    assert said.startswith("Chain 3 stands out: without it R-hat is 1.00")


@pytest.mark.thorough
def test_few_false_alarms():
    """In a hundred fits, R-hat is above 1.01 because chains are short and slow."""
    assert sum(outlier(slow(seed)) is not None for seed in range(100)) <= 5


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_others_may_never_have_moved():
    """Without the outlier R-hat is not a number, and is not printed."""
    draws = np.full((4, 400), 3.0)
    draws[2] = normal(shape=(1, 400))
    text = describe_outlying_chain(draws, 1.5)
    assert "Chain 3" in text
    assert "nan" not in text


@pytest.mark.parametrize("draws", [16, 100])
def test_of_many_chains_the_one_in_another_mode_is_no_matter_of_length(draws):
    columns = np.random.default_rng(1).normal(size=(256, draws))
    columns[17] += 30
    fit = results.build({"posterior": {"x": columns}}, {})
    (reason,) = verdict(fit).reasons
    assert "Chain 18 stands out" in reason
    assert "elsewhere" in reason
    assert "parallel_tempering" in reason
    assert "leave it out" in reason
    assert "Run longer" not in reason


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
        ({"signs": (1, -1, 1)}, "load[1]", "is no remedy. Declare it, or"),
        ({"orders": SWITCHED, "common": (0, 1, 0)}, "mu[1]", ""),
        ({"signs": (1, -1, 1), "common": (0, 1, 0)}, "load[1]", ""),
        ({"common": (0, 1, 0)}, "scale", ""),
    ],
)
def test_a_symmetry_is_named_if_it_is_all_that_differs(changes, worst, said):
    advice = advise_on_symmetry(columns(**changes), worst)
    assert said in advice if said else not advice
