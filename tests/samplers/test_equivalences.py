"""Samplers that must agree draw for draw if their settings make them the same."""

import numpy as np
import pytest

from tests.helpers.chains import finish, make_chains
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import Awkward

LENGTH = {"initial_scale": 0.5}
PAIRS = [
    (("hmc", {"leapfrogs": 1, "step_size": 0.5}), ("mala", {"step_size": 0.5})),
    (("gad_mala", LENGTH), ("mala", {"step_size": 0.5})),
    (("gad_mala", {**LENGTH, "diagonal": True}), ("gad_mala", LENGTH)),
    (("gad_mala", {**LENGTH, "exact": True}), ("gad_mala", LENGTH)),
    (("gad_hmc", {**LENGTH, "leapfrogs": 1}), ("gad_mala", LENGTH)),
    (("gad_hmc", {**LENGTH, "leapfrogs": 3}), ("hmc", {"leapfrogs": 3, "step_size": 0.5})),
    (("gad_hmc", {**LENGTH, "diagonal": True}), ("gad_hmc", LENGTH)),
    (("gad_rwm", LENGTH), ("rwm", LENGTH)),
    (("gad_rwm", {**LENGTH, "diagonal": True}), ("rwm", LENGTH)),
    (("am", LENGTH), ("rwm", LENGTH)),
    (("nuts", {"dense": True}), ("nuts", {})),
]


def draws(name, **chosen):
    # without warm-up nothing is tuned
    (chain,) = finish(make_chains((name, chosen), Awkward(), warmup=0, draws=150))
    return chain.sampling.constrained


@pytest.mark.parametrize(
    ("one", "other"), slow_except(PAIRS[:2], PAIRS), ids=lambda case: "-".join([case[0], *case[1]])
)
def test_equal_draw_for_draw(one, other):
    a, b = draws(one[0], **one[1]), draws(other[0], **other[1])
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
    assert len(np.unique(a[:, 0])) > 20  # the chains moved
