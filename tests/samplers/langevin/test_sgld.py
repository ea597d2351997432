"""Stochastic gradient Langevin dynamics: its stationary variance, its schedule, its weights."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers.langevin.minibatches import Minibatches
from stanadapt.samplers.tempering import weighted_summary
from tests.helpers import rows_program
from tests.helpers.codes import raises

CHAINS = {"seed": 1, "chains": 4}
ROWS = 100
PRECISION = 0.01 + ROWS  # of the posterior of the mean
STEP = 0.004


@pytest.mark.thorough
@pytest.mark.parametrize(("batches", "control"), [(10, False), (10, True), (1, False)])
def test_the_stationary_variance_is_the_closed_form(batches, control):
    """Gradients are linear with a slope that all batches share, so their noise is constant.

    The chain is an autoregression with coefficient 1 - e / (2 s^2): its effective size is known.
    """
    target = rows_program.normal(ROWS)
    estimated = Minibatches(target, "y", batches, control_variates=control)
    noise = float(estimated.gradient_noise(np.zeros(1))[0, 0])
    assert (noise < 1e-9) == (batches == 1 or control)
    fit = sa.sample(
        estimated, "sgld", decay=0.0, first_step=STEP, standardize=False, iter_warmup=200,
        iter_sampling=40_000, **CHAINS,
    )  # fmt: skip
    variance = 1.0 / PRECISION
    wanted = variance * (1.0 + 0.25 * STEP * noise) / (1.0 - 0.25 * STEP * PRECISION)
    square = (1.0 - 0.5 * STEP * PRECISION) ** 2
    error = np.sqrt(2.0 / (160_000 * (1.0 - square) / (1.0 + square)))
    draws = fit["posterior"]["mu"].values
    assert draws.var() / wanted == pytest.approx(1.0, abs=4.0 * error)
    assert wanted / variance - 1.0 > 10.0 * error
    assert wanted / variance > (1.5 if noise > 1.0 else 1.0)
    y = np.array(json.loads(target.data)["y"])
    mean_error = np.sqrt(wanted / (160_000 * 0.5 * STEP * PRECISION / 2.0))
    assert draws.mean() == pytest.approx(y.sum() / PRECISION, abs=4.0 * mean_error)


def test_steps_follow_the_schedule_after_warmup_and_are_the_weights():
    fit = sa.sample(
        Minibatches(rows_program.normal(), "y", 5), "sgld", first_step=0.2, delay=50.0, decay=0.6,
        iter_warmup=100, iter_sampling=500, save_warmup=True, **CHAINS,
    )  # fmt: skip
    weight = fit["sample_stats"]["weight"].values
    a = 0.2 * 50.0**0.6
    np.testing.assert_allclose(weight, np.tile(a * (50.0 + np.arange(500)) ** -0.6, (4, 1)))
    np.testing.assert_allclose(fit["warmup_sample_stats"]["weight"].values, 0.2)
    x = fit["posterior"]["mu"].values
    functions = {"positive": lambda draws: draws["mu"] > 0.3}
    table = weighted_summary(fit, functions)
    assert table.loc["mu", "mean"] == pytest.approx(np.average(x, weights=weight))
    assert table.loc["positive", "mean"] == pytest.approx(np.average(x > 0.3, weights=weight))
    assert table.loc["mu", "draws_mean"] == pytest.approx(x.mean())
    assert fit.attrs["exact"] == 0
    assert fit.attrs["verdict"] != "fine"
    assert fit.attrs["batches"] == 5
    assert fit.attrs["standardized"] == "diagonal"


def test_weighted_errors_are_those_of_a_mean_of_independent_draws():
    """Independent draws with two weights: the variance of the ratio is known."""
    rng, found = np.random.default_rng(3), []
    weight = np.tile(np.repeat([3.0, 1.0], 500), (4, 1))
    for _ in range(40):
        x = rng.normal(size=(4, 1000))
        fit = results.build({"posterior": {"x": x}, "sample_stats": {"weight": weight}}, {})
        found.append(weighted_summary(fit).loc["x", ["mean", "mcse", "sd"]].to_numpy(float))
    mean, error, sd = np.array(found).T
    exact = np.sqrt((weight**2).sum()) / weight.sum()
    assert error.mean() == pytest.approx(exact, rel=0.05)
    assert mean.std() == pytest.approx(exact, rel=4.0 / np.sqrt(80))
    assert sd.mean() == pytest.approx(1.0, abs=0.02)


def test_a_run_of_batches_is_resumed_draw_for_draw(tmp_path):
    batches = Minibatches(rows_program.regression(), ["X", "y"], 6)
    lengths = {"iter_warmup": 100, **CHAINS}
    whole = sa.sample(batches, "sgld", iter_sampling=400, **lengths)
    sa.sample(batches, "sgld", iter_sampling=150, run=tmp_path / "run", **lengths)
    again = Minibatches(rows_program.regression(), ["X", "y"], 6)
    longer = sa.resume(tmp_path / "run", target=again, iter_sampling=400)
    np.testing.assert_array_equal(longer["posterior"]["w"].values, whole["posterior"]["w"].values)
    with raises("run_needs_target", "Minibatches", "target"):
        sa.resume(tmp_path / "run", iter_sampling=500)


def test_a_target_without_batches_has_the_gradients_of_all_rows():
    target = rows_program.normal()
    plain = sa.sample(target, "sgld", iter_warmup=100, iter_sampling=300, **CHAINS)
    assert "batches" not in plain.attrs
    assert plain.attrs["exact"] == 0
    warm = sa.sample(
        Minibatches(target, "y", 5), "sgld", iter_warmup=60, iter_sampling=300, warm_start=plain,
        **CHAINS,
    )  # fmt: skip
    assert "by warm_start" in warm.attrs["standardized"]
