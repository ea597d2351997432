"""Chains that lie apart: in separate modes, or still moving?"""

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.missed_modes import separate_regions
from stanadapt.studies.advise.trials import separate_modes

TWO = """
parameters { vector[2] x; }
model {
  target += log_sum_exp(normal_lpdf(x[1] | -5, 1), normal_lpdf(x[1] | 5, 1));
  x[2] ~ normal(0, 2);
}
"""
RIDGE = "parameters { vector[2] x; } model { x[1] ~ normal(0, 50); x[2] ~ normal(x[1], 0.01); }"
VALLEY = """
parameters { vector[2] x; }
model { x[1] ~ normal(0, 5); x[2] ~ normal(square(x[1]), 0.1); }
"""
FUNNEL = (
    "parameters { vector[2] x; } model { x[1] ~ normal(0, 3); x[2] ~ normal(0, exp(x[1] / 2)); }"
)


def chains_around(centers, scales):
    """Chains of 200 draws around points, shape (chain, 2); columns, by name."""
    rng = np.random.default_rng(4)
    centers = np.asarray(centers, dtype=float)
    x = centers[:, None] + np.asarray(scales) * rng.normal(size=(len(centers), 200, 2))
    return results.build({"posterior": {"x": x}}, {"sampler": "made up"})


def apart(fit):
    """Whether every chain lies in a separate region."""
    columns = results.columns(fit)
    return separate_regions(columns) == len(next(iter(columns.values())))


def test_chains_in_two_modes():
    fit = chains_around([[-5, 0], [5, 0], [5, 0], [-5, 0]], [1, 2])
    assert separate_modes(sa.Target(TWO), fit) == 2


def test_chains_in_one_of_two_modes():
    fit = chains_around([[5, 0]] * 4, [1, 2])
    assert separate_modes(sa.Target(TWO), fit) == 1


def test_chains_that_move_among_different_modes():
    """No mode has half of a chain's draws."""
    program = """
    parameters { real x; }
    model {
      vector[6] terms;
      for (k in 1:6) terms[k] = normal_lpdf(x | 10 * k, 0.5);
      target += log_sum_exp(terms);
    }
    """
    rng = np.random.default_rng(2)
    x = 10.0 * rng.integers([[1], [4]], [[4], [7]], size=(2, 300)) + 0.5 * rng.normal(size=(2, 300))
    fit = results.build({"posterior": {"x": x}}, {"sampler": "made up"})
    assert separate_modes(sa.Target(program), fit) == 2


@pytest.mark.parametrize(("program", "centers", "scales"), [
    (RIDGE, [[-60, -60], [-20, -20], [30, 30], [70, 70]], [0.01, 0.01]),
    (VALLEY, [[-6, 36], [-2, 4], [3, 9], [7, 49]], [0.01, 0.1]),
    (FUNNEL, [[-12, 0], [-4, 0.2], [3, 4], [6, -40]], [0.1, 1e-3]),
], ids=["ridge", "valley", "funnel"])  # fmt: skip
def test_chains_of_one_mode_that_have_not_met(program, centers, scales):
    fit = chains_around(centers, scales)
    assert apart(fit)
    assert separate_modes(sa.Target(program), fit) == 1


@pytest.mark.parametrize(("log_density", "modes"), [(np.nan, 1), (-3.0, 2)])
def test_a_region_without_a_maximum_is_no_mode(monkeypatch, log_density, modes):
    table = pd.DataFrame(
        {"log_density": [-1.0, log_density], "weight_1": [1.0, 0.0], "weight_2": [0.2, 0.8]}
    )
    monkeypatch.setattr("stanadapt.studies.advise.trials.modes", lambda *_, **__: table)
    assert separate_modes(sa.Target(TWO), chains_around([[-5, 0], [5, 0]], [1, 2])) == modes


def test_without_gradient_chains_that_stay_count_and_chains_that_drift_do_not():
    staying = chains_around([[-5, 0], [5, 0], [5, 0], [-5, 0]], [1, 2])
    assert separate_modes(sa.Target(TWO), staying, "it jumps") == 2
    drifting = results.dataset(staying, "posterior")["x"].values.copy()
    drifting[..., 1] += np.linspace(-5, 5, 200)
    drifting = results.build({"posterior": {"x": drifting}}, {"sampler": "made up"})
    assert separate_modes(sa.Target(TWO), drifting, "it jumps") == 1
    # with a gradient, drift is irrelevant
    assert separate_modes(sa.Target(TWO), drifting) == 2


def test_too_few_draws_to_climb_from():
    x = results.dataset(chains_around([[-5, 0], [5, 0]], [1, 2]), "posterior")["x"].values
    fit = results.build({"posterior": {"x": x[:, :4]}}, {"sampler": "made up"})
    assert separate_modes(sa.Target(TWO), fit) == 1
