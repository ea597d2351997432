"""Calibration: right programs and samplers pass; wrong ones of several kinds are flagged."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError

PROGRAM = """
data { int N; vector[N] x; array[N] int k; vector[N] y; }
parameters { vector[2] b; real<lower=0> s; }
model {
  b ~ normal([200, 0], [50, 0.01]);
  s ~ gamma(4, 2);
  y ~ normal(b[1] + 1000 * b[2] * x, 10 * s);
  k ~ poisson(s);
}
"""
GENERATOR = """
data { int N; vector[N] x; }
generated quantities {
  vector[2] b = [normal_rng(200, 50), normal_rng(0, 0.01)]';
  real<lower=0> s = gamma_rng(4, 2);
  array[N] int k;
  vector[N] y;
  for (i in 1:N) {
    k[i] = poisson_rng(s);
    y[i] = normal_rng(b[1] + 1000 * b[2] * x[i], 10 * s);
  }
}
"""
DATA = {"N": 5, "x": [-1.0, 0.0, 1.0, 2.0, 4.0]}
QUICK = {"draws": 60, "ranks": 49, "show_progress": False, "backend": "stanli"}
SHORT = {"chains": 2, "iter_warmup": 300, "iter_sampling": 150}


def calibrated(program=PROGRAM, generator=GENERATOR, sampler="nuts", **changes):
    return sa.sbc(program, generator, DATA, sampler, **{**QUICK, **SHORT, **changes})


def test_a_right_program_and_sampler(tmp_path):
    found = calibrated()
    assert found.verdict == "calibrated"
    assert list(found.ranks) == ["b[1]", "b[2]", "s", "log density"]
    assert found.ranks.shape == (60, 4)
    assert not found.failed
    picture = tmp_path / "ranks.png"
    found.plot(picture)
    assert picture.stat().st_size > 10_000
    assert "as uniform as chance" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "quantity", "said", "draws"),
    [
        ("poisson(s)", "poisson(0.4 * s)", "s", "too high", 60),
        ("normal(b[1] +", "normal(b[1] + 15 +", "b[1]", "too low", 60),
        # posteriors 2.4 times as wide: their ranks differ from uniform ones by 0.18 at most
        ("10 * s);", "50);", "b[1]", "too wide", 160),
    ],
)
def test_a_wrong_program_is_flagged(old, new, quantity, said, draws):
    assert old in PROGRAM
    found = calibrated(PROGRAM.replace(old, new), draws=draws)
    assert found.verdict == "not calibrated"
    assert quantity in found.table.index[found.table["p_value"] < 0.01]
    assert said in found.table.loc[quantity, "shape"]
    assert "Program and generator disagree" in found.sentences[0]


@pytest.mark.slow
def test_a_posterior_that_ignores_data_is_seen_by_the_log_density():
    """Its parameters are those of the prior, whose ranks are uniform."""
    program = PROGRAM.replace("y ~ normal(b[1] + 1000 * b[2] * x, 10 * s);", "")
    program = program.replace("k ~ poisson(s);", "")
    found = calibrated(program.replace("model {", "model { target += 0 * sum(y);"))
    assert found.verdict == "calibrated"  # the program's own density ignores them too
    both = PROGRAM.replace("y ~ normal(b[1] + 1000 * b[2] * x, 10 * s);", "")
    assert calibrated(both).table.loc["b[1]", "p_value"] > 1e-3


@pytest.mark.slow
def test_a_sampler_that_does_not_reach_the_posterior_is_flagged():
    found = calibrated(
        sampler="rwm", standardize=False, initial_scale=1e-4, tune_scale=False, iter_sampling=60
    )
    assert found.verdict == "not calibrated"
    assert any("fewer effective draws than ranks" in sentence for sentence in found.sentences)


@pytest.mark.slow
def test_a_run_goes_on_and_any_executor_gives_the_same_ranks(tmp_path):
    whole = calibrated(draws=30)
    calibrated(draws=20, run=tmp_path / "run")
    file = tmp_path / "run" / "replicates.jsonl"
    file.write_text(file.read_text()[:-7])  # a line that was cut off
    with ProcessPoolExecutor(2) as pool:
        again = calibrated(draws=30, run=tmp_path / "run", executor=pool)
    pd.testing.assert_frame_equal(again.ranks, whole.ranks)
    with pytest.raises(StanadaptError, match=r"another calibration \(with another seed\)"):
        calibrated(draws=30, run=tmp_path / "run", seed=2)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("real<lower=0> s =", "real r = 1; real s2 =", "s"),
        ("array[N] int k;", "array[N] int k2; array[N] int k;", None),
        ("vector[2] b =", "vector[2] c =", "b"),
        ("vector[N] y;", "vector[N] z;", "y"),
    ],
)
def test_names_that_do_not_fit_are_named(old, new, said):
    generator = GENERATOR.replace(old, new)
    if said is None:
        assert calibrated(generator=generator, draws=20).ranks.shape[0] == 20
        return
    with pytest.raises(StanadaptError, match=rf"generator|{said}"):
        calibrated(generator=generator)


def test_a_generator_with_parameters_is_refused():
    with pytest.raises(StanadaptError, match="has parameters: it must draw everything"):
        calibrated(generator="parameters { real x; } model { x ~ normal(0, 1); }")


def test_empty_blocks_of_a_generator_are_no_parameters():
    whole = GENERATOR.replace("generated", "parameters { } model {\n}\ngenerated")
    np.testing.assert_array_equal(
        calibrated(generator=whole, draws=20).ranks, calibrated(draws=20).ranks
    )


def test_a_generator_that_throws_is_told_of():
    throwing = GENERATOR.replace("gamma_rng(4, 2)", "normal_rng(0.3, 1)")
    found = calibrated(generator=throwing, draws=60)
    assert found.failed
    assert any("gave no ranks" in sentence for sentence in found.sentences)
    always = GENERATOR.replace("gamma_rng(4, 2)", "gamma_rng(-1, 2)")
    with pytest.raises(StanadaptError, match="only 0 of 60 repetitions gave ranks"):
        calibrated(generator=always)


@pytest.mark.parametrize("wrong", [{"draws": 5}, {"ranks": 3}, {"seed": -1}, {"sampler": "none"}])
def test_wrong_arguments(wrong):
    with pytest.raises(StanadaptError, match="must be"):
        calibrated(**wrong)
