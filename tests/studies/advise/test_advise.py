"""advise: trials on programs whose best samplers are known."""

import warnings

import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.samplers import find
from stanadapt.studies.advise.trials import TEMPERING, for_many_modes
from stanadapt.targets.stan import bundled

QUICK = {"minutes": 0.1, "show": False, "show_progress": False}
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


def test_a_regression_in_raw_units_is_told_the_default_or_gad():
    target = sa.Target(RAW_UNITS, raw_data(), backend="stanli", show_progress=False)
    advice = sa.advise(target, **QUICK)
    assert advice.sampler in ("whitened_hmc", "gad_hmc", "gad_mala")
    needed = advice.table["seconds_needed"]
    # within the margin in favor of the default
    assert needed[advice.sampler] <= 1.25 * needed.min()
    assert not needed["nuts"] <= needed[advice.sampler]  # it may not even leave warm-up
    assert float(advice.facts["largest correlation"]) > 0.5
    fit = sa.sample(target, **advice.arguments, seed=2, show_progress=False)
    assert fit.attrs["verdict"] == "fine"


@pytest.mark.slow
def test_twenty_modes_are_told_a_sampler_that_tempers():
    target = sa.Target(*bundled.find("mixture", "twenty"), backend="stanli", show_progress=False)
    advice = sa.advise(target, **{**QUICK, "minutes": 0.2})
    assert advice.sampler in TEMPERING
    assert "separate regions" in " ".join(advice.sentences)
    assert "nuts" not in advice.table.index


@pytest.mark.parametrize("without_gradient", ["", "it jumps"])
def test_candidates_for_many_modes_have_settings_that_exist(without_gradient):
    for candidate in for_many_modes(without_gradient):
        sampler, _ = find(candidate.sampler, **candidate.settings)
        assert sampler.uses_gradient == (not without_gradient)


def test_a_noisy_density_is_told_a_sampler_that_stays_exact():
    program = """
    parameters { real x; vector[3] u; }
    model {
      x ~ normal(40, 0.01);
      u ~ std_normal();
      target += log(mean(exp(0.3 * u)));
    }
    """
    target = sa.Target(program, noise=["u"], backend="stanli", show_progress=False)
    advice = sa.advise(target, **{**QUICK, "minutes": 0.2})
    assert advice.sampler in ("am", "rwm", "kameleon")
    assert "estimate with noise" in advice.facts["gradient"]


@pytest.mark.slow
def test_divergences_are_answered_by_shorter_steps():
    schools = bundled.find("eight_schools_centered")
    target = sa.Target(*schools, backend="stanli", show_progress=False)
    advice = sa.advise(target, **{**QUICK, "minutes": 0.3})
    assert "nuts, target_accept=0.95" in advice.table.index
    assert "non-centered" in " ".join(advice.sentences)


def test_it_is_quiet_where_it_is_asked_to_be(capfd):
    target = sa.Target(
        "parameters { real x; } model { x ~ normal(2, 3); }", backend="stanli", show_progress=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.advise(target, **{**QUICK, "minutes": 0.02})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "given",
    [{"minutes": 0}, {"minutes": "long"}, {"ess": -1}, {"ess": float("nan")}, {"chains": 1}],
)
def test_bad_arguments_are_refused_before_anything_runs(given):
    target = sa.Target("parameters { real x; } model { x ~ normal(2, 3); }", backend="stanli")
    with pytest.raises(StanadaptError, match=next(iter(given))):
        sa.advise(target, **given)


def test_an_extended_target_is_refused():
    target = sa.Target("parameters { real x; } model { x ~ normal(2, 3); }", backend="stanli")
    with pytest.raises(StanadaptError, match="advise takes the Target itself"):
        sa.advise(sa.Extended(target, 1))
