"""Predictions from an existing fit: for new data, or from other generated quantities."""

import warnings
from functools import partial

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs import generate
from tests.helpers.codes import raises, warns
from tests.helpers.short_runs import values
from tests.helpers.stan_target import shared_target

CODE = """
data { int N; vector[N] x; vector[N] y; }
parameters { real b; simplex[3] p; real<lower=0> s; array[2] vector[2] w; }
transformed parameters { vector[N] mu = b * x; }
model { b ~ normal(0, 5); s ~ exponential(1); to_array_1d(w[1]) ~ normal(0, 1);
        w[2] ~ normal(0, 1); y ~ normal(mu, s); }
generated quantities { vector[N] y_rep; array[N] int sign;
  for (n in 1:N) { y_rep[n] = normal_rng(mu[n], s); sign[n] = y_rep[n] > 0; } }
"""
DATA = {"N": 3, "x": [1.0, 2.0, 3.0], "y": [1.1, 2.3, 2.9]}
NEW = {"N": 2, "x": [10.0, -4.0], "y": [0.0, 0.0]}
OTHER = CODE.partition("generated quantities")[0] + (
    "generated quantities { real product = w[2][1] * p[3]; array[2] real pair = {b, s}; }"
)
RUN = {"chains": 2, "seed": 3, "iter_warmup": 200, "iter_sampling": 300}


def drawn(target, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        return sa.sample(target, "rwm", **RUN, **options)


target = shared_target(CODE.replace("to_array_1d(w[1])", "w[1]"), DATA)


@pytest.fixture
def fit(target):
    return drawn(target)


def predicted(fit):
    return results.dataset(fit, "predictions")


def test_new_data_in_the_order_of_the_draws(fit, target):
    new = target.with_data(NEW)
    sa.generate(fit, new)
    found = predicted(fit)
    expected = values(fit, "b")[..., None] * [10.0, -4.0]
    np.testing.assert_allclose(found["mu"].values, expected, rtol=1e-12)
    assert set(found.data_vars) == {"mu", "y_rep", "sign"}
    assert found["sign"].dtype == np.int64
    np.testing.assert_array_equal(found["sign"], found["y_rep"] > 0)
    noise = (found["y_rep"].values - found["mu"].values) / values(fit, "s")[..., None]
    assert noise.std() == pytest.approx(1.0, rel=5.0 / np.sqrt(2.0 * noise.size))
    # neighbors and chains have their own numbers
    for one, other in ((noise[0], noise[1]), (noise[..., 0], noise[..., 1])):
        assert abs(np.mean(one * other)) < 5.0 / np.sqrt(one.size)
    np.testing.assert_array_equal(results.dataset(fit, "predictions_constant_data")["x"], NEW["x"])


def test_a_file_is_enough_and_the_same_seed_gives_the_same_bits(fit, target, tmp_path):
    sa.generate(fit, target.with_data(NEW), seed=5, parallel_chains=1)
    loaded = sa.load(sa.save(drawn(target), tmp_path / "fit.nc"))
    loaded = sa.load(sa.save(sa.generate(loaded, data=NEW, seed=5), tmp_path / "p.nc"))
    # the program of the file runs on the backend of this machine
    np.testing.assert_allclose(predicted(loaded)["mu"], predicted(fit)["mu"], rtol=1e-12)
    sa.generate(fit, target.with_data(NEW), seed=6)
    other = predicted(fit)["y_rep"].values
    sa.generate(fit, target.with_data(NEW), seed=5, parallel_chains=2)
    again = predicted(fit)["y_rep"].values
    assert not np.any(other == again)
    sa.generate(fit, target.with_data(NEW), seed=5, parallel_chains=1)
    np.testing.assert_array_equal(predicted(fit)["y_rep"], again)


def test_the_backend_of_the_run_is_used_or_another_one_is_named(fit, computer):
    def make(backend):
        return backend

    assert fit.attrs["backend"] == generate.on_backend_of(fit, make) == "stanli"
    fit.attrs["backend"] = "cmdstan"
    with warns("other_backend", "cmdstan"):
        assert generate.on_backend_of(fit, make) == "auto"
    computer(cmdstan="2.27.0")
    assert generate.on_backend_of(fit, make) == "cmdstan"
    del fit.attrs["backend"]  # as in a fit of another package
    assert generate.on_backend_of(fit, make) == "auto"


def test_another_backend_predicts_from_data_that_the_embedded_one_refuses(fit):
    """Compiled code reads NaN and empty arrays; errors that both make are those of the first."""

    def make(backend, refusing=("stanli",)):
        if backend in refusing:
            raise sa.StanadaptError("data_not_finite", f"{backend} refuses this.")
        return backend

    with warns("other_backend", "stanli, which refuses the program or the data: stanli refuses"):
        assert generate.on_backend_of(fit, make) == "auto"
    with raises("data_not_finite", "stanli refuses this"):
        generate.on_backend_of(fit, partial(make, refusing=("stanli", "auto")))


def test_other_generated_quantities_from_csv_files_of_cmdstan(fit, tmp_path):
    """Six digits, no program, first index fastest: what CmdStan's files have."""
    folder = sa.save(fit, tmp_path / "csv", format="cmdstan")
    for file in folder.glob("*.csv"):
        lines = [
            line if line.startswith("#") or "lp__" in line
            else ",".join(f"{float(x):.6g}" for x in line.split(","))
            for line in file.read_text().splitlines()
            if not line.startswith(("# stan_program", "# program_hash", "# written_by"))
        ]  # fmt: skip
        file.write_text("\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = sa.load(folder)
    with raises("program_not_stored"):
        sa.generate(loaded)
    code = OTHER.replace("to_array_1d(w[1])", "w[1]")
    sa.generate(loaded, sa.Target(code, DATA))
    w, p = values(fit, "w"), values(fit, "p")
    np.testing.assert_allclose(
        predicted(loaded)["product"], w[..., 1, 0] * p[..., 2], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(predicted(loaded)["pair"][..., 1], values(fit, "s"), rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [("normal(0, 5)", "normal(0, 6)"), ("b * x", "b * x + 1"), ("real<lower=0> s", "real s")],
)
def test_a_fit_of_another_program_is_refused(fit, target, old, new):
    code = target.program.code
    assert code.count(old) == 1
    other = sa.Target(code.replace(old, new), DATA)
    with raises("fit_of_another_target", "block"):
        sa.generate(fit, other)


def test_predictions_that_ended_early_continue_to_the_same_bits(fit, target):
    new = target.with_data(NEW)
    whole = predicted(sa.generate(fit, new, seed=1)).copy(deep=True)
    sa.generate(fit, new, seed=2)
    parts = []
    for _ in range(3):
        with warns("predictions_incomplete"):
            sa.generate(fit, new, seed=1, max_minutes=1e-9)
        assert "predictions_incomplete" in fit.attrs["note_codes"]
        parts.append(predicted(fit).sizes["draw"])
    assert 0 < parts[0] < parts[1] < parts[2] < RUN["iter_sampling"]
    sa.generate(fit, new, seed=1)
    for name in whole.data_vars:
        np.testing.assert_array_equal(predicted(fit)[name], whole[name])


def test_quantities_that_throw_are_reported(fit, target):
    code = target.program.code.replace("normal_rng(mu[n], s)", "normal_rng(mu[n], -b)")
    with warns("failed_quantities", "positive"):
        sa.generate(fit, sa.Target(code, DATA))
    assert np.isnan(predicted(fit)["sign"].values).any()


def test_wrong_arguments_and_sizes_are_refused(fit):
    for given in ({"parallel_chains": 0}, {"max_minutes": np.nan}):
        with raises("out_of_range", *given):
            sa.generate(fit, **given)
    with raises("data_not_finite", "x[2]"):
        sa.generate(fit, data={"N": 2, "x": [10.0, np.nan], "y": [0, 0]})
    with raises("nothing_to_generate", "data"):
        sa.generate(fit, data={"N": 0, "x": [], "y": []})
    results.dataset(fit, "posterior")["b"].values[1, 7] = np.nan
    with raises("invalid_position", "1 of 600", "draw 8 of chain 2"):
        sa.generate(fit)
    code = "data { int K; } parameters { vector[K] t; } model { t ~ normal(0, 1); }"
    code += "generated quantities { real u = sum(t); }"
    target = sa.Target(code, {"K": 2})
    fit = drawn(target)
    for size, error in ((1, "parameter_sizes"), (3, "missing_parameter")):
        with raises(error, "t["):
            sa.generate(fit, target, data={"K": size})
    bare = sa.Target(code.partition("generated")[0], {"K": 2})
    with raises("nothing_to_generate"):
        sa.generate(fit, bare)
