"""The check of our density in stan_nuts() and compare(), and on CmdStan's own draws."""

import copy
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.comparison_table import remarks
from stanadapt.errors import Message, StanadaptError, StanadaptWarning, codes_of
from stanadapt.results.cmdstan_header import STATISTICS
from stanadapt.runs.stan_nuts import stanli
from stanadapt.runs.stan_nuts.engine import NutsRun
from stanadapt.targets.stan import bundled, toolchain
from tests.helpers.codes import raises, warns
from tests.helpers.made_up_draws import FAULTS, faulty, positions, small_target, written

# the package's attribute `stan_nuts` is the function
stan_nuts_module = import_module("stanadapt.runs.stan_nuts.stan_nuts")
SHORT = {"chains": 2, "iter_warmup": 30, "iter_sampling": 150, "seed": 3}


@pytest.fixture(scope="module")
def target():
    return small_target()


@pytest.fixture
def engine(target, monkeypatch):
    """A CmdStan that writes random positions, and nonsense during warm-up."""

    def run(_, plan, settings, starts, status):
        warm, sampled = plan.thinned(plan.iter_warmup), plan.thinned(plan.iter_sampling)
        names, draws, lp = written(target, positions(target, 2 * (warm + sampled)))
        statistics = np.ones((2, warm + sampled, len(STATISTICS)))
        statistics[..., list(STATISTICS).index("lp__")] = lp
        statistics[:, :warm, list(STATISTICS).index("lp__")] = 7.0
        return NutsRun(names, draws, statistics, [1.0, 1.0], [1.0, 1.0], 0.0, "cmdstan 2.27.0")

    cmdstan = toolchain.CmdStan(Path("cmdstan"), "2.27.0")
    monkeypatch.setattr(toolchain, "cmdstan", lambda: cmdstan)
    monkeypatch.setitem(stan_nuts_module.ENGINES, "cmdstan", run)


def density_attributes(fit):
    return {n: v for n, v in fit.attrs.items() if n.startswith("density")}


def test_messages_of_the_engine_are_recorded(target, engine, monkeypatch):
    note = Message("nuts_chains_failed", "1 of 3 chains of CmdStan failed.")
    run = stan_nuts_module.ENGINES["cmdstan"]
    changed = lambda *arguments: run(*arguments)._replace(remarks=(note,))  # noqa: E731
    monkeypatch.setitem(stan_nuts_module.ENGINES, "cmdstan", changed)
    with warns("nuts_chains_failed", note):
        fit = sa.stan_nuts(target, **SHORT)
    assert results.from_json(fit, "notes", []) == [note]


def test_checks_are_recorded_and_close_ones_warn(target, engine, tmp_path):
    fit = sa.stan_nuts(target, **SHORT)
    again = results.load(results.save(fit, tmp_path / "nuts.nc"))
    for attributes in map(density_attributes, (fit, again)):
        assert attributes.pop("density_difference") < 1e-12
        assert "CmdStan 2.27.0" in attributes.pop("density_verified")
        assert attributes == {
            "density_verdict": "equal", "density_checked_draws": 200,
            "density_backend": "stanli", "density_backend_version": "stanli 0.24.0",
        }  # fmt: skip
    wobbling = faulty(target, lambda x, value: value + 1e-4 * np.sin(9 * x[0]))
    with warns("density_close", "stanli 0.24.0", "CmdStan 2.27.0") as caught:
        fit = sa.stan_nuts(wobbling, **SHORT)
    assert codes_of(w.message for w in caught if w.category is StanadaptWarning) == [
        "density_close"
    ]
    assert {w.filename for w in caught} == {__file__}
    assert fit.attrs["density_verdict"] == "close"


@pytest.mark.parametrize("thin", [1, 7])
def test_the_named_draw_is_that_of_the_posterior(target, engine, thin):
    fit = sa.stan_nuts(target, thin=thin, **SHORT)
    mu = results.dataset(fit, "posterior")["mu"].values
    bad = mu[1, 2]
    with raises("density_differs", "chain 2, draw 3"):
        sa.stan_nuts(faulty(target, lambda x, v: v + (x[0] == bad)), thin=thin, **SHORT)


def test_a_wrong_density_is_an_error_that_keeps_the_draws(target, engine, tmp_path):
    facts = target.name, "'stanli'", "CmdStan 2.27.0", "`fit`", "backend='cmdstan'", "chain"
    with raises("density_differs", *facts) as caught:
        sa.stan_nuts(faulty(target, FAULTS["minus infinity at some"]), **SHORT)
    error = caught.value
    assert error.stage == "sampling"
    assert error.stan == "Exception: it went wrong."
    assert results.dataset(error.fit, "posterior")["mu"].shape == (2, 150)
    again = results.load(results.save(error.fit, tmp_path / "nuts.nc"))
    assert again.attrs["density_verdict"] == "differs"
    assert np.isinf(again.attrs["density_difference"])
    assert "CmdStan 2.27.0" in again.attrs["density_verified"]


def test_the_embedded_engine_confirms_nothing_and_errors_keep_fits(target):
    with warns("embedded_nuts"):
        fit = sa.stan_nuts(target, backend="stanli", **SHORT)
    assert fit.attrs["density_verdict"] == "not checked"
    assert fit.attrs["density_checked_draws"] == 0
    assert np.isnan(fit.attrs["density_difference"])
    assert stanli.shared(target) in fit.attrs["density_verified"]
    error = StanadaptError("out_of_range", "wrong", "words")
    assert error.fit is None
    again = pickle.loads(pickle.dumps(StanadaptError("out_of_range", "wrong", "words", fit=[1])))
    assert vars(again) == {**vars(error), "fit": [1]}


@pytest.mark.filterwarnings(r"ignore:.*\[check_failed\]")
@pytest.mark.parametrize("error", [KeyboardInterrupt, IndexError])
def test_what_ends_the_check_loses_no_draws(target, engine, error):
    def interrupt(position):
        if len(seen) == 3:  # two of them are the starts
            raise error
        seen.append(position)
        return target.evaluate(position)

    seen, slow = [], copy.copy(target)
    slow.evaluate = interrupt
    fit = sa.stan_nuts(slow, **SHORT)
    assert results.dataset(fit, "posterior")["mu"].shape == (2, 150)
    assert fit.attrs["density_verdict"] == "not checked"
    assert fit.attrs["interrupted"] == (error is KeyboardInterrupt)
    text = fit.attrs.get("check_failed", "")
    assert ("density_differs failed (IndexError" in text) == (error is IndexError)


def remarks_that_name(*facts, **fits):
    lines = remarks(sa.compare(fits))
    return [line for line in lines if all(fact in line for fact in facts)]


def draw(target, version="stanli 0.24.0"):
    fit = sa.sample(target, "rwm", **SHORT)
    fit.attrs["backend_version"] = version
    return fit


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_the_comparison_reports_the_check(target, engine):
    nuts, fit = sa.stan_nuts(target, **SHORT), draw(target)
    (remark,) = remarks_that_name(nuts.attrs["density_verified"], rwm=fit, nuts=nuts)
    assert "nuts" in remark
    assert remarks_that_name("2.27.0", rwm=fit) == []
    embedded = sa.stan_nuts(target, backend="stanli", **SHORT)
    # the remark on z reports that it shares our density
    assert remarks_that_name(embedded.attrs["density_verified"], rwm=fit, nuts=embedded) == []


def test_the_comparison_reports_another_backend(target, engine):
    nuts, fit = sa.stan_nuts(target, **SHORT), draw(target, "CmdStan 2.38.0")
    fits = {"native": fit, "embedded": draw(target), "nuts": nuts}
    (remark,) = remarks_that_name("CmdStan 2.38.0", "stanli 0.24.0", **fits)
    assert "native" in remark
    assert "embedded" not in remark


# a gradient takes 30 ms, so trees of eight leaves would take four minutes
SMALL_TREES = {"glass": 1}
# CmdStan compiles each program for this test only: each change tests these, the soak tests all
OFTEN = {"eight_schools_centered", "galaxies"}
BUNDLED = [
    pytest.param(p.name, data, marks=() if p.name in OFTEN else pytest.mark.soak)
    for p in bundled.available().values()
    for data in p.data
]


@pytest.mark.cmdstan
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "data"), BUNDLED)
def test_every_bundled_program_is_verified(program, data):
    """The bound is for sums over thousands of rows: n eps sum|terms| / |sum|.

    The draws must have different positions, preferably in the bulk of the posterior. Most programs
    have trees of eight leaves; with two leaves, 13 of 40 stayed further from the bulk.
    """
    target = sa.Target(*bundled.find(program, data))
    lengths = SHORT | {"iter_warmup": 200}
    depth = SMALL_TREES.get(program, 3)
    fit = sa.stan_nuts(target, backend="cmdstan", max_treedepth=depth, **lengths)
    assert fit.attrs["density_verdict"] == "equal"
    assert fit.attrs["density_checked_draws"] == 200
    assert fit.attrs["density_difference"] < 1e-10


@pytest.mark.cmdstan
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_a_program_that_stanli_gets_wrong():
    """It takes the branch of u's initial value; the error still returns CmdStan's draws."""
    target = sa.Target(
        "parameters { real a; real x; }\n"
        "model { real u = 0; a ~ normal(0, 1); x ~ normal(0, 2); if (a > 0) u = x;\n"
        "  target += u > 1.5 ? u : 0.1; }",
        unsafe=True,
    )
    with raises("density_differs", target.name) as caught:
        sa.stan_nuts(target, backend="cmdstan", **SHORT)
    assert results.dataset(caught.value.fit, "posterior")["x"].shape == (2, 150)


@pytest.mark.cmdstan
def test_constrained_types_in_cmdstan():
    """Draws that lose digits, and CmdStan's own transform of simplexes."""
    target = sa.Target(
        "parameters { simplex[4] p; array[2] simplex[3] r; corr_matrix[3] C; cov_matrix[2] V;\n"
        "  real<lower=0, upper=1> w; ordered[3] o; cholesky_factor_corr[3] L; }\n"
        "model { p ~ dirichlet([3, 1, 0.3, 5]'); r[1] ~ dirichlet([0.2, 0.2, 0.2]');\n"
        "  w ~ beta(0.05, 0.05); C ~ lkj_corr(0.3); V ~ wishart(4, diag_matrix([1, 1]'));\n"
        "  o ~ normal(0, 5); L ~ lkj_corr_cholesky(2); }"
    )
    fit = sa.stan_nuts(target, backend="cmdstan", **SHORT | {"iter_warmup": 500})
    assert fit.attrs["density_verdict"] == "equal", fit.attrs["density_verified"]
    assert fit.attrs["density_checked_draws"] > 150
