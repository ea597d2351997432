"""Normal proposals of a network: the gradient of their score, and exact Metropolis-Hastings."""

import numpy as np
import pytest

from workflows.learned import reinforce
from workflows.learned.reinforce import Proposal, begin, log_density, move, random_walk, sample


def bent(seed=1):
    """A proposal with shifts and scales that depend on the position."""
    rng = np.random.default_rng(seed)
    proposal = begin(rng)
    return proposal._replace(second=0.04 * rng.normal(size=proposal.second.shape))


def test_the_score_is_the_derivative_of_two_gaussians():
    rng, proposal, h = np.random.default_rng(2), bent(), 1e-6
    x, to, weights = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.normal(size=5)
    score = proposal.score(x, to, weights)
    for name in Proposal._fields:
        weight = getattr(proposal, name)
        for place in [(0,) * weight.ndim, tuple(n - 1 for n in weight.shape)]:
            moved = np.zeros(weight.shape)
            moved[place] = h
            ends = [
                np.mean(weights * proposal._replace(**{name: weight + s * moved}).log_q(x, to))
                for s in (1, -1)
            ]
            found = getattr(score, name)[place]
            assert found == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-9)
    x = np.array([[-5.0, 0.0], [5.5, 0.0], [5.0, 1.0]])
    assert np.diff(log_density(x)) == pytest.approx([-0.5, -1.5])


@pytest.mark.slow
def test_moves_leave_the_target_invariant():
    """Exact draws, moved by a proposal that depends on the position, are exact draws."""
    rng, count = np.random.default_rng(3), 200_000
    x = reinforce.start(count, rng)
    _, accepted, after = move(bent(), x, rng)
    assert 0.02 < accepted.mean() < 0.9
    inside = np.abs(after) - [5.0, 0.0]
    for column, mean, sd in ((inside[:, 0], 0.0, 0.5), (after[:, 1], 0.0, 0.5)):
        assert column.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(count))
        assert column.std() == pytest.approx(sd, abs=4 * sd / np.sqrt(2 * count))


def test_training_raises_the_reward():
    _, curve = reinforce.train(400, np.random.default_rng(4))
    rewards = np.array([reward for _, reward, _ in curve])
    assert rewards[-10:].mean() > 1.5 * rewards[:5].mean()


@pytest.mark.slow
def test_a_wide_walk_crosses_and_a_narrow_one_does_not():
    rng = np.random.default_rng(5)
    rows = [
        reinforce.measured("", 0, *sample(random_walk(scale), 2000, rng)) for scale in (0.3, 8.0)
    ]
    assert rows[0]["crossings"] == 0.0
    assert rows[1]["crossings"] > 1.0
