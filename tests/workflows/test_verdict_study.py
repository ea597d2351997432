"""The study of verdicts: its draws are of the programs' posteriors, and its errors are errors."""

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from workflows.benchmarks import verdict_study as study
from workflows.benchmarks.known_posteriors import KNOWN

COUNT = 2000
SMOOTH = [name for name, known in KNOWN.items() if known.kind != "edges"]


def positions(name):
    known = KNOWN[name]
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
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_at_the_draws_are_those_of_their_density(name):
    """E g_i = 0 and E g_i (x_i - c) = -1 for draws of the density (integrate by parts)."""
    x, _, g = positions(name)
    moved = g * (x - np.median(x, axis=0)) + 1.0
    for terms in (g, moved):
        # up to 80 comparisons of means of 2,000 terms, some with heavy tails
        assert np.abs(terms.mean(axis=0) / (terms.std(axis=0) / np.sqrt(COUNT))).max() < 5.0


@pytest.mark.parametrize("name", sorted(set(KNOWN) - set(SMOOTH)))
def test_draws_lie_within_the_edges(name):
    _, log_density, _ = positions(name)
    assert np.isfinite(log_density).all()


def test_the_error_of_a_shifted_sample():
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


def test_the_largest_error_of_several_columns_is_named():
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
