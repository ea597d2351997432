"""Calibration: ranks that are uniform pass; wrong programs and samplers are flagged."""

from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import stanadapt as sa
from stanadapt.errors import codes_of
from stanadapt.studies.calibration import ranks as shapes
from stanadapt.studies.calibration import sbc as module
from stanadapt.studies.calibration.ranks import (
    TOO_HIGH,
    TOO_LOW,
    TOO_NARROW,
    TOO_WIDE,
    Calibration,
    RankBands,
)
from tests.helpers.codes import raises, raises_in

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
QUICK = {"simulations": 60, "ranks": 49, "seed": 1, "backend": "stanli"}
SHORT = {"chains": 2, "iter_warmup": 300, "iter_sampling": 150}


def calibrate(program=PROGRAM, generator=GENERATOR, sampler="nuts", **changes):
    return sa.sbc(program, generator, DATA, sampler, **{**QUICK, **SHORT, **changes})


@pytest.mark.thorough
def test_a_correct_program_and_sampler(tmp_path):
    study = calibrate(simulations=30)
    assert study.verdict == "calibrated"
    assert list(study.ranks) == ["b[1]", "b[2]", "s", "log density"]
    assert study.ranks.shape == (30, 4)
    assert not study.failed
    picture = tmp_path / "ranks.png"
    study.plot(picture)
    assert picture.stat().st_size > 10_000
    assert codes_of(study.messages) == ["uniform_ranks"]
    assert study.verdict in repr(study)
    assert study.messages[0] in repr(study)
    assert study.seed == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "quantity", "shape", "simulations"),
    [
        ("poisson(s)", "poisson(0.4 * s)", "s", shapes.TOO_HIGH, 60),
        pytest.param(
            "normal(b[1] +",
            "normal(b[1] + 15 +",
            "b[1]",
            shapes.TOO_LOW,
            60,
            marks=pytest.mark.soak,
        ),
        # posteriors 2.4 times as wide: their ranks differ from uniform ones by 0.18 at most
        pytest.param("10 * s);", "50);", "b[1]", shapes.TOO_WIDE, 160, marks=pytest.mark.soak),
    ],
)
def test_a_wrong_program_is_flagged(old, new, quantity, shape, simulations):
    assert old in PROGRAM
    study = calibrate(PROGRAM.replace(old, new), simulations=simulations)
    assert study.verdict == "not calibrated"
    assert quantity in study.table.index[study.table["p_value"] < 0.01]
    assert study.table.loc[quantity, "shape"] == shape
    assert codes_of(study.messages) == ["nonuniform_ranks"]
    assert quantity in study.messages[0]


@pytest.mark.soak
def test_the_log_density_detects_a_posterior_that_ignores_data():
    """Its parameters are draws from the prior, with uniform ranks."""
    program = PROGRAM.replace("y ~ normal(b[1] + 1000 * b[2] * x, 10 * s);", "")
    program = program.replace("k ~ poisson(s);", "")
    study = calibrate(program.replace("model {", "model { target += 0 * sum(y);"))
    assert study.verdict == "calibrated"  # the program's own density ignores them too
    both = PROGRAM.replace("y ~ normal(b[1] + 1000 * b[2] * x, 10 * s);", "")
    assert calibrate(both).table.loc["b[1]", "p_value"] > 1e-3


@pytest.mark.slow
def test_a_sampler_that_does_not_reach_the_posterior_is_flagged():
    study = calibrate(
        sampler="rwm", standardize=False, initial_scale=1e-4, tune_scale=False, iter_sampling=60
    )
    assert study.verdict == "not calibrated"
    assert "correlated_ranks" in codes_of(study.messages)


@pytest.mark.slow
def test_a_run_is_continued_and_any_executor_gives_the_same_ranks(tmp_path):
    whole = calibrate(simulations=30)
    calibrate(simulations=20, run=tmp_path / "run")
    file = tmp_path / "run" / "replicates.jsonl"
    file.write_text(file.read_text()[:-7])  # a line that was cut off
    with ProcessPoolExecutor(2) as pool:
        again = calibrate(simulations=30, run=tmp_path / "run", executor=pool)
    pd.testing.assert_frame_equal(again.ranks, whole.ranks)
    with raises("other_study", "seed"):
        calibrate(simulations=30, run=tmp_path / "run", seed=2)


@pytest.mark.slow
def test_the_seed_is_recorded_and_that_of_the_folder(tmp_path):
    few = {"simulations": 20, "run": tmp_path}
    first = calibrate(seed=None, **few)
    assert 0 <= first.seed < 2**32
    again = calibrate(seed=None, **few)
    assert again.seed == first.seed
    pd.testing.assert_frame_equal(again.ranks, first.ranks)


@pytest.mark.parametrize("text", ["no JSON\n", "[]\n", "", '"x"\n'])
def test_a_file_that_is_something_else_is_refused(tmp_path, text):
    (tmp_path / "replicates.jsonl").write_text(text)
    for seed in (None, 1):
        with raises("unreadable_study", "replicates.jsonl"):
            calibrate(run=tmp_path, seed=seed)
    assert (tmp_path / "replicates.jsonl").read_text() == text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("real<lower=0> s =", "real r = 1; real s2 =", ["s"]),
        ("array[N] int k;", "array[N] int k2; array[N] int k;", None),
        ("vector[2] b =", "vector[2] c =", ["b"]),
        ("vector[N] y;", "vector[N] z;", ["y"]),
        ("vector[2] b = [normal_rng(200, 50),", "vector[3] b = [1, normal_rng(200, 50),",
         ["b", "(3,)", "(2,)"]),
    ],
)  # fmt: skip
def test_names_that_do_not_fit_are_named(old, new, facts):
    generator = GENERATOR.replace(old, new)
    if facts is None:
        assert calibrate(generator=generator, simulations=20).ranks.shape[0] == 20
        return
    with pytest.raises(sa.StanadaptError) as caught:
        calibrate(generator=generator)
    assert caught.value.stage in ("settings", "syntax")  # an unknown name may not even compile
    assert all(fact in str(caught.value) for fact in facts)


@pytest.mark.parametrize(
    "generator", ["parameters { real x; } model { x ~ normal(0, 1); }", "data { int N; }"]
)
def test_a_generator_that_draws_nothing_is_refused(generator):
    with raises("unsuitable_generator"):
        calibrate(generator=generator)


@pytest.mark.slow
def test_empty_blocks_of_a_generator_are_no_parameters():
    whole = GENERATOR.replace("generated", "parameters { } model {\n}\ngenerated")
    np.testing.assert_array_equal(
        calibrate(generator=whole, simulations=20).ranks, calibrate(simulations=20).ranks
    )


@pytest.mark.slow
def test_a_generator_that_throws_is_reported():
    throwing = GENERATOR.replace("gamma_rng(4, 2)", "normal_rng(0.3, 1)")
    study = calibrate(generator=throwing, simulations=60)
    assert study.failed
    assert "generator_failed" in study.failed[0]
    assert "failed_simulations" in codes_of(study.messages)
    always = GENERATOR.replace("gamma_rng(4, 2)", "gamma_rng(-1, 2)")
    with raises("too_few_simulations", "0 of 60"):
        calibrate(generator=always)


@pytest.mark.parametrize("wrong", [{"simulations": 5}, {"ranks": 3}, {"seed": -1}])
def test_wrong_arguments(wrong):
    (name,) = wrong
    with raises("out_of_range", name):
        calibrate(**wrong)


def test_runs_that_never_moved_or_are_not_finite_have_no_ranks():
    with raises_in("settings"):
        calibrate(sampler="none")
    futures = []

    class Pool:
        def submit(self, *arguments):
            futures.append(Future())
            if len(futures) == 3:
                futures[-1].set_exception(RuntimeError("lost"))
            return futures[-1]

    with raises("workers_failed", "lost"):
        calibrate(executor=Pool())
    assert len(futures) == QUICK["simulations"]
    assert sum(future.cancelled() for future in futures) == QUICK["simulations"] - 1


@pytest.mark.thorough
def test_a_lengthened_run_counts_the_iterations_that_thinning_drops(monkeypatch):
    class Enough(Exception):
        pass

    def too_short(target, sampler, **options):
        if options["iter_sampling"] != 150:
            raise Enough(options["iter_sampling"])
        drift = np.linspace(1.0, 2.0, 15)
        return dict.fromkeys(("b[1]", "b[2]", "s"), np.tile(drift, (2, 1)))

    monkeypatch.setattr(module, "parameter_draws", too_short)
    with pytest.raises(Enough, match="450"):
        calibrate(iter_sampling=150, thin=10)


def made_up_draws(monkeypatch, change):
    """Replace runs by draws of b and s around the prior's mean, after a change; count the runs."""
    runs = []

    def draw(target, sampler, **options):
        runs.append(options["iter_sampling"])
        b, s = np.random.default_rng(options["seed"]).normal(size=(2, 2, 150))
        draws = {"b[1]": 200 + 50 * b, "b[2]": 0.01 * b, "s": np.exp(s)}
        change(draws, len(runs))
        return draws

    monkeypatch.setattr(module, "parameter_draws", draw)
    return runs


def test_runs_that_never_moved_are_counted_as_short(monkeypatch):
    def stop(draws, _):
        draws.update({name: np.ones_like(x) for name, x in draws.items()})

    runs = made_up_draws(monkeypatch, stop)
    study = calibrate(simulations=20)
    assert len(runs) == 4 * 20
    assert (
        "20 simulations"
        in dict(zip(codes_of(study.messages), study.messages, strict=True))["correlated_ranks"]
    )


def test_draws_and_true_values_that_are_not_finite_have_no_ranks(monkeypatch):
    def break_first(draws, run):
        draws["s"][1, 5] = np.nan if run == 1 else 1.0

    runs = made_up_draws(monkeypatch, break_first)
    study = calibrate(simulations=21)
    assert len(runs) == 21  # the first was not lengthened
    assert len(study.ranks) == 20
    assert "a draw of s is infinite" in study.failed[0]
    assert codes_of(study.messages)[-1] == "failed_simulations"
    infinite = GENERATOR.replace("= gamma_rng(4, 2)", "= gamma_rng(4, 2) + positive_infinity()")
    infinite = infinite.replace("poisson_rng(s)", "1").replace("10 * s", "10")
    with raises("too_few_simulations", "true value of s"):
        calibrate(generator=infinite, simulations=20)


def test_log_densities_that_are_not_numbers_have_no_ranks(monkeypatch):
    """They counted as below all others. A true value with a density of zero is, and has a rank."""

    def mirror(draws, _):
        draws["b[2]"] = -abs(draws["b[2]"])

    def with_term(term):
        return PROGRAM.replace("model {", f"model {{ target += {term};")

    made_up_draws(monkeypatch, mirror)
    study = calibrate(with_term("0 * sqrt(0.01 - b[2])"), simulations=60)
    assert 2 <= len(study.failed) <= 19  # 0.159 +- 0.047 of the true values are above 0.01
    assert len(study.ranks) == 60 - len(study.failed)
    assert all("true value of log density" in reason for reason in study.failed)
    with raises("too_few_simulations", "a draw of log density"):
        calibrate(with_term("0 * sqrt(b[2])"), simulations=20)
    study = calibrate(with_term("log(b[2] < 0)"), simulations=20)
    assert not study.failed
    assert (study.ranks["log density"] == 0).sum() > 2  # half the true values, 10 +- 2.2


COUNT, LARGEST = 120, 49


@pytest.fixture(scope="module")
def bands():
    return RankBands(COUNT, LARGEST)


def uniform(seed, size=COUNT):
    return np.random.default_rng(seed).integers(0, LARGEST + 1, size)


def test_p_values_and_bands_have_their_coverage(bands):
    p = [bands.judge(uniform(seed)).p_value for seed in range(400)]
    assert kstest(p, "uniform").pvalue > 1e-3
    assert sum(bands.judge(uniform(seed)).shape != "" for seed in range(400)) < 20
    low, high = bands.limits(0.9)
    below = np.array([bands.numbers_below(uniform(seed)) for seed in range(1000)])
    inside = np.mean(np.all((below >= low) & (below <= high), axis=1))
    # discrete: no band contains exactly nine tenths
    assert inside == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 1000) + 0.01)


def test_ranks_are_counted_and_ends_found(bands):
    ranks = uniform(3)
    expected = [(ranks < k).sum() for k in range(1, LARGEST + 1)]
    np.testing.assert_array_equal(bands.numbers_below(ranks), expected)
    assert bands.judge(np.zeros(COUNT, int)).p_value < 1e-4
    assert bands.judge(np.full(COUNT, LARGEST)).p_value < 1e-4
    # the depths that 20,000 samples reach are no more frequent than the bound says
    shares = np.arange(1, 201) / len(bands._depths)
    assert np.all(shares[20:] <= 1.5 * LARGEST * bands._depths[20:200])


@pytest.mark.parametrize(("power", "shape"), [
    (lambda u: u**0.6, TOO_LOW), (lambda u: u**1.7, TOO_HIGH),
    (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 0.5, TOO_NARROW),
    (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 3, TOO_WIDE),
])  # fmt: skip
def test_departures_are_found_and_named(bands, power, shape):
    u = power(np.random.default_rng(5).random(COUNT))
    result = bands.judge(np.minimum((u * (LARGEST + 1)).astype(int), LARGEST))
    assert result.p_value < 1e-3
    assert result.shape == shape


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_wrong_quantity_of_a_thousand_is_found(bands, wrong):
    """Its p-value must be below 1e-5, although there are 20,000 simulations of uniform ranks."""
    ranks = pd.DataFrame(np.stack([uniform(seed) for seed in range(1000)], axis=1))
    for quantity in range(wrong):
        ranks[quantity] //= 2
    study = Calibration(ranks, bands, [], 0, 1)
    assert study.verdict == ("not calibrated" if wrong else "calibrated")


@pytest.mark.parametrize(("failures", "verdict"), [(1, "calibrated"), (60, "not calibrated")])
def test_failures_that_could_hide_other_ranks_are_no_pass(failures, verdict):
    """Ranks that are known are uniform. Of 260 at one end, 60 are far outside of any band."""
    ranks = pd.DataFrame({"x": np.arange(200) % 50, "y": 49 - np.arange(200) % 50})
    study = Calibration(ranks, RankBands(200, 49), ["it failed"] * failures, 0, 1)
    assert study.verdict == verdict
    assert codes_of(study.messages) == ["uniform_ranks", "failed_simulations"]
    assert ("too many" in study.messages[1]) == (verdict == "not calibrated")
