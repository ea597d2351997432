"""A constant that is far off, and the published form on the paper's own example."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers.tempering import ReferenceDistribution
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.known_moments import effective, surprise_of_share
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.targets import Awkward

NAME, ZETA = "continuous_tempering", {"coordinate": "uniform", "learn_log_zeta": False}
PAIR = """
parameters { real x; }
model { target += log_mix(0.6, normal_lpdf(x | -8, 1), normal_lpdf(x | 8, 2)); }
"""


def test_a_constant_far_off_leaves_a_chain_moving():
    """All weights are below the smallest number: none can become a draw."""
    chosen = {**ZETA, "log_zeta": 1e3, "atom": 0.0, "longest_excursion": 5}
    (chain,) = finish(make_chains((NAME, chosen), Awkward()))
    assert column(chain, "n_moves")[-1] == 5
    assert not column(chain, "returned").any()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "chosen", slow_except([{}], [{}, {**ZETA, "log_zeta": 3.0, "atom": 0.0}, {"atom": 0.0}])
)
def test_two_modes_of_the_paper(chosen):
    """0.6 N(-8, 1) + 0.4 N(8, 2^2): the weight of the second mode, within 4.5 standard errors.

    Also with the constant off by 3 nats: unweighted positions would then give 0.46 to 0.5.
    """
    target = sa.Target(PAIR, {})
    law = ReferenceDistribution([-1.6], [8.0])
    fit = sa.sample(
        target, NAME, chains=4, iter_warmup=2000, iter_sampling=8000, seed=3,
        reference_distribution=law, **chosen,
    )  # fmt: skip
    x = results.dataset(fit, "posterior")["x"].values
    assert effective(x > 0.0) > 400
    assert abs(surprise_of_share(x, 0.0, 0.6)) < 4.5
    found = results.dataset(fit, "tempering")
    np.testing.assert_allclose(found["log_evidence"], 0.0, atol=0.4)
    assert np.isnan(found["log_evidence_error"]).all() == ("atom" in chosen)
