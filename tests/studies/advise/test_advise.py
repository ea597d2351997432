"""advise: trials on programs with a known best sampler, and chains that lie apart."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.missed_modes import separate_regions
from stanadapt.errors import StanadaptError, codes_of
from stanadapt.samplers import find
from stanadapt.samplers.tempering import Extended
from stanadapt.studies.advise import trials
from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

QUICK = {"max_minutes": 0.1, "seed": 1}
NORMAL = "parameters { real x; } model { x ~ normal(2, 3); }"
RAW_UNITS = """
data { int N; vector[N] income; vector[N] age; vector[N] y; }
parameters { real a; real b; real c; real<lower=0> s; }
model { y ~ normal(a + b * income + c * age, s); }
"""


def raw_data():
    income = [20_000.0 + 1_317.0 * (7 * i % 41) for i in range(60)]
    age = [20.0 + (11 * i % 47) for i in range(60)]
    noise = [((37 * i) % 101 - 50) / 50 for i in range(60)]
    y = [3 + 2e-4 * u + 0.1 * v + e for u, v, e in zip(income, age, noise, strict=True)]
    return {"N": 60, "income": income, "age": age, "y": y}


normal = shared_target(NORMAL)


@pytest.mark.slow
def test_the_default_or_gad_for_a_regression_in_raw_units():
    target = sa.Target(RAW_UNITS, raw_data())
    advice = sa.advise(target, **QUICK)
    assert advice.sampler in ("whitened_hmc", "gad_hmc", "gad_mala")
    needed = advice.table["seconds_needed"]
    # within the margin in favor of the default
    assert needed[advice.sampler] <= 1.25 * needed.min()
    assert not needed["nuts"] <= needed[advice.sampler]  # it may not even leave warm-up
    assert float(advice.facts["largest correlation"]) > 0.5
    fit = sa.sample(target, **advice.arguments, seed=2)
    assert fit.attrs["verdict"] == "fine"


@pytest.mark.slow
def test_a_tempering_sampler_for_twenty_modes():
    target = sa.Target(*bundled.find("mixture", "twenty"))
    advice = sa.advise(target, **{**QUICK, "max_minutes": 0.2})
    assert advice.sampler in trials.TEMPERING
    assert "several_modes" in codes_of(advice.messages)
    assert "nuts" not in advice.table.index


@pytest.mark.parametrize("gradient_problem", ["", "it jumps"])
def test_candidates_for_many_modes_have_settings_that_exist(gradient_problem):
    numbers = []
    for candidate in trials.tempering_candidates(gradient_problem, modes=3):
        sampler, settings = find(candidate.sampler, **candidate.settings)
        assert sampler.uses_gradient == (not gradient_problem)
        numbers += [settings.pseudo_samples] if candidate.sampler == "pseudo_extended" else []
    assert numbers == [2, 5, 10]
    assert len(trials.tempering_candidates(gradient_problem, modes=2)) == len(trials.TEMPERING)


@pytest.mark.slow
def test_a_sampler_that_stays_exact_for_a_noisy_density():
    program = """
    parameters { real x; vector[3] u; }
    model {
      x ~ normal(40, 0.01);
      u ~ std_normal();
      target += log(mean(exp(0.3 * u)));
    }
    """
    target = sa.Target(program, noise=["u"])
    advice = sa.advise(target, **{**QUICK, "max_minutes": 0.2})
    assert advice.sampler in ("am", "rwm", "kameleon")
    assert "gradient" in advice.facts


@pytest.mark.soak
def test_shorter_steps_after_divergences():
    schools = bundled.find("eight_schools_centered")
    target = sa.Target(*schools)
    advice = sa.advise(target, **{**QUICK, "max_minutes": 0.3})
    assert "nuts, target_accept=0.95" in advice.table.index
    (funnel,) = (m for m in advice.messages if m.code == "far_from_gaussian")
    assert "theta = mu + tau * theta_raw" in funnel  # the noncentered program


@pytest.mark.thorough
def test_nothing_is_printed_without_progress(normal, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.advise(normal, max_minutes=0.02, seed=1, show_progress=False)
    assert capfd.readouterr() == ("", "")


def test_short_times_are_one_trial_and_extended_targets_refused(normal):
    advice = sa.advise(normal, max_minutes=1e-4)
    assert len(advice.table) == 1
    assert 0 <= advice.seed < 2**32
    with raises("not_a_plain_target", "Target"):
        sa.advise(Extended(normal, 1))


def fail_with(error, monkeypatch, seconds=0.0):
    """Let a sampler fail after this processor time."""

    def sample(*arguments, show_progress, **options):
        show_progress(SimpleNamespace(processor_seconds=seconds, seconds=0.0, calls=50))
        raise error

    monkeypatch.setattr(trials, "sample", sample)


def run(target, calls=0):
    plan = {"chains": 2, "seed": 1, "calls": calls, "show_progress": False}
    return trials.run_trial(target, trials.Candidate("rwm", {}), 1.0, **plan)


@pytest.mark.parametrize(
    ("code", "seconds", "calls", "reason"),
    [
        ("no_draws", 1e9, 0, "unfinished_trial"),
        ("no_draws", 0.0, 50, "unfinished_trial"),  # of the gradients that it may take
        ("no_draws", 0.0, 51, "no_draws"),
        ("no_draws", 0.0, 0, "no_draws"),  # every chain failed before the time was up
        ("out_of_memory", 0.0, 0, "out_of_memory"),
    ],
)
def test_a_trial_without_draws_has_a_reason(normal, monkeypatch, code, seconds, calls, reason):
    fail_with(StanadaptError(code, "Why."), monkeypatch, seconds)
    trial = run(normal, calls)
    verdict, reasons = trial.verdict
    assert (trial.fit, verdict, codes_of(reasons)) == (None, "failed", [reason])
    assert not trial.usable


def test_ctrl_c_during_warmup_ends_the_trials(normal, monkeypatch):
    fail_with(StanadaptError("interrupted", "Why."), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(normal)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_minutes": 0}, {"max_minutes": "long"}, {"until_ess": -1},
        {"until_ess": float("nan")}, {"chains": 1}, {"seed": -1},
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_before_anything_runs(normal, wrong):
    (name,) = wrong
    with raises("out_of_range", name):
        sa.advise(normal, **wrong)


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


def test_chains_in_one_or_two_modes_and_too_few_draws():
    fit = chains_around([[-5, 0], [5, 0], [5, 0], [-5, 0]], [1, 2])
    assert trials.separate_modes(sa.Target(TWO), fit) == 2
    fit = chains_around([[5, 0]] * 4, [1, 2])
    assert trials.separate_modes(sa.Target(TWO), fit) == 1
    x = results.dataset(chains_around([[-5, 0], [5, 0]], [1, 2]), "posterior")["x"].values
    fit = results.build({"posterior": {"x": x[:, :4]}}, {"sampler": "made up"})
    assert trials.separate_modes(sa.Target(TWO), fit) == 1


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
    assert trials.separate_modes(sa.Target(program), fit) == 2


@pytest.mark.parametrize(("program", "centers", "scales"), [
    (RIDGE, [[-60, -60], [-20, -20], [30, 30], [70, 70]], [0.01, 0.01]),
    (VALLEY, [[-6, 36], [-2, 4], [3, 9], [7, 49]], [0.01, 0.1]),
    (FUNNEL, [[-12, 0], [-4, 0.2], [3, 4], [6, -40]], [0.1, 1e-3]),
], ids=["ridge", "valley", "funnel"])  # fmt: skip
def test_chains_of_one_mode_that_have_not_met(program, centers, scales):
    fit = chains_around(centers, scales)
    assert apart(fit)
    assert trials.separate_modes(sa.Target(program), fit) == 1


@pytest.mark.parametrize(("log_density", "modes"), [(np.nan, 1), (-3.0, 2)])
def test_a_region_without_a_maximum_is_no_mode(monkeypatch, log_density, modes):
    table = pd.DataFrame(
        {"log_density": [-1.0, log_density], "weight_1": [1.0, 0.0], "weight_2": [0.2, 0.8]}
    )
    monkeypatch.setattr("stanadapt.studies.advise.trials.modes", lambda *_, **__: table)
    assert trials.separate_modes(sa.Target(TWO), chains_around([[-5, 0], [5, 0]], [1, 2])) == modes


def test_without_gradient_chains_that_stay_count_and_chains_that_drift_do_not():
    staying = chains_around([[-5, 0], [5, 0], [5, 0], [-5, 0]], [1, 2])
    assert trials.separate_modes(sa.Target(TWO), staying, "it jumps") == 2
    drifting = results.dataset(staying, "posterior")["x"].values.copy()
    drifting[..., 1] += np.linspace(-5, 5, 200)
    drifting = results.build({"posterior": {"x": drifting}}, {"sampler": "made up"})
    assert trials.separate_modes(sa.Target(TWO), drifting, "it jumps") == 1
    # with a gradient, drift is irrelevant
    assert trials.separate_modes(sa.Target(TWO), drifting) == 2
