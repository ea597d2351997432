"""The stress test of hierarchies: its ranks, its test of them, and the data that it simulates."""

import numpy as np
import pandas as pd
import pytest

from workflows.benchmarks import hierarchies


def test_a_rank_counts_draws_below_the_truth():
    draws = np.random.default_rng(1).permutation(99).reshape(3, 33)
    assert hierarchies.rank(draws, -0.5) == 0
    assert hierarchies.rank(draws, 24.5) == 25
    assert hierarchies.rank(draws, 99.0) == 99


def test_ranks_take_draws_from_every_chain():
    draws = np.repeat(np.arange(4.0)[:, None], 500, axis=1)
    counts = np.diff([hierarchies.rank(draws, edge) for edge in (-0.5, 0.5, 1.5, 2.5, 3.5)])
    assert counts.min() >= 24
    assert counts.sum() == 99


def test_uniform_ranks_pass_and_others_do_not():
    rng = np.random.default_rng(2)
    uniform = rng.integers(0, 100, 1000)
    assert hierarchies.uniformity(uniform) > 0.001
    assert hierarchies.uniformity(np.arange(100)) == pytest.approx(1.0)
    # a posterior that is too wide by half: ranks crowd in the middle
    assert hierarchies.uniformity(25 + uniform // 2) < 1e-6
    # a bias: the truth is too often above
    assert hierarchies.uniformity(np.maximum(uniform, rng.integers(0, 100, 1000))) < 1e-6
    assert np.isnan(hierarchies.uniformity(uniform[:9]))


def test_p_values_of_uniform_ranks_are_uniform():
    rng = np.random.default_rng(3)
    values = [hierarchies.uniformity(rng.integers(0, 100, 100)) for _ in range(400)]
    # four standard errors of the share below 0.1
    assert np.mean(np.array(values) < 0.1) == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 400))


def test_simulated_data_have_the_moments_of_the_prior():
    rng, count = np.random.default_rng(4), 4000
    normal = [hierarchies.simulate_normal(rng) for _ in range(count)]
    y = np.array([data["y"] for _, data in normal])
    # variance of y_j: of mu, of theta about it, and of the error; its relative error is below 0.03
    expected = 100 + 100 + hierarchies.ERRORS**2
    assert y.var(axis=0) == pytest.approx(expected, rel=0.15)
    assert y.mean(axis=0) == pytest.approx(0, abs=4 * np.sqrt(expected.max() / count))
    binomial = [hierarchies.simulate_binomial(rng) for _ in range(count)]
    shares = np.array([data["y"] / data["n"] for _, data in binomial])
    logit = rng.normal(size=100_000)
    tau = np.abs(rng.normal(size=100_000))
    mean = np.mean(1 / (1 + np.exp(1 - logit - tau * rng.normal(size=100_000))))
    assert shares.mean(axis=0) == pytest.approx(mean, abs=4 * 0.5 / np.sqrt(count))
    level = np.array([data["y"] for _, data in map(hierarchies.simulate_level, [rng] * count)])
    # variances: of the first state, of the steps to the last, and of the error
    assert level[:, 0].var() == pytest.approx(4 + 1, rel=0.15)
    assert level[:, -1].var() == pytest.approx(4 + (hierarchies.STATES - 1) + 1, rel=0.25)
    slopes = np.array([data["y"] for _, data in map(hierarchies.simulate_slopes, [rng] * count)])
    expected = 9 + 1 + (9 + 1) * hierarchies.TIMES**2 + 4
    assert slopes.var(axis=0) == pytest.approx(expected, rel=0.25)


def test_the_table_has_the_shares_of_failures():
    rows = pd.DataFrame({
        "model": "normal", "sampler": "auto", "gradients": [1, 2, 3, 4],
        "divergences": [0, 2, 0, 0], "verdict": ["fine", "do not use", "too short", "fine"],
        "codes": ["note", "r_hat low_ess", "low_ess", ""],
        "rank mu": [1, 2, 3, 4], "rank tau": [1, 2, 3, 4],
    })  # fmt: skip
    (row,) = hierarchies.summary(rows).to_dict("records")
    assert (row["with divergences"], row["not fine"]) == ("25.0%", "50.0%")
    assert row["codes"] == "low_ess 2, r_hat 1"
    assert row["gradients"] == 2.5
    assert row["p-values of ranks"] == "mu nan, tau nan"


@pytest.mark.slow
@pytest.mark.parametrize("model", hierarchies.MODELS)
def test_each_model_is_fitted(model, monkeypatch):
    monkeypatch.setenv("STANADAPT_BACKEND", "stanli")
    lengths = {"iter_warmup": 100, "iter_sampling": 100}
    rows = hierarchies.rows_of(model, ["auto"], 2, lengths)
    assert [row["seed"] for row in rows] == [1, 2]
    ranks = [row[name] for row in rows for name in row if name.startswith("rank ")]
    assert len(ranks) >= 2
    assert all(0 <= rank <= 99 for rank in ranks)
