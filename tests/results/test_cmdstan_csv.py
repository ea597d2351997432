"""CSV files of CmdStan: what is written, read back bit for bit, or refused."""

import json
import os
import re

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from tests.helpers import fits_for_csv
from tests.helpers.codes import raises
from tests.helpers.fits_for_csv import COLUMNS

STATISTICS = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__"
RWM = ("lp", "acceptance_rate", "accepted", "step_size", "n_density")
GAD_MALA = ("lp", "acceptance_rate", "accepted")
# fields of the header that cmdstanr's read_cmdstan_csv uses (R/csv.R): it compares those of the
# chains, computes numbers of draws from some, and makes columns of its metadata of others
READ_BY_CMDSTANR = [
    "stan_version_major", "stan_version_minor", "stan_version_patch", "model", "method", "id",
    "seed", "init", "num_samples", "num_warmup", "save_warmup", "thin", "engaged", "gamma", "delta",
    "kappa", "t0", "init_buffer", "term_buffer", "window", "algorithm", "engine", "max_depth",
    "metric", "stepsize", "stepsize_jitter", "Step size",
]  # fmt: skip


def written(fit, folder, **options):
    """Return the lines of each chain's file, in the order of their names."""
    folder = sa.save(fit, folder, format="cmdstan", **options)
    return [path.read_text().split("\n") for path in sorted(folder.glob("*.csv"))]


def entries(lines):
    """Return the fields of a header; the first of each name."""
    found = {}
    for line in lines:
        if line.startswith("#") and " = " in line:
            name, value = line.lstrip("# ").split(" = ", 1)
            found.setdefault(name, value.replace("(Default)", "").strip())
    return found


def table(lines):
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    return rows[0], np.array([[float(x) for x in row] for row in rows[1:]])


def assert_same_draws(fit, other):
    for group in ("posterior", "log_likelihood", "warmup_posterior"):
        assert (group in results.group_names(fit)) == (group in results.group_names(other))
        if group in results.group_names(fit):
            ours, theirs = results.dataset(fit, group), results.dataset(other, group)
            assert set(ours.data_vars) == set(theirs.data_vars)
            for name, values in ours.data_vars.items():
                assert values.values.tobytes() == theirs[name].values.astype(float).tobytes()
    (rep,) = results.dataset(other, "posterior_predictive").data_vars.values()
    replicated = results.dataset(fit, "posterior_predictive")["y"]
    np.testing.assert_array_equal(rep, replicated)


def test_every_bit_comes_back(tmp_path):
    fit = fits_for_csv.fit(warmup=30)
    folder = sa.save(fit, tmp_path / "deep" / "folder", format="cmdstan")
    whole = sa.load(folder)
    assert_same_draws(fit, whole)
    for name in fits_for_csv.NUTS:
        ours, theirs = (results.dataset(f, "sample_stats")[name] for f in (fit, whole))
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    for name in ("sampler", "seed", "thin", "iter_warmup", "iter_sampling", "settings", "model"):
        assert whole.attrs[name] == fit.attrs[name]
    assert list(results.attribute(whole, "chains_kept")) == [1, 2, 4]
    assert results.parameters(whole) == results.parameters(fit)
    assert "verdict" in whole.attrs


@pytest.mark.thorough
def test_the_verdict_comes_back(tmp_path):
    """The default sampler tunes to a target of its own, here far above that of `target_accept`."""
    program = "parameters { vector[2] x; } model { x ~ normal([1, -300], [0.1, 200]); }"
    target = sa.Target(program)
    tuned = {"trajectory": "nuts", "adapt_delta": 0.98}
    fit = sa.sample(target, "whitened_hmc", seed=1, **tuned)
    whole = sa.load(sa.save(fit, tmp_path, format="cmdstan"))
    assert (fit.attrs["verdict"], whole.attrs["verdict"]) == ("fine", "fine")
    for name in ("acceptance_target", "acceptance_range", "verdict_codes"):
        assert np.array_equal(whole.attrs[name], fit.attrs[name]), name


def test_text_in_records_comes_back(tmp_path):
    """Readers split the header at "=", which is written otherwise."""
    edges, settings = ["x: lower = 0", "a  b\n(c)"], {"file": "a = b  c", "x": 1.5}
    fit = fits_for_csv.fit(hard_edges=json.dumps(edges), settings=json.dumps(settings, indent=1))
    folder = sa.save(fit, tmp_path, format="cmdstan")
    whole = sa.load(folder)
    assert json.loads(whole.attrs["hard_edges"]) == edges
    assert whole.attrs["settings"] == json.dumps(settings)
    for file in folder.glob("*.csv"):
        records = re.findall("^# (?:judged_from|settings) = (.*)$", file.read_text(), re.MULTILINE)
        assert len(records) == 2
        assert not any("=" in record for record in records)


def test_a_damaged_record_of_the_verdict_is_an_error(tmp_path):
    fit = fits_for_csv.fit(acceptance_target=0.9, acceptance_range=[0.5, 1.0])
    file = min(sa.save(fit, tmp_path, format="cmdstan").glob("*.csv"))
    text = file.read_text()
    assert text.count('{"acceptance_target"') == 1
    for record in ('{"acceptance_target', "3"):
        file.write_text(re.sub(r"(judged_from = ).*", rf"\g<1>{record}", text))
        with raises("no_chains_in_csv", "judged_from", file.name):
            sa.load(str(file))


def test_a_list_in_any_order_gives_the_same_chains(tmp_path):
    fit = fits_for_csv.fit()
    files = sorted(sa.save(fit, tmp_path, format="cmdstan").glob("*.csv"))
    assert_same_draws(fit, sa.load(files[::-1]))
    one = sa.load(str(files[1]))
    np.testing.assert_array_equal(one.posterior["L"][0], fit.posterior["L"][1])


@pytest.mark.thorough
def test_a_fit_from_a_netcdf_file_is_written_alike(tmp_path):
    fit = fits_for_csv.fit(warmup=30)
    loaded = sa.load(sa.save(fit, tmp_path / "fit.nc"))
    assert written(fit, tmp_path / "one") == written(loaded, tmp_path / "other")


def test_draws_of_four_bytes_keep_their_value(tmp_path):
    fit = results.build(
        {"posterior": {"x": np.float32([[0.1, 0.2]])}, "sample_stats": {"lp": np.zeros((1, 2))}},
        {"sampler": "rwm", "model": "m"},
    )
    _, values = table(written(fit, tmp_path)[0])
    np.testing.assert_array_equal(values[:, -1], np.float32([0.1, 0.2]))


def test_cmdstanr_finds_its_fields(tmp_path):
    for number, lines in zip((1, 2, 4), written(fits_for_csv.fit(), tmp_path), strict=True):
        found = entries(lines)
        assert set(READ_BY_CMDSTANR) <= set(found)
        expected = {
            "method": "sample", "algorithm": "hmc", "engine": "nuts", "metric": "diag_e",
            "id": str(number), "seed": "7", "num_samples": "100", "num_warmup": "60", "thin": "2",
            "save_warmup": "0", "max_depth": "8", "delta": "0.9", "model": "pairs_model",
            "stan_version_minor": "27",
        }  # fmt: skip
        assert {name: found[name] for name in expected} == expected
        # the first letter of a line is all by which cmdstanr tells names of columns from draws
        assert sum(bool(re.match("[a-zA-Z]", line)) for line in lines) == 1


def test_the_target_and_the_metric_are_written(tmp_path):
    """The default sampler has a setting for NUTS, and another for fixed trajectories."""
    settings = '{"target_accept": 0.87, "nuts_target_accept": 0.8}'
    fit = fits_for_csv.fit(sampler="whitened_hmc", settings=settings, acceptance_target=0.95)
    assert entries(written(fit, tmp_path)[0])["delta"] == "0.95"
    fit = fits_for_csv.fit()
    for lines in written(fit, tmp_path):
        names, _ = table(lines)
        assert ",".join(names) == f"{STATISTICS},{','.join(COLUMNS)}"


def test_the_times_are_those_of_the_chain(tmp_path):
    lines = written(fits_for_csv.fit(), tmp_path)[2]
    assert lines[-6:] == [
        "# ",
        "#  Elapsed Time: 0.25 seconds (Warm-up)",
        "#                12345.679 seconds (Sampling)",
        "#                12345.929 seconds (Total)",
        "# ",
        "",
    ]


def test_warmup_comes_before_the_adaptation_block(tmp_path):
    lines = written(fits_for_csv.fit(warmup=30), tmp_path)[0]
    block = lines.index("# Adaptation terminated")
    assert lines[block + 1] == "# Step size = 0.3"
    assert lines[block + 2] == "# Diagonal elements of inverse mass matrix:"
    assert entries(lines)["save_warmup"] == "1"
    header = next(i for i, line in enumerate(lines) if line.startswith("lp__"))
    assert block - header - 1 == 30
    # quantities of other groups have no warm-up
    names, values = table(lines)
    assert np.isnan(values[:30, names.index("log_lik.1")]).all()
    assert np.isfinite(values[30:]).all()


@pytest.mark.parametrize(
    ("length", "changes", "expected"),
    [
        (50, {}, 100),  # as planned
        (50, {"iter_sampling": 99}, 99),  # every second of 99, from the first
        (31, {}, 62),  # interrupted
        (500, {}, 1000),  # extended
        (1, {"iter_sampling": 1, "thin": 1}, 1),
    ],
)
def test_the_number_of_iterations_fits_the_draws(tmp_path, length, changes, expected):
    lines = written(fits_for_csv.fit(length=length, **changes), tmp_path)[0]
    found = entries(lines)
    assert int(found["num_samples"]) == expected
    assert -(-expected // int(found["thin"])) == len(table(lines)[1]) == length


def test_thinned_and_without_a_variable(tmp_path):
    fit = fits_for_csv.fit()
    lines = written(fit, tmp_path, thin=5, exclude=["L", "log_likelihood"])[0]
    names, values = table(lines)
    assert not [name for name in names if name.startswith(("L.", "log_lik"))]
    assert entries(lines)["thin"] == "10"
    np.testing.assert_array_equal(values[:, names.index("mu")], fit.posterior["mu"][0, ::5])


@pytest.mark.parametrize(
    ("stats", "zeros", "unknown"),
    [
        (RWM, {"treedepth__", "n_leapfrog__", "divergent__"}, {"energy__"}),
        (GAD_MALA, {"treedepth__", "n_leapfrog__", "divergent__"}, {"stepsize__", "energy__"}),
        # the steps of a tempered random walk are no leapfrogs, those of its trajectories are
        (("lp", "n_density", "n_steps", "diverging"), {"treedepth__", "n_leapfrog__"}, None),
        # a depth without record is that of the smallest tree with as many steps
        (("lp", "n_steps", "diverging"), set(), None),
        (("lp", "leapfrogs", "diverging"), set(), None),
    ],
)
def test_a_statistic_without_record_is_zero_if_that_is_true(tmp_path, stats, zeros, unknown):
    fit = fits_for_csv.fit(stats=stats, sampler="other")
    lines = written(fit, tmp_path)[0]
    names, values = table(lines)
    of = dict(zip(names, values.T, strict=True))
    always = ("treedepth__", "n_leapfrog__", "divergent__")
    assert {name for name in always if not of[name].any()} == zeros
    missing = {name for name in STATISTICS.split(",") if np.isnan(of[name]).all()}
    assert missing == (unknown or {"accept_stat__", "stepsize__", "energy__"})
    said = " ".join(line for line in lines if line.startswith("# Columns of"))
    assert {name for name in names[:7] if name in said} == zeros | missing
    loaded = results.dataset(sa.load(tmp_path), "sample_stats")
    assert "energy" not in loaded
    assert ("diverging" in loaded) == ("diverging" in stats)


def test_the_metric_of_cmdstan_is_kept(tmp_path):
    metric = [[1.0, 0.5], [2.0, 0.25], [3.0, 1e-7]]
    fit = fits_for_csv.fit(inverse_metric=metric)
    for row, lines in zip(metric, written(fit, tmp_path), strict=True):
        block = lines.index("# Diagonal elements of inverse mass matrix:")
        assert lines[block + 1] == "# " + ", ".join(f"{x:.6g}" for x in row)
        assert not any("does not record" in line for line in lines)


def test_labels_do_not_change_the_files(tmp_path):
    labels = {"dims": {"theta": ["school"]}, "coords": {"school": ["a", "b", "c"]}}
    assert written(fits_for_csv.fit(labels=labels), tmp_path / "a") == written(
        fits_for_csv.fit(), tmp_path / "b"
    )
    renamed = {"posterior_predictive": {"y": "y_rep"}, "log_likelihood": {"y": "log_lik"}}
    names, _ = table(written(fits_for_csv.fit(labels=renamed), tmp_path / "c")[0])
    assert names[7:] == COLUMNS


def test_variables_without_elements_have_no_columns(tmp_path):
    draws = {"none": np.empty((2, 4, 0)), "x": np.zeros((2, 4))}
    fit = results.build({"posterior": draws, "sample_stats": {}}, {"sampler": "rwm"})
    assert table(written(fit, tmp_path)[0])[0][7:] == ["x"]


def test_complex_numbers_of_other_libraries(tmp_path):
    draws = {"z": np.array([[1 + 2j, 3 - 4j]]), "v": np.array([[[1j, 2], [3, 4j]]])}
    fit = results.build({"posterior": draws}, {"sampler": "other"})
    names, values = table(written(fit, tmp_path)[0])
    assert names[7:] == ["z.real", "z.imag", "v.1.real", "v.1.imag", "v.2.real", "v.2.imag"]
    np.testing.assert_array_equal(values[:, 7:], [[1, 2, 0, 1, 2, 0], [3, -4, 3, 0, 0, 4]])


def small(attributes=None, stats=None, **draws):
    groups = {"posterior": draws or {"x": np.zeros((2, 4))}}
    if stats:
        groups["sample_stats"] = fits_for_csv.statistics(stats, (2, 4))
    return results.build(groups, {"sampler": "rwm"} if attributes is None else attributes)


@pytest.mark.parametrize(("fit", "facts"), [
    (small({"exact": False, "sampler": "sgld"}, ["weight"]), ["sgld", "weights"]),
    (small({"exact": False, "sampler": "hvi"}, ["log_weight"]), ["hvi", "weights"]),
    (small({"exact": False, "method": "advi", "pareto_k": 0.3}), ["advi", "approximation"]),
    (small({}), ["divergences"]), (small(**{"a b": np.zeros((2, 4))}), ["'a b'"]),
    (small(**{"a,b": np.zeros((2, 4))}), ["'a,b'"]), (small(x__=np.zeros((2, 4))), ["'x__'"]),
    (small(text=np.full((2, 4), "a"), x=np.zeros((2, 4))), ["text", "numeric"]),
    (small(**{"x.1": np.zeros((2, 4)), "x": np.zeros((2, 4, 1))}), ["x"]),
])  # fmt: skip
def test_what_the_format_cannot_hold_is_refused(tmp_path, fit, facts):
    with raises("no_cmdstan_form", *facts):
        sa.save(fit, tmp_path / "folder", format="cmdstan")
    assert not (tmp_path / "folder").exists()


def test_equal_weights_are_no_weights(tmp_path):
    fit = small({"exact": False, "sampler": "sgld"})
    results.dataset(fit, "posterior")["x"].values[1] += 1.0
    results.add_groups(fit, {"sample_stats": {"weight": np.full((2, 4), 0.1)}})
    assert entries(written(fit, tmp_path)[0])["exact"] == "0"
    assert sa.load(tmp_path).attrs["exact"] == 0


def test_a_variable_without_chains_is_refused(tmp_path):
    fit = small()
    data = results.dataset(fit, "posterior").assign(c=xr.DataArray(1.0))
    results.add_groups(fit, {"posterior": data})
    with raises("no_cmdstan_form", "c"):
        sa.save(fit, tmp_path, format="cmdstan")
    assert sa.save(fit, tmp_path, format="cmdstan", exclude="c") == tmp_path


def test_other_csv_files_in_the_folder(tmp_path):
    four, two = fits_for_csv.fit(chains=4), fits_for_csv.fit(chains=2)
    sa.save(four, tmp_path, format="cmdstan")
    sa.save(four, tmp_path, format="cmdstan")  # its own files are replaced
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    with raises("other_csv_files", "data.csv", "2 more"):
        sa.save(two, tmp_path, format="cmdstan")
    assert_same_draws(four, sa.load(tmp_path))
    sa.save(two, tmp_path, format="cmdstan", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "pairs_1.csv", "pairs_2.csv"]
    assert_same_draws(two, sa.load(tmp_path))


def test_all_files_or_none(tmp_path):
    """The last of three files cannot be replaced, since a folder has its name."""
    sa.save(fits_for_csv.fit(), tmp_path, format="cmdstan")
    (tmp_path / "pairs_4.csv").unlink()
    (tmp_path / "pairs_4.csv").mkdir()
    before = [(tmp_path / f"pairs_{i}.csv").read_text() for i in (1, 2)]
    with raises("not_writable", tmp_path):
        sa.save(fits_for_csv.fit(seed=9), tmp_path, format="cmdstan")
    assert sorted(os.listdir(tmp_path)) == ["pairs_1.csv", "pairs_2.csv", "pairs_4.csv"]
    assert [(tmp_path / f"pairs_{i}.csv").read_text() for i in (1, 2)] == before


def test_options_and_paths_that_do_not_fit(tmp_path):
    fit = small()
    with raises("unknown_format", "csv"):
        sa.save(fit, tmp_path, format="csv")
    with raises("not_of_the_format", "float32"):
        sa.save(fit, tmp_path, format="cmdstan", float32=True)
    (tmp_path / "file").write_text("x")
    for name in ("file", "fit.csv", "file/below"):
        with raises("not_writable"):
            sa.save(fit, tmp_path / name, format="cmdstan")
    with raises("not_a_fit"):
        sa.save(None, tmp_path, format="cmdstan")


DAMAGE = {
    "another model": lambda text: text.replace("model = pairs_model", "model = other"),
    "another length": lambda text: text.replace("num_samples = 100", "num_samples = 102"),
    "a cut row": lambda text: text[: text.rindex(",")],
    "no end": lambda text: text[: text.index("#  Elapsed")],
    "a word": lambda text: text[: text.rindex(",")] + ",word" + text[text.rindex("\n# \n#  Ela") :],
    "a row less": lambda text: re.sub(r"\n[^\n#]*\n# \n#  E", "\n# \n#  E", text),
    "no seed": lambda text: text.replace("seed = 7", "seed = seven"),
    "another method": lambda text: text.replace("method = sample (Default)", "method = optimize"),
    "no header": lambda text: text[text.index("lp__") :],
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_are_refused(tmp_path, damage):
    files = sorted(sa.save(fits_for_csv.fit(), tmp_path, format="cmdstan").glob("*.csv"))
    files[0].write_text(damage(files[0].read_text()))
    with pytest.raises(StanadaptError) as caught:
        sa.load(files)
    assert caught.value.code in ("no_chains_in_csv", "fits_do_not_join")
    assert ".csv" in caught.value.message


def test_nothing_to_read(tmp_path):
    with raises("file_missing"):
        sa.load([])
    with raises("file_missing", "none.csv"):
        sa.load(tmp_path / "none.csv")
    with raises("no_run"):
        sa.load(tmp_path)


def test_cmdstan_files_of_several_chains_in_one_process(tmp_path):
    """CmdStan then writes the same id into every file."""
    folder = sa.save(fits_for_csv.fit(), tmp_path, format="cmdstan")
    for path in folder.glob("*.csv"):
        path.write_text(re.sub("# id = [0-9].*", "# id = 1 (Default)", path.read_text()))
    fit = sa.load(folder)
    assert list(results.attribute(fit, "chains_kept")) == [1, 2, 3]
    assert_same_draws(fits_for_csv.fit(), fit)
