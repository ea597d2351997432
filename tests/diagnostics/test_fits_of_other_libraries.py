"""Fits of other libraries are read as they are: their statistics under their own names.

The structures below are those that the libraries wrote, recorded from real fits of two chains.
"""

import warnings

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.results import standard_names, statistics
from stanadapt.results.statistics import OTHER_NAMES
from tests.helpers.codes import raises
from tests.helpers.repository import ROOT

# library: (what made the fit, names of statistics of shape (chain, draw) that we read, all others)
RECORDED = {
    "nutpie 0.16.8": (
        "depth maxdepth_reached logp energy step_size mean_tree_accept n_steps diverging",
        "index_in_trajectory energy_error step_size_bar mean_tree_accept_sym tuning",
    ),
    "PyMC 5.28": (
        "lp acceptance_rate step_size tree_depth n_steps diverging energy reached_max_treedepth",
        "step_size_bar energy_error max_energy_error index_in_trajectory perf_counter_diff "
        "perf_counter_start process_time_diff smallest_eigval largest_eigval divergences",
    ),
    "numpyro 0.22, extra_fields, through ArviZ": (
        "lp acceptance_rate step_size tree_depth n_steps diverging energy", "",
    ),
    "numpyro 0.22": ("diverging", ""),
    "BlackJAX 1.7, its info and state": (
        "logdensity acceptance_rate num_trajectory_expansions num_integration_steps is_divergent "
        "energy", "is_turning",
    ),
    "CmdStan, CmdStanPy and cmdstanr": (
        "lp__ accept_stat__ stepsize__ treedepth__ n_leapfrog__ divergent__ energy__", "",
    ),
    "CmdStan, fixed_param": ("lp__ accept_stat__", ""),
}  # fmt: skip
ROWS = 200


def recorded(library, seed=0):
    """Return groups with the statistics of a library, of trees of depth 4 that end at 15 steps."""
    rng = np.random.default_rng(seed)
    stats = {}
    for name in " ".join(RECORDED[library]).split():
        ours = next((o for o, others in OTHER_NAMES.items() if name in (o, *others)), name)
        values = {
            "tree_depth": np.full((2, ROWS), 4),
            "n_steps": np.full((2, ROWS), 15),
            "diverging": np.arange(ROWS) % 50 == np.zeros((2, 1)),
            "reached_max_treedepth": np.arange(ROWS) % 10 == np.zeros((2, 1)),
            "acceptance_rate": np.full((2, ROWS), 0.8),
        }.get(ours, rng.normal(size=(2, ROWS)))
        stats[name] = (("chain", "draw"), values)
    posterior = {"x": (("chain", "draw"), rng.normal(size=(2, ROWS)))}
    warmup = {f"warmup_{name}": xr.Dataset(data) for name, data in
              (("posterior", posterior), ("sample_stats", stats))}  # fmt: skip
    attrs = {"inference_library": library.split()[0].lower()}
    return {
        "posterior": xr.Dataset(posterior, attrs=attrs),
        "sample_stats": xr.Dataset(stats),
        **warmup,
    }


def foreign(library):
    return results.build(recorded(library), {})


@pytest.mark.parametrize("library", [name for name in RECORDED if "fixed" not in name])
def test_the_verdict_the_table_and_csv_files_use_what_is_there(library, tmp_path):
    fit, names = foreign(library), set(statistics(foreign(library)))
    judged = verdict(fit)
    codes = [message.code for message in judged.reasons]
    assert "divergences" in codes
    assert ("max_treedepth" in codes) == ("reached_max_treedepth" in names)
    assert ("low_bfmi" in codes) is False
    missing = [m for m in judged.reasons if m.code == "not_recorded"]
    assert bool(missing) == (not {"energy", "reached_max_treedepth"} <= names)
    assert all(("energies" in m) == ("energy" not in names) for m in missing)
    row = sa.compare({"theirs": fit}).loc["theirs"]
    steps = 2 * 2 * 15 * ROWS if "n_steps" in names else np.nan  # draws and warm-up
    np.testing.assert_equal(float(row["gradients"]), float(steps))
    thinned = results.build(recorded(library), {"thin": 2})  # others were made, too
    assert np.isnan(sa.compare({"theirs": thinned}).loc["theirs", "gradients"])
    fit = foreign(library)
    sa.save(fit, tmp_path, format="cmdstan")
    lines = [line for path in tmp_path.glob("*_1.csv") for line in path.read_text().splitlines()
             if not line.startswith("#")]  # fmt: skip
    rows = np.array([line.split(",") for line in lines[1:]], float)
    written = dict(zip(lines[0].split(","), rows.T, strict=True))
    theirs = statistics(fit)
    for ours, stans in (("lp", "lp__"), ("acceptance_rate", "accept_stat__"),
                        ("energy", "energy__"), ("n_steps", "n_leapfrog__")):  # fmt: skip
        if ours in theirs:
            np.testing.assert_array_equal(written[stans][-ROWS:], theirs[ours][0])
    assert np.all(written["treedepth__"] >= np.log2(written["n_leapfrog__"] + 1))
    again = sa.load(tmp_path)
    assert set(statistics(again)) == set(theirs) & OTHER_NAMES.keys() - {"reached_max_treedepth"}


def test_gradients_of_warm_up_and_complex_draws():
    groups = recorded("PyMC 5.28")
    del groups["warmup_sample_stats"]
    row = sa.compare({"theirs": results.build(groups, {})}).loc["theirs"]
    assert np.isnan(row["gradients"])
    rng = np.random.default_rng(3)
    x = rng.normal(size=(*SHAPE, 2)) + 1j * rng.normal(size=(*SHAPE, 2))
    one, several = results.columns(fit(x[..., 0])), results.columns(fit(x), wanted={"x"})
    assert list(one) == ["x.real", "x.imag", "y"]
    assert list(several) == ["x.real[1]", "x.real[2]", "x.imag[1]", "x.imag[2]"]
    np.testing.assert_array_equal(several["x.imag[2]"], x[..., 1].imag)
    far = x + 1j * np.arange(SHAPE[0])[:, None, None]
    assert (verdict(fit(x)).verdict, verdict(fit(far)).verdict) == ("fine", "do not use")


def test_trees_of_fixed_length_are_not_of_depth_zero(tmp_path):
    groups = recorded("BlackJAX 1.7, its info and state")
    for name in ("sample_stats", "warmup_sample_stats"):
        groups[name] = groups[name].drop_vars("num_trajectory_expansions")
    sa.save(results.build(groups, {}), tmp_path, format="cmdstan")
    text = next(tmp_path.glob("*_1.csv")).read_text()
    first = text.split("Diagonal elements")[1].splitlines()[2].split(",")
    assert first[3:5] == ["4", "15"]


def test_log_densities_of_numpyro_and_pymc():
    stats = standard_names(xr.Dataset({"potential_energy": (("chain", "draw"), [[2.0]])}))
    assert float(stats["lp"].item()) == -2.0
    stats = xr.Dataset(
        {n: (("chain", "draw"), np.zeros((2, 9))) for n in ("lp", "smallest_eigval")}
    )
    assert "lp" not in standard_names(stats)
    assert "lp" in standard_names(stats.drop_vars("smallest_eigval"))


def test_numbers_of_several_step_methods_make_one(tmp_path):
    """PyMC has those of each NUTS; the log density is that after the last one."""
    groups = recorded("PyMC 5.28")
    for name in ("sample_stats", "warmup_sample_stats"):
        parts = groups[name]
        other = {"lp": np.zeros((2, ROWS)), "diverging": np.arange(ROWS) % 50 == np.ones((2, 1))}
        both = {
            each: (("chain", "draw", f"{each}_dim_0"),
                   np.stack([other.get(each, values), values.values], axis=-1))
            for each, values in parts.items()
        }  # fmt: skip
        groups[name] = xr.Dataset(both)
    fit = results.build(groups, {})
    known, one = statistics(fit), statistics(foreign("PyMC 5.28"))
    np.testing.assert_array_equal(known["lp"], one["lp"])
    assert known["diverging"].sum() == 2 * one["diverging"].sum()
    assert (known["n_steps"] == 30).all()
    reasons = {message.code: message for message in verdict(fit).reasons}
    assert "energies" in reasons["not_recorded"]
    assert f"{2 * ROWS // 50 * 2} of {2 * ROWS} draws" in reasons["divergences"]
    assert float(sa.compare({"theirs": fit}).loc["theirs", "gradients"]) == 2 * 2 * 30 * ROWS
    sa.save(fit, tmp_path, format="cmdstan")
    assert (statistics(sa.load(tmp_path))["n_steps"] == 30).all()


FIXED = """\
# stan_version_major = 2
# stan_version_minor = 27
# stan_version_patch = 0
# model = coin_model
# method = sample (Default)
#   sample
#     num_samples = 4
#     num_warmup = 1000 (Default)
#     save_warmup = 0 (Default)
#     thin = 1 (Default)
#     algorithm = fixed_param
# id = 1
lp__,accept_stat__,p,y
0,0,0.5,1
0,0,0.5,0
0,0,0.5,1
0,0,0.5,1
#
#  Elapsed Time: 0 seconds (Warm-up)
#                0.001 seconds (Sampling)
#                0.001 seconds (Total)
"""


@pytest.mark.filterwarnings("ignore::stanadapt.errors.ConvergenceWarning")
def test_a_file_of_fixed_param_is_no_chain(tmp_path):
    (tmp_path / "coin_1.csv").write_text(FIXED)
    fit = sa.load(tmp_path / "coin_1.csv")
    assert fit.attrs["verdict"] == "fine"
    (reason,) = verdict(fit).reasons
    assert reason.code == "independent_draws"
    assert statistics(fit) == {}  # its zeros are no record
    np.testing.assert_array_equal(fit.posterior["y"].values, [[1, 0, 1, 1]])
    assert sa.compare({"fixed": fit}).loc["fixed", "verdict"] == "fine"
    assert sa.summary(fit).loc["y", "mean"] == 0.75
    through_arviz = results.build(
        {"posterior": fit.posterior.to_dataset() if results.arviz_object.is_tree()
         else fit.posterior,
         "sample_stats": {"lp": np.zeros((1, 4)), "acceptance_rate": np.zeros((1, 4))}}, {},
    )  # fmt: skip
    (reason,) = verdict(through_arviz).reasons
    assert reason.code == "independent_draws"
    (tmp_path / "coin_1.csv").write_text(FIXED.replace("0,0,0.5,0", "0,0,0.5,nan"))
    lost = sa.load(tmp_path / "coin_1.csv")
    assert lost.attrs["verdict"] == "fine"
    assert [m for m in verdict(lost).reasons if "y (1)" in m and m.code == "missing_quantities"]


def names_table():
    """Return the table of statistics by library, as the page has it."""
    lines = ["| library | " + " | ".join(f"`{name}`" for name in OTHER_NAMES) + " |"]
    lines.append("|---" * (len(OTHER_NAMES) + 1) + "|")
    for library, (names, _) in RECORDED.items():
        cells = []
        for ours, others in OTHER_NAMES.items():
            there = [name for name in names.split() if name in (ours, *others)]
            zeros = "fixed" in library and there
            cells.append("zeros" if zeros else f"`{there[0]}`" if there else "")
        lines.append(f"| {library} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_page_has_the_table():
    assert names_table() in (ROOT / "docs" / "formats_and_peers.md").read_text(encoding="utf-8")


RNG = np.random.default_rng(1)
SHAPE = (2, 400)
REAL = {
    "truth values": RNG.random(SHAPE) < 0.3,
    "a constant": np.ones(SHAPE, bool),
    "integers": RNG.integers(-3, 4, SHAPE),
    "unsigned integers": RNG.integers(0, 4, SHAPE).astype(np.uint8),
    "two bytes": RNG.normal(size=SHAPE).astype(np.float16),
}
OTHER = {
    "objects": RNG.normal(size=SHAPE).astype(object),
    "text": RNG.integers(0, 3, SHAPE).astype(str),
}


REFERENCE, BESIDE = np.random.default_rng(2).normal(size=(2, *SHAPE))


def fit(x):
    return results.build({"posterior": {"x": x, "y": BESIDE}}, {})


def table(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sa.compare({"one": fit(REFERENCE), "other": fit(x)}, baseline="one")


@pytest.mark.parametrize("x", REAL.values(), ids=list(REAL))
def test_draws_of_every_real_type_are_compared_as_floats(x):
    ours, theirs = table(x), table(x.astype(float))
    np.testing.assert_array_equal(ours.select_dtypes("number"), theirs.select_dtypes("number"))
    column = results.columns(fit(x))["x"]
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, x.astype(float))


@pytest.mark.parametrize("x", OTHER.values(), ids=list(OTHER))
def test_what_is_no_number_is_left_out(x):
    assert list(results.columns(fit(x))) == ["y"]
    assert len(table(x)) == 2
    only = results.build({"posterior": {"x": x}}, {})
    with raises("no_numeric_draws", "'other'"):
        sa.compare({"one": fit(x), "other": only})
