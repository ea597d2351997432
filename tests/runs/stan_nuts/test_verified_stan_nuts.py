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
from stanadapt.errors import StanadaptError
from stanadapt.runs.stan_nuts.engine import STATISTICS, NutsRun
from stanadapt.targets.stan import bundled, toolchain
from tests.helpers.made_up_draws import FAULTS, faulty, positions, small_target, written

# the package's attribute `stan_nuts` is the function
stan_nuts_module = import_module("stanadapt.runs.stan_nuts.stan_nuts")
SHORT = {"chains": 2, "iter_warmup": 30, "iter_sampling": 150, "seed": 3, "show_progress": False}


@pytest.fixture(scope="module")
def target():
    return small_target()


# --- stan_nuts() ---------------------------------------------------------------------------------


@pytest.fixture
def engine(target, monkeypatch):
    """A CmdStan that writes random positions, and nonsense during warm-up."""

    def run(_, plan, settings, starts, status):
        warm, kept = plan.thinned(plan.iter_warmup), plan.thinned(plan.iter_sampling)
        names, draws, lp = written(target, positions(target, 2 * (warm + kept)))
        statistics = np.ones((2, warm + kept, len(STATISTICS)))
        statistics[..., list(STATISTICS).index("lp__")] = lp
        statistics[:, :warm, list(STATISTICS).index("lp__")] = 7.0
        return NutsRun(names, draws, statistics, [1.0, 1.0], [1.0, 1.0], 0.0, "cmdstan 2.27.0")

    found = toolchain.CmdStan(Path("cmdstan"), "2.27.0")
    monkeypatch.setattr(toolchain, "cmdstan", lambda: found)
    monkeypatch.setitem(stan_nuts_module.ENGINES, "cmdstan", run)


def density_attributes(fit):
    return {n: v for n, v in fit.attrs.items() if n.startswith("density")}


def test_what_the_engine_said_is_recorded(target, engine, monkeypatch):
    run, said = stan_nuts_module.ENGINES["cmdstan"], "1 of 3 chains of CmdStan failed."
    monkeypatch.setitem(
        stan_nuts_module.ENGINES, "cmdstan", lambda *given: run(*given)._replace(remarks=(said,))
    )
    with pytest.warns(UserWarning, match="1 of 3 chains"):
        fit = sa.stan_nuts(target, **SHORT)
    assert said in sa.diagnose(fit).messages


def test_the_result_records_the_check(target, engine, tmp_path):
    fit = sa.stan_nuts(target, **SHORT)
    again = results.load(results.save(fit, tmp_path / "nuts.nc"))
    for attributes in map(density_attributes, (fit, again)):
        assert attributes.pop("density_difference") < 1e-12
        assert attributes.pop("density_verified").startswith("density verified against CmdStan 2.")
        assert attributes == {
            "density_verdict": "equal", "density_checked_draws": 200,
            "density_backend": "stanli", "density_backend_version": "stanli 0.24.0",
        }  # fmt: skip


@pytest.mark.parametrize("thin", [1, 7])
def test_the_named_draw_is_that_of_the_posterior(target, engine, thin):
    fit = sa.stan_nuts(target, thin=thin, **SHORT)
    mu = results.dataset(fit, "posterior")["mu"].values
    bad = mu[1, 2]
    with pytest.raises(StanadaptError, match="chain 2, draw 3"):
        sa.stan_nuts(faulty(target, lambda x, v: v + (x[0] == bad)), thin=thin, **SHORT)


def test_a_wrong_density_is_an_error_that_keeps_the_draws(target, engine, tmp_path):
    with pytest.raises(StanadaptError) as caught:
        sa.stan_nuts(faulty(target, FAULTS["minus infinity at some"]), **SHORT)
    error = caught.value
    assert error.stage == "sampling"
    assert error.stan == "Exception: it went wrong."
    for phrase in ("do not trust", "'stanli'", "CmdStan 2.27.0", "`fit`", "backend='cmdstan'",
                  "rewrite", "report", "chain"):  # fmt: skip
        assert phrase in error.message
    assert results.dataset(error.fit, "posterior")["mu"].shape == (2, 150)
    again = results.load(results.save(error.fit, tmp_path / "nuts.nc"))
    assert again.attrs["density_verdict"] == "differs"
    assert np.isinf(again.attrs["density_difference"])
    assert "differs" in again.attrs["density_verified"]


def test_close_is_a_warning(target, engine):
    wobbling = faulty(target, lambda x, value: value + 1e-4 * np.sin(9 * x[0]))
    with pytest.warns(UserWarning, match=r"stanli 0\.24\.0: density close") as caught:
        fit = sa.stan_nuts(wobbling, **SHORT)
    assert len([w for w in caught if w.category is UserWarning]) == 1
    assert {w.filename for w in caught} == {__file__}
    assert fit.attrs["density_verdict"] == "close"


def test_the_embedded_engine_confirms_nothing(target):
    with pytest.warns(UserWarning, match="shares its density"):
        fit = sa.stan_nuts(target, engine="stanli", **SHORT)
    assert fit.attrs["density_verdict"] == "not checked"
    assert fit.attrs["density_checked_draws"] == 0
    assert np.isnan(fit.attrs["density_difference"])
    assert "density not checked: " in fit.attrs["density_verified"]
    assert "shares its density" in fit.attrs["density_verified"]


def test_ctrl_c_during_the_check_loses_no_draws(target, engine):
    def interrupt(position):
        if len(seen) == 3:  # two of them are the starts
            raise KeyboardInterrupt
        seen.append(position)
        return target.evaluate(position)

    seen, slow = [], copy.copy(target)
    slow.evaluate = interrupt
    fit = sa.stan_nuts(slow, **SHORT)
    assert results.dataset(fit, "posterior")["mu"].shape == (2, 150)
    assert fit.attrs["density_verdict"] == "not checked"
    assert fit.attrs["interrupted"] == 1


def test_an_error_without_a_fit_has_none():
    error = StanadaptError("data", "wrong", "words")
    assert error.fit is None
    again = pickle.loads(pickle.dumps(StanadaptError("data", "wrong", "words", fit=[1])))
    assert (again.stage, again.message, again.stan, again.fit) == ("data", "wrong", "words", [1])


# --- the comparison ------------------------------------------------------------------------------


def density_remarks(**fits):
    return [remark for remark in remarks(sa.compare(fits)) if "density" in remark]


def drawn(target, version="stanli 0.24.0"):
    fit = sa.sample(target, "rwm", **SHORT)
    fit.attrs["backend_version"] = version
    return fit


@pytest.mark.filterwarnings("ignore:.*shares its density")
def test_the_comparison_reports_the_check(target, engine):
    nuts, fit = sa.stan_nuts(target, **SHORT), drawn(target)
    (remark,) = density_remarks(rwm=fit, nuts=nuts)
    assert remark.startswith("nuts: density verified against CmdStan 2.27.0 at 200 draws")
    assert remark.endswith(".")
    assert density_remarks(rwm=fit) == []
    embedded = sa.stan_nuts(target, engine="stanli", **SHORT)
    # that it shares our density is in the remark on z
    found = density_remarks(rwm=fit, nuts=embedded)
    assert all("nuts: density" not in remark for remark in found)


def test_the_comparison_reports_another_backend(target, engine):
    nuts, fit = sa.stan_nuts(target, **SHORT), drawn(target, "CmdStan 2.38.0")
    _, remark = density_remarks(native=fit, embedded=drawn(target), nuts=nuts)
    assert remark == (
        "native: its density is that of CmdStan 2.38.0; the one checked is that of stanli 0.24.0."
    )


# --- CmdStan itself ------------------------------------------------------------------------------

# where a gradient takes 30 ms, and trees of eight leaves four minutes
SMALL_TREES = {"glass": 1}
# CmdStan compiles each program for this test alone: a few for every change, all in the soak. That
# native densities are those of stanli is tested of all of them with every change
OFTEN = {"logistic", "eight_schools_centered", "varying_slopes", "galaxies", "lotka_volterra"}
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

    NUTS need only give draws at different positions, best those where a posterior has its mass, so
    that most have trees of eight leaves: of two, 13 of 40 programs stayed further outside.
    """
    target = sa.Target(*bundled.find(program, data), backend="stanli")
    lengths = SHORT | {"iter_warmup": 200}
    depth = SMALL_TREES.get(program, 3)
    fit = sa.stan_nuts(target, engine="cmdstan", max_treedepth=depth, **lengths)
    assert fit.attrs["density_verdict"] == "equal"
    assert fit.attrs["density_checked_draws"] == 200
    assert fit.attrs["density_difference"] < 1e-10


@pytest.mark.cmdstan
@pytest.mark.filterwarnings("ignore:.*(stanli's checks|NaN)")
def test_a_program_that_stanli_gets_wrong():
    """It takes the branch of u's initial value; CmdStan's draws are returned nevertheless."""
    target = sa.Target(
        "parameters { real a; real x; }\n"
        "model { real u = 0; a ~ normal(0, 1); x ~ normal(0, 2); if (a > 0) u = x;\n"
        "  target += u > 1.5 ? u : 0.1; }",
        backend="stanli",
        unsafe=True,
    )
    with pytest.raises(StanadaptError, match="do not trust") as caught:
        sa.stan_nuts(target, engine="cmdstan", **SHORT)
    assert results.dataset(caught.value.fit, "posterior")["x"].shape == (2, 150)


@pytest.mark.cmdstan
def test_constrained_types_in_cmdstan():
    """Draws that lose digits, and CmdStan's own transform of simplexes."""
    target = sa.Target(
        "parameters { simplex[4] p; array[2] simplex[3] r; corr_matrix[3] C; cov_matrix[2] V;\n"
        "  real<lower=0, upper=1> w; ordered[3] o; cholesky_factor_corr[3] L; }\n"
        "model { p ~ dirichlet([3, 1, 0.3, 5]'); r[1] ~ dirichlet([0.2, 0.2, 0.2]');\n"
        "  w ~ beta(0.05, 0.05); C ~ lkj_corr(0.3); V ~ wishart(4, diag_matrix([1, 1]'));\n"
        "  o ~ normal(0, 5); L ~ lkj_corr_cholesky(2); }",
        backend="stanli",
    )
    fit = sa.stan_nuts(target, engine="cmdstan", **SHORT | {"iter_warmup": 500})
    assert fit.attrs["density_verdict"] == "equal", fit.attrs["density_verified"]
    assert fit.attrs["density_checked_draws"] > 150
