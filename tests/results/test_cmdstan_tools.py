"""Our CSV files in the tools that read CmdStan's: CmdStanPy, ArviZ, stansummary and diagnose."""

import re
import subprocess
import warnings
from pathlib import Path

import arviz as az
import cmdstanpy
import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.stan import toolchain
from tests.helpers import fits_for_csv
from tests.helpers.fits_for_csv import COLUMNS, draws

NEW = int(az.__version__.split(".")[0]) >= 1
WITHOUT_TRAJECTORIES = ("lp", "acceptance_rate", "accepted", "step_size", "n_density")


# ArviZ's readers fail on columns of tuples and complex numbers, and stansummary of CmdStan 2.27,
# which is older than these types, does not end
NEWER_TYPES = [name for name in COLUMNS if ":" in name or name.endswith((".real", ".imag"))]


def paths(fit, folder, **options):
    return [str(p) for p in sorted(sa.save(fit, folder, format="cmdstan", **options).glob("*.csv"))]


@pytest.fixture(params=[fits_for_csv.NUTS, WITHOUT_TRAJECTORIES], ids=["nuts", "rwm"])
def stats(request):
    return request.param


@pytest.mark.parametrize(("chains", "warmup"), [(3, 0), (1, 30)])
def test_cmdstanpy(tmp_path, stats, chains, warmup):
    files = paths(fits_for_csv.fit(chains=chains, warmup=warmup, stats=stats), tmp_path)
    fit = cmdstanpy.from_csv(files, method="sample")
    assert fit.chains == chains
    assert (fit.num_draws_warmup, fit.num_draws_sampling, fit.thin) == (30, 50, 2)
    expected = draws(chains)
    np.testing.assert_array_equal(fit.draws()[..., 7:], expected.transpose(1, 0, 2))
    if warmup:
        early = fit.draws(inc_warmup=True)[:30, :, 7 : 7 + COLUMNS.index("y_rep.1")]
        np.testing.assert_array_equal(
            early, draws(chains, 30, seed=3).transpose(1, 0, 2)[..., : early.shape[-1]]
        )
    matrix = expected[..., 4:8].reshape(-1, 2, 2).transpose(0, 2, 1)
    np.testing.assert_array_equal(fit.stan_variable("L"), matrix)
    assert fit.stan_variable("w").dtype == complex
    divergent = fit.method_variables()["divergent__"]
    if "diverging" not in stats:
        assert fit.divergences is None or not np.any(fit.divergences)
        assert not divergent.any()
    assert fit.metric_type == "diag_e"
    assert fit.step_size == pytest.approx([0.3] * chains)
    assert fit.metadata.cmdstan_config["seed"] == 7


def test_arviz_reads_the_fit_of_cmdstanpy(tmp_path, stats):
    ours = fits_for_csv.fit(stats=stats)
    fit = cmdstanpy.from_csv(paths(ours, tmp_path, exclude=NEWER_TYPES), method="sample")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = az.from_cmdstanpy(fit)
    for name in ("mu", "theta", "L"):
        np.testing.assert_array_equal(theirs.posterior[name], ours.posterior[name])
    np.testing.assert_array_equal(theirs.sample_stats["lp"], ours.sample_stats["lp"])


@pytest.mark.skipif(NEW, reason="ArviZ 1.x reads CSV files through CmdStanPy alone")
def test_arviz_reads_the_files(tmp_path, stats):
    ours = fits_for_csv.fit(stats=stats, warmup=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = az.from_cmdstan(
            posterior=paths(ours, tmp_path, exclude=NEWER_TYPES), save_warmup=True
        )
    for name in ("mu", "theta", "L"):
        np.testing.assert_allclose(theirs.posterior[name], ours.posterior[name], rtol=1e-15)
        np.testing.assert_allclose(
            theirs.warmup_posterior[name], ours.warmup_posterior[name], rtol=1e-15
        )


def test_the_files_of_other_programs_are_read(tmp_path):
    """A file of CmdStan 2.27, with elements of an inverse metric and times as it prints them."""
    path = tmp_path / "output.csv"
    path.write_text(CMDSTAN)
    fit = sa.load(path)
    np.testing.assert_array_equal(fit.posterior["x"][0], [[-0.43, -3.25, -0.5], [0.5, 1e-7, 2]])
    assert fit.attrs["engine"] == "cmdstan 2.27.0"
    assert fit.attrs["sampler"] == "nuts"
    assert results.from_json(fit, "settings", {}) == {"adapt_delta": 0.8, "max_treedepth": 10}
    assert (fit.attrs["iter_sampling"], fit.attrs["iter_warmup"]) == (2, 200)
    assert bool(fit.sample_stats["diverging"][0, 1])
    cmdstan_like = cmdstanpy.from_csv(str(path), method="sample")
    assert cmdstan_like.draws().shape == (2, 1, 10)


def test_the_first_draw_counts_and_warm_up_may_be_missing(tmp_path):
    path = tmp_path / "output.csv"
    path.write_text(CMDSTAN.replace(",2,3,0,", ",2,3,1,"))
    assert cmdstanpy.from_csv(str(path), method="sample").divergences.tolist() == [1]
    assert int(sa.load(path).sample_stats["diverging"].sum()) == 2
    adaptation = CMDSTAN[CMDSTAN.index("# Adaptation") : CMDSTAN.index("-1.07")]
    without = CMDSTAN.replace(adaptation, "").replace("num_warmup = 200", "num_warmup = 0")
    path.write_text(without.replace("engaged = 1 (Default)", "engaged = 0"))
    with pytest.raises(ValueError, match="corrupt"):
        cmdstanpy.from_csv(str(path), method="sample")
    assert sa.load(path).posterior["x"].shape == (1, 2, 3)
    saved = without.replace("num_samples = 2", "num_samples = 1").replace(
        "save_warmup = 0", "save_warmup = 1"
    )
    path.write_text(saved.replace("engaged = 1 (Default)", "engaged = 0"))  # no end is marked
    fit = sa.load(path)
    assert (fit.posterior["x"].shape, fit.warmup_posterior["x"].shape) == ((1, 1, 3), (1, 1, 3))


def test_the_layout_is_cmdstans(tmp_path):
    """Every line of CmdStan's file is in ours, in the same order and with the same spaces."""
    file = paths(fits_for_csv.fit(chains=1, length=2, **LIKE_CMDSTAN), tmp_path)[0]
    ours = Path(file).read_text().splitlines()
    shapes = iter([re.sub(r"= .*|[\d.]+ seconds|# [\d.]+,.*", "", line) for line in ours])
    for line in CMDSTAN.splitlines():
        if "start_datetime" not in line and line.startswith("#"):
            shape = re.sub(r"= .*|[\d.]+ seconds|# [\d.]+,.*", "", line)
            assert shape in shapes, line


LIKE_CMDSTAN = {"inverse_metric": [[0.65, 4.4, 4.1]], "iter_sampling": 2, "thin": 1}
CMDSTAN = """\
# stan_version_major = 2
# stan_version_minor = 27
# stan_version_patch = 0
# model = t_model
# start_datetime = 2026-11-27 04:44:50 UTC
# method = sample (Default)
#   sample
#     num_samples = 2
#     num_warmup = 200
#     save_warmup = 0 (Default)
#     thin = 1 (Default)
#     adapt
#       engaged = 1 (Default)
#       gamma = 0.050000000000000003 (Default)
#       delta = 0.80000000000000004 (Default)
#       kappa = 0.75 (Default)
#       t0 = 10 (Default)
#       init_buffer = 75 (Default)
#       term_buffer = 50 (Default)
#       window = 25 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
#         metric_file =  (Default)
#         stepsize = 1 (Default)
#         stepsize_jitter = 0 (Default)
# id = 1
# data
#   file =  (Default)
# init = 2 (Default)
# random
#   seed = 1
# output
#   file = o.csv
#   diagnostic_file =  (Default)
#   refresh = 100 (Default)
#   sig_figs = 17
#   profile_file = profile.csv (Default)
# stanc_version = stanc3 v2.27.0
# stancflags =${EMPTY}
lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,x.1,x.2,x.3
# Adaptation terminated
# Step size = 0.758868
# Diagonal elements of inverse mass matrix:
# 0.650729, 4.43629, 4.10828
-1.0719385143130058,1,0.75886760363705308,2,3,0,4.2992090194386119,-0.43,-3.25,-0.5
-0.20067943447915973,1,0.75886760363705308,2,7,1,1.2171504644732278,0.5,9.9999999999999995e-08,2
#${EMPTY}
#  Elapsed Time: 0.001 seconds (Warm-up)
#                0 seconds (Sampling)
#                0.001 seconds (Total)
#${EMPTY}
""".replace("${EMPTY}", " ")


def made(**options):
    """Build a fit without infinite variances, on which stansummary does not end."""
    return fits_for_csv.fit(extremes=False, **options)


def run(program, *arguments):
    tool = toolchain.require_cmdstan().path / "bin" / program
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=True)
    assert "error" not in done.stdout.lower() + done.stderr.lower(), done.stdout
    assert "warning" not in done.stdout.lower(), done.stdout
    return done.stdout


@pytest.mark.cmdstan
def test_stansummary(tmp_path, stats):
    fit = made(stats=stats)
    printed = run("stansummary", *paths(fit, tmp_path, exclude=NEWER_TYPES))
    assert "3 chains: each with iter=(50,50,50); warmup=(0,0,0); thin=(2,2,2)" in printed
    assert "Samples were drawn using hmc with nuts." in printed
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.strip()}
    # the mean of a variable in the table, to the digits that it prints
    assert float(rows["theta[2]"][0]) == pytest.approx(
        float(fit.posterior["theta"][..., 1].mean()), rel=0.1
    )
    assert {"L[2,1]", "mu", "lp__", "log_lik[2]"} <= set(rows)


@pytest.mark.cmdstan
def test_diagnose(tmp_path):
    fit = made()
    count = int(fit.sample_stats["diverging"].sum())
    assert count > 0
    printed = run("diagnose", *paths(fit, tmp_path / "nuts", exclude=NEWER_TYPES))
    assert f"{count} of 150" in printed
    assert "Treedepth satisfactory" in printed
    deep = made(settings='{"max_treedepth": 2}')
    hits = int((deep.sample_stats["tree_depth"] >= 2).sum())
    assert f"{hits} of 150" in run("diagnose", *paths(deep, tmp_path / "deep", exclude=NEWER_TYPES))
    walk = made(stats=WITHOUT_TRAJECTORIES, sampler="rwm")
    assert "No divergent transitions found" in run(
        "diagnose", *paths(walk, tmp_path / "rwm", exclude=NEWER_TYPES)
    )
