"""stan_nuts(): Stan's NUTS from either engine, with results of the same form as sample()."""

import io
import json
import re
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.errors import StanadaptWarning, codes_of
from stanadapt.runs.stan_nuts import cmdstan, engine, stanli
from stanadapt.targets.stan import bundled, toolchain
from stanadapt.targets.stan.checked_data import CheckedData
from tests.helpers.codes import raises, warns
from tests.helpers.short_runs import values
from tests.helpers.stan_target import shared_target

NAMES = {
    "lp": "f", "acceptance_rate": "f", "step_size": "f", "tree_depth": "i", "n_steps": "i",
    "diverging": "b", "energy": "f",
}  # fmt: skip
NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
SHORT = {"chains": 2, "iter_warmup": 60, "iter_sampling": 50, "seed": 3}
MATRIX = """
parameters { matrix[2, 3] M; real<lower=0> s; }
transformed parameters { matrix[3, 2] T = 2 * M'; }
model { to_vector(M) ~ normal(0, 1); s ~ exponential(1); }
generated quantities { vector[2] log_lik = [s, 2 * s]'; }
"""


def embedded(target, **changes):
    with warns("embedded_nuts"):
        return sa.stan_nuts(target, backend="stanli", **(SHORT | changes))


def z_scores(fit, mean, sd):
    ours = efficiency(results.columns(fit))
    return np.abs(ours.mean - mean) / ours.mcse_mean, np.abs(ours.sd - sd) / ours.mcse_sd


target = shared_target(MATRIX)
schools = shared_target(*bundled.find("eight_schools_noncentered"))


@pytest.fixture(scope="module")
def fit(target):
    return embedded(target, save_warmup=True)


def test_statistics_have_names_types_and_our_density(fit, target):
    for group in ("sample_stats", "warmup_sample_stats"):
        stats = results.dataset(fit, group)
        assert {name: stats[name].dtype.kind for name in stats} == NAMES
    assert results.dataset(fit, "sample_stats")["n_steps"].dtype == np.int64
    assert (values(fit, "n_steps", "sample_stats") >= 1).all()
    assert (values(fit, "energy", "sample_stats") > -values(fit, "lp", "sample_stats")).all()
    for chain, draw in ((0, 0), (1, 20)):
        x = {name: values(fit, name)[chain, draw] for name in ("M", "s")}
        value = target.evaluate(target.unconstrain(x))[0]
        assert values(fit, "lp", "sample_stats")[chain, draw] == pytest.approx(value, abs=1e-9)


def test_groups_and_shapes_are_those_of_sample(target, fit):
    ours = sa.sample(target, "gad_mala", save_warmup=True, **SHORT)
    assert set(results.group_names(fit)) == set(results.group_names(ours))
    for group in ("posterior", "warmup_posterior", "log_likelihood"):
        shapes = [
            {name: variable.shape for name, variable in results.dataset(f, group).items()}
            for f in (fit, ours)
        ]
        assert shapes[0] == shapes[1]
    np.testing.assert_allclose(values(fit, "T"), 2 * values(fit, "M").swapaxes(-1, -2))


def test_gradients_and_attributes_of_a_run(target, fit):
    steps = values(fit, "n_steps", "sample_stats").sum()
    warmup = values(fit, "n_steps", "warmup_sample_stats").sum()
    plain = embedded(target)
    assert "warmup_posterior" not in results.group_names(plain)
    for attrs in (fit.attrs, plain.attrs):
        assert attrs["n_gradients"] == steps + warmup
        assert attrs["n_gradients_warmup"] == warmup
        assert attrs["n_density"] == 0
    attrs = fit.attrs
    expected = {
        "sampler": "nuts", "engine": "stanli 0.24.0", "engine_independent": 0, "interrupted": 0,
        "n_stopped": 0, "program_hash": target.program.hash, "seed": 3, "iter_warmup": 60,
        "iter_sampling": 50,
    }  # fmt: skip
    assert {name: attrs[name] for name in expected} == expected
    settings = {"adapt_delta": 0.8, "max_treedepth": 10, "metric": "diag_e"}
    assert json.loads(attrs["settings"]) == settings
    for phase in ("warmup", "sampling"):
        assert len(json.loads(attrs[f"{phase}_seconds"])) == 2


def test_one_warning_that_the_density_is_shared(target):
    with warns("embedded_nuts", "stanli") as caught:
        fit = sa.stan_nuts(target, backend="stanli", **SHORT)
    assert codes_of(w.message for w in caught if w.category is StanadaptWarning) == [
        "embedded_nuts"
    ]
    assert {w.filename for w in caught} == {__file__}
    assert results.from_json(fit, "notes", []) == []  # an attribute records the engine


def test_draws_depend_on_seed_and_chain_alone(target):
    fits = [embedded(target, chains=3, parallel_chains=n) for n in (1, 3)]
    np.testing.assert_array_equal(values(fits[0], "M"), values(fits[1], "M"))
    assert (values(embedded(target, chains=3, seed=4), "M") != values(fits[0], "M")).any()
    m = values(embedded(target, inits=0), "M")
    assert (m[0] != m[1]).any()


LENGTHS = pytest.mark.parametrize(
    ("warmup", "draws", "thin"), [(25, 35, 10), (20, 30, 7), (0, 10, 1)]
)
BACKENDS = pytest.mark.parametrize(
    "backend", ["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)]
)
pytestmark = pytest.mark.filterwarnings(r"ignore:.*\[embedded_nuts\]")


@BACKENDS
@LENGTHS
def test_thin_and_lengths(target, backend, warmup, draws, thin):
    lengths = {"iter_warmup": warmup, "iter_sampling": draws, "thin": thin}
    fit = sa.stan_nuts(target, backend=backend, save_warmup=True, **SHORT | lengths)
    assert values(fit, "s").shape == (2, -(-draws // thin))
    if warmup:
        assert values(fit, "s", "warmup_posterior").shape == (2, -(-warmup // thin))
    else:
        assert "warmup_posterior" not in results.group_names(fit)


@pytest.mark.parametrize(("wrong", "code", "facts"), [
    *[({"backend": one}, "unknown_backend", ["auto", "cmdstan", "stanli", repr(one)])
      for one in ("pymc", None, ["stanli"])],
    ({"backend": "stanli", "metric": "dense"}, "unknown_metric", ["'dense'", "diag_e", "unit_e"]),
])  # fmt: skip
def test_other_choices_are_rejected(target, wrong, code, facts):
    with raises(code, *facts):
        sa.stan_nuts(target, **SHORT, **wrong)


def test_settings_reach_the_engine(target):
    shallow = embedded(target, max_treedepth=1)
    assert (values(shallow, "tree_depth", "sample_stats") <= 1).all()
    careful = embedded(target, adapt_delta=0.99)
    assert (
        values(careful, "step_size", "sample_stats").mean()
        < values(embedded(target), "step_size", "sample_stats").mean()
    )


@BACKENDS
def test_inits_reach_the_engine(schools, backend):
    """Trees of depth 1 with the first step size keep draws near the starting point."""
    short = {"iter_warmup": 0, "iter_sampling": 2, "max_treedepth": 1}
    fit = sa.stan_nuts(schools, backend=backend, inits={"mu": 300.0}, **SHORT | short)
    assert (np.abs(values(fit, "mu") - 300) < 50).all()


@pytest.mark.parametrize(("program", "changes", "least"), [
    (("gaussian", "two_dim"), {"iter_warmup": 500, "iter_sampling": 2000, "chains": 4}, 500),
    (("neal",), {"iter_warmup": 400, "iter_sampling": 400}, 100),
])  # fmt: skip
def test_moments(program, changes, least):
    """Some hundred means and sds in all; one z beyond 5 has probability 6e-7."""
    code, data = bundled.find(*program)
    given = json.loads(data.read_text())
    n = given.get("N", 2)
    mean = given.get("mu", np.zeros(n))
    sd = np.sqrt(np.diag(given["Sigma"])) if "Sigma" in given else np.arange(1, n + 1) / n
    fit = embedded(sa.Target(code, data), **changes)
    for z in z_scores(fit, np.array(mean), sd):
        assert (z < 5).all()
    assert (efficiency(results.columns(fit)).ess_bulk > least).all()


def test_without_cmdstan_the_embedded_engine_is_used(target, monkeypatch):
    monkeypatch.setattr(toolchain, "cmdstan", lambda: None)
    with warns("embedded_nuts"):
        fit = sa.stan_nuts(target, **SHORT)
    assert fit.attrs["engine"].startswith("stanli")


def test_errors_of_the_engine_keep_stans_message(target, monkeypatch):
    import stanli as package

    def fail(self, **arguments):
        raise RuntimeError("it went wrong.")

    monkeypatch.setattr(package.Model, "sample", fail)
    with raises("nuts_failed", target.name) as caught:
        sa.stan_nuts(target, backend="stanli", **SHORT)
    assert caught.value.stage == "sampling"
    assert caught.value.stan == "it went wrong."


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_failed_quantities_are_reported_and_do_not_end_the_run():
    code = NORMAL + " generated quantities { real z = normal_rng(0, x + 0.5); }"
    with warns("failed_quantities", "NaN") as caught:
        fit = sa.stan_nuts(sa.Target(code), backend="stanli", **SHORT)
    lost = int(np.isnan(values(fit, "z")).sum())
    assert 0 < lost < 100
    assert np.isfinite(values(fit, "lp", "sample_stats")).all()
    (text,) = [str(w.message) for w in caught if codes_of([w.message]) == ["failed_quantities"]]
    assert text.startswith(f"{lost} ")
    assert len(results.from_json(fit, "notes", [])) == 1


def test_seconds_are_read_from_the_printed_output():
    printed = io.StringIO(
        "Elapsed Time: 0.25 seconds (Warm-up)\n  1.5 seconds (Sampling)\n"
        "Elapsed Time: 0.5 seconds (Warm-up)\n  2 seconds (Sampling)\n"
    )
    assert stanli._seconds(printed, "Warm-up") == [0.25, 0.5]
    assert stanli._seconds(printed, "Sampling") == [1.5, 2.0]


@pytest.mark.parametrize("shown", [False, True])
def test_progress_goes_to_standard_error(target, capfd, shown):
    embedded(target, show_progress=shown)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert ("NUTS" in captured.err) if shown else (captured.err == "")


cmdstan_engine = pytest.mark.cmdstan


@pytest.mark.parametrize("backend", ["stanli", pytest.param("cmdstan", marks=cmdstan_engine)])
def test_iterations_are_counted_while_stan_samples(schools, backend, capfd, monkeypatch):
    monkeypatch.setattr(engine, "PLAIN_SECONDS", 0.02)
    lengths = {"iter_warmup": 200, "iter_sampling": 4000, "thin": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sa.stan_nuts(schools, backend=backend, seed=1, **lengths)
    found = re.findall(r"NUTS.*: ([0-9,]+) of 16,800 iterations", capfd.readouterr().err)
    counts = [int(count.replace(",", "")) for count in found]
    assert counts == sorted(counts)
    assert 0 < counts[len(counts) // 2] < 16_800


def test_draws_in_growing_files_are_counted(tmp_path):
    count, (one, other) = (
        cmdstan._rows_written(tmp_path),
        (tmp_path / n for n in ("1.csv", "2.csv")),
    )
    assert count() == 0
    one.write_text("# model = schools\n#   seed = 1\nlp__,accept_stat__,mu\n-1.0,0.9,2.0\n-1")
    assert count() == 1
    with one.open("a") as file:
        file.write(".5,0.8,2.1\n# Adaptation terminated\n-1.1,0.7,1.9\n")
    other.write_text("lp__,accept_stat__,mu\n-2.0,0.9,2.5\n")
    assert count() == count() == 4


@pytest.fixture(scope="module")
def independent(schools):
    return sa.stan_nuts(
        schools, backend="cmdstan", chains=4, iter_warmup=1000, iter_sampling=2000, seed=8,
        save_warmup=True, adapt_delta=0.95,
    )  # fmt: skip


@cmdstan_engine
def test_both_engines_agree(schools, independent):
    """For the means and sds of about 20 columns, a z beyond 5 has probability 2e-5."""
    shared = embedded(
        schools, chains=4, iter_warmup=1000, iter_sampling=2000, seed=9, adapt_delta=0.95
    )
    table = sa.compare({"stanli": shared, "cmdstan": independent})
    assert table.attrs["baseline"] == "cmdstan"
    assert table.loc["stanli", "z_mean"] < 5
    assert table.loc["stanli", "z_sd"] < 5
    assert (table["ess_bulk_min"] > 1000).all()


@cmdstan_engine
def test_columns_are_those_of_the_target(schools, independent):
    rows = np.zeros((4, 2000, len(schools.column_names)))
    expected = results.variables(schools.column_names, rows)
    groups = {"log_lik": "log_likelihood", "y_rep": "posterior_predictive"}
    assert groups.keys() <= expected.keys()
    for name, value in expected.items():
        group = results.dataset(independent, groups.get(name, "posterior"))
        drawn = group["y" if name == "y_rep" else name]
        assert drawn.shape == value.shape
    assert set(results.dataset(independent, "posterior")) == expected.keys() - groups.keys()


@cmdstan_engine
def test_its_lp_is_our_density(schools, independent):
    """Draws are exact to the last bit, so the densities differ by a constant and rounding."""
    lp = values(independent, "lp", "sample_stats")
    differences = []
    for draw in range(0, 2000, 100):
        x = {name: values(independent, name)[1, draw] for name in schools.parameters}
        differences.append(lp[1, draw] - schools.evaluate(schools.unconstrain(x))[0])
    assert np.ptp(differences) < 1e-8


@cmdstan_engine
def test_statistics_and_attributes_of_cmdstan(independent):
    stats = results.dataset(independent, "sample_stats")
    assert {name: stats[name].dtype.kind for name in stats} == NAMES
    attrs = independent.attrs
    assert attrs["engine"].startswith("cmdstan 2.")
    assert attrs["engine_independent"] == 1
    assert values(independent, "lp", "warmup_sample_stats").shape == (4, 1000)
    assert attrs["n_gradients"] == (
        stats["n_steps"].values.sum() + values(independent, "n_steps", "warmup_sample_stats").sum()
    )
    assert len(json.loads(attrs["sampling_seconds"])) == 4
    assert attrs["compile_seconds"] >= 0


@cmdstan_engine
def test_a_compiled_program_is_found_again(schools, independent):
    fit = sa.stan_nuts(schools, backend="auto", **SHORT)
    assert fit.attrs["compile_seconds"] == 0
    assert fit.attrs["engine"].startswith("cmdstan")
    assert "warmup_posterior" not in results.group_names(fit)


@cmdstan_engine
def test_a_failed_chain_is_left_out_and_reported(schools, independent, monkeypatch):
    from cmdstanpy import CmdStanModel

    sample = CmdStanModel.sample

    def second_chain_dies(self, **arguments):
        from pathlib import Path

        sample(self, **arguments)
        folder = Path(arguments["output_dir"])
        last = sorted(folder.glob("*.csv"))[-1]
        last.write_bytes(last.read_bytes()[:3000])
        console = sorted(folder.glob("*.txt"))
        if console:
            console[-1].write_text("Iteration: 1 / 110\nException: it went wrong.\n")
        raise RuntimeError("Error during sampling")

    monkeypatch.setattr(CmdStanModel, "sample", second_chain_dies)
    with warns("nuts_chains_failed", "1 of 3", "Exception: it went wrong."):
        fit = sa.stan_nuts(schools, backend="cmdstan", **SHORT | {"chains": 3})
    assert values(fit, "mu").shape == (2, 50)
    assert fit.attrs["n_stopped"] == 1
    assert np.asarray(results.attribute(fit, "warmup_seconds")).shape == (2,)


@cmdstan_engine
def test_all_chains_fail(schools, independent, monkeypatch):
    target = sa.Target(*bundled.find("eight_schools_noncentered"))
    entries = target.checked.entries
    target.checked = CheckedData({**entries, "sigma": -np.ones(len(entries["sigma"]))})
    with raises("nuts_failed", 2, target.name) as caught:
        sa.stan_nuts(target, backend="cmdstan", **SHORT)
    assert caught.value.stage == "sampling"
    assert "sigma" in caught.value.stan


@cmdstan_engine
def test_a_program_too_new_for_this_cmdstan():
    """The embedded engine knows a later Stan; CmdStan 2.27 has no sum_to_zero_vector."""
    if toolchain.cmdstan().version >= "2.36":
        return
    target = sa.Target("parameters { sum_to_zero_vector[3] x; }\nmodel { x ~ normal(0, 1); }")
    with raises("syntax_error", target.name, "backend='stanli'") as caught:
        sa.stan_nuts(target, backend="cmdstan", **SHORT)
    assert caught.value.stage == "syntax"
    assert "line 1" in caught.value.stan
    assert "/tmp" not in caught.value.stan
    with warns("embedded_nuts", "too old"):
        fit = sa.stan_nuts(target, **SHORT)
    assert fit.attrs["engine_independent"] == 0


@BACKENDS
def test_a_unit_metric_pays_for_unequal_scales(backend):
    """Scales 1 and 100: with equal masses a trajectory takes a hundred steps of the narrow one."""
    program = "parameters { real x; real y; } model { x ~ normal(0, 1); y ~ normal(0, 100); }"
    target, changes = sa.Target(program), {"iter_warmup": 300, "iter_sampling": 200}
    for metric, least, most in (("diag_e", 0, 16), ("unit_e", 50, np.inf)):
        fit = sa.stan_nuts(target, backend=backend, metric=metric, **SHORT | changes)
        assert json.loads(fit.attrs["settings"])["metric"] == metric
        assert least < values(fit, "n_steps", "sample_stats").mean() < most
    if backend == "cmdstan":
        assert json.loads(fit.attrs["inverse_metric"]) == [[1.0, 1.0]] * 2


RANDOM = """
transformed data { vector[5] y; for (i in 1:5) y[i] = normal_rng(0, 5); }
parameters { real m; }
model { m ~ normal(0, 10); y ~ normal(m, 1); }
"""


@BACKENDS
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")  # the density is shared
def test_stan_draws_random_data_anew(backend):
    """Hence its fits are not compared with ours, whose target has one density."""
    target = sa.Target(RANDOM, backend="stanli")
    ours = [sa.sample(target, seed=seed) for seed in (1, 2)]
    theirs = sa.stan_nuts(target, backend=backend, seed=2)
    assert theirs.attrs["random_data"].endswith("seed 2")
    table = sa.compare({"first": ours[0], "second": ours[1], "nuts": theirs})
    assert np.isnan(table.loc["first", "z_mean"])
    table = sa.compare({"first": ours[0], "second": ours[1]}, baseline="first")
    assert table.loc["second", "z_mean"] < 4.5
