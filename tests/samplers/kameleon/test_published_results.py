"""Published results of Kernel Adaptive Metropolis-Hastings, which ours have to reach.

The draft of Sejdinovic et al. (2014): 100 chains on the strongly twisted banana, and on the flower.
Ours, with preset=sejdinovic2014, differ by chance alone if they are within three joint standard
errors, by Welch's test; a smaller norm of the mean is better. Without the ratio of proposals in its
acceptance, the norm of KAMH-LS is about 8 and half of the mass is in the region of 0.6.
"""

import numpy as np
import pytest

from workflows.kameleon.published import DRAFT, REDONE
from workflows.kameleon.synthetic import EXPERIMENTS, Job, measured, sample, settings_of
from workflows.reproduction.agreement import Published, compare_with_spread

CHAINS = 4
# standard deviation of the draft's share inside the region of probability 0.5, over chains
SPREAD_INSIDE = 0.044


@pytest.fixture(scope="module")
def rows():
    job = Job("strong", EXPERIMENTS["strong"], "KAMH-LS", CHAINS)
    return measured(sample(job, seed=4), job)


@pytest.mark.slow
def test_norms_and_shares_are_as_published(rows):
    known = DRAFT["strong"]["KAMH-LS"][0]
    published = Published(known.norm, known.norm_sd, known.chains)
    one = compare_with_spread(rows["norm"], published, less_is_better=True)
    assert one.verdict in ("agrees", "better"), one
    error = SPREAD_INSIDE * np.sqrt(1 / CHAINS + 1 / known.chains)
    assert abs(rows["inside_0.5"].mean() - known.inside[1]) < 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("method", ["SM", "AM-LS"])
def test_random_walks_on_the_flower_are_as_published(method):
    """Norms of the mean of 4.7 and 1.1; acceptance rates of the authors' code, 0.219 and 0.233."""
    job = Job("flower", EXPERIMENTS["flower"], method, CHAINS)
    assert settings_of(job)[1] == {"preset": "sejdinovic2014"}
    known, rows = DRAFT["flower"][method][0], measured(sample(job, seed=4), job)
    norm = Published(known.norm, known.norm_sd, known.chains)
    assert compare_with_spread(rows["norm"], norm).verdict == "agrees"
    # the draft's rate of SM, 0.215, is further from that of their code than chance explains
    redone = REDONE["flower"][method][0]
    rate = Published(redone.acceptance, redone.acceptance_sd, redone.chains)
    assert compare_with_spread(rows["acceptance"], rate).verdict == "agrees"
    assert rows["acceptance"].std() < 0.02  # otherwise any rate would agree
