"""Old names are accepted for one release: they warn, and mean what they meant."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.registry import find

RUN = {"chains": 1, "iter_warmup": 30, "iter_sampling": 30, "seed": 1, "show_progress": False}
OLD_SETTINGS = [
    ("kameleon", {"evenly": False}, {"normalize_weights": False}),
    ("parallel_tempering", {"moves": "nuts"}, {"kernel": "nuts"}),
    ("pseudo_extended", {"law": "student_t"}, {"reference_family": "student_t"}),
    ("pseudo_extended", {"lowest": 0.1}, {"min_inverse_temperature": 0.1}),
]


@pytest.mark.parametrize(("name", "old", "new"), OLD_SETTINGS)
def test_old_settings(name, old, new):
    with pytest.warns(
        FutureWarning, match=f"{name}: {next(iter(old))} is now called {next(iter(new))}"
    ):
        _, settings = find(name, **old)
    assert settings == find(name, **new)[1]


def test_old_and_new_name_together_are_refused():
    with pytest.raises(sa.StanadaptError, match="moves is the old name of kernel: give one"):
        find("parallel_tempering", moves="nuts", kernel="hmc")


@pytest.fixture(scope="module")
def target():
    return sa.Target("parameters { real x; } model { x ~ normal(3, 2); }", backend="stanli")


def test_old_arguments_of_sample(target):
    fit = sa.sample(target, "rwm", **RUN)
    with pytest.warns(FutureWarning, match="sample: past is now called warm_start") as caught:
        old = sa.sample(target, "kameleon", past=fit, subsample=20, **RUN)
    assert caught[0].filename == __file__
    new = sa.sample(target, "kameleon", warm_start=fit, subsample=20, **RUN)
    x = [results.dataset(one, "posterior")["x"].values for one in (old, new)]
    np.testing.assert_array_equal(*x)
    with pytest.raises(sa.StanadaptError, match="past is the old name of warm_start"):
        sa.sample(target, "kameleon", past=fit, warm_start=fit, **RUN)


def test_old_class_and_function():
    with pytest.warns(FutureWarning, match="ReferenceLaw is now called .*ReferenceDistribution"):
        assert sa.ReferenceLaw is sa.ReferenceDistribution
    assert sa.reference is sa.stan_nuts
    with pytest.raises(AttributeError, match="no attribute 'Reference'"):
        sa.Reference  # noqa: B018
