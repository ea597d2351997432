"""Numbers that no run can have: a sentence at once."""

import pytest

from stanadapt.samplers.tempering import Extended
from tests.helpers.codes import raises_in
from tests.helpers.short_runs import NORMAL, draw
from tests.helpers.stan_target import shared_target

target = shared_target(NORMAL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "setting"),
    [
        ("nuts", {"max_treedepth": 1e300}), ("hmc", {"leapfrogs": 10**25}),
        ("parallel_tempering", {"levels": 10**12}), ("pseudo_extended", {"pseudo_samples": 10**12}),
    ],
)  # fmt: skip
def test_settings(target, sampler, setting):
    with raises_in("settings", sampler):
        draw(target, sampler, **setting)


def test_initial_values_nested_too_deep(target):
    nested = 1.0
    for _ in range(1000):
        nested = [nested]
    with raises_in("initialization", "x"):
        draw(target, "nuts", inits={"x": nested})


@pytest.mark.parametrize("temperature", [[], {}])
def test_options_that_cannot_be_looked_up(target, temperature):
    with raises_in("settings", "temperature"):
        Extended(target, temperature=temperature)
