"""The studies of verdicts and hierarchies: draws of posteriors, ranks, and errors."""

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from workflows.benchmarks import hierarchies
from workflows.benchmarks import verdict_study as study

COUNT = 2000
EDGES = {name for name, known in study.POSTERIORS.items() if known.kind == "edges"}


def positions(name):
    known = study.POSTERIORS[name]
    target = sa.Target(known.program, known.data)
    draws = known.draw(np.random.default_rng(1), COUNT)
    rows = [target.unconstrain({k: v[i] for k, v in draws.items()}) for i in range(COUNT)]
    evaluated = [target.evaluate(row) for row in rows]
    return (
        np.array(rows),
        np.array([v for v, _, _ in evaluated]),
        np.array([g for _, g, _ in evaluated]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in study.POSTERIORS if name not in EDGES])
def test_gradients_at_the_draws_are_those_of_their_density(name):
    """E g_i = 0 and E g_i (x_i - c) = -1 for draws of the density (integrate by parts)."""
    x, _, g = positions(name)
    moved = g * (x - np.median(x, axis=0)) + 1.0
    for terms in (g, moved):
        # up to 80 comparisons of means of 2,000 terms, some with heavy tails
        assert np.abs(terms.mean(axis=0) / (terms.std(axis=0) / np.sqrt(COUNT))).max() < 5.0


@pytest.mark.parametrize("name", sorted(EDGES))
def test_draws_lie_within_the_edges(name):
    _, log_density, _ = positions(name)
    assert np.isfinite(log_density).all()


def test_errors_of_shifted_and_of_several_columns():
    rng = np.random.default_rng(2)
    x, known = (
        rng.normal(size=(4, 20_000)),
        {"x": np.quantile(rng.normal(size=10**6), study.SHARES)},
    )
    assert study.worst_error({"x": x}, known, 80_000) == ("x", 0.0)
    _, half = study.worst_error({"x": x + 0.125}, known, 80_000)
    _, double = study.worst_error({"x": 1e-3 * (x - 0.5)}, {"x": 1e-3 * known["x"]}, 80_000)
    assert 0.3 < half < 0.7
    assert double > 1.5
    # 50 effective draws do not show as much
    assert study.worst_error({"x": x - 0.25}, known, 50) == ("x", 0.0)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 5000))
    points = np.quantile(rng.normal(size=10**6), study.SHARES)
    columns = {"a": x, "b[1]": x + 1.0, "b[2]": x + 0.2}
    name, error = study.worst_error(columns, dict.fromkeys(columns, points), 20_000)
    assert name == "b[1]"
    assert error > 1.0


def test_tables_count_false_alarms_and_misses():
    rows = pd.DataFrame({
        "sampler": "auto", "kind": "easy", "program": ["p"] * 4 + ["q"] * 2,
        "seed": [1, 2, 3, 4, 1, 2],
        "verdict": ["fine", "suspect", "fine", "suspect", "too short", "fine"],
        "codes": ["", "divergences", "divergences", "divergences low_bfmi", "low_ess", np.nan],
        "wrong": [False, False, True, True, False, False],
        "gradients": 10, "error": [0.0, 0.5, 2.0, 3.0, 0.0, 0.0],
    })  # fmt: skip
    by_program = study.by_program(rows).set_index("program")
    assert by_program.loc["p", ["fine", "wrong", "false alarms", "misses"]].tolist() == [2, 2, 1, 1]
    assert by_program.loc["q", ["fine", "wrong", "false alarms", "misses"]].tolist() == [1, 0, 1, 0]
    by_code = study.by_code(rows).set_index("code")
    assert by_code.loc["divergences"].tolist() == ["auto", 1, 1, 1, 0]
    assert by_code.loc["low_bfmi"].tolist() == ["auto", 0, 1, 0, 0]
    (rates,) = study.rates(rows).to_dict("records")
    assert (rates["false alarms"], rates["misses"]) == ("50.0%", "50.0%")
    assert rates["wrong among fine"] == "33.33%"


def test_fits_that_lack_a_tail_are_counted_apart_from_right_ones():
    rows = pd.DataFrame({
        "sampler": "auto", "tail": [np.nan, -9.0, -9.0, -9.0, -1.0, -1.0, -1.0, -1.0],
        "verdict": ["fine", "fine", "suspect", "suspect", "fine", "suspect", "suspect", "suspect"],
        "codes": ["", "", "tail_missing", "low_ess", np.nan, "tail_missing", "low_ess tail_missing",
                  "tail_missing"],
        "wrong": [False] * 7 + [True],
    })  # fmt: skip
    (row,) = study.by_tails(rows).drop(columns="sampler").to_dict("split")["data"]
    assert row == [7, 3, 1, 1, 3, 2, 1]


# draws, and so what is warned of, differ between processors
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_a_tail_is_missing_by_the_true_points_of_hubs():
    known = study.POSTERIORS["slopes"]
    target = sa.Target(known.program, known.data, backend="stanli")
    points, small = study.points_of(known, count=4000)
    assert {"tau[1]", "tau[2]", "L[2,1]", "s", "mu[2]", "b[12,2]"} <= set(points)
    assert "L[1,2]" not in points
    fit = sa.sample(target, seed=2)
    columns = {name: x for name, x in results.columns(fit).items() if name in points}
    assert set(columns) == set(points)
    found = study.tails_of(target, fit, columns, small, 300)
    assert -4.0 < found["ramp"] < 4.0
    shifted = {name: x + 3.0 * x.std() for name, x in columns.items()}
    assert study.tails_of(target, fit, shifted, small, 300)["tail"] < found["tail"] < 4.0


def test_ranks_count_draws_of_every_chain_below_the_truth():
    draws = np.random.default_rng(1).permutation(99).reshape(3, 33)
    assert hierarchies.rank(draws, -0.5) == 0
    assert hierarchies.rank(draws, 24.5) == 25
    assert hierarchies.rank(draws, 99.0) == 99
    draws = np.repeat(np.arange(4.0)[:, None], 500, axis=1)
    counts = np.diff([hierarchies.rank(draws, edge) for edge in (-0.5, 0.5, 1.5, 2.5, 3.5)])
    assert counts.min() >= 24
    assert counts.sum() == 99
    rng = np.random.default_rng(3)
    values = [hierarchies.uniformity(rng.integers(0, 100, 100)) for _ in range(400)]
    # four standard errors of the share below 0.1
    assert np.mean(np.array(values) < 0.1) == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 400))


def test_uniform_ranks_pass_and_failures_have_shares():
    rng = np.random.default_rng(2)
    uniform = rng.integers(0, 100, 1000)
    assert hierarchies.uniformity(uniform) > 0.001
    assert hierarchies.uniformity(np.arange(100)) == pytest.approx(1.0)
    # a posterior that is too wide by half: ranks crowd in the middle
    assert hierarchies.uniformity(25 + uniform // 2) < 1e-6
    # a bias: the truth is too often above
    assert hierarchies.uniformity(np.maximum(uniform, rng.integers(0, 100, 1000))) < 1e-6
    assert np.isnan(hierarchies.uniformity(uniform[:9]))
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
